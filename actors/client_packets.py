"""What a local client says besides PUBLISH: CONNECT, subscriptions, PUBREL, PINGREQ, DISCONNECT, and what breaks the rules.

It decides with the pure ``wire/greeting.py`` and answers through the Listener, which owns the clients and the batches.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from actors.access import Access, Verdict
from actors.client import Client
from wire.batch import REFUSABLE, RETAIN, unpack_column
from wire.errors import PeerViolation
from wire.frames import NEVER_EXPIRES, Frame, SessionOpen, SessionOpened
from wire.greeting import TOPIC_ALIAS_MAXIMUM, LoginFault, Welcome, judge_connect, refuse_login
from wire.inbound import InboundFlow
from wire.mqtt.codec import decode, encode
from wire.mqtt.packets import (
    MQTT_5_0,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from wire.mqtt.properties import encode_properties
from wire.mqtt.reason_codes import ConnectReturnCode, ReasonCode, UnsupportedProtocol, protocol_error
from wire.mqtt.topics import TopicLimits, parse_shared
from wire.names import QUEUE_STORE
from wire.settings import NodeSettings

log = logging.getLogger("bascule")

KEEP_ALIVE_GRACE = 1.5  # [MQTT-3.1.2-22]
_SUBSCRIBE_FAILURE_311 = 0x80


@dataclass(frozen=True, slots=True)
class Opening:
    """A client between its CONNECT and its CONNACK; after_number: the batch that must be committed first, 0 for none."""

    client: Client
    welcome: Welcome
    after_number: int


class Host(Protocol):
    """The Listener, as far as these packets need it."""

    name: str
    epoch: int

    def send(self, peer: str, frame: Frame) -> None: ...
    def write(self, client: Client, data: bytes) -> None: ...
    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None: ...
    def parse_on(self, client: Client) -> None: ...
    def greeted(self, client: Client) -> None: ...
    def limited(self, limit: str) -> None: ...
    def touched(self, client: Client) -> None: ...
    def busy_until(self, session: str) -> int: ...
    def committed(self) -> int: ...
    def publish_will(self, client: Client, topic: bytes, flags: int, payload: bytes, properties: bytes) -> None: ...
    def subscribe(self, client: Client, filters: tuple[tuple[str, int], ...]) -> None: ...
    def unsubscribe(self, client: Client, filters: tuple[str, ...]) -> None: ...


class ClientPackets:
    """Handles the packets of all clients, one at a time, off the path of a message."""

    def __init__(self, listener: Host, settings: NodeSettings, access: Access) -> None:
        self._listener = listener
        self._access = access
        self._limits = settings.clients
        self._topic_limits = TopicLimits(settings.clients.topic_levels_max, settings.clients.topic_max_bytes)
        self._sessions: dict[str, Client] = {}
        self._openings: dict[int, Opening] = {}
        self._requests = 0

    def handle(self, client: Client, first_byte: int, body: bytes) -> None:
        """Act on one packet.

        Raises:
            PeerViolation: it is malformed, or not allowed now; the caller hands it to ``violated``.
        """
        if not client.level and first_byte >> 4 != 1:
            protocol_error("MQTT-3.1.0-1 the first packet is not CONNECT")
        packet = decode(first_byte, body, client.level or MQTT_5_0)
        match packet:
            case Connect():
                self._connect(client, packet)
            case Pubrel():
                assert client.flow is not None
                client.flow.pubrel(packet.packet_id)
                self._listener.touched(client)
            case Subscribe():
                self._subscribe(client, packet)
            case Unsubscribe():
                self._unsubscribe(client, packet)
            case Pingreq():
                self._send(client, Pingresp())
            case Disconnect():
                if packet.reason_code != ReasonCode.DISCONNECT_WITH_WILL_MESSAGE:
                    client.will = None  # [MQTT-3.14.4-3]
                self._listener.close_client(client, "disconnect")
            case Puback() | Pubrec() | Pubcomp():
                pass  # nothing is sent to a live subscriber above QoS 0, so there is nothing that this could answer
            case _:
                protocol_error("MQTT-4.13.1-1 a packet that a client must not send now", type=type(packet).__name__)

    def violated(self, client: Client, error: PeerViolation) -> None:
        """End the connection of a client that broke the protocol, with the reason where its version can carry one."""
        log.warning(
            "client.violated",
            extra={"client_id": client.session, "address": client.address, "error": error.message, "fields": str(error)},
        )
        if isinstance(error, UnsupportedProtocol):
            level = error.fields.get("level")
            if level is not None and isinstance(level, int) and level > MQTT_5_0:
                refusal = Connack(session_present=False, reason_code=ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
                self._listener.write(client, encode(refusal, MQTT_5_0))
            else:
                refusal = Connack(session_present=False, reason_code=ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION)
                self._listener.write(client, encode(refusal, 4))  # [MQTT-3.1.2-2]
        elif client.level == MQTT_5_0 and client.flow is not None:
            self._send(client, Disconnect(reason_code=error.reason_code))
        self._listener.close_client(client, "violation")

    def say_goodbye(self, client: Client) -> None:
        """Tell an MQTT 5 client that the server goes down."""
        if client.level == MQTT_5_0 and client.flow is not None:
            self._send(client, Disconnect(reason_code=ReasonCode.SERVER_SHUTTING_DOWN))

    def overdue(self, clients: Iterable[Client], now_s: float) -> list[Client]:
        """Clients that were silent for one and a half times their keep alive, or never sent CONNECT [MQTT-3.1.2-22]."""
        late = []
        for client in clients:
            if client.flow is None:
                if now_s - client.accepted_s > self._limits.connect_timeout_s and not client.level:
                    late.append(client)
            elif client.keep_alive_s and client.heard and now_s - client.heard_s > client.keep_alive_s * KEEP_ALIVE_GRACE:
                late.append(client)
        return late

    def publish_will(self, client: Client) -> None:
        """Publish the Will of a client whose connection ended without a goodbye; its session keeps no delay in this version."""
        if self._sessions.get(client.session) is client:
            del self._sessions[client.session]
        will, client.will = client.will, None
        if will is not None and client.flow is not None and self._access.may_publish(client, will.topic.encode()):
            flags = will.qos | (RETAIN if will.retain else 0) | (REFUSABLE if client.level == MQTT_5_0 else 0)
            properties = encode_properties(replace(will.properties, will_delay_interval=None))
            self._listener.publish_will(client, will.topic.encode(), flags, will.payload, properties)

    # --- CONNECT ---

    def _connect(self, client: Client, connect: Connect) -> None:
        if client.level:
            protocol_error("MQTT-3.1.0-2 second CONNECT")
        client.level = connect.level
        self._listener.greeted(client)
        if connect.will is not None and not self._topic_limits.allow(connect.will.topic):
            self._listener.limited("topic_limits")
            if connect.level == MQTT_5_0:
                self._send(client, Connack(session_present=False, reason_code=ReasonCode.TOPIC_NAME_INVALID))
            self._listener.close_client(client, "refused")
            return
        judged = judge_connect(connect, self._limits, new_id=f"auto-{uuid.uuid4().hex}")
        if isinstance(judged, Connack):
            self._send(client, judged)
            self._listener.close_client(client, "refused")
            return
        client.hear(False)  # what it sends before its CONNACK waits in its socket
        self._access.judge(client, connect, partial(self._logged_in, client, connect, judged))

    def _logged_in(self, client: Client, connect: Connect, judged: Welcome, verdict: Verdict) -> None:
        """Go on with a client that may come in, and has not gone meanwhile; send the others away [MQTT-3.1.4-2]."""
        if verdict is None:
            client.session = judged.client_id
            self._access.give_rights(client)
            if connect.will is not None and not self._access.may_publish(client, connect.will.topic.encode()):
                verdict = LoginFault.WILL_FORBIDDEN
        older = self._sessions.get(judged.client_id)
        if verdict is None and older is not None and not self._access.may_take_over(client, older):
            verdict = LoginFault.ANOTHERS
        if verdict is not None:
            self._send(client, refuse_login(verdict, client.level))
            self._listener.close_client(client, "refused")
            return
        if older is not None:
            if older.level == MQTT_5_0 and older.flow is not None:
                self._send(older, Disconnect(reason_code=ReasonCode.SESSION_TAKEN_OVER))
            self._listener.close_client(older, "taken_over")  # [MQTT-3.1.4-3]
        self._sessions[judged.client_id] = client
        client.keeps_session = judged.keeps_session
        client.keep_alive_s = judged.keep_alive_s
        client.will = connect.will
        self._requests += 1
        # Identifiers of an earlier connection may still be on their way to the store: look the session up after them.
        after_number = self._listener.busy_until(judged.client_id)
        self._openings[self._requests] = Opening(client, judged, after_number)
        if not after_number:
            self._open_session(self._requests)

    def batches_committed(self) -> None:
        """Look up the sessions that waited for batches which are committed now."""
        if self._openings:
            committed = self._listener.committed()
            for request, opening in list(self._openings.items()):
                if 0 < opening.after_number <= committed:
                    self._openings[request] = Opening(opening.client, opening.welcome, 0)
                    self._open_session(request)

    def reopen_sessions(self) -> None:
        """Ask a new store again for every session whose answer has not come.

        A clean start that is asked for twice forgets what came in between, so only its last answer counts.
        """
        for request, opening in list(self._openings.items()):
            if opening.after_number:
                continue
            if opening.welcome.clean:
                del self._openings[request]
                self._requests += 1
                request = self._requests
                self._openings[request] = opening
            self._open_session(request)

    def _open_session(self, request: int) -> None:
        welcome = self._openings[request].welcome
        self._listener.send(
            QUEUE_STORE,
            SessionOpen(
                sender=self._listener.name,
                epoch=self._listener.epoch,
                request=request,
                session=welcome.client_id,
                clean=welcome.clean,
                expiry_s=NEVER_EXPIRES if welcome.keeps_session else 0,
            ),
        )

    def session_opened(self, frame: SessionOpened) -> None:
        """The store has answered: send CONNACK, and go on with what the client sent meanwhile."""
        opening = self._openings.pop(frame.request, None)
        if opening is None or opening.client.closed:
            return
        client, welcome = opening.client, opening.welcome
        client.flow = InboundFlow(
            number=client.number,
            session=client.session,
            level=client.level,
            receive_maximum=self._limits.receive_maximum,
            topic_alias_maximum=TOPIC_ALIAS_MAXIMUM if client.level == MQTT_5_0 else 0,
        )
        if not welcome.clean:
            client.flow.carry(unpack_column("H", frame.received))
        self._access.set_out(client)
        client.hear(True)
        self._send(client, welcome.connack(frame.present))
        log.debug("client.connected", extra={"client_id": client.session, "address": client.address, "level": client.level})
        if not client.closed:
            self._listener.parse_on(client)

    # --- subscriptions ---

    def _subscribe(self, client: Client, packet: Subscribe) -> None:
        if packet.properties.subscription_identifiers:
            raise PeerViolation(
                "MQTT-3.2.2.3.12 subscription identifiers are not available",
                reason_code=ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
            )
        modern = client.level == MQTT_5_0
        codes: list[int] = []
        granted: list[tuple[str, int]] = []
        for subscription in packet.subscriptions:
            known = subscription.topic_filter in client.filters
            if parse_shared(subscription.topic_filter) is not None:
                codes.append(ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED if modern else _SUBSCRIBE_FAILURE_311)
            elif not self._topic_limits.allow(subscription.topic_filter):
                self._listener.limited("topic_limits")
                codes.append(ReasonCode.TOPIC_FILTER_INVALID if modern else _SUBSCRIBE_FAILURE_311)
            elif client.rights is not None and not self._access.may_subscribe(client, subscription.topic_filter):
                codes.append(ReasonCode.NOT_AUTHORIZED if modern else _SUBSCRIBE_FAILURE_311)  # [MQTT-3.8.4-5]
            elif not known and len(client.filters) >= self._limits.subscriptions_max:
                self._listener.limited("subscriptions_max")
                codes.append(ReasonCode.QUOTA_EXCEEDED if modern else _SUBSCRIBE_FAILURE_311)
            else:
                client.filters[subscription.topic_filter] = 0
                granted.append((subscription.topic_filter, 0))
                codes.append(ReasonCode.GRANTED_QOS_0)
        if granted:
            self._listener.subscribe(client, tuple(granted))
        self._send(client, Suback(packet_id=packet.packet_id, reason_codes=tuple(codes)))

    def _unsubscribe(self, client: Client, packet: Unsubscribe) -> None:
        known = [client.filters.pop(topic_filter, None) is not None for topic_filter in packet.topic_filters]
        gone = tuple(topic_filter for topic_filter, was in zip(packet.topic_filters, known, strict=True) if was)
        if gone:
            self._listener.unsubscribe(client, gone)
        codes = tuple(ReasonCode.SUCCESS if was else ReasonCode.NO_SUBSCRIPTION_EXISTED for was in known)
        self._send(client, Unsuback(packet_id=packet.packet_id, reason_codes=codes))

    def _send(self, client: Client, packet: Packet) -> None:
        self._listener.write(client, encode(packet, client.level))
