"""3.1 CONNECT and 3.2 CONNACK, what both versions have."""

from __future__ import annotations

import time
from itertools import islice

import pytest

from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import clause
from tests.support.mqtt_client import Closed
from tests.support.mqtt_packets import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGRESP,
    PUBACK,
    SUBACK,
    Packet,
    Will,
    connect_bytes,
    packet_bytes,
    publish_bytes,
    string,
    subscribe_bytes,
)
from tests.support.waiting import wait_until

TAKEN_OVER, KEEP_ALIVE_TIMEOUT = 0x8E, 0x8D


@pytest.mark.parametrize("first", [b"\xc0\x00", b"\xe0\x00", b"\x30\x04\x00\x01ax", b"\x82\x06\x00\x01\x00\x01a\x00"])
@clause(v311="MQTT-3.1.0-1", v5="MQTT-3.1.0-1 MQTT-3.14.0-1")
def test_the_first_packet_is_connect(dial: Dial, version: int, first: bytes) -> None:
    client = dial(version)
    client.send(first)
    assert client.rest() == []


@pytest.mark.parametrize("name", ["mqtt", "MQTTX", "", "HTTP"])
@clause(v311="MQTT-3.1.2-1", v5="MQTT-3.1.2-1")
def test_another_protocol_name_is_not_served(dial: Dial, version: int, name: str, topic: str, join: Join) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    client = dial(version)
    body = string(name) + connect_bytes(version, "a")[8:]
    client.send(packet_bytes(CONNECT, 0, body), publish_bytes(version, topic, b"wrong"))
    assert client.rest_of_bytes() in (b"", b"\x20\x02\x00\x01" if version == 4 else b"\x20\x03\x00\x84\x00")
    watcher.deliver(topic, b"right")
    assert watcher.receive().payload == b"right"


@pytest.mark.parametrize("level", [0, 2, 6, 127])
@clause(v311="MQTT-3.1.2-2", v5="MQTT-3.1.2-2")
def test_another_protocol_level_is_refused(dial: Dial, version: int, level: int) -> None:
    client = dial(4)
    connect = bytearray(connect_bytes(version, "a"))
    connect[8] = level
    client.send(bytes(connect))
    whole = client.rest_of_bytes()
    assert whole in (b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"), whole


@clause(v311="MQTT-3.1.3-1 MQTT-3.1.2-9 MQTT-3.1.2-19 MQTT-3.1.2-21", v5="MQTT-3.1.3-1 MQTT-3.1.2-17 MQTT-3.1.2-19")
def test_all_fields_are_read_in_their_order(dial: Dial, join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    client = dial(version)
    client.send(connect_bytes(version, "all-fields", will=Will(topic=topic, payload=b"gone"), username="user", password=b"secret"))
    client.expect(CONNACK, reason_code=0)
    client.vanish()
    assert watcher.receive().payload == b"gone"


@pytest.mark.parametrize("name", ["a", "0123456789abcdefghijklm", "NOPQRSTUVWXYZ"])
@clause(v311="MQTT-3.1.3-3 MQTT-3.1.3-5 MQTT-3.1.4-4", v5="MQTT-3.1.3-3 MQTT-3.1.3-5 MQTT-3.1.4-5")
def test_a_client_identifier_of_1_to_23_plain_characters_is_taken(join: Join, version: int, name: str) -> None:
    assert join(version, name).connack.reason_code == 0


@clause(v311="MQTT-3.1.3-6 MQTT-3.2.0-1", v5="MQTT-3.1.3-6 MQTT-3.2.0-1 MQTT-3.2.0-2")
def test_clients_without_an_identifier_get_one_each(join: Join, version: int, topic: str) -> None:
    first, second = join(version, ""), join(version, "")
    for client in (first, second):
        client.subscribe(topic)
    second.deliver(topic, b"both live")
    assert first.receive().payload == second.receive().payload == b"both live"


@clause(v311="MQTT-3.1.4-2", v5="MQTT-3.1.4-3 MQTT-4.13.2-1")
def test_a_client_identifier_that_connects_again_takes_over(join: Join, version: int, topic: str) -> None:
    old = join(version, topic)
    old.drain()
    new = join(version, topic)
    old.expect_end(TAKEN_OVER)
    assert new.drain() == []


@clause(v311="MQTT-3.1.3-2", v5="MQTT-3.1.3-2")
def test_sessions_of_different_identifiers_differ(join: Join, version: int, topic: str) -> None:
    one = join(version, f"{topic}-1", expiry_s=100)
    one.subscribe(topic)
    other = join(version, f"{topic}-2", expiry_s=100)
    assert not other.connack.session_present
    one.disconnect()
    assert join(version, f"{topic}-1", expiry_s=100).connack.session_present


@clause(v311="MQTT-3.2.0-1", v5="MQTT-3.2.0-1 MQTT-3.2.0-2 MQTT-3.2.2-1")
def test_connack_comes_first_and_once(dial: Dial, version: int, topic: str) -> None:
    """Also for packets sent along with CONNECT."""
    client = dial(version)
    client.send(connect_bytes(version, topic), subscribe_bytes(version, 1, [(topic, 0)]), b"\xc0\x00")
    kinds = [client.read().kind for _ in range(3)]
    assert kinds[0] == CONNACK
    assert set(kinds[1:]) == {SUBACK, PINGRESP}


@clause(v311="MQTT-3.1.4-5 MQTT-3.2.2-4 MQTT-3.2.2-5", v5="MQTT-3.1.4-6 MQTT-3.2.2-6 MQTT-3.2.2-7 MQTT-4.13.2-1")
def test_nothing_behind_a_refused_connect_is_processed(dial: Dial, join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(topic)
    client = dial(version)
    bad = connect_bytes(version, "", clean=False) if version == 4 else connect_bytes(5, "a", properties=[(0x15, "NONE")])
    client.send(bad, publish_bytes(version, topic, b"refused"))
    code = client.expect_refusal(2, 0x8C, 0x87)
    assert code is not None
    watcher.deliver(topic, b"served")
    assert watcher.receive().payload == b"served"


@clause(v311="MQTT-3.1.2-24", v5="MQTT-3.1.2-22 MQTT-3.2.2-22")
def test_silence_for_one_and_a_half_keep_alives_ends_the_connection(join: Join, version: int, topic: str) -> None:
    """As a network failure does: the Will goes out."""
    watcher = join(version)
    watcher.subscribe(topic)
    began_s = time.monotonic()
    silent, busy = join(version, keep_alive_s=3, will=Will(topic=topic)), join(version, keep_alive_s=3)

    def is_closed() -> bool:
        assert busy.drain() == []
        try:
            last: Packet | None = silent.read(0.2)
        except (Closed, ConnectionResetError):
            return True
        except TimeoutError:
            return False
        assert last is not None
        assert (last.kind, last.reason_code) == (DISCONNECT, KEEP_ALIVE_TIMEOUT)
        return False

    wait_until(is_closed, 60.0, "the silent client is closed")
    assert time.monotonic() - began_s >= 4.5
    assert busy.drain() == []
    assert watcher.receive().payload == b"will"


@clause(v311="MQTT-3.1.2-24", v5="MQTT-3.1.2-22")
def test_keep_alive_counts_packets_and_one_that_goes_on_coming_has_its_time(join: Join, version: int, topic: str) -> None:
    """A client of which now and then a byte comes is silent; one that sends a large packet over a slow link is not."""
    dribbling, slow = join(version, keep_alive_s=3), join(version, keep_alive_s=3)
    small, large = (iter(publish_bytes(version, topic, bytes(size), 1, 1)) for size in (900, 200_000))

    def is_closed() -> bool:
        try:
            dribbling.send(bytes(islice(small, 1)))
            slow.send(bytes(islice(large, 1000)))
            last = dribbling.read(0.1)
        except TimeoutError:
            return False
        except (Closed, BrokenPipeError, ConnectionResetError):
            return True
        assert (last.kind, last.reason_code) == (DISCONNECT, KEEP_ALIVE_TIMEOUT)
        return False

    wait_until(is_closed, 60.0, "who sends a byte now and then is closed")
    slow.send(bytes(large))
    slow.expect(PUBACK, 1)
