"""A remote broker of which a test plays every packet: a listening socket and raw connections, nothing by itself."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.support.mqtt_client import Connection
from tests.support.mqtt_packets import (
    CONNECT,
    MAXIMUM_PACKET_SIZE,
    RECEIVE_MAXIMUM,
    SESSION_EXPIRY,
    SUBSCRIBE,
    Packet,
    Sender,
    connack_bytes,
    publish_bytes,
    suback_bytes,
)
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S


class RemoteEnd(Connection):
    """One accepted connection, after its CONNECT was read."""

    def __init__(self, sock: socket.socket, version: int) -> None:
        super().__init__(Sender.CLIENT, version)
        self.take_socket(sock)
        self.connect = Packet(kind=CONNECT)

    def connack(
        self,
        *,
        session_present: bool,
        session_expiry_s: int | None = None,
        packet_max_bytes: int | None = None,
        receive_maximum: int | None = None,
        lacks: Sequence[int] = (),
    ) -> None:
        """Let the client in. session_expiry_s: what the session has instead of what was asked for, at MQTT 5.

        lacks: properties that say 0: not available.
        """
        wanted = (
            (SESSION_EXPIRY, session_expiry_s),
            (MAXIMUM_PACKET_SIZE, packet_max_bytes),
            (RECEIVE_MAXIMUM, receive_maximum),
        )
        properties = [(identifier, value) for identifier, value in wanted if value is not None]
        properties += [(identifier, 0) for identifier in lacks]
        self.send(connack_bytes(self.version, session_present=session_present, properties=properties))

    def publish(self, topic: str, payload: str, *, qos: int, packet_id: int = 0, dup: bool = False) -> None:
        """Send a PUBLISH."""
        self.send(publish_bytes(self.version, topic, payload, qos, packet_id, dup=dup))

    def answer_subscribe(self, *reason_codes: int) -> Packet:
        """Wait for SUBSCRIBE and send a SUBACK with ``reason_codes``; the SUBSCRIBE."""
        asked = self.expect(SUBSCRIBE)
        self.send(suback_bytes(self.version, asked.packet_id, reason_codes))
        return asked


class ScriptedRemote:
    """Listens on ``port``, one of its own for None; ``accept`` gives the next connection."""

    def __init__(self, version: int = 5, port: int | None = None) -> None:
        self._version = version
        self.port = free_port() if port is None else port
        self._server = socket.create_server(("127.0.0.1", self.port))
        self._server.settimeout(PATIENCE_S)
        self._ends: list[RemoteEnd] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection, and listen no more."""
        for end in self._ends:
            end.close()
        self._server.close()

    def accept(
        self,
        *,
        session_present: bool = False,
        session_expiry_s: int | None = None,
        packet_max_bytes: int | None = None,
        receive_maximum: int | None = None,
        lacks: Sequence[int] = (),
    ) -> RemoteEnd:
        """The next connection, its CONNECT read and answered as ``RemoteEnd.connack`` says."""
        end = self.accept_silently()
        end.connack(
            session_present=session_present,
            session_expiry_s=session_expiry_s,
            packet_max_bytes=packet_max_bytes,
            receive_maximum=receive_maximum,
            lacks=lacks,
        )
        return end

    def accept_silently(self) -> RemoteEnd:
        """The next connection, its CONNECT read."""
        sock, _ = self._server.accept()
        end = RemoteEnd(sock, self._version)
        self._ends.append(end)
        end.connect = end.expect(CONNECT)
        return end
