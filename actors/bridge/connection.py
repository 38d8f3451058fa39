"""The Connection of one bridge lane: brings what its process hands it to the lane's link and to the exchange on that.

The link is opened, left and waited for by ``actors/bridge/remote_link.py``; ``actors/bridge/lane_exchange.py`` speaks MQTT on it.
It works for a lane that is open: ``LaneOpened`` makes it connect anew, because then the exchange has to be resumed from what is
committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actors.bridge.followed_messages import FollowedMessages
from actors.bridge.lane_exchange import Exchange
from actors.bridge.lane_names import Lane
from actors.bridge.lane_reports import LaneReports
from actors.bridge.login_renewal import LOGIN_TIMER
from actors.bridge.remote_intake import RemoteIntake
from actors.bridge.remote_link import DIAL_TIMER, FIRST_TIMER, LOOK_TIMER, RETRY_TIMER, RemoteLink
from actors.bridge.remote_reader import REST_TIMER
from actors.bridge.settlement_reports import SETTLE_TIMER
from actors.process.actor import MailboxActor
from actors.process.local_messages import Passed
from actors.process.mailbox import HANGUP, READ, WRITE, Mailbox
from actors.remote.remote_dialer import LimitsTold, LoginRead, OpeningEnded, ProbeEnded
from wire.backoff import Backoff
from wire.config_settings import NodeSettings, RateSettings
from wire.errors import Unavailable
from wire.exchange.lane_sender import LaneSender
from wire.exchange.refusal_policy import RefusalPolicy
from wire.exchange.send_rate import SendRate
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SessionOpened
from wire.frames.lanes import LaneOpened, LaneWaits, Settled
from wire.frames.names import QUEUE_STORE
from wire.frames.supervision import Command
from wire.frames.traces import TraceFollow
from wire.status.bridges import ConnectionFigures


class Connection(MailboxActor):
    """Exchanges a lane's messages with its remote broker; everything that was read in a turn is answered at its end.

    exchange, link: its two halves.
    """

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        lane = Lane(mailbox.name, settings)
        bridge = lane.bridge
        policy = RefusalPolicy(bridge.on_refusal)
        self._bridge, self._label = bridge.name, lane.label
        self._rate: tuple[RateSettings, int] | None = None
        self._flow = LaneSender(
            receive_maximum=bridge.remote.receive_maximum,
            qos2_maximum=bridge.remote.qos2_maximum,
            republish=bridge.on_session_loss == "republish",
            policy=policy,
            backoff=Backoff(bridge.backoff, mailbox.random),
            max_age_s=bridge.limits.max_age_s,
        )
        self._window = self._flow.exchange.in_flight.qos2_window
        self._reports = LaneReports(mailbox, lane, self._flow, policy)
        self.exchange = Exchange(mailbox, epoch, settings, lane, self._flow)
        self.link = RemoteLink(mailbox, lane, self.exchange, self._reports, self.send_from_thread)
        self._followed = FollowedMessages(mailbox, self._flow.exchange, self.link.figures)
        self._limit_rate(settings)
        self._subscribe(settings)

    # --- hooks ---

    def on_start(self) -> None:
        super().on_start()
        self.ready()

    def on_reconfigured(self, before: NodeSettings) -> None:
        self.exchange.settlements.limit(self.settings)  # whatever else changes of a bridge, its processes start again with that
        self._limit_rate(self.settings)
        self._subscribe(self.settings)

    def _subscribe(self, settings: NodeSettings) -> None:
        """Take what the remote publishes, if this lane does; where others subscribe than before, by a new connection."""
        bridge = settings.bridge(self._bridge)
        if self.exchange.intake is None and bridge.may_take(self._label):
            self.exchange.take_in(self.peers)
        if self.exchange.intake is not None and self.exchange.intake.subscribe_to(bridge.taken_by(self._label)):
            self.link.on_subscriptions_changed()

    def _limit_rate(self, settings: NodeSettings) -> None:
        """Send no faster than the bridge may, by this lane's part of it; a limit that stays goes on where it is."""
        rate, lanes = settings.bridge(self._bridge).rate_of(self._label)
        wanted = (rate, lanes) if rate.limited else None
        if wanted != self._rate:
            self._rate = wanted
            self._flow.exchange.publishing.limit_rate(None if wanted is None else SendRate(*wanted, self.mailbox.now_s()))

    def on_peer_up(self, name: str, epoch: int) -> None:
        if self.exchange.intake is not None:
            self.exchange.intake.peer_up(name, epoch)

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Passed():
                if self.exchange.echoes is not None:
                    self.exchange.await_echoes(self.exchange.echoes, frame)
                self._flow.exchange.hand_out_batch(frame.batch, frame.first_seq, frame.offsets, frame.size_bytes)
                now_s = self.mailbox.now_s()
                if self.exchange.reader.reads_along(now_s):
                    self.link.guarded(self.exchange.reader.read, now_s)
            case Settled():
                self._flow.exchange.record.on_committed(frame.number)
            case LaneOpened():
                self._open_lane(frame)
            case Committed():
                if self.exchange.intake is not None and not self.is_former(QUEUE_STORE, frame.store):
                    self.exchange.intake.frame(frame)
            case SessionOpened():
                if self.exchange.intake is not None:
                    self.exchange.intake.frame(frame)
            case LaneWaits():
                self.link.on_waiting(frame)
            case Command():
                self._obey(frame.verb)
            case TraceFollow():
                self._followed.follow(frame)
            case _:
                raise AssertionError(f"not for a Connection: {frame}")

    def on_thread_message(self, message: Any) -> None:
        match message:
            case OpeningEnded():
                self.link.on_opening_ended(message)
            case ProbeEnded():
                self.link.on_probe_ended(message)
            case LimitsTold():
                self.link.on_limits_told(message)
            case LoginRead():
                self.link.on_login_read(message)
            case _:
                raise AssertionError(f"not for a Connection: {message}")

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        for token, events in ready:
            if token is not self.link.remote:
                continue
            if events & WRITE:
                self.exchange.writer.writable()
            if events & (READ | HANGUP):
                self.link.guarded(self.exchange.reader.read, self.mailbox.now_s())

    def on_timer(self, name: str, now_s: float) -> None:
        exchange, link = self.exchange, self.link
        if name == SETTLE_TIMER:
            exchange.settlements.send()
        elif name == REST_TIMER:
            if exchange.reader.rested():
                link.guarded(exchange.reader.read, now_s)
        elif name == RETRY_TIMER:
            link.connect("tries again")
        elif name == FIRST_TIMER:
            link.probe_first(now_s)  # and the turn that it begins ends with a look at what is unfinished
        elif name == DIAL_TIMER:
            link.look_at_dial(now_s)
        elif name == LOGIN_TIMER:
            link.look_at_login()
        elif name == LOOK_TIMER and link.remote is not None:
            link.check(now_s)
            self._reports.refusals(now_s)
        elif exchange.intake is not None and (given_up := exchange.intake.timer(name, now_s)):
            link.on_lost(Unavailable(given_up))

    def on_turn_end(self, now_s: float) -> None:
        exchange, link = self.exchange, self.link
        if self._flow.exchange.publishing.learnt is not exchange.known:
            link.take_lesson()
        if exchange.intake is not None:
            self._end_turn_of(exchange.intake, now_s)
        if link.remote is not None:
            link.guarded(exchange.writer.write, now_s)
        if self._followed.all:
            self._followed.report_progress(now_s)
        exchange.time_held()
        exchange.settlements.send_soon(now_s)
        if link.closes_by_s is not None or link.failback.finish_until_s is not None:
            link.finish(now_s)
        if link.remote is not None:
            if self._window.asks:
                link.ask_limits()
            exchange.settlements.grant()
            exchange.reader.rest(now_s)

    def on_stopping(self) -> None:
        self.link.stop()
        self.on_finished()

    def status(self) -> ConnectionFigures:
        intake = self.exchange.intake
        return ConnectionFigures(
            link=self.link.figures(self.mailbox.now_s()),
            exchange=replace(self._flow.counts, unexpected_publishes=self.exchange.reader.unexpected_publishes),
            rate=None if self._flow.exchange.publishing.rate is None else self._flow.exchange.publishing.rate.figures(),
            remote_subscriptions=intake.status() if intake is not None else None,
        )

    # --- what is more than one call ---

    def _open_lane(self, frame: LaneOpened) -> None:
        self.link.disconnect("lane opened anew")
        if frame.receives and self.exchange.intake is None:
            self.exchange.take_in(self.peers)
        self.exchange.settlements.open(frame.epoch)
        self._flow.open(frame)
        if frame.receives and not self.settings.bridge(self._bridge).taken_by(self._label):
            self.link.dial("subscriptions are to be given up")
        else:
            self.link.connect("the lane was opened")

    def _obey(self, verb: str) -> None:
        match verb:
            case "pause":
                self.link.pause()
            case "resume":
                self.exchange.learnt.forget()
                self.link.resume()
            case "dial":
                self.link.dial("restarted by the operator")
            case _:
                raise AssertionError(f"unknown command {verb}")

    def _end_turn_of(self, intake: RemoteIntake, now_s: float) -> None:
        """Send what the turn brought, and go on with what had to wait for that."""
        if self.exchange.echoes is not None:
            self.exchange.echoes.expire(now_s, self._flow.exchange.messages.settled_below())
        while intake.flush_turn(now_s):
            self.link.guarded(self.exchange.reader.parse_on)
        self.exchange.reader.hear(not intake.blocked)
        if intake.turn_end(now_s):
            self.link.remake("there is room again for what was left out")
