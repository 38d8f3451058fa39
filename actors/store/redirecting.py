"""Answers of a node that stands by to clients, if it is to give any: the leader's address [MQTT-4.13.2, Server redirection].

It listens where it would as a leader, over TCP and TLS, and answers one packet: CONNACK 0x9C with the leader's address for MQTT 5,
3 (server unavailable) for 3.1.1, which knows no other word. WebSocket and Unix sockets stay closed, and so do listeners behind a
proxy: by that it finds the leader itself.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable, Iterable

from actors.system.certificates import CertificateFault
from actors.system.tls import server_context
from wire.config_settings import ListenerSettings
from wire.errors import BasculeError
from wire.mqtt.codec import decode, encode, encode_refusal, split
from wire.mqtt.packets import MQTT_3_1_1, MQTT_5_0, Connack, Connect
from wire.mqtt.properties import Properties
from wire.mqtt.reason_codes import ConnectReturnCode, ReasonCode, UnsupportedProtocol

log = logging.getLogger("bascule")

ANSWER_S = 5.0  # for a client to say CONNECT, and to take the answer
CONNECT_MAX_BYTES = 16 << 10
CLIENTS_MAX = 200  # at a time; more are closed unheard


class Redirecting:
    """Listens from its making until ``close``, in a thread of its own. ``leader`` tells the leader's address, or nothing."""

    def __init__(self, listeners: Iterable[ListenerSettings], leader: Callable[[], str]) -> None:
        self._listeners = [one for one in listeners if not (one.unix_path or one.proxy_protocol) and one.protocol in ("tcp", "tls")]
        self._leader = leader
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._clients = 0
        self._thread = threading.Thread(target=self._run, name="redirecting", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all sockets: the node may listen there itself."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _run(self) -> None:
        loop = self._loop
        try:
            loop.run_until_complete(self._serve())
            for task in (left := asyncio.all_tasks(loop)):
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left))
        finally:
            loop.close()

    async def _serve(self) -> None:
        servers = [await self._listen(listener) for listener in self._listeners]
        await self._closing.wait()
        for server in servers:
            if server is not None:
                server.close()

    async def _listen(self, listener: ListenerSettings) -> asyncio.Server | None:
        try:
            context = None if listener.tls is None else server_context(listener.tls)
            return await asyncio.start_server(
                self._answer, listener.host, listener.port, ssl=context, ssl_handshake_timeout=ANSWER_S if context else None
            )
        except (OSError, CertificateFault) as error:
            log.warning("redirecting.not_opened", extra={"bind": listener.bind, "error": str(error)})
            return None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= CLIENTS_MAX:
                await asyncio.wait_for(self._redirect(reader, writer), ANSWER_S)
        except (BasculeError, OSError, TimeoutError, ssl.SSLError) as error:
            log.debug("redirecting.refused", extra={"error": str(error)})
        finally:
            self._clients -= 1
            writer.close()

    async def _redirect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = b""
        while (found := split(buffer, 0, CONNECT_MAX_BYTES)) is None:
            data = await reader.read(CONNECT_MAX_BYTES)
            if not data:
                return
            buffer += data
        first_byte, start, stop = found
        try:
            packet = decode(first_byte, buffer[start:stop], MQTT_5_0)
        except UnsupportedProtocol as error:
            writer.write(encode_refusal(error))
        else:
            if isinstance(packet, Connect):
                writer.write(redirection(packet.level, self._leader()))
        await writer.drain()


def redirection(level: int, leader: str) -> bytes:
    """The CONNACK for a client of protocol ``level``; ``leader`` is where it is to go, or nothing where nobody knows."""
    if level <= MQTT_3_1_1:
        return encode(Connack(session_present=False, reason_code=ConnectReturnCode.SERVER_UNAVAILABLE), level)
    code = ReasonCode.USE_ANOTHER_SERVER if leader else ReasonCode.SERVER_UNAVAILABLE
    properties = Properties(server_reference=leader or None)
    return encode(Connack(session_present=False, reason_code=code, properties=properties), level)
