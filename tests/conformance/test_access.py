"""3.1.4 and 3.3.5: who is not let in, and what who may not do is told."""

from __future__ import annotations

import pytest

from tests.conformance.brokers import PASSWORD, Broker
from tests.conformance.conftest import Dial
from tests.conformance.statements import clause
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import CONNACK, PINGRESP, PUBACK, PUBREC, SUBACK, connect_bytes, publish_bytes

NOT_AUTHORIZED = 0x87


def _ali(dial: Dial, guarded: Broker, version: int, client_id: str) -> MqttClient:
    client = dial(version, guarded.port)
    client.send(connect_bytes(version, client_id, username="ali", password=PASSWORD.encode()))
    client.expect(CONNACK, reason_code=0)
    return client


@pytest.mark.parametrize(("user", "password"), [("ali", "wrong"), ("nobody", PASSWORD), (None, None), ("ali", None)])
@clause(
    v311="MQTT-3.1.4-5 MQTT-3.2.2-4 MQTT-3.2.2-5",
    v5="MQTT-3.1.4-2 MQTT-3.1.4-6 MQTT-3.2.2-6 MQTT-3.2.2-7 MQTT-3.2.2-8",
)
def test_who_cannot_log_in_is_refused_and_nothing_of_his_is_done(
    dial: Dial, guarded: Broker, version: int, topic: str, user: str | None, password: str | None
) -> None:
    watcher = _ali(dial, guarded, version, f"{topic}w")
    watcher.subscribe(f"allowed/{topic}")
    client = dial(version, guarded.port)
    word = None if password is None else password.encode()
    client.send(
        connect_bytes(version, topic, username=user, password=word),
        publish_bytes(version, f"allowed/{topic}", b"refused"),
    )
    assert client.expect_refusal(*((4, 5) if version == 4 else (0x86, NOT_AUTHORIZED))) is not None
    watcher.deliver(f"allowed/{topic}", b"end")
    assert watcher.receive_until(b"end") == []


@pytest.mark.parametrize("qos", [0, 1, 2])
@clause(v311="MQTT-3.3.5-2 MQTT-3.3.4-1", v5="MQTT-3.4.2-1 MQTT-3.5.2-1 MQTT-3.3.4-1")
def test_a_publish_that_is_not_allowed_is_acknowledged(dial: Dial, guarded: Broker, version: int, topic: str, qos: int) -> None:
    """MQTT 3.1.1: as if it were allowed. MQTT 5: with the reason. Neither broker takes the other way, to close."""
    client = _ali(dial, guarded, version, topic)
    client.send(publish_bytes(version, f"secret/{topic}", b"x", qos, 7), b"\xc0\x00")
    found = {one.kind: one for one in (client.read() for _ in range(2 if qos else 1))}
    assert PINGRESP in found
    if qos:
        answer = found[PUBACK if qos == 1 else PUBREC]
        assert (answer.packet_id, answer.reason_code) == (7, 0 if version == 4 else NOT_AUTHORIZED)


@clause(v5="MQTT-4.3.3-9")
def test_behind_a_pubrec_of_failure_the_identifier_is_new(dial: Dial, guarded: Broker, version: int, topic: str) -> None:
    client = _ali(dial, guarded, version, topic)
    client.subscribe(f"allowed/{topic}", qos=2)
    client.send(publish_bytes(version, f"secret/{topic}", b"no", 2, 7))
    client.expect(PUBREC, 7, NOT_AUTHORIZED)
    client.send(publish_bytes(version, f"allowed/{topic}", b"yes", 2, 7))
    client.answer(PUBREC, 7, 0)
    client.acknowledge(6, 7)
    client.answer(7, 7, 0)
    assert client.receive().payload == b"yes"


@clause(v311="MQTT-3.8.4-5 MQTT-3.9.3-1 MQTT-3.9.3-2", v5="MQTT-3.8.4-7 MQTT-3.9.3-1 MQTT-3.9.3-2")
def test_a_filter_that_is_not_allowed_has_its_code_in_suback(dial: Dial, guarded: Broker, version: int, topic: str) -> None:
    """Or is granted, and nothing comes by it."""
    client = _ali(dial, guarded, version, topic)
    suback = client.subscribe(f"allowed/{topic}", f"secret/{topic}", "allowed/#", qos=1)
    assert suback.kind == SUBACK
    assert (suback.reason_codes[0], suback.reason_codes[2]) == (1, 1)
    assert suback.reason_codes[1] in ((1, 0x80) if version == 4 else (1, NOT_AUTHORIZED))
