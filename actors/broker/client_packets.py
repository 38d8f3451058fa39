"""Packets of a local client besides PUBLISH and acknowledgements: each goes to the part that acts on it, and violations end the
connection.

Sessions are ``actors/broker/client_sessions.py``'s, subscriptions ``actors/broker/client_subscriptions.py``'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.access.client import Client
from actors.broker.client_sessions import ClientSessions
from actors.broker.client_subscriptions import ClientSubscriptions
from actors.broker.listener_interface import ListenerInterface
from wire.errors import PeerViolation
from wire.mqtt.codec import decode, encode, encode_refusal
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
from wire.mqtt.reason_codes import ReasonCode, UnsupportedProtocol, protocol_error
from wire.token_bucket import TokenBucket

log = logging.getLogger("bascule")

VIOLATIONS_TOLD_PER_S = 5
_CONNECT = 0x1


class ClientPackets:
    """Handles the packets of all clients, one at a time, off the path of a message."""

    def __init__(
        self,
        host: ListenerInterface,
        sessions: ClientSessions,
        subscriptions: ClientSubscriptions,
        released: Callable[[Client], None],
    ) -> None:
        """``released`` is told of a client that has sent PUBREL, whose answer is owed."""
        self._host = host
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._released = released
        self._tellable = TokenBucket(VIOLATIONS_TOLD_PER_S, host.mailbox.now_s())
        self._untold = 0

    @staticmethod
    def check_first(first_byte: int) -> None:
        """Raises PeerViolation if the first packet of a connection is not CONNECT: its first byte is enough to know."""
        if first_byte >> 4 != _CONNECT:
            protocol_error("MQTT-3.1.0-1 the first packet is not CONNECT")

    def handle(self, client: Client, first_byte: int, body: bytes) -> None:
        """Act on one packet.

        Raises:
            PeerViolation: it is malformed, or not allowed now; the caller hands it to ``violated``.
        """
        if first_byte >> 4 == _CONNECT:
            self._check_connect(client, body)
        packet = decode(first_byte, body, client.level or MQTT_5_0)
        match packet:
            case Connect():
                self._sessions.connect(client, packet)
            case Pubrel():
                assert client.flow is not None
                client.flow.pubrel(packet.packet_id)
                self._released(client)
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
        facts = self._tellable_facts(client, error)
        if facts is not None:
            log.warning("client.violated", extra=facts)
        if isinstance(error, UnsupportedProtocol):
            self._host.write(client, encode_refusal(error))
        elif client.level == MQTT_5_0 and client.flow is not None:
            self._send(client, Disconnect(reason_code=error.reason_code))
        elif client.greets_at == MQTT_5_0 and not client.level:  # its CONNECT is what is wrong [MQTT-3.1.4-1]
            self._host.write(client, encode(Connack(session_present=False, reason_code=error.reason_code), MQTT_5_0))
        self._host.close_client(client, "violation")

    def on_stalled(self, client: Client, **stalled: int) -> None:
        """End the connection of a client that keeps its messages waiting (``clients.stall_timeout``); ``on_stalled``: for the
        log."""
        self._host.on_limited("stall_timeout")
        error = PeerViolation("clients.stall_timeout is reached", reason_code=ReasonCode.QUOTA_EXCEEDED, **stalled)
        facts = self._tellable_facts(client, error)
        if facts is not None:
            log.warning("client.stalled", extra=facts)
        if client.level == MQTT_5_0:
            self._send(client, Disconnect(reason_code=error.reason_code))
        self._host.close_client(client, "stalled")

    @staticmethod
    def _check_connect(client: Client, body: bytes) -> None:
        """Before ``body`` is looked into: only one, and at which level it can be refused."""
        if client.level:
            protocol_error("MQTT-3.1.0-2 second CONNECT")
        client.announces(body[6] if body.startswith(b"\0\x04MQTT") and len(body) > 6 else 0)

    def _tellable_facts(self, client: Client, error: PeerViolation) -> dict[str, object] | None:
        """``error`` for a log line; None when there were too many a second: a log must not be a way to fill the disk.

        ``untold``: how many more there were.
        """
        if self._tellable.refill(self._host.mailbox.now_s()) < 1:
            self._untold += 1
            return None
        self._tellable.take(1)
        untold, self._untold = self._untold, 0
        facts = {"client_id": client.label, "address": client.address, "error": error.message, "fields": str(error)}
        return {**facts, "untold": untold}

    def say_goodbye(self, client: Client, reason_code: ReasonCode = ReasonCode.SERVER_SHUTTING_DOWN) -> None:
        """Tell an MQTT 5 client why its connection ends."""
        if client.level == MQTT_5_0 and client.flow is not None:
            self._send(client, Disconnect(reason_code=reason_code))

    def _send(self, client: Client, packet: Packet) -> None:
        self._host.write(client, encode(packet, client.level))
