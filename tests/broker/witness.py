"""Everyone else: a publisher and a subscriber that must be served whatever another client does."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK, PUBLISH

TOPIC = "witness/heartbeat"


class Witness:
    """Publishes at QoS 1 with MQTT 5.0 and reads it back with MQTT 3.1.1."""

    def __init__(self, port: int) -> None:
        self._publisher = MqttClient(port, "witness-publisher", version=5)
        self._subscriber = MqttClient(port, "witness-subscriber")
        self.served = 0

    def __enter__(self) -> Self:
        self._publisher.connect()
        self._subscriber.connect()
        assert self._subscriber.subscribe(TOPIC, qos=1).reason_codes[0] <= 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._publisher.close()
        self._subscriber.close()

    def is_served(self) -> None:
        """One message goes all the way: acknowledged, and delivered next."""
        payload = b"%d" % self.served
        packet_id = self._publisher.publish(TOPIC, payload, qos=1)
        answer = self._publisher.expect(PUBACK, packet_id=packet_id)
        assert answer.reason_code < 0x80, answer
        delivered = self._subscriber.expect(PUBLISH)
        assert delivered.payload == payload
        if delivered.packet_id:
            self._subscriber.acknowledge(PUBACK, delivered.packet_id)
        self.served += 1
