"""The receiver's half of a Connection: SUBSCRIBE, the remote's PUBLISHes to the Distributor, and the answers after their commit.

It belongs to the first lane of a bridge with remote subscriptions, so that a message comes once and a topic stays in order, and to
each other one of ``lanes`` for those that are shared; also when the configuration has lost the last of them, or the lane, and
something of it is on record: filters to give up, exchanges to complete. What is taken, answered and left out is decided by
``wire/exchange/remote_inbox.py``, what is asked for by ``wire/exchange/remote_subscriptions.py``; the socket is the Connection's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from actors.bridge.lane_names import Lane
from actors.process.mailbox import Mailbox
from actors.remote.remote_socket import LEVEL_5, Connack, InputLimits
from wire.config_settings import NodeSettings, RuleSettings
from wire.exchange import remote_packets
from wire.exchange.remote_inbox import RemoteInbox
from wire.exchange.remote_limits import RemoteLimits
from wire.exchange.remote_subscriptions import RemoteSubscriptions
from wire.frames.intake import Committed, SenderResumes, SessionOpen, SessionOpened
from wire.frames.names import DISTRIBUTOR, LISTENER, QUEUE_STORE
from wire.frames.sending_link import BATCH_BYTES_MAX, BATCH_ROWS_MAX
from wire.mqtt.codec import decode
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S, Pubrel, Suback, Unsuback
from wire.mqtt.topics import TopicLimits
from wire.routing.echo_filter import EchoFilter
from wire.routing.form_from_remote import LocalForm
from wire.status.bridges import RemoteSubscriptionFigures

log = logging.getLogger("bascule")

LOGGED_TOPICS_MAX = 1000

_SUBACK, _RESEND, _QUIET = "suback", "resend", "quiet"


class Writer(Protocol):
    """Packets to the remote besides our messages; ``suback_due_s``: until when the SUBACK to the last SUBSCRIBE has time."""

    def say(self, data: bytes) -> None: ...
    def say_subscribe(self, data: bytes) -> None: ...
    def on_subscribed(self) -> None: ...
    @property
    def suback_due_s(self) -> float: ...


class RemoteIntake:
    """Takes what the remote publishes. ``limits`` is what the remote is told in CONNECT."""

    def __init__(
        self,
        mailbox: Mailbox,
        epoch: int,
        settings: NodeSettings,
        lane: Lane,
        *,
        writer: Writer,
        session_known: Callable[[], bool],
        echoes: EchoFilter | None = None,
    ) -> None:
        """epoch: of this life of the actor that has the ``mailbox``. session_known: whether the store knows the number of this
        connection's session. echoes: knows what the remote sends back, if it does.
        """
        bridge, remote = lane.bridge, lane.bridge.remote
        self.writer = writer
        self._mailbox = mailbox
        self._epoch = epoch
        self._session_known = session_known
        self._facts = lane.facts
        self._level = remote.levels[0]  # of the live connection, or of the last
        self._remote = remote
        self._session = ""
        self.limits = InputLimits(packet_max_bytes=settings.clients.packet_max_bytes, receive_maximum=remote.receive_maximum)
        clients = settings.clients
        limits = TopicLimits.of(clients)
        self._echoes = echoes
        self._form = LocalForm(
            bridge,
            packet_max_bytes=clients.packet_max_bytes,
            topic_limits=limits,
            echoes_in=None if echoes is None else echoes.take,
        )
        rows_most, bytes_most = settings.remote_batch or settings.largest_remote_batch
        self._inbox = RemoteInbox(
            self._form,
            sender=mailbox.name,
            epoch=epoch,
            packet_max_bytes=self.limits.packet_max_bytes,
            topic_alias_maximum=remote.topic_aliases,
            rows_max=BATCH_ROWS_MAX if rows_most is None else max(1, min(BATCH_ROWS_MAX, rows_most)),
            # The packet with which a batch is full may be as large as a packet can be.
            bytes_max=BATCH_BYTES_MAX
            if bytes_most is None
            else max(1, min(BATCH_BYTES_MAX, bytes_most - clients.packet_max_bytes)),
        )
        self._subscriptions = RemoteSubscriptions(
            bridge.taken_by(lane.label),
            no_local=bridge.loop_prevention.enabled,
            retain_handling=remote.retain_handling,
        )
        self._packet_max_bytes: int | None = None
        self._opening = False  # the session is to be opened
        self._request = 0
        self._asked = False
        self._resend_timed = False
        self._quiet_since = 0  # how much was received when the remote was last seen to send something
        self._in_part = False  # of the next packet a part has come
        self._logged_topics: set[bytes] = set()

    def subscribe_to(self, rules: Sequence[RuleSettings]) -> bool:
        """From the next connection on subscribe to these, and give up the rest; whether they are others than before."""
        return self._subscriptions.change(rules)

    def status(self) -> RemoteSubscriptionFigures:
        """Figures for ``bascule status``."""
        counts, form = self._inbox.counts, self._form
        return RemoteSubscriptionFigures(
            filters=self._subscriptions.filters,
            granted=len(self._subscriptions.granted),
            refused={topic_filter: f"0x{code:02x}" for topic_filter, code in self._subscriptions.refused.items()},
            received=counts.received,
            duplicates=counts.duplicates,
            looped=form.looped,
            echoes=0 if self._echoes is None else self._echoes.echoes,
            unmatched=form.unmatched,
            too_large=form.too_large,
            dropped=counts.dropped,
            skipped=counts.skipped,
            waiting=self._inbox.gathered,
            outstanding_batches=self._inbox.outstanding,
        )

    # --- connections and peers ---

    def on_connected(self, session: str, connack: Connack, limits: RemoteLimits, level: int) -> None:
        """A CONNACK came: open the session; packets are taken, and SUBSCRIBE is sent, when the store has answered.

        session: its name on record. A session that started again has another number, and nothing on record. limits: the limits of
        the remote. level: of the protocol.
        """
        self._session = session
        self._level = level
        asked_s = self._remote.session_expiry_s if level == LEVEL_5 else SESSION_NEVER_EXPIRES_S
        keeps = not self._remote.clean_start and asked_s > 0 and connack.session_expiry_s != 0
        self._inbox.on_connected(session, level=level, remote_keeps=keeps)
        self._packet_max_bytes = limits.packet_max_bytes
        self._subscriptions.limit(limits, level)
        self._opening, self._asked = True, False
        self._request += 1
        self._open_session()

    def on_disconnected(self) -> None:
        """The connection is gone."""
        self._inbox.on_disconnected()
        self._subscriptions.forget()
        self._opening = self._in_part = False
        for name in (_SUBACK, _QUIET):
            self._mailbox.cancel_timer(name)

    def peer_up(self, name: str, epoch: int) -> None:
        """A peer began a new life: what it had of ours is lost."""
        if name == LISTENER:
            self._inbox.batches.know(epoch)
        if name not in (DISTRIBUTOR, QUEUE_STORE):
            return
        self._mailbox.send(name, SenderResumes(sender=self._mailbox.name, epoch=self._epoch, number=self._inbox.next_number))
        if name == QUEUE_STORE:
            self._asked = False
            self._open_session()
        self._resend()

    def _open_session(self) -> None:
        """Ask for the identifiers on record, once nothing is on its way that would change them.

        A session that is new has to be on record first: while it is not, a crash makes another one of it.
        """
        if not self._opening or self._asked or not self._inbox.idle or not self._session_known():
            return
        self._asked = True
        self._ask_session(filters=self._subscriptions.asked_for)

    def _ask_session(self, *, filters: tuple[str, ...] = (), given_up: tuple[str, ...] = ()) -> None:
        self._request += 1  # asked twice, only the last answer counts
        self._mailbox.send(
            QUEUE_STORE,
            SessionOpen(
                sender=self._mailbox.name,
                epoch=self._epoch,
                request=self._request,
                session=self._session,
                clean=False,
                expiry_s=SESSION_NEVER_EXPIRES_S,
                filters=filters,
                given_up=given_up,
            ),
        )

    # --- frames and timers ---

    def frame(self, frame: Committed | SessionOpened) -> None:
        """An answer of the store."""
        if frame.sender != self._mailbox.name or frame.epoch != self._epoch:
            return
        if isinstance(frame, SessionOpened):
            self._on_session_opened(frame)
            return
        answers = self._inbox.on_committed(frame, self._mailbox.now_s())
        if answers:
            self.writer.say(answers)

    def _on_session_opened(self, frame: SessionOpened) -> None:
        known = [topic_filter for topic_filter, *_ in frame.subscriptions]
        if not self._opening and frame.session == self._session:
            self._subscriptions.on_record(known)
        if not self._opening or frame.request != self._request:
            return
        self._opening = False
        self._inbox.on_opened(frame.received)
        self.writer.say_subscribe(self._subscriptions.subscribe(self._packet_max_bytes, known))
        self._await_quiet(self._mailbox.now_s())
        if self._subscriptions.answered:
            self._on_subscribed()
        else:
            self._mailbox.set_timer(_SUBACK, self.writer.suback_due_s)

    def timer(self, name: str, now_s: float) -> str:
        """A timer that may be of the intake has run out: why the connection is to be given up, if it is."""
        if name == _SUBACK:
            if self._inbox.blocked or self._in_part:  # it may be among what waits, or behind what is coming
                self._mailbox.set_timer(_SUBACK, now_s + self._remote.connect_timeout_s)
            elif not self._subscriptions.answered:
                if self.writer.suback_due_s > now_s:
                    self._mailbox.set_timer(_SUBACK, self.writer.suback_due_s)
                else:
                    return "no SUBACK in time"
        elif name == _QUIET:
            self._look_at_quiet(now_s)
        elif name == _RESEND:
            self._resend_timed = False
            if self._inbox.poll_stalled(now_s):
                self._resend()
            self._time_resend(now_s)
        return ""

    def _await_quiet(self, now_s: float) -> None:
        if self.gives_up:
            self._quiet_since = self._inbox.counts.received
            self._mailbox.set_timer(_QUIET, now_s + self._remote.connect_timeout_s)

    def _look_at_quiet(self, now_s: float) -> None:
        """All is given up: once the remote has sent nothing more for a while, that goes on record, and the lane may end. It is said
        again until it is there: a store may die with it.
        """
        given_up = self._subscriptions.given_up
        if given_up and self.idle and self._quiet_since == self._inbox.counts.received and self._session_known():
            self._ask_session(given_up=given_up)
        self._await_quiet(now_s)

    def flush_turn(self, now_s: float) -> bool:
        """Send what the turn brought: whether what had to wait for that can be taken now."""
        self._send_due(now_s)
        return self._inbox.blocked and self._inbox.takes

    def turn_end(self, now_s: float) -> bool:
        """Do what has become possible in the turn: whether a new connection is due, to have again what was left out
        (exchange.inbox-bounded).
        """
        self._open_session()
        self._log_oddities()
        return self._inbox.remake

    # --- packets ---

    @property
    def idle(self) -> bool:
        """Whether all that has come is committed, and answered as far as it can be. A large packet may be coming for long."""
        return self._inbox.idle and not self._inbox.blocked and not self._in_part

    @property
    def gives_up(self) -> bool:
        """Whether all that was subscribed to is being given up, and that is not on record yet."""
        return self._subscriptions.leaves_all

    @property
    def received(self) -> int:
        """Messages that came, in all."""
        return self._inbox.counts.received

    @property
    def blocked(self) -> bool:
        """Whether the next packet cannot be taken now."""
        return self._inbox.blocked

    def take(self, buffer: bytes, position: int) -> int:
        """Take the PUBLISHes at ``position``; the position after them. It is called again until it takes nothing more."""
        position = self._inbox.take(buffer, position)
        self._in_part = position < len(buffer)
        return position

    def packet(self, packet: remote_packets.RemotePacket) -> bool:
        """Act on ``packet`` if it is of the receiver's half, and answers something if it is an answer; whether it did.

        Raises:
            PeerViolation: it is malformed.
        """
        if packet.first_byte & 0xF0 not in (remote_packets.PUBREL & 0xF0, remote_packets.SUBACK, remote_packets.UNSUBACK):
            return False
        match decode(packet.first_byte, packet.body, self._level):
            case Pubrel(packet_id=packet_id):
                self._inbox.pubrel(packet_id)
            case Suback() as suback:
                if not self._subscriptions.suback(suback):
                    return False
                if self._subscriptions.answered:
                    self._mailbox.cancel_timer(_SUBACK)
                    self._on_subscribed()
            case Unsuback() as unsuback:
                if not self._subscriptions.unsuback(unsuback):
                    return False
                if (given_up := self._subscriptions.given_up) and not self.gives_up:
                    self._ask_session(given_up=given_up)
        return True

    # --- batches ---

    def _send_due(self, now_s: float) -> None:
        frame = self._inbox.next_batch(now_s, self._mailbox.wall_ms())
        if frame is not None:
            self._mailbox.send(DISTRIBUTOR, frame)
            self._time_resend(now_s)

    def _resend(self) -> None:
        for frame in self._inbox.resend(self._mailbox.now_s()):
            self._mailbox.send(DISTRIBUTOR, frame)

    def _time_resend(self, now_s: float) -> None:
        if self._inbox.outstanding and not self._resend_timed:
            self._resend_timed = True
            self._mailbox.set_timer(_RESEND, max(now_s, self._inbox.overdue_at_s))

    # --- the log ---

    def _on_subscribed(self) -> None:
        self.writer.on_subscribed()
        if not self._subscriptions.filters:
            return
        refused = self._subscriptions.refused
        log.info("remote.subscribed", extra={**self._facts, "granted": self._subscriptions.granted})
        if refused:
            codes = {topic_filter: f"0x{code:02x}" for topic_filter, code in refused.items()}
            log.warning("remote.subscription_refused", extra={**self._facts, "filters": codes})

    def _log_oddities(self) -> None:
        """Once for each topic that no rule has or of which one was too large (dropped), or that cannot be mapped (it stays)."""
        for event, topics in (
            ("remote.unmatched", self._form.unmatched_topics),
            ("remote.too_large", self._form.too_large_topics),
            ("topic.unmapped", self._form.unmapped_topics),
        ):
            if not topics:
                continue
            if new := topics - self._logged_topics:
                self._logged_topics = (self._logged_topics | new) if len(self._logged_topics) < LOGGED_TOPICS_MAX else new
                log.warning(event, extra={**self._facts, "topics": sorted(map(repr, new))[:10]})
            topics.clear()
