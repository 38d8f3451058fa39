"""A node that stands by tells clients who leads, one packet each, and closes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from actors.store.redirecting import CONNECT_MAX_BYTES, Redirecting, redirection
from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import ListenerSettings, ProxyProtocolSettings
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_3_1_1, MQTT_5_0, Connect

BEHIND_PROXY = ListenerSettings(bind=f"127.0.0.1:{free_port()}", proxy_protocol=ProxyProtocolSettings(sources=("127.0.0.1/32",)))


@contextmanager
def redirecting(leader: str) -> Iterator[int]:
    port = free_port()
    door = Redirecting([ListenerSettings(bind=f"127.0.0.1:{port}"), BEHIND_PROXY], lambda: leader)
    try:
        wait_until(lambda: accepts(port), PATIENCE_S, "it listens")
        yield port
    finally:
        door.close()


def said_to(port: int, *pieces: bytes) -> bytes:
    """All that comes until the far end closes."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        for piece in pieces:
            client.sendall(piece)
        said = b""
        while data := client.recv(1000):
            said += data
        return said


def connect(level: int) -> bytes:
    return encode(Connect(level=level, client_id="c", clean_start=True, keep_alive_s=0), level)


def test_a_client_of_mqtt_5_is_told_where_to_go() -> None:
    with redirecting("10.0.0.2:1883") as port:
        packet = connect(MQTT_5_0)
        said = said_to(port, packet[:3], packet[3:])
        assert not accepts(BEHIND_PROXY.port), "a proxy looks where a port is open"
    assert said == redirection(MQTT_5_0, "10.0.0.2:1883")
    assert said[3] == 0x9C
    assert said.endswith(b"\x1c\x00\x0d10.0.0.2:1883")


@pytest.mark.parametrize(("level", "answer"), [(0x84, "20020003"), (0x83, "20020001"), (3, "20020001"), (6, "20020001")])
def test_the_answer_has_the_form_that_its_reader_knows(level: int, answer: str) -> None:
    """Also a bridge's, and that of a level which nobody speaks here."""
    with redirecting("10.0.0.2:1883") as port:
        packet = connect(MQTT_3_1_1)
        said = said_to(port, packet[:8] + bytes((level,)) + packet[9:])
    assert said.hex() == answer


@pytest.mark.parametrize(("level", "leader", "code"), [(MQTT_3_1_1, "10.0.0.2:1883", 3), (MQTT_5_0, "", 0x88)])
def test_who_cannot_be_told_is_refused(level: int, leader: str, code: int) -> None:
    with redirecting(leader) as port:
        said = said_to(port, connect(level))
    assert (said[0], said[3]) == (0x20, code)


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\x10\xff\xff\xff\x7f", b"\xc0\x00", b"\x10" + b"\xff" * 5])
def test_what_is_no_connect_is_closed_unanswered(words: bytes) -> None:
    with redirecting("x:1") as port:
        assert said_to(port, words) == b""
        assert said_to(port, connect(MQTT_5_0)), "and the next one is answered"
    assert CONNECT_MAX_BYTES < 0x7FFFFFF


def test_the_ports_are_free_once_it_is_closed() -> None:
    with redirecting("x:1") as port:
        waiting = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    with socket.create_server(("127.0.0.1", port)):
        waiting.close()


def test_it_can_be_closed_before_it_listens() -> None:
    for _ in range(20):
        port = free_port()
        Redirecting([ListenerSettings(bind=f"127.0.0.1:{port}")], lambda: "x:1").close()
        with socket.create_server(("127.0.0.1", port)):
            pass
