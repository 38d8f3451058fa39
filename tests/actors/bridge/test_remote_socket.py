"""A remote's answers to CONNECT: the opening reads each legal CONNACK, and ends with an error that says so for anything else."""

from __future__ import annotations

import errno
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from actors.remote.remote_socket import Connack, Remote, open_remote, probe_remote
from tests.support.authority import Authority
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_packets import string
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import RemoteSettings, TcpKeepAliveSettings, TlsSettings
from wire.errors import Unavailable
from wire.exchange.remote_limits import RemoteLimits
from wire.mqtt.primitives import encode_variable_byte_integer
from wire.status.link_faults import LinkFault, fault_of

ROOT = Path(__file__).resolve().parents[3]


def answer(data: bytes) -> tuple[str, int]:
    """An address that answers the first CONNECT with ``data``, says no more, and waits for the other end to close."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(PATIENCE_S)

    def serve() -> None:
        with server, server.accept()[0] as sock:
            sock.settimeout(PATIENCE_S)
            sock.recv(65_536)
            sock.sendall(data)
            try:
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65_536):
                    pass
            except OSError as error:  # the other end closes without having read all
                if error.errno not in (errno.ECONNRESET, errno.ENOTCONN):
                    raise

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
        pytest.param(5, b"\x20\xff\xff\x7f", "before a CONNACK: MQTT-3.1.2-24", id="larger than we said that we take"),
        pytest.param(5, b"\x20\x02\x00\x00", "before a CONNACK", id="no properties"),
        pytest.param(5, b"\x20\x07\x00\x00\x05\x27\x00\x00\x00\x00", "before a CONNACK", id="cut short"),
        pytest.param(5, b"\x20\x08\x00\x00\x05\x27\x00\x00\x00\x00", "maximum packet size 0", id="maximum packet size 0"),
        pytest.param(5, b"\xf0\x00", "before a CONNACK: a packet that begins with 0xf0", id="auth"),
        pytest.param(5, b"", "before a CONNACK: closed", id="nothing"),
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


def let_in(data: bytes, *, then: bytes = b"") -> Remote:
    """The connection that a CONNACK of MQTT 5 with the properties ``data`` opens; ``then``: what comes in the same segment."""
    body = b"\x01\x00" + encode_variable_byte_integer(len(data)) + data
    address = answer(b"\x20" + encode_variable_byte_integer(len(body)) + body + then)
    return open_remote(replace(bridge().remote, protocol=5, connect_timeout_s=PATIENCE_S), "c", address, clean=False)


@pytest.mark.parametrize("size", [1, 268_435_455, 268_435_456, 0xFFFF_FFFF])
def test_any_maximum_packet_size_but_0_is_taken(size: int) -> None:
    """It is a four byte integer, though no packet can be larger than 268,435,460 bytes (MQTT 5.0 section 3.2.2.3.6)."""
    remote = let_in(b"\x27" + size.to_bytes(4, "big"))
    assert remote.connack == Connack(session_present=True, limits=RemoteLimits(packet_max_bytes=size))
    remote.close()


def test_a_connack_with_everything_that_it_may_say_is_taken() -> None:
    """Each property at its largest, user properties that repeat, U+FEFF in strings; what follows is left to be read."""
    properties = [
        b"\x11" + b"\xff" * 4,  # session expiry interval
        b"\x12" + string("auto-\ufeff"),  # assigned client identifier
        b"\x13\xff\xff",  # server keep alive
        b"\x15" + string("SCRAM-SHA-1"),  # authentication method
        b"\x16\x00\x02\x00\xff",  # authentication data
        b"\x1a" + string("\ufeffanswers/here"),  # response information
        b"\x1c" + string("other:1883"),  # server reference
        b"\x1f" + string("\ufeffwelcome \U0010ffff"),  # reason string
        b"\x21\xff\xff",  # receive maximum
        b"\x22\xff\xff",  # topic alias maximum
        b"\x24\x01",  # maximum QoS
        b"\x25\x00",  # retain available
        b"\x26" + string("a") + string("1"),  # user property
        b"\x26" + string("a") + string("1"),
        b"\x26" + string("") + string("\ufeff" * 1000),
        b"\x27" + b"\xff" * 4,  # maximum packet size
        b"\x28\x00",  # wildcard subscription available
        b"\x29\x00",  # subscription identifier available
        b"\x2a\x00",  # shared subscription available
    ]
    remote = let_in(b"".join(properties), then=b"\xd0\x00")
    assert remote.connack == Connack(
        session_present=True,
        receive_maximum=65_535,
        limits=RemoteLimits(
            1, retain_available=False, packet_max_bytes=0xFFFF_FFFF, wildcard_available=False, shared_available=False
        ),
        keep_alive_s=65_535,
        session_expiry_s=0xFFFF_FFFF,
        topic_alias_maximum=65_535,
    )
    assert wait_until(remote.receive, PATIENCE_S, "what follows") == b"\xd0\x00"
    remote.close()


def test_a_connack_that_says_nothing_more_is_taken() -> None:
    remote = let_in(b"")
    assert remote.connack == Connack(session_present=True)
    remote.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "(0x84)"),
        (2, "Client identifier not valid (0x85)"),
        (3, "(0x88)"),
        (4, "Bad user name or password (0x86)"),
        (5, "(0x87)"),
    ],
)
def test_the_return_codes_of_3_1_1_are_told_by_name(code: int, reason: str) -> None:
    settings = replace(bridge().remote, protocol=4, connect_timeout_s=PATIENCE_S)
    with pytest.raises(Unavailable) as failed:
        open_remote(settings, "c", answer(bytes((0x20, 2, 0, code))), clean=False)
    assert reason in failed.value.message


def test_a_probe_connects_and_says_nothing() -> None:
    """No CONNECT, so no session of ours is taken over, resumed or ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe_remote(bridge().remote, server.getsockname())
        server.settimeout(PATIENCE_S)
        with server.accept()[0] as sock:
            sock.settimeout(PATIENCE_S)
            assert sock.recv(1) == b""


def test_a_probe_of_nobody_is_told() -> None:
    with pytest.raises(Unavailable) as failed:
        probe_remote(bridge().remote, ("127.0.0.1", free_port()))
    assert (failed.value.fields["step"], fault_of(failed.value)) == ("tcp", LinkFault.NOBODY_LISTENS)


def test_a_probe_shakes_hands_where_tls_is_configured() -> None:
    settings = replace(bridge().remote, transport="tls", connect_timeout_s=PATIENCE_S)
    with pytest.raises(Unavailable) as failed:
        probe_remote(settings, answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert failed.value.fields["step"] == "tls"


@pytest.mark.process
@pytest.mark.parametrize("transport", ["tcp", "tls", "ws"])
def test_the_system_probes_a_silent_connection_as_is_set(transport: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    pair = authority.issue("remote")
    certificate = (pair.cert_file, pair.key_file) if transport == "tls" else None
    with Mosquitto(tmp_path / "remote", websockets=transport == "ws", certificate=certificate) as broker:
        settings = replace(
            bridge().remote, transport=transport, tls=TlsSettings(ca_file=str(authority.ca_file)), connect_timeout_s=PATIENCE_S
        )

        assert probes(settings, broker.port) == (True, 60, 10, 6)
        set_so = TcpKeepAliveSettings(idle_s=7, interval_s=3, count=4)
        assert probes(replace(settings, tcp_keep_alive=set_so), broker.port) == (True, 7, 3, 4)
        assert not probes(replace(settings, tcp_keep_alive=TcpKeepAliveSettings(idle_s=0)), broker.port)[0]


def probes(settings: RemoteSettings, port: int) -> tuple[bool, int, int, int]:
    """Whether the system probes the connection to the remote; after how long, how often, and how many are lost at most."""
    remote = open_remote(settings, "c", ("127.0.0.1", port), clean=False)
    try:
        with socket.socket(fileno=socket.dup(remote.fileno())) as sock:
            idle_s, interval_s, count = (
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            return sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1, idle_s, interval_s, count
    finally:
        remote.close()
