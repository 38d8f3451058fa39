"""The link of a lane to its remote: a connection is opened, lost, waited for and opened anew, paused, and moved between addresses.

The exchange on it is ``actors/bridge/lane_exchange.py``'s; its state is kept by ``actors/bridge/link_status.py``, and
``wire/exchange/failback.py`` decides when to go back to the first address.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.bridge.dial_policy import HOURS_OVER, IDLE, Closure, DialPolicy
from actors.bridge.failed_attempts import CAUSE_MAX, FailedAttempts
from actors.bridge.lane_exchange import Exchange
from actors.bridge.lane_names import Lane
from actors.bridge.lane_reports import LaneReports
from actors.bridge.link_status import NOT_OPEN, LinkStatus
from actors.bridge.login_renewal import LoginRenewal
from actors.process.local_messages import LinkStateChanged
from actors.process.mailbox import Mailbox
from actors.remote.credentials import Login
from actors.remote.dialect_file import DialectFile
from actors.remote.remote_dialer import LimitsTold, LoginRead, OpeningEnded, ProbeEnded, RemoteDialer
from actors.remote.remote_socket import DISCONNECT, LEVEL_5, Remote
from wire.errors import BasculeError, PeerViolation, Unavailable
from wire.exchange import remote_packets
from wire.exchange.failback import Failback, place_of
from wire.frames.lanes import LaneAwaited, LaneWaits
from wire.frames.names import QUEUE_STORE, SUPERVISOR
from wire.frames.supervision import LinkStands
from wire.routing.link_states import told_here
from wire.status.bridges import LinkFigures
from wire.status.event_kinds import EventKind
from wire.status.link_faults import LinkFault, fault_of
from wire.status.states import LinkState

log = logging.getLogger("bascule")

RETRY_TIMER, LOOK_TIMER, FIRST_TIMER, DIAL_TIMER = "retry", "watch", "first", "dial"
SILENT_S = 86_400.0  # so long a remote that speaks no MQTT 5 is not asked for its limits again
ASK_AGAIN_S = 10.0  # after an attempt in vain
NEVER = 1 << 62  # messages: so many never wait
NOT_LEADING = "this node does not lead: another speaks to the remote"


class RemoteLink:
    """remote: the live connection, None between two. status: in what state the link is. failback: at which of the addresses.

    kept_s: how long the remote keeps the session, where that is shorter than it was asked to.
    """

    def __init__(
        self, mailbox: Mailbox, lane: Lane, exchange: Exchange, reports: LaneReports, tell: Callable[[object], bool]
    ) -> None:
        """tell: brings ``OpeningEnded`` and ``ProbeEnded`` back from a thread; False if nobody wants them any more."""
        settings = lane.bridge.remote
        self.remote: Remote | None = None
        self.status = LinkStatus(lane.bridge.backoff, mailbox.random, mailbox.now_s(), mailbox.wall_ms())
        self.failback = Failback(
            settings.addresses,
            retry_s=settings.primary_retry_s,
            finish_s=settings.stall_timeout_s,
            round_robin=settings.round_robin,
        )
        self.kept_s: int | None = None
        self._mailbox = mailbox
        self._lane = lane
        self._exchange = exchange
        self._reports = reports
        self._dialer = RemoteDialer(
            settings,
            lane.client_id,
            try_private=settings.try_private and lane.bridge.may_take(lane.label),
            remembered=DialectFile(lane.run_dir, lane.actor),
            in_thread=mailbox.in_thread,
            tell=tell,
            will=exchange.announced.will,
        )
        self._logins = LoginRenewal(mailbox, lane, reports, self._dialer)
        exchange.reader.give_auth_to(self._logins.on_auth)
        self._level = settings.levels[0]  # of the live connection, or of the last
        self._asked_expiry_s = settings.session_expiry_s
        self._opening = False
        self._paused = self._stopping = False
        self._told = self.status.state  # to the Forwarder
        self._is_told_here = lane.label == 0 and told_here(lane.bridge) is not None  # to local clients, by the supervisor
        self._failed = FailedAttempts()
        self._policy = DialPolicy(settings)
        self.closes_by_s: float | None = None  # it is to be closed by choice, once nothing is unfinished, or then
        self._silent_until_s: dict[str, float] = {}  # remotes that do not say their limits, by address: until then
        self._ask_again_s = 0.0
        self._takeovers = 0  # connections in a row that ended because another uses our client identifier

    # --- orders ---

    def connect(self, reason: str, *, first: str = "", clean: bool = False) -> None:
        """Begin to open the connection, unless that is under way or not wanted; ``first`` is tried first.

        Without it that is the address on record where its session may hold something of ours, or keeps what it has for us.
        """
        self._mailbox.cancel_timer(RETRY_TIMER)
        if self._paused or not self._exchange.settlements.lane_epoch or self.remote is not None:
            return
        if (closure := self._policy.closure(self._mailbox.wall_ms())) is not None:
            self._stay_closed(closure)
            return
        if not self._lane.leads():
            self._retry(Unavailable(NOT_LEADING))
            return
        self._time_dial()
        self.status.connecting(reason, self._mailbox.now_s(), self._mailbox.wall_ms())
        self._send_state()
        if self._opening:
            return
        self._opening = True
        first = first or self._exchange.wanted_place
        self._dialer.dial(
            self.failback.order(first), self._exchange.reader.limits, preferred=first, clean=clean, wall_ms=self._mailbox.wall_ms()
        )

    def remake(self, reason: str, *, first: str = "") -> None:
        """Connect again at once."""
        self._leave(reason)
        self.connect(reason, first=first)

    def on_subscriptions_changed(self) -> None:
        """The lane subscribes to others than it did: the remote is told, also where nothing is to be sent."""
        if self.remote is not None:
            self.remake("other subscriptions", first=self.remote.address)
        else:
            self.dial("other subscriptions")

    def pause(self) -> None:
        """Leave the remote until ``resume``."""
        self._paused = True
        self._mailbox.cancel_timer(RETRY_TIMER)
        self._leave("paused")
        self.status.paused(self._mailbox.now_s(), self._mailbox.wall_ms())
        self._send_state()

    def resume(self) -> None:
        """End the pause."""
        self._paused = False
        self._dialer.forget_dialects()
        if self.status.state is LinkState.PAUSED:
            self.status.connecting(NOT_OPEN, self._mailbox.now_s(), self._mailbox.wall_ms())  # if it is, that is said next
            self._send_state()
            self.connect("resumed")

    def dial(self, reason: str) -> None:
        """Connect within its hours, as if something were to be sent."""
        self._policy.on_needed()
        self.connect(reason)

    def stop(self) -> None:
        """Leave the remote for good."""
        self._stopping = True
        self._leave("stopped")

    def disconnect(self, reason: str) -> None:
        """End the connection in good order, if there is one; the session stays, and the remote publishes the Will."""
        if self.remote is not None:
            last = self._exchange.announced.farewell(self.remote.dialect.level)
            if last and self._exchange.writer.between_packets:
                self._say(self.remote, last)
            self._drop(reason)

    def on_lost(self, error: Unavailable) -> None:
        """Drop the connection, if there is one, and wait before the next."""
        if self.remote is not None:
            self._drop(error.message, fault_of(error))
            self._retry(error)

    def guarded(self, step: Callable[..., None], *now_s: float) -> None:
        """Take ``step`` on the connection; if that or the remote fails, drop it and wait before the next."""
        try:
            step(*now_s)
        except Unavailable as error:
            taken_over = bool(error.fields.get("taken_over"))
            if taken_over and self._takeovers:
                why = {"client_id": self._lane.client_id, "why": "another client uses this client identifier"}
                log.warning("session.contended", extra={**self._lane.facts, **why})
            by_remote = bool(error.fields.get("by_remote"))
            self._drop(error.message, fault_of(error), by_remote=by_remote, taken_over=taken_over)
            self._retry(error, soon=self._exchange.flow.exchange.closed_on.hurries)
        except PeerViolation as error:
            log.warning("remote.violated", extra={**self._lane.facts, "error": str(error)})
            remote = self.remote
            if remote is not None and self._exchange.writer.between_packets and remote.dialect.level == LEVEL_5:
                self._say(remote, bytes((remote_packets.DISCONNECT, 1, error.reason_code)))
            self._drop(error.message, fault_of(error), by_remote=bool(error.fields.get("by_remote")))
            self._retry(error)

    # --- up and down ---

    def on_opening_ended(self, ended: OpeningEnded) -> None:
        """The opening thread has done what it could."""
        self._opening = False
        remote = ended.remote
        closure = self._policy.closure(self._mailbox.wall_ms())
        if self._paused or self._stopping or closure is not None:
            if remote is not None:
                self._say_disconnect(remote)
            if closure is not None and not self._paused and not self._stopping:
                self._stay_closed(closure)
            return
        if remote is not None and not self._lane.leads():
            remote.close()
            self._retry(Unavailable(NOT_LEADING))
            return
        if remote is None:
            assert ended.error is not None, "opening the connection ended without a result"
            self._failed_to_connect(ended.error)
            return
        session = self._lane.session_at(remote.address)
        if not self._exchange.flow.knows(session, remote.connack.session_present):
            log.warning("session.unknown", extra={**self._lane.facts, "address": remote.address})
            known = self._exchange.flow.exchange.record.generation
            self._reports.event(EventKind.SESSION_UNKNOWN, "" if known else "new store", {"address": remote.address})
            self._exchange.flow.ends(session)
            self._say_disconnect(remote)
            if ended.clean:
                self._failed_to_connect(Unavailable("the remote resumes a session that was ended"))
            else:
                self.connect("the remote has a session that is on no record", first=remote.address, clean=True)
            return
        self._dialer.on_connected(remote, ended.refused, self._mailbox.wall_ms())
        self._on_connected(remote, ended.login, tried_first=ended.tried_first)

    def _on_connected(self, remote: Remote, login: Login, *, tried_first: bool) -> None:
        now_s = self._mailbox.now_s()
        self.remote, self._level = remote, remote.dialect.level
        if self._lane.lease is not None:
            remote.speak_while(self._lane.lease.is_held)
        self.failback.on_connected(remote.address, now_s, tried_first=tried_first)
        self._time_first()
        self._exchange.on_connected(remote, now_s)
        self._mailbox.set_timer(LOOK_TIMER, now_s + self._exchange.check_period_s)
        self.status.on_connected(now_s, self._mailbox.wall_ms())
        self._send_state()
        facts = {**self._lane.facts, "address": remote.address}
        log.info("bridge.connected", extra={**facts, "session_present": remote.connack.session_present})
        self._look_at_expiry(remote)
        self._logins.on_used(login, remote.address)
        self._policy.on_connected(now_s)
        self._time_dial()
        details: dict[str, str | int] = {"address": remote.address}
        if self.kept_s is not None:
            details["session_expiry_s"] = self.kept_s
        if failed := self._failed.on_connected():
            details["attempts_failed"] = failed
        self._reports.event(EventKind.LINK_UP, "", details)
        self.guarded(self._exchange.reader.read, now_s)  # TLS and WebSocket may hold bytes that the poll does not tell of

    def _look_at_expiry(self, remote: Remote) -> None:
        """Say so if the remote may forget the session sooner than is configured: what outlasts it then is as of a lost session."""
        asked_s, kept_s = self._asked_expiry_s, remote.connack.session_expiry_s
        self.kept_s = kept_s if kept_s is not None and kept_s < asked_s else None
        if self.kept_s is not None:
            facts = {"address": remote.address, "session_expiry_s": kept_s, "asked_s": asked_s}
            log.warning("session.expires_early", extra={**self._lane.facts, **facts})

    def _leave(self, reason: str) -> None:
        """Tell what is settled, and end the connection in good order."""
        self._exchange.settlements.send()
        self.disconnect(reason)

    def _drop(self, reason: str, fault: LinkFault | None = None, *, by_remote: bool = False, taken_over: bool = False) -> None:
        remote = self.remote
        assert remote is not None
        self._exchange.on_disconnected(by_remote=by_remote)
        self.take_lesson()
        remote.close()
        self.remote = None
        self._takeovers = self._takeovers + 1 if taken_over else 0
        self.status.on_lost(self._mailbox.now_s())
        self.failback.on_disconnected()
        self.closes_by_s = None
        self._logins.on_disconnected()
        for name in (LOOK_TIMER, FIRST_TIMER):
            self._mailbox.cancel_timer(name)
        log.info("bridge.disconnected", extra={**self._lane.facts, "address": remote.address, "reason": reason})
        self._reports.event(EventKind.LINK_DOWN, reason, {"address": remote.address, "fault": fault or ""})
        if by_remote and self._reports.report_quarantine():
            self.status.forgive()  # it takes others

    def take_lesson(self) -> None:
        """Say what the remote was seen not to take, if anything is new."""
        if self.remote is not None and (lesson := self._exchange.take_lesson()) is not None:
            self._reports.on_learnt(lesson, self.remote.address)

    def _failed_to_connect(self, error: BasculeError) -> None:
        self._exchange.flow.exchange.publishing.on_answer(error.fields.get("reason_code"))
        self._retry(error)
        if count := self._failed.on_failed(error.message, self._mailbox.now_s()):
            details: dict[str, str | int] = {"attempt": self._failed.total, "fault": fault_of(error).value}
            self._reports.event(EventKind.LINK_FAILED, error.message[:CAUSE_MAX], details, count=count)

    def _retry(self, error: BasculeError, *, soon: bool = False) -> None:
        """Wait, longer each time, and connect again; ``soon``: this once, not longer than at first."""
        now_s = self._mailbox.now_s()
        wall_ms, fault = self._mailbox.wall_ms(), fault_of(error)
        delay_s = self.status.on_failed(str(error.message), now_s, wall_ms, soon=soon, fault=fault)
        self._mailbox.set_timer(RETRY_TIMER, now_s + delay_s)
        self._send_state()
        log.warning("bridge.retry", extra={**self._lane.facts, "delay_s": round(delay_s, 3), "error": self.status.error})

    def _send_state(self) -> None:
        """The Forwarder passes on while the link stands."""
        if self.status.state != self._told:
            stood, self._told = self._told, self.status.state
            self._mailbox.send(self._lane.forwarder, LinkStateChanged(state=self._told))
            if self._is_told_here and LinkState.CONNECTED in (stood, self._told):
                stands = self._told is LinkState.CONNECTED
                self._mailbox.send(SUPERVISOR, LinkStands(actor=self._lane.actor, epoch=self._exchange.epoch, stands=stands))

    def _say_disconnect(self, remote: Remote) -> None:
        self._say(remote, DISCONNECT)
        remote.close()

    def _say(self, remote: Remote, data: bytes) -> None:
        """Last words; a remote that does not hear them any more does not need them."""
        try:
            remote.send(memoryview(data))
        except Unavailable as error:
            log.debug("remote.deaf", extra={**self._lane.facts, "error": str(error)})

    # --- whether it lives, and back to the first address ---

    def check(self, now_s: float) -> None:
        """Time to look after a connection that is up."""
        self._mailbox.set_timer(LOOK_TIMER, now_s + self._exchange.check_period_s)
        if error := self._exchange.check_link(now_s):
            self.on_lost(error)

    def probe_first(self, now_s: float) -> None:
        """Time to ask after the first address."""
        wanted = self.failback.probe(now_s)
        if wanted is not None:
            self._dialer.probe(*wanted)

    def on_probe_ended(self, ended: ProbeEnded) -> None:
        """The probing thread has an answer of the first address, or none."""
        self.failback.on_probed(ended.number, self._mailbox.now_s(), ended.error)
        self._time_first()
        if self.failback.finishing:
            self._exchange.flow.exchange.finish(True)
            log.info("bridge.returning", extra={**self._lane.facts, "address": self.failback.first})

    # --- whether it is to stand ---

    def look_at_dial(self, now_s: float) -> None:
        """Time to see whether the link is to stand, which hours and what is to be sent decide."""
        if self._paused or self._stopping:
            return
        closure = self._policy.closure(self._mailbox.wall_ms())
        if self.remote is None:
            if closure is not None:
                self._stay_closed(closure)
            elif self.status.state is LinkState.CLOSED:
                self.connect("its hours have begun")
        elif closure is not None and self.closes_by_s is None:
            self.closes_by_s = now_s + self._lane.bridge.remote.stall_timeout_s
            self._exchange.flow.exchange.finish(True)
        elif closure is None and self._policy.is_idle(self._exchange.activity, now_s):
            self._leave(IDLE)
            self.connect(IDLE)
        self._time_dial()

    def on_waiting(self, frame: LaneWaits) -> None:
        """Enough waits to be sent."""
        if frame.epoch == self._exchange.settlements.lane_epoch:
            self._policy.on_needed()
            self.connect("messages wait")

    def _stay_closed(self, closure: Closure) -> None:
        """The link is closed by choice. The store says when enough waits, if that is to change it."""
        self._mailbox.cancel_timer(RETRY_TIMER)
        self.status.closed(closure.reason, self._mailbox.now_s(), self._mailbox.wall_ms())
        self._send_state()
        if closure.awaits:
            enough = self._lane.bridge.remote.when_needed
            self._mailbox.send(
                QUEUE_STORE,
                LaneAwaited(
                    queue=self._lane.queue,
                    epoch=self._exchange.settlements.lane_epoch,
                    messages=enough.messages or NEVER,
                    size_bytes=enough.bytes or 0,
                    age_ms=-1 if enough.age_s is None else round(enough.age_s * 1000),
                ),
            )
        self._time_dial()

    def _time_dial(self) -> None:
        if self._policy.bounded:
            look_in_s = self._policy.look_in_s(self._mailbox.wall_ms())
            if self.closes_by_s is not None:
                look_in_s = min(look_in_s, max(0.0, self.closes_by_s - self._mailbox.now_s()))
            self._mailbox.set_timer(DIAL_TIMER, self._mailbox.now_s() + look_in_s)

    # --- who we are ---

    def look_at_login(self) -> None:
        """Time to see whether the login at the remote is to be made anew."""
        if self.remote is not None and self._logins.is_unanswered:
            self.remake("AUTH was not answered", first=self.remote.address)
        elif self.remote is not None and self._logins.look():
            self._dialer.read_login(self.remote)

    def on_login_read(self, read: LoginRead) -> None:
        """The reading thread has the login as it is now: a newer one takes the place of that which the remote knows."""
        login = self._logins.on_read(read)
        if login is None or read.of is not self.remote:
            return
        if auth := self._logins.offer(login):
            self._exchange.writer.say(auth)
        else:
            self.remake("the credential was renewed", first=read.of.address)

    # --- what it takes ---

    def ask_limits(self) -> None:
        """Ask the remote how many QoS 2 messages it takes, if more than one are to be in flight; once on a connection."""
        remote, exchange = self.remote, self._exchange.flow.exchange
        in_flight = exchange.in_flight
        if remote is None or not (in_flight.qos2 and exchange.handed_out.waiting):
            return
        now_s = self._mailbox.now_s()
        if now_s < self._ask_again_s:
            return
        in_flight.qos2_window.on_asked()
        if now_s < self._silent_until_s.get(remote.address, 0.0):
            in_flight.qos2_window.on_told(None)
        else:
            self._dialer.ask(remote)

    def on_limits_told(self, told: LimitsTold) -> None:
        """The remote has said how many it takes, or it does not."""
        facts = {**self._lane.facts, "address": told.of.address}
        if told.receive_maximum is None:
            log.info("remote.limits_unknown", extra={**facts, "why": told.error})
        else:
            log.info("remote.limits_told", extra={**facts, "receive_maximum": told.receive_maximum})
        now_s, window = self._mailbox.now_s(), self._exchange.flow.exchange.in_flight.qos2_window
        if told.final:
            self._silent_until_s[told.of.address] = now_s + SILENT_S
        elif told.receive_maximum is None:
            self._ask_again_s = now_s + ASK_AGAIN_S
        if told.of is not self.remote:
            return
        if told.final or told.receive_maximum is not None:
            window.on_told(told.receive_maximum)
        else:
            window.on_unanswered()

    def finish(self, now_s: float) -> None:
        """Leave once nothing is unfinished: because the hours are over, or for the first address; stay if that takes too long."""
        failback = self.failback
        if self.closes_by_s is not None:
            if now_s >= self.closes_by_s or not self._exchange.unfinished:
                self._leave(HOURS_OVER)
                self.connect(HOURS_OVER)
        elif failback.leaves(now_s, unfinished=self._exchange.unfinished):
            self.remake(f"back to {failback.first}", first=failback.first)
        elif not failback.finishing:
            self._exchange.flow.exchange.finish(False)
            self._time_first()
            log.warning("bridge.stays", extra={**self._lane.facts, "why": failback.error})
            self.guarded(self._exchange.writer.write, now_s)

    def _time_first(self) -> None:
        wakes_at_s = self.failback.wakes_at_s
        if wakes_at_s is not None:
            self._mailbox.set_timer(FIRST_TIMER, wakes_at_s)

    # --- status ---

    @property
    def address(self) -> str:
        """Of the remote that is connected; between two connections, of that which is tried first."""
        return self.remote.address if self.remote is not None else place_of(self.failback.order(self._exchange.wanted_place)[0])

    def figures(self, now_s: float) -> LinkFigures:
        """The figures for ``status``."""
        note, note_fault = self.note()
        return self.status.figures(
            now_s,
            address=self.address,
            protocol=self._level,
            note=note,
            note_fault=note_fault,
            first_address=self.failback.figures(now_s),
            session_expiry_s=self.kept_s,
            in_flight=self._exchange.flow.exchange.unsettled,
            qos2_window=self._exchange.flow.exchange.in_flight.qos2_window,
            suspects=self._reports.figures(),
            lacks=self._reports.lacks(),
            credential_ends_in_s=self._logins.ends_in_s,
            certificate_ends_in_s=self._logins.certificate_ends_in_s,
        )

    def note(self) -> tuple[str, LinkFault | None]:
        """Facts that an operator should know of the link beside its state, in words and in one; empty if there are none."""
        if self._takeovers > 1:
            return "another client uses this client identifier", LinkFault.TAKEN_OVER
        note, fault = self._reports.note()
        if note:
            return note, fault
        if self.failback.later:
            return self.failback.note(self._mailbox.now_s()), LinkFault.OTHER_ADDRESS
        if self.remote is not None:
            said, of_login = self._logins.note()
            if said:
                return said, of_login
        if self.kept_s is not None:
            return f"remote keeps the session {self.kept_s} s only", LinkFault.SHORT_SESSION
        return "", None
