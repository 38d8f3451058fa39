"""The doubles themselves, on a real Mosquitto: a judge that cannot see a fault is worth nothing."""

from __future__ import annotations

import pytest

from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.mqtt_client import PUBLISH, USER_PROPERTY, MqttClient
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publisher_that_loses_its_connection_sends_again(remote: Mosquitto, qos: int) -> None:
    """Five cuts between publisher and broker: QoS 1 complete, QoS 2 exact, as Mosquitto keeps its side.

    The window is Mosquitto's own: 2.0 drops what an MQTT 3.1.1 publisher has in flight at QoS 2 beyond that.
    """
    with (
        Proxy(remote.port) as proxy,
        Subscriber(remote.port, "t") as subscriber,
        Publisher(proxy.port, "t", qos=qos, window=20) as publisher,
    ):
        for _ in range(5):
            publisher.wait_acknowledged(50)
            before = publisher.reconnects
            proxy.cut()
            wait_until(lambda: publisher.reconnects > before, 10.0, "the publisher notices")  # noqa: B023  # used at once
            proxy.restore()
        publisher.wait_acknowledged(50)
        sent = publisher.finish()
        if qos == 0:
            return
        arrivals = subscriber.wait_for("t", sent)
        assert arrivals.are_complete(), arrivals
        assert qos == 1 or arrivals.are_exact(), arrivals


def test_arrivals_names_each_kind_of_fault(remote: Mosquitto) -> None:
    with Subscriber(remote.port, "t") as subscriber:
        mosquitto_pub(remote.port, "t", ["0", "2", "1", "1", "x"], qos=1)
        wait_until(lambda: subscriber.count() == 5, 5.0, "five messages")
        arrivals = subscriber.arrivals("t", ["0", "1", "2", "3"])
        assert (arrivals.missing, arrivals.duplicates, arrivals.out_of_order, arrivals.unexpected) == (["3"], ["1"], ["1"], ["x"])
        assert not arrivals.are_exact()
        assert not arrivals.are_complete()


def test_a_stalled_proxy_passes_nothing_and_closes_nothing(remote: Mosquitto) -> None:
    with Proxy(remote.port) as proxy, MqttClient(proxy.port) as client:
        client.ping()
        proxy.stall()
        client.send_raw(b"\xc0\x00")
        assert client.is_silent_for(0.3)
        proxy.restore()
        assert client.read().kind == 13


def test_the_client_speaks_mqtt_5(remote: Mosquitto) -> None:
    with MqttClient(remote.port, "a", version=5) as client:
        client.subscribe("t", qos=1)
        client.publish("t", "m", qos=0, properties=[(USER_PROPERTY, ("k", "v"))])
        packet = client.expect(PUBLISH)
        assert (packet.topic, packet.payload, packet.user_properties) == ("t", b"m", [("k", "v")])
