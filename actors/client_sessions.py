"""The sessions of local clients as the Listener sees them: CONNECT and CONNACK, take-over, the end of a connection, Wills.

What outlives a connection is kept by the store; it is asked here, and told. Terms are ``wire/greeting.py``'s.

C1  a session is looked up once every batch that changes its identifiers, or has its Will, is committed.
C2  a client identifier has one connection; a newer one ends the older first [MQTT-3.1.4-3].
C3  a Will is published unless DISCONNECT with 0x00 came, or the session was resumed before its delay had passed [MQTT-3.1.3-9]: who
    gets no CONNACK has not resumed it.
C4  no session is looked up before it is known which Wills an earlier life of the Listener has left.
C5  what a connection's end has changed of its session is told to a new store again, until one has committed it.
C6  no session is looked up while an operator ends it: who comes meanwhile gets a new one, and the Will of the old one is out first.
C7  a client whose session ends with its connection is let in without the store, where nothing that lasts is on record under its
    identifier: there is nothing to find and nothing to keep. With a Will, which is to be on record, it waits for the store, but not
    for long: from then on the Will is in memory only until the store takes it, and lost if too many wait for that.
C8  whoever needs the store is refused where that does not answer [MQTT-3.2.2-7]; what is asked for an identifier is asked once at a
    time, so that those who try again do not pile up.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from actors.access import Access, Verdict
from actors.client import Client
from actors.client_batches import ClientBatches
from actors.client_host import ClientHost
from actors.handed_over import SessionDown, SessionUp
from wire.access_rules import resolve
from wire.batch import OFFERED, REFUSABLE, RETAIN, unpack_column
from wire.frames import (
    SessionClose,
    SessionClosed,
    SessionGone,
    SessionOpen,
    SessionOpened,
    SessionsKnown,
)
from wire.greeting import LoginFault, Welcome, judge_connect, refuse_login
from wire.inbound import InboundFlow
from wire.mqtt.aliases import OutgoingAliases
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Connack, Connect, Disconnect, Packet, Will
from wire.mqtt.properties import encode_properties
from wire.mqtt.reason_codes import ReasonCode, protocol_error
from wire.mqtt.topics import TopicLimits
from wire.names import DISTRIBUTOR, QUEUE_STORE
from wire.settings import NodeSettings
from wire.sys_topics import is_reserved
from wire.wills import Message, PendingWill, PendingWills, RefusedWill, RefusedWills

log = logging.getLogger("bascule")

LATE_S = 0.5  # a client with a Will does not wait longer for the store
UNANSWERED_S = 10.0  # and who needs the store, not longer than this, beside the flush period
RETRY_WILLS_S = 1.0
RETRIED_WILLS_MAX = 100  # at a time
UNRECORDED_WILLS_MAX = 10_000  # Wills that wait, beside which no further one is kept in memory only
NO_SOURCE = 0  # a connection that nothing waits behind


@dataclass(slots=True)
class Opening:
    """A client between its CONNECT and its CONNACK, or with a Will that the store has not got yet.

    since_s: when it might first have been asked for. asked: the store was. let_in: it has its CONNACK (C7). pending: the Will of
    its session that it takes back by its CONNACK, and not before (C3).
    """

    client: Client
    welcome: Welcome
    since_s: float
    asked: bool = False
    let_in: bool = False
    pending: PendingWill | None = None


class ClientSessions:
    """Begins and ends sessions, and publishes Wills."""

    def __init__(
        self,
        host: ClientHost,
        settings: NodeSettings,
        access: Access,
        batches: ClientBatches,
        welcomed: Callable[[Client], None],
    ) -> None:
        """``welcomed`` is told of a client that has its CONNACK; what it has sent meanwhile has not been read."""
        self._host = host
        self._access = access
        self._batches = batches
        self._welcomed = welcomed
        self._limits = settings.clients
        self._settings = settings.sessions
        self._answers_may_be_lost = settings.persistence.answers_may_be_lost
        self._unanswered_s = UNANSWERED_S + settings.persistence.flush_period_s
        self._topic_limits = TopicLimits(settings.clients.topic_levels_max, settings.clients.topic_max_bytes)
        self._clients: dict[str, Client] = {}
        self._openings: dict[int, Opening] = {}
        self._resuming: dict[int, Client] = {}
        self._requests = 0
        self._known = False
        self._wills = PendingWills()
        self._refused = RefusedWills()
        self._refused_retry_s = 0.0
        self._closing: dict[int, SessionClose] = {}  # by connection; not known to be committed
        self._ending: set[str] = set()
        self._lasting: dict[str, int] = {}  # what may be on record of sessions that last -> the connection that asked last, or 0
        self._left: dict[str, int] = {}  # who went without an answer -> the connection, until its end is committed (C8)
        self._let_in: list[Opening] = []  # at the turn's end

    @property
    def pending_wills(self) -> int:
        """Wills that wait for their delay to pass."""
        return len(self._wills)

    @property
    def refused_wills(self) -> int:
        """Wills for which there was no room yet."""
        return len(self._refused)

    # --- CONNECT ---

    def connect(self, client: Client, connect: Connect) -> None:
        """Let the client in, or not."""
        client.level = connect.level
        self._host.greeted(client)
        if connect.will is not None and not self._topic_limits.allow(connect.will.topic):
            self._host.limited("topic_limits")
            if connect.level == MQTT_5_0:
                self._send(client, Connack(session_present=False, reason_code=ReasonCode.TOPIC_NAME_INVALID))
            self._host.close_client(client, "refused")
            return
        judged = judge_connect(connect, self._limits, self._settings, new_id=f"auto-{uuid.uuid4().hex}")
        if isinstance(judged, Connack):
            least = connect.properties.maximum_packet_size
            if least is None or len(encode(judged, client.level)) <= least:
                self._send(client, judged)
            self._host.close_client(client, "refused")
            return
        client.hear(False)  # what it sends before its CONNACK waits in its socket
        self._access.judge(client, connect, partial(self._admit, client, judged, connect.will))

    def _admit(self, client: Client, welcome: Welcome, will: Will | None, verdict: Verdict) -> None:
        """Go on with a client that may come in, and has not gone meanwhile; send the others away [MQTT-3.1.4-2]."""
        if verdict is None:
            client.session = welcome.client_id
            self._access.give_rights(client)
            if will is not None and (is_reserved(will.topic) or not self._access.may_publish(client, will.topic.encode())):
                verdict = LoginFault.WILL_FORBIDDEN
        older = self._clients.get(welcome.client_id)
        if verdict is None and older is not None and not self._access.may_take_over(client, older):
            verdict = LoginFault.ANOTHERS
        if verdict is not None:
            self._send(client, refuse_login(verdict, client.level))
            self._host.close_client(client, "refused")
            return
        if older is not None:
            if older.level == MQTT_5_0 and older.flow is not None:
                self._send(older, Disconnect(reason_code=ReasonCode.SESSION_TAKEN_OVER))
            self._host.close_client(older, "taken_over")  # C2
        self._clients[welcome.client_id] = client
        client.expiry_s = welcome.expiry_s
        client.keep_alive.keep_alive_s = welcome.keep_alive_s
        client.receive_maximum = welcome.receive_maximum
        client.packet_max_bytes = welcome.packet_max_bytes
        client.aliases = OutgoingAliases(welcome.topic_alias_maximum) if welcome.topic_alias_maximum else None
        client.will = None if will is None else _message(will)
        self._requests += 1
        self._openings[self._requests] = Opening(client, welcome, self._host.mailbox.now_s())
        self.look_up()

    def look_up(self) -> None:
        """Ask the store for the sessions that may be looked up now (C1, C4), and for no others (C7)."""
        if not self._known:
            return
        for request, opening in list(self._openings.items()):
            session = opening.client.session
            if opening.asked or session in self._ending:
                continue
            pending = self._wills.take(session, opening.client.user)
            if pending is not None:
                if not opening.welcome.clean and pending.due_s > self._host.mailbox.now_s():
                    opening.pending = pending
                elif not self._publish(session, pending):  # its session has ended, or it was due before
                    continue
            if opening.client.will is None and self._keeps_nothing(opening):
                del self._openings[request]
                self._let_in.append(opening)
            elif session not in self._left and not self._batches.busy(session):
                opening.asked = True
                self._open(request, opening)

    def _keeps_nothing(self, opening: Opening) -> bool:
        """Whether nothing of the client's session, but for a Will, is or will be on record, and nothing of one before it (C7)."""
        session = opening.client.session
        return self._known and not opening.welcome.expiry_s and session not in self._lasting and session not in self._ending

    def let_in(self) -> None:
        """Send CONNACK to those that need nothing of the store; call it at the turn's end, when nobody's packets are being read."""
        while self._let_in:
            opening = self._let_in.pop(0)
            if not opening.client.closed:
                self._begin(opening)

    def wait_no_longer(self, now_s: float) -> None:
        """The store does not answer: let in who can do without it for now (C7), and refuse the others (C8)."""
        for opening in list(self._openings.values()):
            client, waited_s = opening.client, now_s - opening.since_s
            if opening.let_in or client.closed:
                continue
            if waited_s >= LATE_S and self._keeps_nothing(opening):
                opening.let_in = True
                self._begin(opening)
            elif waited_s >= self._unanswered_s:
                self._host.limited("store_unavailable")
                self._send(client, refuse_login(LoginFault.UNAVAILABLE, client.level))
                self._host.close_client(client, "store_unavailable", publish_will=False)

    def stood_still(self, period_s: float) -> None:
        """The Listener did, so it could not hear the store either."""
        for opening in self._openings.values():
            opening.since_s += period_s

    def _open(self, request: int, opening: Opening) -> None:
        client, welcome = opening.client, opening.welcome
        if welcome.expiry_s or client.session in self._lasting:
            self._lasting[client.session] = client.number
        self._host.send(
            QUEUE_STORE,
            SessionOpen(
                sender=self._host.name,
                epoch=self._host.epoch,
                request=request,
                session=client.session,
                clean=welcome.clean,
                expiry_s=welcome.expiry_s,
                source=client.number,
                will=client.will,
                user=client.user,
                listener=self._access.bind_of(client),
            ),
        )

    def opened(self, frame: SessionOpened) -> None:
        """The store has answered: send CONNACK, and go on with what the client sent meanwhile."""
        resumed = self._resuming.pop(frame.request, None)
        if resumed is not None and not frame.present and not resumed.closed:
            self._end(resumed, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "session_lost")
        opening = self._openings.pop(frame.request, None)
        if opening is None or opening.client.closed or opening.let_in:
            return
        client = opening.client
        if frame.refused:
            self._not_taken_back(opening)
            if client.session in self._lasting:
                self._lasting[client.session] = 0
            if frame.refused == "user":
                self._access.refuse_session(client)
                self._send(client, refuse_login(LoginFault.ANOTHERS, client.level))
            else:
                self._host.limited("sessions_max")
                self._send(client, opening.welcome.no_room())
            self._host.close_client(client, "refused", publish_will=False)
            return
        if not frame.queue:
            self._lasts_no_more(client.session, client.number)
        client.queue = frame.queue
        client.filters = {topic_filter: (options, identifier) for topic_filter, options, identifier in frame.subscriptions}
        self._begin(opening, present=frame.present, received=unpack_column("H", frame.received))

    def _lasts_no_more(self, session: str, source: int) -> None:
        """Nothing that lasts is on record of ``session`` any more, unless another connection than ``source`` has asked since."""
        if self._lasting.get(session) == source:
            del self._lasting[session]

    def _begin(self, opening: Opening, *, present: bool = False, received: Iterable[int] = ()) -> None:
        """Let the client in."""
        client, welcome = opening.client, opening.welcome
        client.flow = InboundFlow(
            number=client.number,
            session=client.session,
            level=client.level,
            receive_maximum=self._limits.receive_maximum,
            topic_alias_maximum=welcome.gives_aliases,
            dup_tells=self._answers_may_be_lost,
        )
        client.flow.carry(received)
        self._access.set_out(client)
        self._up(client)
        client.hear_again(self._host.mailbox.now_s())
        self._send(client, welcome.connack(present, self._response_information(client)))
        log.debug("client.connected", extra={"client_id": client.session, "address": client.address, "level": client.level})
        if not client.closed:
            self._welcomed(client)

    def _response_information(self, client: Client) -> str | None:
        """What its response topics begin with; None where nothing is set, or its names do not fit into a topic."""
        pattern = self._limits.response_information
        return None if pattern is None else resolve(pattern, allow=True, user=client.user, client_id=client.session)

    # --- the end ---

    def disconnect(self, client: Client, packet: Disconnect) -> None:
        """The client says goodbye.

        Raises:
            PeerViolation: it wants its session to last, which it did not when it came [MQTT-3.14.2-2].
        """
        expiry_s = packet.properties.session_expiry_interval
        if expiry_s is not None:
            if expiry_s and not client.expiry_s:
                protocol_error("MQTT-3.14.2-2 session expiry interval in DISCONNECT after 0 in CONNECT")
            client.expiry_s = min(expiry_s, self._settings.expiry_max_s)
        goodbye = packet.reason_code == ReasonCode.NORMAL_DISCONNECTION
        self._host.close_client(client, "disconnect", publish_will=not goodbye)  # [MQTT-3.14.4-3]

    def closed(self, client: Client, *, publish_will: bool) -> None:
        """The connection is gone: so is the session, or it waits for its client from now on."""
        if self._clients.get(client.session) is not client:
            return
        del self._clients[client.session]
        request = next((request for request, opening in self._openings.items() if opening.client is client), None)
        opening = self._openings.pop(request) if request is not None else None
        if opening is not None:
            self._not_taken_back(opening)
        if opening is not None and not opening.asked and not opening.let_in:
            return
        told = opening is None or opening.asked
        keep_will = publish_will and client.will is not None and client.flow is not None
        keep_will = keep_will and client.will is not None and self._access.may_publish(client, client.will[0])
        if told and (client.will is not None or client.queue or client.expiry_s or opening is not None):
            if opening is not None:
                self._left[client.session] = client.number
                if client.session in self._lasting:
                    self._lasting[client.session] = 0
            close = SessionClose(
                sender=self._host.name,
                epoch=self._host.epoch,
                session=client.session,
                source=client.number,
                wall_ms=self._host.mailbox.wall_ms(),
                expiry_s=client.expiry_s,
                keep_will=keep_will and opening is None,  # what is not on record yet need not get there: it is published now
            )
            self._closing[client.number] = close
            self._host.send(QUEUE_STORE, close)
        if client.flow is not None:
            self._host.send(DISTRIBUTOR, SessionDown(session=client.session, source=client.number, ended=not client.expiry_s))
        if keep_will:
            self._publish_or_wait(client, on_record=told)

    def close_committed(self, frame: SessionClosed) -> None:
        """The store has on record how a connection has ended."""
        close = self._closing.pop(frame.source, None)
        if close is None:
            return
        if self._left.get(close.session) == close.source:
            del self._left[close.session]
        if not close.expiry_s:
            self._lasts_no_more(close.session, close.source)

    def _publish_or_wait(self, client: Client, *, on_record: bool) -> None:
        assert client.will is not None
        delay_s = min(client.will[4], client.expiry_s)
        pending = PendingWill(client.will, self._host.mailbox.now_s() + delay_s, client.number, client.user)
        if delay_s:
            self._wills.add(client.session, pending)
        elif on_record or len(self._wills) < UNRECORDED_WILLS_MAX:
            self._publish(client.session, pending)
        else:
            self._host.limited("store_unavailable")

    def _publish(self, session: str, pending: PendingWill) -> bool:
        """Whether the Will is in the batch that is being built; when there is no room, it is due as soon as there is."""
        if self._batches.full:
            self._wills.add(session, pending)
            return False
        self._batches.add_will(session, pending.message, pending.source)
        return True

    def _not_taken_back(self, opening: Opening) -> None:
        """Its client has got no CONNACK."""
        if opening.pending is not None:
            self._wills.add(opening.client.session, opening.pending)

    def publish_due_wills(self, now_s: float) -> None:
        """Publish the Wills whose delay has passed, as many as one batch takes (C4)."""
        if self._known:
            for session, pending in self._wills.take_due(now_s):
                self._publish(session, pending)

    def will_refused(self, will: RefusedWill) -> None:
        """There was no room for a Will. It is on record, and sent again from time to time."""
        if not len(self._refused):
            self._refused_retry_s = self._host.mailbox.now_s() + RETRY_WILLS_S
            log.warning("will.refused", extra={"client_id": will.session, "why": "a queue or the node is full"})
        self._refused.add(will)

    def publish_refused_wills(self, now_s: float) -> None:
        """Try again those for which there was no room."""
        if self._known and len(self._refused) and now_s >= self._refused_retry_s:
            self._refused_retry_s = now_s + RETRY_WILLS_S
            for will in self._refused.take(RETRIED_WILLS_MAX):
                self._batches.add_will(will.session, will.message, NO_SOURCE, (will.epoch, will.number))

    def gone(self, frame: SessionGone) -> None:
        """The session has ended, and not by its client's will; a Will that waited for its delay is due [MQTT-3.1.3-9]."""
        client = self._clients.get(frame.session)
        if client is not None and client.flow is not None and client.queue and client.queue == frame.queue:
            self._end(client, ReasonCode.ADMINISTRATIVE_ACTION, "session_ended", publish_will=not frame.drops_will)
        if frame.session not in self._clients:
            self._lasting.pop(frame.session, None)
        self.ended(frame.session, drops_will=frame.drops_will)

    def _end(self, client: Client, reason_code: int, why: str, *, publish_will: bool = True) -> None:
        if client.level == MQTT_5_0:
            self._send(client, Disconnect(reason_code=reason_code))
        self._host.close_client(client, why, publish_will=publish_will)

    # --- by an operator's order ---

    def connected(self, session: str) -> Client | None:
        """The client that has its CONNACK and is connected under this identifier."""
        client = self._clients.get(session)
        return client if client is not None and client.flow is not None else None

    def send_away(self, client: Client, *, publish_will: bool = True) -> None:
        """End the connection; an MQTT 5 client is told that it is an administrative action."""
        self._end(client, ReasonCode.ADMINISTRATIVE_ACTION, "administrative_action", publish_will=publish_will)

    def hold(self, session: str) -> None:
        """The session is being ended: who comes under its identifier waits for that (C6)."""
        self._ending.add(session)

    def release(self, session: str) -> None:
        """It has ended, or will not end."""
        self._ending.discard(session)
        self.look_up()

    def ended(self, session: str, *, drops_will: bool) -> None:
        """The session has ended: its Will waits no longer."""
        pending = self._wills.take_ended(session)
        if pending is not None and not drops_will:  # whoever comes next under the identifier has it published first
            self._publish(session, replace(pending, due_s=self._host.mailbox.now_s(), user=None))
        self.release(session)

    def lost(self, session: str) -> None:
        """It has ended with a store that could not tell the Distributor any more."""
        self._host.send(DISTRIBUTOR, SessionDown(session=session, source=NO_SOURCE, ended=True))

    # --- other actors begin anew ---

    def store_is_new(self) -> None:
        """Ask again for what was not answered, and whether the sessions of those that are connected are still there."""
        if not self._known:  # it tells all anew
            self._wills, self._refused = PendingWills(), RefusedWills()
            self._lasting.clear()
        for close in self._closing.values():
            self._host.send(QUEUE_STORE, close)
        self._resuming.clear()
        for client in self._clients.values():
            if client.flow is not None and client.queue:
                self._requests += 1
                self._resuming[self._requests] = client
                self._host.send(
                    QUEUE_STORE,
                    SessionOpen(
                        sender=self._host.name,
                        epoch=self._host.epoch,
                        request=self._requests,
                        session=client.session,
                        clean=False,
                        expiry_s=client.expiry_s,
                        source=client.number,
                        will=client.will,
                        resumes=True,
                        user=client.user,
                        listener=self._access.bind_of(client),
                    ),
                )
        for request, opening in self._openings.items():
            if opening.asked:
                self._open(request, opening)

    def known(self, frame: SessionsKnown) -> None:
        """The Wills that clients of an earlier life of the Listener have left."""
        if self._known:
            return
        now_s, wall_ms = self._host.mailbox.now_s(), self._host.mailbox.wall_ms()
        for session, queue, _, will, due_ms, user, _ in frame.sessions:
            if queue:
                self._lasting[session] = 0
            if will is not None:
                wait_s = min(max(0, due_ms - wall_ms) / 1000, will[4])  # no longer than its delay, if the clock was set back
                self._wills.add(session, PendingWill(will, now_s + wait_s, 0, user))
        for session, epoch, number, will in frame.refused:
            topic, flags, payload, properties, _ = will
            self._refused.add(RefusedWill(session, epoch, number, (topic, flags | OFFERED, payload, properties, 0)))
        if frame.last:
            self._known = True
            self.publish_due_wills(now_s)
            self.look_up()

    def _up(self, client: Client) -> None:
        subscriptions = tuple((topic_filter, *options) for topic_filter, options in client.filters.items())
        self._host.send(
            DISTRIBUTOR,
            SessionUp(
                session=client.session,
                source=client.number,
                queue=client.queue,
                subscriptions=subscriptions,
                user=client.user,
                listener=self._access.bind_of(client),
            ),
        )

    def _send(self, client: Client, packet: Packet) -> None:
        self._host.write(client, encode(packet, client.level))


def _message(will: Will) -> Message:
    """The Will as it will be published; nobody can be told of its refusal, and nothing of its client waits behind it."""
    flags = will.qos | (RETAIN if will.retain else 0) | REFUSABLE
    properties = encode_properties(replace(will.properties, will_delay_interval=None))
    return will.topic.encode(), flags, will.payload, properties, will.properties.will_delay_interval or 0
