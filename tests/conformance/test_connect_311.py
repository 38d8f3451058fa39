"""3.1 and 3.2, what only MQTT 3.1.1 has."""

from __future__ import annotations

from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import clause
from tests.support.mqtt_packets import CONNACK, connect_bytes


@clause(v311="MQTT-3.1.3-7 MQTT-3.1.3-8 MQTT-3.2.2-4 MQTT-3.2.2-5")
def test_no_client_identifier_and_clean_session_0_is_refused_with_2(dial: Dial, version: int) -> None:
    client = dial(version)
    client.send(connect_bytes(version, "", clean=False))
    refusal = client.expect(CONNACK, reason_code=2)
    assert not refusal.session_present
    assert client.rest() == []


@clause(v311="MQTT-3.1.2-12")
def test_without_a_will_flag_nothing_is_published_at_the_end(join: Join, version: int, topic: str) -> None:
    watcher = join(version)
    watcher.subscribe(f"{topic}/#")
    client = join(version)
    client.vanish()
    watcher.deliver(f"{topic}/end", b"end")
    assert watcher.receive_until(b"end") == []
