"""What a local client says besides PUBLISH and acknowledgements: each packet to whoever acts on it, and what breaks the rules.

Sessions are ``actors/client_sessions.py``'s, subscriptions ``actors/client_subscriptions.py``'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from actors.client import Client
from actors.client_host import ClientHost
from actors.client_sessions import ClientSessions
from actors.client_subscriptions import ClientSubscriptions
from wire.errors import PeerViolation
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
    Subscribe,
    Unsubscribe,
)
from wire.mqtt.reason_codes import ConnectReturnCode, ReasonCode, UnsupportedProtocol, protocol_error
from wire.settings import NodeSettings

log = logging.getLogger("bascule")

KEEP_ALIVE_GRACE = 1.5  # [MQTT-3.1.2-22]


class ClientPackets:
    """Handles the packets of all clients, one at a time, off the path of a message."""

    def __init__(
        self, host: ClientHost, sessions: ClientSessions, subscriptions: ClientSubscriptions, settings: NodeSettings
    ) -> None:
        self._host = host
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._limits = settings.clients

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
                self._sessions.connect(client, packet)
            case Pubrel():
                assert client.flow is not None
                client.flow.pubrel(packet.packet_id)
                self._host.touched(client)
            case Subscribe():
                self._subscriptions.subscribe(client, packet)
            case Unsubscribe():
                self._subscriptions.unsubscribe(client, packet)
            case Pingreq():
                self._send(client, Pingresp())
            case Disconnect():
                self._sessions.disconnect(client, packet)
            case Puback() | Pubrec() | Pubcomp():
                pass  # the lane of its session is not open yet, so this answers nothing that was sent on this connection
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
                self._host.write(client, encode(refusal, MQTT_5_0))
            else:
                refusal = Connack(session_present=False, reason_code=ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION)
                self._host.write(client, encode(refusal, 4))  # [MQTT-3.1.2-2]
        elif client.level == MQTT_5_0 and client.flow is not None:
            self._send(client, Disconnect(reason_code=error.reason_code))
        self._host.close_client(client, "violation")

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

    def _send(self, client: Client, packet: Packet) -> None:
        self._host.write(client, encode(packet, client.level))
