"""The Connection of one bridge lane: one remote socket, the MQTT exchange on it, and waiting before it is opened again.

What may be sent and what an acknowledgement means is the business of ``wire/outbound.py``, how a socket is opened that of
``actors/remote.py``; what comes by remote subscriptions goes to ``actors/remote_intake.py``. It works for a lane that is open:
``LaneOpened`` makes it connect anew, because then the exchange has to be resumed from what is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NoReturn

from actors.actor import MailboxActor
from actors.handed_over import LinkState, Passed
from actors.mailbox import HANGUP, READ, WRITE, Mailbox
from actors.remote import DISCONNECT, LEVEL_5, NOTHING_SUBSCRIBED, Remote, open_remote, probe_remote
from actors.remote_intake import RemoteIntake
from wire import remote_packets
from wire.backoff import Backoff
from wire.credit import CreditGiver
from wire.errors import BasculeError, PeerViolation, Unavailable
from wire.failback import Address, Failback, place_of
from wire.frames import (
    Command,
    Committed,
    Credit,
    Frame,
    LaneOpened,
    NodeEvents,
    SessionOpened,
    Settle,
    Settled,
)
from wire.lane_flow import LaneFlow
from wire.link_watch import LinkWatch, Verdict
from wire.mqtt.reason_codes import ReasonCode, reason_name
from wire.names import QUEUE_STORE, forwarder_name, lane_of_actor, queue_name, remote_client_id, remote_session_name
from wire.outbound import Blamed
from wire.refusal_policy import RefusalPolicy
from wire.settings import NodeSettings
from wire.settling import Settling

log = logging.getLogger("bascule")

BURST_BYTES = 262_144
BURSTS_PER_TURN_MAX = 4
BYTES_IN_HAND = 8 << 20
MESSAGES_IN_HAND_MIN = 2_048
WINDOWS_IN_HAND = 3

SETTLE_DELAY_S = 0.05  # settlements wait for more of them, unless something waits for their commit

# A remote acknowledges messages one by one, and reading each acknowledgement by itself costs more than the message did. So they
# gather for a moment while no more could be sent for them anyway: the window is wide open, or the remote has half of it to work on.
REST_WINDOW_MIN = 200
REST_OPEN_S = 0.02
REST_LEAST_S = 0.005  # after which it is read when there is something to be sent as well
REST_BUSY_S = 0.001

REFUSALS_LOGGED_EACH_S = 10.0

# What a DISCONNECT may say because of a message that we sent; the others are about the connection, the remote or us.
MAY_MEAN_A_MESSAGE = frozenset(
    {
        ReasonCode.UNSPECIFIED_ERROR,
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.TOPIC_NAME_INVALID,
        ReasonCode.PACKET_TOO_LARGE,
        ReasonCode.PAYLOAD_FORMAT_INVALID,
        ReasonCode.RETAIN_NOT_SUPPORTED,
        ReasonCode.QOS_NOT_SUPPORTED,
    }
)

_RETRY, _WATCH, _SETTLE, _REST, _HELD, _FIRST = "retry", "watch", "settle", "rest", "held", "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningEnded:
    """Opening thread -> Connection: it is connected, or could not connect. ``clean``: it had ended the remote's session first.

    tried_first: the first of the addresses was tried in vain.
    """

    remote: Remote | None
    error: Unavailable | None
    clean: bool
    tried_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEnded:
    """Probing thread -> Connection: the first address answers, or ``error`` says why not."""

    number: int
    error: str


class Connection(MailboxActor):
    """Exchanges a lane's messages with its remote broker; everything that was read in a turn is answered at its end."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        place = lane_of_actor(mailbox.name)
        assert place is not None, "a Connection of no lane"
        bridge, lane = place
        self._bridge = settings.bridge(bridge)
        self._settings = self._bridge.remote
        self._queue = queue_name(bridge, lane)
        self._forwarder = forwarder_name(bridge, lane)
        self._client_id = remote_client_id(self._settings.client_id, lane)
        self._place = bridge, lane
        self._facts = {"bridge": bridge, "lane": lane}
        self._policy = RefusalPolicy(self._bridge.on_refusal)
        self._flow = LaneFlow(
            receive_maximum=self._settings.receive_maximum,
            qos2_maximum=self._settings.qos2_maximum,
            republish=self._bridge.on_session_loss == "republish",
            policy=self._policy,
            backoff=Backoff(self._bridge.backoff, mailbox.random),
            max_age_s=self._bridge.limits.max_age_s,
        )
        self._credit = CreditGiver(
            messages_in_hand=max(MESSAGES_IN_HAND_MIN, WINDOWS_IN_HAND * self._settings.receive_maximum),
            bytes_in_hand=BYTES_IN_HAND,
        )
        self._watch = LinkWatch(stall_timeout_s=self._settings.stall_timeout_s, answer_timeout_s=self._settings.connect_timeout_s)
        self._backoff = Backoff(self._bridge.backoff, mailbox.random)
        self._failback = Failback(
            self._settings.addresses, retry_s=self._settings.primary_retry_s, finish_s=self._settings.stall_timeout_s
        )
        self._lane_epoch = self._number = 0
        self._remote: Remote | None = None
        self._opening = False
        self._paused = False
        self._input = b""
        self._output = memoryview(b"")
        self._control: list[bytes] = []
        self._accepted_bytes = 0  # by the socket, on this connection
        self._blocked = False  # until the poll says that the socket takes more
        self._writing = False  # the poll tells of that
        self._resting = False  # the socket is read when the timer says so, not when it has something
        self._rest_since_s: float | None = None  # the timer runs since then
        self._deaf = False  # what was read waits for the intake, and the socket is not read meanwhile
        self._settle_timed = False
        self._settling = Settling(self._bridge.limits, settings.limits, bytes_max=BYTES_IN_HAND)
        self._unexpected_publishes = 0
        self._taken_over = False  # the remote has said so of the connection that is ending
        self._kept_s: int | None = None  # how long the remote keeps the session, where that is shorter than it was asked to
        self._takeovers = 0  # connections in a row that ended so
        self._held_until_s: float | None = None
        self._refusals_logged_s = float("-inf")
        self._suspected: dict[int, int] = {}  # messages on which the remote closes -> how often it had when that was last said
        self._input_limits = NOTHING_SUBSCRIBED
        self._intake: RemoteIntake | None = None
        if RemoteIntake.is_wanted(self._bridge, lane):
            self._take_in()
        self._link = "connecting"
        self._link_since_s = self.mailbox.now_s()
        self._retry_at_s = 0.0
        self._error = ""

    # --- hooks ---

    def on_start(self) -> None:
        super().on_start()
        self.ready()

    def on_peer_up(self, name: str, epoch: int) -> None:
        if self._intake is not None:
            self._intake.peer_up(name, epoch)

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Passed():
                self._flow.offer_batch(frame.batch, frame.first_seq, frame.offsets, frame.size_bytes)
                self._read_along()
            case Settled():
                self._flow.committed(frame.number)
            case LaneOpened():
                self._open_lane(frame)
            case Committed():
                if self._intake is not None and not self.is_former(QUEUE_STORE, frame.store):
                    self._intake.frame(frame)
            case SessionOpened():
                if self._intake is not None:
                    self._intake.frame(frame)
            case Command():
                self._obey(frame.verb)
            case _:
                raise AssertionError(f"not for a Connection: {frame}")

    def on_told(self, message: Any) -> None:
        match message:
            case OpeningEnded():
                self._opening = False
                self._opening_ended(message)
            case ProbeEnded():
                self._probe_ended(message)
            case _:
                raise AssertionError(f"not for a Connection: {message}")

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        for token, events in ready:
            if token is not self._remote:
                continue
            if events & WRITE:
                self._blocked = False
            if events & (READ | HANGUP):
                self._guarded(self._read)

    def on_timer(self, name: str, now_s: float) -> None:
        if name == _SETTLE:
            self._settle_timed = False
            self._settle()
        elif name == _REST:
            self._rest_since_s = None
            if self._remote is not None and not self._deaf:
                self._guarded(self._read)
        elif name == _RETRY:
            self._connect()
        elif name == _FIRST:
            self._probe_first(now_s)  # and the turn that it begins ends with a look at what is unfinished
        elif name == _WATCH and self._remote is not None:
            self.mailbox.set_timer(_WATCH, now_s + self._watch.period_s)
            self._look(now_s)
            self._log_refusals(now_s)
        elif self._intake is not None:
            self._intake.timer(name, now_s)

    def on_turn_end(self, now_s: float) -> None:
        if self._intake is not None:
            self._intake.turn_end(now_s)
        if self._remote is not None:
            self._guarded(self._write)
        if self._flow.held_until_s != self._held_until_s:
            self._held_until_s = self._flow.held_until_s
            if self._held_until_s is not None:
                self.mailbox.set_timer(_HELD, self._held_until_s)  # the turn that it begins ends with a write
        self._settle_soon(now_s)
        if self._failback.finishing:
            self._finish(now_s)
        if self._remote is not None:
            self._grant()
            self._rest(now_s)

    def on_stopping(self) -> None:
        self._settle()
        self._disconnect("stopped")
        self.finished()

    def status(self) -> dict[str, Any]:
        now_s = self.mailbox.now_s()
        return {
            "link": {
                "state": self._link,
                "since_s": round(now_s - self._link_since_s, 3),
                "attempt": self._backoff.attempt,
                "retry_in_s": round(max(0.0, self._retry_at_s - now_s), 3) if self._link == "backoff" else 0.0,
                "error": self._error,
                "note": self._note(),
                "address": self._remote.address if self._remote is not None else "",
                "first_address": self._first_address(now_s),
                "session_expiry_s": self._kept_s,
                "in_flight": self._flow.unsettled,
                "suspects": [_facts_of(suspect) for suspect in self._flow.suspects],
            },
            "exchange": asdict(self._flow.counts) | {"unexpected_publishes": self._unexpected_publishes},
            "remote_subscriptions": self._intake.status() if self._intake is not None else {},
        }

    # --- the lane and the supervisor's commands ---

    def _take_in(self) -> None:
        self._intake = RemoteIntake(self, self.settings, self._bridge)
        self._input_limits = self._intake.limits
        self._flow.keep(self._session_at(place_of(address)) for address in self._settings.addresses)
        for name, epoch in self.peers.items():
            self._intake.peer_up(name, epoch)

    def _open_lane(self, frame: LaneOpened) -> None:
        self._disconnect("lane opened anew")
        if frame.receives and self._intake is None:
            self._take_in()
        self._lane_epoch = frame.epoch
        self._number = 0
        self._settling.opened()
        self._flow.open(frame)
        self._credit.clear()
        self._connect()

    def _obey(self, verb: str) -> None:
        if verb == "pause":
            self._paused = True
            self.mailbox.cancel_timer(_RETRY)
            self._settle()
            self._disconnect("paused")
            self._now_is("paused")
        elif verb == "resume":
            self._paused = False
            if self._link == "paused":
                self._connect()
        elif verb == "reconnect":
            if not self._paused:
                self._settle()
                self._disconnect("reconnect was asked for")
                self._connect()
        else:
            raise AssertionError(f"unknown command {verb}")

    # --- connecting ---

    def _connect(self, *, first: str = "", clean: bool = False) -> None:
        """Begin to open the connection, unless that is under way or not wanted; ``first`` is tried first.

        Without it that is the address on record where its session may hold something of ours, or keeps what it has for us.
        """
        self.mailbox.cancel_timer(_RETRY)
        if self._paused or not self._lane_epoch or self._remote is not None:
            return
        self._now_is("connecting")
        if self._opening:
            return
        self._opening = True
        if not first and (self._flow.unfinished or self._intake is not None):
            first = self._flow.session.rpartition("@")[2]
        self.mailbox.in_thread("opening", partial(self._open, self._failback.order(first), clean, first))

    def _open(self, addresses: list[Address], clean: bool, preferred: str) -> None:
        """In a thread of its own: the first of ``addresses`` that lets us in. Only the preferred one is cleaned."""
        ended = OpeningEnded(remote=None, error=None, clean=clean, tried_first=False)
        tried_first = False
        try:
            errors = []
            for address in addresses:
                place = place_of(address)
                cleans = clean and place == preferred
                try:
                    ended = OpeningEnded(
                        remote=open_remote(self._settings, self._client_id, address, clean=cleans, limits=self._input_limits),
                        error=None,
                        clean=cleans,
                        tried_first=tried_first,
                    )
                    break
                except Unavailable as error:
                    errors.append(f"{place}: {error.message}")
                    tried_first |= place == self._failback.first
                    ended = OpeningEnded(remote=None, error=Unavailable("; ".join(errors)), clean=cleans, tried_first=tried_first)
        finally:
            if not self.tell_from_thread(ended) and ended.remote is not None:
                ended.remote.close()

    def _opening_ended(self, ended: OpeningEnded) -> None:
        remote = ended.remote
        if self._paused or self.state == "stopping":
            if remote is not None:
                self._say_disconnect(remote)
            return
        if remote is None:
            assert ended.error is not None, "opening the connection ended without a result"
            self._retry(ended.error)
            return
        session = self._session_at(remote.address)
        if not self._flow.knows(session, remote.connack.session_present):
            log.warning("session.unknown", extra={**self._facts, "address": remote.address})
            self._flow.ends(session)
            self._say_disconnect(remote)
            if ended.clean:
                self._retry(Unavailable("the remote resumes a session that was ended"))
            else:
                self._connect(first=remote.address, clean=True)
            return
        self._connected(remote, session, tried_first=ended.tried_first)

    def _session_at(self, place: str) -> str:
        """What the session at an address is called on record."""
        return f"{self._client_id}@{place}"

    def _connected(self, remote: Remote, session: str, *, tried_first: bool) -> None:
        now_s = self.mailbox.now_s()
        connack = remote.connack
        self._remote = remote
        self._accepted_bytes = 0
        self._error = ""
        self._backoff.connected(now_s)
        self._failback.connected(remote.address, now_s, tried_first=tried_first)
        self._time_first()
        self._watch.started(
            now_s, keep_alive_s=self._settings.keep_alive_s if connack.keep_alive_s is None else connack.keep_alive_s
        )
        self._flow.connected(
            session=session,
            session_present=connack.session_present,
            level=self._settings.protocol,
            receive_maximum=connack.receive_maximum,
            maximum_qos=connack.maximum_qos,
            retain_available=connack.retain_available,
            maximum_packet_size=_smaller(connack.maximum_packet_size, self._settings.packet_max_bytes),
        )
        if self._intake is not None:
            self._intake.connected(remote_session_name(self.name, session, self._flow.session_number), connack)
        self.mailbox.watch(remote.fileno(), READ, remote)
        self.mailbox.set_timer(_WATCH, now_s + self._watch.period_s)
        self._now_is("connected")
        log.info("bridge.connected", extra={**self._facts, "address": remote.address, "session_present": connack.session_present})
        self._look_at_expiry(remote)
        self._tell_event(
            "link.up", "", {"address": remote.address} | ({} if self._kept_s is None else {"session_expiry_s": self._kept_s})
        )
        self._guarded(self._read)  # TLS and WebSocket may hold bytes that the poll does not tell of

    def _look_at_expiry(self, remote: Remote) -> None:
        """Say so if the remote may forget the session sooner than is configured: what outlasts it then is as of a lost session."""
        asked_s, kept_s = self._settings.session_expiry_s, remote.connack.session_expiry_s
        self._kept_s = kept_s if kept_s is not None and kept_s < asked_s else None
        if self._kept_s is not None:
            log.warning(
                "session.expires_early",
                extra={**self._facts, "address": remote.address, "session_expiry_s": kept_s, "asked_s": asked_s},
            )

    def _retry(self, error: BasculeError, *, soon: bool = False) -> None:
        """Wait, longer each time, and connect again; ``soon``: this once, not longer than at first."""
        now_s = self.mailbox.now_s()
        delay_s = self._backoff.next_delay_s()
        if soon:
            delay_s = min(delay_s, self._bridge.backoff.initial_s)
        self._error = str(error.message)
        self._retry_at_s = now_s + delay_s
        self.mailbox.set_timer(_RETRY, self._retry_at_s)
        self._now_is("backoff")
        log.warning("bridge.retry", extra={**self._facts, "delay_s": round(delay_s, 3), "error": self._error})

    # --- back to the first address ---

    def _time_first(self) -> None:
        wakes_at_s = self._failback.wakes_at_s
        if wakes_at_s is not None:
            self.mailbox.set_timer(_FIRST, wakes_at_s)

    def _probe_first(self, now_s: float) -> None:
        wanted = self._failback.probe(now_s)
        if wanted is not None:
            self.mailbox.in_thread("probing", partial(self._probe, *wanted))

    def _probe(self, number: int, address: Address) -> None:
        """In a thread of its own."""
        error = "it could not be probed"
        try:
            probe_remote(self._settings, address)
            error = ""
        except Unavailable as unavailable:
            error = unavailable.message
        finally:
            self.tell_from_thread(ProbeEnded(number=number, error=error))

    def _probe_ended(self, ended: ProbeEnded) -> None:
        self._failback.probed(ended.number, self.mailbox.now_s(), ended.error)
        self._time_first()
        if self._failback.finishing:
            self._flow.finish(True)
            log.info("bridge.returning", extra={**self._facts, "address": self._failback.first})

    def _finish(self, now_s: float) -> None:
        """Go to the first address once nothing is unfinished at this one, or stay if that takes too long."""
        if self._failback.leaves(now_s, unfinished=self._unfinished):
            self._settle()
            self._disconnect(f"back to {self._failback.first}")
            self._connect(first=self._failback.first)
        elif not self._failback.finishing:
            self._flow.finish(False)
            self._time_first()
            log.warning("bridge.stays", extra={**self._facts, "why": self._failback.error})
            self._guarded(self._write)

    @property
    def _unfinished(self) -> bool:
        """Whether to leave now would cut off an exchange, ours or the remote's."""
        busy = self._intake is not None and not self._intake.idle
        return busy or bool(self._output) or bool(self._control) or self._flow.unfinished

    def _first_address(self, now_s: float) -> dict[str, Any]:
        """What ``status`` says of the first address while a later one is used."""
        failback = self._failback
        if not failback.later:
            return {}
        next_s = failback.next_probe_s(now_s)
        return {
            "address": failback.first,
            "returning": failback.finishing,
            "next_probe_s": None if next_s is None else round(next_s, 3),
            "error": failback.error,
        }

    # --- disconnecting ---

    def _disconnect(self, reason: str) -> None:
        """End the connection in good order, if there is one; the session stays."""
        if self._remote is not None:
            if not self._output:
                self._say(self._remote, DISCONNECT)
            self._drop(reason)

    def _drop(self, reason: str, *, by_remote: bool = False) -> None:
        remote = self._remote
        assert remote is not None
        self.mailbox.forget(remote.fileno())
        remote.close()
        self._remote = None
        untaken, self._input = self._input, b""
        self._output = memoryview(b"")
        self._control.clear()
        self._blocked = self._writing = self._resting = self._deaf = False
        self._rest_since_s = None
        self._flow.disconnected(by_remote=by_remote)
        if self._intake is not None:
            self._intake.disconnected(untaken)
        self.mailbox.cancel_timer(_REST)
        self._takeovers = self._takeovers + 1 if self._taken_over else 0
        self._taken_over = False
        self._backoff.lost(self.mailbox.now_s())
        self._failback.disconnected()
        for name in (_WATCH, _FIRST):
            self.mailbox.cancel_timer(name)
        log.info("bridge.disconnected", extra={**self._facts, "address": remote.address, "reason": reason})
        self._tell_event("link.down", reason, {"address": remote.address})
        if by_remote:
            self._tell_suspects()

    def _tell_suspects(self) -> None:
        """Say for which messages the remote closes its connections, each time, and of which it was proven."""
        for suspect in self._flow.suspects:
            if suspect.closed > self._suspected.get(suspect.seq, 0):
                log.warning("message.suspected", extra={**self._facts, **_facts_of(suspect)})
                if suspect.closed == 1:
                    self._tell_blamed("message.suspected", suspect)
        self._suspected = {suspect.seq: suspect.closed for suspect in self._flow.suspects}
        for blamed in self._flow.take_convicted():
            log.warning("message.given_up", extra={**self._facts, **_facts_of(blamed), "on_refusal": self._policy.closed})
            self._tell_blamed("message.given_up", blamed)
            self._backoff.reset()  # it takes others

    def _tell_blamed(self, kind: str, blamed: Blamed) -> None:
        details: dict[str, str | int] = {"seq": blamed.seq, "topic": blamed.topic, "bytes": blamed.packet_bytes}
        self._tell_event(kind, "connection_closed", details, count=blamed.closed)

    def _tell_event(self, kind: str, reason: str, details: Mapping[str, str | int], *, count: int = 0) -> None:
        """Have the store keep what happened to the link; if it is gone, so is that."""
        bridge, lane = self._place
        self.send(
            QUEUE_STORE,
            NodeEvents(events=((self.mailbox.wall_ms(), kind, bridge, lane, self.name, reason, count, details),)),
        )

    def _say_disconnect(self, remote: Remote) -> None:
        self._say(remote, DISCONNECT)
        remote.close()

    def _say(self, remote: Remote, data: bytes) -> None:
        """Last words; a remote that does not hear them any more does not need them."""
        try:
            remote.send(memoryview(data))
        except Unavailable as error:
            log.debug("remote.deaf", extra={**self._facts, "error": str(error)})

    def _guarded(self, step: Any) -> None:
        """Take ``step`` on the connection; if that or the remote fails, drop it and wait before the next."""
        try:
            step()
        except Unavailable as error:
            self._drop(error.message, by_remote=bool(error.fields.get("by_remote")))
            self._retry(error, soon=self._flow.wants_another)
        except PeerViolation as error:
            log.warning("remote.violated", extra={**self._facts, "error": str(error)})
            if self._remote is not None and not self._output and self._settings.protocol == LEVEL_5:
                self._say(self._remote, bytes((remote_packets.DISCONNECT, 1, error.reason_code)))
            self._drop(error.message)
            self._retry(error)

    # --- the exchange ---

    def _read(self) -> None:
        remote = self._remote
        assert remote is not None
        data = remote.receive()
        if not data:
            return
        self._watch.received(self.mailbox.now_s())
        self._parse(self._input + data if self._input else data)

    def _parse(self, buffer: bytes) -> None:
        position = 0
        while True:
            position = self._flow.received(buffer, position)
            if self._intake is not None:
                position, before = self._intake.take(buffer, position), position
                if self._intake.blocked:
                    break
                if position != before:
                    continue
            packet = remote_packets.next_packet(
                buffer,
                position,
                bytes_max=self._input_limits.packet_max_bytes,
                publish_bytes_max=self._input_limits.publish_max_bytes(self._settings.protocol),
            )
            if packet is None:
                break
            self._take(packet)
            position = packet.end
        self._input = buffer[position:]

    def _take(self, packet: remote_packets.RemotePacket) -> None:
        """Anything but an acknowledgement of ours."""
        if packet.first_byte == remote_packets.PINGRESP:
            return
        if self._intake is not None and self._intake.packet(packet):
            return
        if remote_packets.is_publish(packet):
            self._unexpected_publishes += 1
            if self._unexpected_publishes == 1:
                log.warning("remote.unexpected_publish", extra=self._facts)
            self._control.append(remote_packets.acknowledge(packet))
            return
        if packet.first_byte == remote_packets.DISCONNECT and self._settings.protocol == LEVEL_5:
            self._hear_farewell(remote_packets.farewell(packet))
        raise PeerViolation("MQTT-2.1.2 packet that only a client may send, or of no known type", first_byte=packet.first_byte)

    def _hear_farewell(self, farewell: remote_packets.Farewell) -> NoReturn:
        """The remote ends the connection and says why (MQTT 5)."""
        said = {"reason": farewell.name, "reason_code": f"0x{farewell.reason_code:02x}"}
        if farewell.reason_string:
            said["said"] = farewell.reason_string
        if farewell.server_reference:
            said["server_reference"] = farewell.server_reference
        log.warning("remote.disconnected", extra={**self._facts, **said})
        self._taken_over = farewell.reason_code == ReasonCode.SESSION_TAKEN_OVER
        if self._taken_over and self._takeovers:
            log.warning(
                "session.contended",
                extra={**self._facts, "client_id": self._client_id, "why": "another client uses this client identifier"},
            )
        raise Unavailable(
            f"the remote disconnected: {farewell.name} (0x{farewell.reason_code:02x})",
            by_remote=farewell.reason_code in MAY_MEAN_A_MESSAGE,
        )

    def _write(self) -> None:
        """Send bursts until nothing may leave, the socket is full, or it is another's turn."""
        remote = self._remote
        assert remote is not None
        if self._blocked:
            return
        for _ in range(BURSTS_PER_TURN_MAX):
            if not self._output:
                burst = self._flow.pump(BURST_BYTES, self.mailbox.now_s(), self.mailbox.wall_ms())
                if self._control:
                    burst = b"".join(self._control) + burst
                    self._control.clear()
                if not burst:
                    break
                self._output = memoryview(burst)
            sent = remote.send(self._output)
            if sent:
                self._accepted_bytes += sent
                self._watch.sent(self.mailbox.now_s())
            self._output = self._output[sent:]
            if self._output and not sent:
                break
        else:
            self._block(remote)
            return
        if self._output:
            self._block(remote)
        elif self._writing:
            self._writing = False
            self._listen(remote)

    def _rest(self, now_s: float) -> None:
        """Read the socket by the timer while that costs nothing, else whenever it has something."""
        flow, remote = self._flow, self._remote
        assert remote is not None
        rest_s = 0.0
        if flow.in_flight and not flow.in_flight_qos2:
            if flow.in_flight * 4 < flow.window:
                rest_s = REST_OPEN_S
            elif flow.window >= REST_WINDOW_MIN and flow.in_flight * 2 > flow.window:
                rest_s = REST_BUSY_S
        if self._resting != bool(rest_s):
            self._resting = bool(rest_s)
            self._listen(remote)
        if rest_s and self._rest_since_s is None:
            self._rest_since_s = now_s
            self.mailbox.set_timer(_REST, now_s + rest_s)

    def _read_along(self) -> None:
        """Read what has gathered, now that there is a turn anyway, and wait anew for the next."""
        if self._rest_since_s is not None and not self._deaf and self.mailbox.now_s() - self._rest_since_s >= REST_LEAST_S:
            self._rest_since_s = None
            self.mailbox.cancel_timer(_REST)
            self._guarded(self._read)

    def _listen(self, remote: Remote) -> None:
        self.mailbox.watch(remote.fileno(), (0 if self._resting or self._deaf else READ) | (WRITE if self._writing else 0), remote)

    def _block(self, remote: Remote) -> None:
        """Go on when the poll says that the socket takes more."""
        self._blocked = True
        if not self._writing:
            self._writing = True
            self._listen(remote)

    def _look(self, now_s: float) -> None:
        assert self._remote is not None
        left = self._accepted_bytes - self._remote.unsent_bytes()
        verdict = self._watch.look(now_s, owed=self._flow.owed, given=self._given_bytes, left=left)
        if verdict is Verdict.PING:
            self._control.append(remote_packets.PINGREQ)
        elif verdict is Verdict.STALLED:
            log.warning("connection.stalled", extra={**self._facts, "in_flight": self._flow.in_flight})
            self._lost("no acknowledgement in time")
        elif verdict is Verdict.SILENT:
            self._lost("no PINGRESP in time")

    @property
    def _given_bytes(self) -> int:
        """What was written on this connection, or waits for the socket."""
        return self._accepted_bytes + len(self._output) + sum(map(len, self._control))

    def _log_refusals(self, now_s: float) -> None:
        """What was refused since the last time; the first at once, then at most every few seconds."""
        if now_s - self._refusals_logged_s < REFUSALS_LOGGED_EACH_S:
            return
        refusals = self._flow.take_refusals()
        if refusals:
            self._refusals_logged_s = now_s
            named = {f"{reason_name(code)} (0x{code:02x})": count for code, count in sorted(refusals.items())}
            held_s = max(0.0, (self._flow.held_until_s or now_s) - now_s)
            log.warning("messages.refused", extra={**self._facts, "reasons": named, "held_back_s": round(held_s, 3)})

    def _note(self) -> str:
        """What an operator should know of the link beside its state."""
        if self._takeovers > 1:
            return "another client uses this client identifier"
        reason_code = self._flow.refused_with
        if reason_code:
            return f"remote says {reason_name(reason_code)}"
        suspects = self._flow.suspects
        if not suspects and self._failback.later:
            return self._failback.note(self.mailbox.now_s())
        if not suspects:
            return "" if self._kept_s is None else f"remote keeps the session {self._kept_s} s only"
        worst = suspects[0]
        others = f" and on {len(suspects) - 1} more" if len(suspects) > 1 else ""
        return f"remote closes on message {worst.seq} ({worst.topic[:40]}, {worst.packet_bytes} B), {worst.closed} times{others}"

    def _lost(self, reason: str) -> None:
        self._drop(reason)
        self._retry(Unavailable(reason))

    # --- for the intake ---

    def say(self, data: bytes) -> None:
        """Write ``data``, whole packets, before the next burst."""
        self._control.append(data)

    def say_subscribe(self, data: bytes) -> None:
        """Write ``data``, which ends with a SUBSCRIBE, before the next burst; ``suback_due_s`` runs from when it is out."""
        self._control.append(data)
        self._watch.subscribing(self.mailbox.now_s(), self._given_bytes)

    @property
    def suback_due_s(self) -> float:
        """When the remote will have had the time for its SUBACK."""
        return self._watch.suback_due_s

    def parse_on(self) -> None:
        """Go on with what waited for the intake."""
        if self._remote is not None:
            self._guarded(partial(self._parse, self._input))

    def hear(self, heard: bool) -> None:
        """Stop or go on reading the socket."""
        if self._remote is not None and heard == self._deaf:
            self._deaf = not heard
            self._listen(self._remote)

    def give_up(self, reason: str) -> None:
        """Drop the connection and wait before the next."""
        if self._remote is not None:
            self._lost(reason)

    def remake(self, reason: str) -> None:
        """Connect again at once."""
        self._settle()
        self._disconnect(reason)
        self._connect()

    @property
    def session_known(self) -> bool:
        """Whether the store knows this connection's session by its number."""
        return self._flow.session_known

    # --- towards the Forwarder ---

    def _settle_soon(self, now_s: float) -> None:
        """Send what was settled now, or within a moment."""
        settled = self._flow.settled_messages
        if self._flow.urgent or self._settling.is_enough(settled, self._flow.passed_bytes):
            self._settle()
        elif settled and not self._settle_timed:
            self._settle_timed = True
            self.mailbox.set_timer(_SETTLE, now_s + SETTLE_DELAY_S)

    def _settle(self) -> None:
        if not self._lane_epoch:
            return
        facts = self._flow.facts(self._number + 1)
        if facts is None:
            return
        self._number += 1
        self._settling.told(self._flow.passed_bytes)
        self.send(
            self._forwarder,
            Settle(
                queue=self._queue,
                epoch=self._lane_epoch,
                number=self._number,
                settled=facts.settled,
                released=facts.released,
                session=facts.session,
                generation=facts.generation,
                left=self._flow.left if facts.session is not None else (),
            ),
        )

    def _grant(self) -> None:
        granted = self._credit.grant(self._flow.passed_messages, self._flow.passed_bytes)
        if granted is not None:
            self.send(
                self._forwarder,
                Credit(queue=self._queue, epoch=self._lane_epoch, messages=granted[0], size_bytes=granted[1]),
            )

    def _now_is(self, state: str) -> None:
        if state != self._link:
            self._link = state
            self._link_since_s = self.mailbox.now_s()
            self.send(self._forwarder, LinkState(state=state))


def _facts_of(blamed: Blamed) -> dict[str, str | int]:
    """The message for a log line and for ``status``; ``closed``: how often the remote closed on it."""
    return {"seq": blamed.seq, "topic": blamed.topic, "bytes": blamed.packet_bytes, "closed": blamed.closed}


def _smaller(one: int | None, other: int | None) -> int | None:
    """The smaller of two limits, None being no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)
