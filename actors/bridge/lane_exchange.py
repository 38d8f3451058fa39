"""The MQTT exchange of one bridge lane: what is sent, what is answered, what is settled and released, what the remote publishes.

It joins the parts that share one socket, and goes on from connection to connection; ``actors/bridge/remote_link.py`` opens those.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from actors.bridge.lane_names import Lane
from actors.bridge.remote_intake import RemoteIntake
from actors.bridge.remote_poll import RemotePoll
from actors.bridge.remote_reader import RemoteReader
from actors.bridge.remote_writer import RemoteWriter
from actors.bridge.settlement_reports import Settlements
from actors.process.local_messages import Passed
from actors.process.mailbox import Mailbox
from actors.remote.remote_socket import Remote
from wire.config_settings import BridgeSettings, NodeSettings
from wire.errors import Unavailable
from wire.exchange import remote_packets
from wire.exchange.announcements import announcements_of
from wire.exchange.failback import place_of
from wire.exchange.lane_sender import LaneSender
from wire.exchange.learnt_limits import LearntLimits
from wire.exchange.packet_identifiers import ANNOUNCED_ID
from wire.exchange.refusal_policy import FAILURE
from wire.exchange.remote_keep_alive import RemoteKeepAlive, Verdict
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.frames.names import remote_session_name
from wire.mqtt.aliases import OutgoingAliases
from wire.mqtt.packets import MQTT_3_1_1, MQTT_5_0
from wire.mqtt.reason_codes import reason_name
from wire.routing.echo_filter import EchoFilter
from wire.routing.form_from_remote import FirstRule
from wire.status.link_faults import LinkFault

log = logging.getLogger("bascule")

HELD_TIMER = "held"


class Exchange:
    """flow: what may be sent. reader, writer: of the live connection. intake: who takes the remote's PUBLISHes, if anybody does.

    echoes: knows what the remote sends back, if it may.
    known: limits of the remote that were learnt, as they hold on this connection.
    """

    def __init__(self, mailbox: Mailbox, epoch: int, settings: NodeSettings, lane: Lane, flow: LaneSender) -> None:
        self._mailbox = mailbox
        self.epoch = epoch
        self._settings = settings
        self._lane = lane
        self._remote_settings = lane.bridge.remote
        self._watch = RemoteKeepAlive(
            stall_timeout_s=self._remote_settings.stall_timeout_s, answer_timeout_s=self._remote_settings.connect_timeout_s
        )
        self._poll = RemotePoll(mailbox)
        self._held_until_s: float | None = None
        self._heard_s = 0.0  # what the watch knows of ``reader.heard_s``
        self.flow = flow
        self.writer = RemoteWriter(mailbox, flow, self._watch, self._poll)
        self.reader = RemoteReader(mailbox, lane, flow, self._poll, self.writer)
        self.learnt = LearntLimits()
        self.known = NO_LIMITS
        self._place = ""
        self.settlements = Settlements(mailbox, settings, lane, flow)
        self.intake: RemoteIntake | None = None
        self.announced = announcements_of(lane.bridge, lane.label)
        self.echoes: EchoFilter | None = None
        self._is_known = False  # for a bridge, to the remote of the live connection

    def take_in(self, peers: Mapping[str, int]) -> None:
        """From now on take what the remote publishes. peers: the epochs of those that are known."""
        flow, lane = self.flow, self._lane
        rules = lane.bridge.remote_subscriptions
        loops = lane.bridge.loop_prevention
        if _may_echo(lane.bridge):
            self.echoes = EchoFilter(
                window_s=loops.echo_window_s,
                messages_max=loops.echo_max_messages,
                wants=partial(self._comes_back, FirstRule(rules)),
            )
        self.intake = RemoteIntake(
            self._mailbox,
            self.epoch,
            self._settings,
            lane,
            writer=self.writer,
            session_known=lambda: flow.session_known,
            echoes=self.echoes,
        )
        self.reader.give_to(self.intake)
        flow.keep(lane.session_at(place_of(address)) for address in self._remote_settings.addresses)
        for name, epoch in peers.items():
            self.intake.peer_up(name, epoch)

    # --- connections ---

    def on_connected(self, remote: Remote, now_s: float) -> None:
        """A connection is up: go on where its session stands."""
        connack, settings = remote.connack, self._remote_settings
        level = remote.dialect.level
        session = self._lane.session_at(remote.address)
        self._place, self.known = remote.address, self.learnt.of(remote.address, now_s)
        aliases = min(settings.topic_aliases, connack.topic_alias_maximum)
        self.writer.on_opened(remote, awaits_suback=settings.await_suback and self.intake is not None)
        self._watch.on_started(now_s, keep_alive_s=settings.keep_alive_s if connack.keep_alive_s is None else connack.keep_alive_s)
        self.flow.on_connected(
            session=session,
            session_present=connack.session_present,
            level=level,
            receive_maximum=max(1, connack.receive_maximum - self.announced.in_flight_max),
            learnt=self.known,
            limits=connack.limits.joined(RemoteLimits(packet_max_bytes=settings.packet_max_bytes)),
            aliases=OutgoingAliases(aliases, aliases_max=aliases) if aliases else None,
            entered=partial(self._announce, remote),
        )
        if self.intake is not None:
            name = remote_session_name(self._lane.actor, session, self.flow.session_number)
            self.intake.on_connected(name, connack, connack.limits.joined(self.known), level)
        if self.echoes is not None:
            self._is_known = remote.dialect.private
            shares = any(rule.shared is not None for rule in self._lane.bridge.remote_subscriptions)
            self.echoes.on_connected(
                now_s,
                echoes=level == MQTT_3_1_1 and (shares or not self._is_known),
                session_present=connack.session_present,
                settled_below=self.flow.exchange.messages.settled_below(),
            )
        self.reader.on_opened(remote)
        self._heard_s = self.reader.heard_s
        self._poll.on_opened(remote)

    def _announce(self, remote: Remote) -> None:
        """Say that the lane is connected, before its first message."""
        word, connack, level = self.announced.connected, remote.connack, remote.dialect.level
        if word is None:
            return
        has_place = connack.receive_maximum > 1 if level == MQTT_5_0 else not any(self.flow.exchange.may_be_held())
        limits = connack.limits.joined(self.known)
        maximum_qos = limits.maximum_qos if has_place else 0
        self.writer.say(word.encode(level, maximum_qos=maximum_qos, retain_available=limits.retain_available))
        self.flow.exchange.answers.expect(ANNOUNCED_ID, self._on_announced)

    def _on_announced(self, reason_code: int) -> None:
        """The remote has answered what was said of the lane."""
        if reason_code >= FAILURE:
            log.warning("announcement.refused", extra={**self._lane.facts, "reason": reason_name(reason_code)})

    def on_disconnected(self, *, by_remote: bool) -> None:
        """The connection is about to be closed. by_remote: the remote ended it, maybe because of a message."""
        self._poll.on_closed()
        self.writer.on_closed()
        self.reader.on_closed()
        self.flow.on_disconnected(by_remote=by_remote)
        if self.intake is not None:
            self.intake.on_disconnected()

    def _comes_back(self, first: FirstRule, topic: bytes) -> bool:
        """Whether the remote sends back what is sent with that ``topic``: to a known bridge by shared subscriptions alone."""
        place = first.of(topic)
        return place is not None and (not self._is_known or self._lane.bridge.remote_subscriptions[place].shared is not None)

    def await_echoes(self, echoes: EchoFilter, passed: Passed) -> None:
        """The remote may send back what was ``passed`` to be sent."""
        echoes.expire(self._mailbox.now_s(), self.flow.exchange.messages.settled_below())
        last = passed.offsets[-1] if passed.offsets is not None else len(passed.batch) - 1
        echoes.on_sent(passed.batch, passed.first_seq + last + 1)

    @property
    def wanted_place(self) -> str:
        """The address whose session may hold something of ours, or keeps what it has for us; empty if none does."""
        wanted = self.flow.unfinished or self.intake is not None
        return self.flow.exchange.record.session.rpartition("@")[2] if wanted else ""

    @property
    def unfinished(self) -> bool:
        """Whether to leave now would cut off an exchange, ours or the remote's."""
        busy = self.intake is not None and not self.intake.idle
        return busy or self.writer.waits or self.flow.unfinished

    @property
    def activity(self) -> tuple[int, int] | None:
        """What was sent and received, in all; None while something is unfinished, to be sent or to be given up."""
        exchange, intake = self.flow.exchange, self.intake
        if self.unfinished or exchange.handed_out.waiting or (intake is not None and intake.gives_up):
            return None
        return exchange.publishing.published, 0 if intake is None else intake.received

    def take_lesson(self) -> RemoteLimits | None:
        """Limits of the remote that were seen, if they are tighter than when this was last asked."""
        learnt = self.flow.exchange.publishing.learnt
        known, self.known = self.known, learnt
        if learnt == known:
            return None
        self.learnt.on_learnt(self._place, learnt, self._mailbox.now_s())
        return learnt

    # --- whether the connection lives ---

    @property
    def check_period_s(self) -> float:
        """How often to ``check_link``."""
        return self._watch.period_s

    def check_link(self, now_s: float) -> Unavailable | None:
        """Look whether the connection still lives, and have the remote asked: why it is to be given up, if it is."""
        writer, heard_s = self.writer, self.reader.heard_s
        if heard_s != self._heard_s:
            self._heard_s = heard_s
            self._watch.on_received(heard_s)
        verdict = self._watch.judge(now_s, owed=self.flow.owed, given=writer.written_bytes, left=writer.left_bytes)
        if verdict is Verdict.PING:
            writer.say(remote_packets.PINGREQ)
        elif verdict is Verdict.STALLED:
            log.warning("connection.stalled", extra={**self._lane.facts, "in_flight": self.flow.exchange.in_flight.messages})
            self.flow.on_stalled()
            return Unavailable("no acknowledgement in time", fault=LinkFault.STALLED)
        elif verdict is Verdict.SILENT:
            return Unavailable("no PINGRESP in time", fault=LinkFault.SILENT)
        return None

    def time_held(self) -> None:
        """Have a turn begin when what is held back may leave: each ends with a write."""
        held_s = self.flow.exchange.refusals.hold.until_s
        if held_s is None and (rate := self.flow.exchange.publishing.rate) is not None:
            held_s = rate.resume_s
        if held_s != self._held_until_s:
            self._held_until_s = held_s
            if self._held_until_s is not None:
                self._mailbox.set_timer(HELD_TIMER, self._held_until_s)


def _may_echo(bridge: BridgeSettings) -> bool:
    """Whether the remote may send back what was sent to it, and that is to be left out."""
    loops = bridge.loop_prevention
    return bool(loops.enabled and loops.echo_window_s and bridge.local_subscriptions and MQTT_3_1_1 in bridge.remote.levels)
