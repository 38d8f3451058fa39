"""WebSocket towards local clients, and the only user of wsproto: the upgrade, then frames in and out (RFC 6455, MQTT section 6).

Most frames are whole, binary and small: they are unmasked here, and written here, one frame for all that is written at once. All
others (fragments, control frames, what is wrong) are passed to wsproto frame by frame, and judged by it.
"""

from __future__ import annotations

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

REQUEST_MAX_BYTES = 16 * 1024
MESSAGE_MAX_BYTES = 16 * 1024 * 1024  # at least; a node that takes larger packets takes them in one frame too
HELD_MAX_BYTES = 64 * 1024  # a longer frame is passed on as it comes
SUBPROTOCOL = "mqtt"  # [MQTT-6.0.0-3]

_WHOLE_BINARY = 0x82
_HEAD_END = b"\r\n\r\n"
_STATUS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 431: "Request Header Fields Too Large"}


def unmask(data: bytes, key: bytes) -> bytes:
    """``data`` as it was before it was masked with the four bytes ``key``; one operation on one large number."""
    length = len(data)
    mask = (key * (length // 4 + 1))[:length]
    return (int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")).to_bytes(length, "little")


def refusal(status: int, why: str) -> bytes:
    """A short HTTP answer that ends the connection."""
    body = f"{why}\n".encode()
    lines = (
        f"HTTP/1.1 {status} {_STATUS[status]}",
        "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


class WebSocketLayer:
    """The server's WebSocket of one connection (see ``actors.access.transport_layers.Layer``)."""

    certificate_user: str | None = None

    def __init__(self, path: str, origins: tuple[str, ...], packet_max_bytes: int) -> None:
        self._path = path
        self._origins = origins
        self._message_max_bytes = max(MESSAGE_MAX_BYTES, packet_max_bytes)
        self._ws = WSConnection(ConnectionType.SERVER)
        self._held = b""
        self._answer = b""
        self._passing_bytes = 0  # of the frame that wsproto is being given
        self._message_bytes = 0  # of the message that it is part of; 0 between messages
        self.established = False
        self.ended = ""
        self.failed = False

    def receive(self, data: bytes) -> bytes:
        """The bytes that the client's binary frames carry: MQTT packets may begin and end anywhere in them [MQTT-6.0.0-2]."""
        if self.ended:
            return b""
        data = self._held + data if self._held else data
        position = 0
        if not self.established:
            position = self._upgrade(data)
            if not self.established:
                self._held = b"" if self.ended else data
                return b""
        pieces: list[bytes] = []
        position = self._frames(data, position, pieces)
        self._held = data[position:] if position < len(data) and not self.ended else b""
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def send(self, data: bytes) -> bytes:
        """``data`` as one binary frame [MQTT-6.0.0-1]."""
        length = len(data)
        if length < 126:
            return bytes((_WHOLE_BINARY, length)) + data
        if length < 65_536:
            return bytes((_WHOLE_BINARY, 126)) + length.to_bytes(2, "big") + data
        return bytes((_WHOLE_BINARY, 127)) + length.to_bytes(8, "big") + data

    def answer(self) -> bytes:
        """WebSocket's own output: the answer to the upgrade, PONG, the close frame."""
        answer, self._answer = self._answer, b""
        return answer

    def goodbye(self) -> bytes:
        """The close frame, unless one was sent or there is no WebSocket."""
        if not self.established or self.ended:
            return b""
        return self._ws.send(CloseConnection(CloseReason.NORMAL_CLOSURE))

    # --- the upgrade ---

    def _upgrade(self, data: bytes) -> int:
        """Answer the request once it is all there; where the first frame begins."""
        end = data.find(_HEAD_END)
        if end < 0:
            if len(data) > REQUEST_MAX_BYTES:
                self._refuse(431, "the request is too long")
            elif not b"GET ".startswith(data[:4]):
                self._refuse(400, "this is a WebSocket")
            return 0
        end += len(_HEAD_END)
        if end > REQUEST_MAX_BYTES:
            self._refuse(431, "the request is too long")
            return 0
        try:
            self._ws.receive_data(data[:end])
            request = next(iter(self._ws.events()), None)
        except (ProtocolError, ValueError) as error:  # a header that is no text is a ValueError
            self._refuse(400, f"this is a WebSocket: {error}"[:200])
            return 0
        if not isinstance(request, Request):
            self._refuse(400, "this is a WebSocket")
        elif request.target.partition("?")[0] != self._path:
            self._refuse(404, "there is nothing here")
        elif not self._allows(request):
            self._refuse(403, "this origin is not allowed")
        elif SUBPROTOCOL not in request.subprotocols:
            self._refuse(400, "the subprotocol must be mqtt [MQTT-6.0.0-3]")
        else:
            self._answer = self._ws.send(AcceptConnection(subprotocol=SUBPROTOCOL))  # [MQTT-6.0.0-4]
            self.established = True
        return end

    def _allows(self, request: Request) -> bool:
        """Whether a page of the request's origin may connect. Only browsers send one, and only they act for a page's author."""
        if not self._origins:
            return True
        found = [value.decode("latin-1") for name, value in request.extra_headers if name.lower() == b"origin"]
        return all(origin in self._origins for origin in found)

    def _refuse(self, status: int, why: str) -> None:
        self._answer = refusal(status, why)
        self._fail(f"http {status}: {why}")

    # --- frames ---

    def _frames(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        """Put what the frames at ``position`` carry into ``pieces``; the position of the first byte not used."""
        available = len(data)
        while position < available and not self.ended:
            if self._passing_bytes:
                part = data[position : position + self._passing_bytes]
                self._passing_bytes -= len(part)
                position += len(part)
                self._pass(part, pieces)
                continue
            if available - position < 2:
                break
            second = data[position + 1]
            size = second & 0x7F
            start = position + 2
            if size >= 126:
                start += 2 if size == 126 else 8
                if available < start:
                    break
                size = int.from_bytes(data[position + 2 : start], "big")
            start += 4 if second & 0x80 else 0
            if self._message_bytes + size > self._message_max_bytes:
                self._close(CloseReason.MESSAGE_TOO_BIG, f"a message of more than {self._message_max_bytes} bytes")
                break
            end = start + size
            if data[position] == _WHOLE_BINARY and second & 0x80 and not self._message_bytes:
                if end <= available:
                    pieces.append(unmask(data[start:end], data[start - 4 : start]))
                    position = end
                    continue
                if size <= HELD_MAX_BYTES:
                    break
            self._passing_bytes = end - position
            if data[position] & 0x08 == 0:
                self._message_bytes += size + 1  # a first fragment may be empty, and still is one
        return position

    def _pass(self, part: bytes, pieces: list[bytes]) -> None:
        """Let wsproto judge ``part`` of a frame."""
        self._ws.receive_data(part)
        for event in self._ws.events():
            match event:
                case BytesMessage():
                    pieces.append(bytes(event.data))
                    if event.message_finished:
                        self._message_bytes = 0
                case TextMessage():
                    self._close(CloseReason.UNSUPPORTED_DATA, "MQTT-6.0.0-1 a text frame")
                    return
                case Ping():
                    self._answer = self._ws.send(event.response())  # of several, the last [RFC 6455, 5.5.3]
                case CloseConnection():
                    self._answered_close(event)
                    return

    def _answered_close(self, event: CloseConnection) -> None:
        """The client has closed, or wsproto has found its frame wrong: say the same, and end."""
        if self._ws.state is ConnectionState.REMOTE_CLOSING:
            self._answer = self._ws.send(event.response())
            self.ended = "websocket_closed"
        else:
            self._close(CloseReason(event.code), event.reason or "a wrong frame")

    def _close(self, code: CloseReason, why: str) -> None:
        self._answer = self._ws.send(CloseConnection(code))
        self._fail(f"websocket: {why}")

    def _fail(self, why: str) -> None:
        self.ended = why
        self.failed = True
