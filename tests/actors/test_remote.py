"""What a remote may say instead of letting us in: whatever it is, the opening ends with an error that says so."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from actors.remote import open_remote
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.errors import Unavailable


def answer(data: bytes) -> tuple[str, int]:
    """An address that answers the first CONNECT with ``data`` and waits for the other end to close."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(PATIENCE_S)

    def serve() -> None:
        with server, server.accept()[0] as sock:
            sock.settimeout(PATIENCE_S)
            sock.recv(65_536)
            sock.sendall(data)
            with suppress(ConnectionResetError):  # the other end closes without having read all
                while sock.recv(65_536):
                    pass

    threading.Thread(target=serve, name="remote", daemon=True).start()
    address: tuple[str, int] = server.getsockname()
    return address


@pytest.mark.parametrize(
    ("level", "data", "error"),
    [
        pytest.param(5, b"\xe0\x02\x8b\x00", "sent DISCONNECT instead of a CONNACK", id="disconnect"),
        pytest.param(5, b"\x20\x08\x00\x9d\x05\x1c\x00\x02ab", "Server moved (0x9d)", id="server moved"),
        pytest.param(5, b"\x20\x02\x00\x01", "Unsupported protocol version (0x84)", id="a broker of 3.1.1"),
        pytest.param(5, b"\x20\x06\x00\x00\x03\x21\x00\x00", "before a CONNACK", id="receive maximum 0"),
        pytest.param(5, b"\x20\x09\x00\x00\x06\x21\x00\x01\x21\x00\x02", "before a CONNACK", id="receive maximum twice"),
        pytest.param(5, b"\x20\x03\x00\xfe\x00", "before a CONNACK", id="unknown reason code"),
        pytest.param(5, b"\x20\x07\x00\x00\x04\x26\x00\x01\xff", "before a CONNACK", id="torn user property"),
        pytest.param(5, b"\x20\xff\xff\xff\xff\x7f", "before a CONNACK", id="endless length"),
        pytest.param(4, b"\x20\x02\x00\x05", "Not authorized (0x87)", id="not authorized"),
        pytest.param(4, b"\x20\x03\x00\x00\x00", "before a CONNACK", id="a CONNACK of 5.0"),
        pytest.param(4, b"\xe0\x00", "before a CONNACK", id="disconnect at 3.1.1"),
        pytest.param(4, b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(99), "before a CONNACK", id="a web server"),
    ],
)
def test_what_is_no_welcome_is_told(level: int, data: bytes, error: str) -> None:
    address = answer(data)
    settings = replace(bridge().remote, protocol=level, connect_timeout_s=PATIENCE_S)
    with pytest.raises(Unavailable) as failed:
        open_remote(settings, "c", address, clean=False)
    assert error in failed.value.message
    assert failed.value.fields["step"] == "connack"
