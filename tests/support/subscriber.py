"""A subscriber at the remote Mosquitto that outlives restarts of it: persistent session, receiver's side, record of what came."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from tests.support.arrivals import Arrivals
from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    Packet,
    packet_bytes,
    subscribe_bytes,
)
from tests.support.waiting import PATIENCE_S, wait_until


class Subscriber:
    """Collects PUBLISHes of ``filters`` in a thread of its own, reconnecting as long as it lives."""

    def __init__(
        self,
        port: int,
        *filters: str,
        qos: int = 2,
        version: int = 4,
        client_id: str = "subscriber",
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        self._filters = filters
        self._qos = qos
        self._client = MqttClient(
            port, client_id, version=version, clean=False, session_expiry_s=3600, username=username, password=password
        )
        self._lock = threading.Lock()
        self._packets: list[Packet] = []
        self._received_qos_2: set[int] = set()
        self._subscribed = threading.Event()
        self._ending = threading.Event()
        self._failure: AssertionError | None = None  # what came breaks the protocol
        self._thread = threading.Thread(target=self._run, name="subscriber", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._subscribed.wait(PATIENCE_S), "the subscriber could not subscribe at the remote broker"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the subscriber's thread did not end"
        if self._failure is not None and error is None:
            raise self._failure

    def end(self) -> None:
        """Have its thread end soon: who leaves several waits for them together."""
        self._ending.set()

    @property
    def packets(self) -> list[Packet]:
        """Every PUBLISH so far, in order of arrival."""
        with self._lock:
            return list(self._packets)

    def payloads(self, topic: str) -> list[str]:
        """The payloads of ``topic`` so far, in order of arrival, repeats included."""
        return [packet.payload.decode() for packet in self.packets if packet.topic == topic]

    def count(self) -> int:
        """How many PUBLISHes came."""
        with self._lock:
            return len(self._packets)

    def arrivals(self, topic: str, expected: list[str]) -> Arrivals:
        """The fate of the ``expected`` payloads of ``topic``, in their order of publishing."""
        return Arrivals.of(self.payloads(topic), expected)

    def wait_for(self, topic: str, expected: list[str], deadline_s: float = PATIENCE_S) -> Arrivals:
        """Wait until each of ``expected`` has come, as often as it stands there; the test fails with what is missing otherwise."""
        wanted = Counter(expected)
        wait_until(
            lambda: self._failure is not None or (self.count() >= len(expected) and wanted <= Counter(self.payloads(topic))),
            deadline_s,
            lambda: f"arrival of {len(expected)} messages of {topic}; missing {self._missing(topic, expected)}",
            period_s=0.05,
        )
        assert self._failure is None, f"the subscriber failed: {self._failure!r}"
        return self.arrivals(topic, expected)

    def _missing(self, topic: str, expected: list[str]) -> str:
        missing = list((Counter(expected) - Counter(self.payloads(topic))).elements())
        return f"{len(missing)}: {missing[:10]}"

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._receive()
            except OSError:
                if self._ending.wait(0.05):
                    break
            except AssertionError as error:
                self._failure = error
                break
        self._client.close()

    def _receive(self) -> None:
        connack = self._client.connect(deadline_s=10.0)
        if connack.reason_code != 0:
            raise Closed(f"refused: {connack}")
        if not connack.session_present:
            self._received_qos_2.clear()
        waiting: list[Packet] = []
        if not (self._subscribed.is_set() and connack.session_present):
            waiting = self._subscribe()
            self._subscribed.set()
        for packet in waiting:
            self._take(packet)
        quiet_since_s = time.monotonic()
        while not self._ending.is_set():
            try:
                self._take(self._client.read(0.2))
                quiet_since_s = time.monotonic()
            except TimeoutError:
                if time.monotonic() - quiet_since_s > 5.0:
                    self._client.send(packet_bytes(PINGREQ))  # notices a dead connection
                    quiet_since_s = time.monotonic()

    def _subscribe(self) -> list[Packet]:
        early: list[Packet] = []
        options = self._qos | (8 if self._client.version == 5 else 0)  # retain as published
        self._client.send(subscribe_bytes(self._client.version, 65_000, [(one, options) for one in self._filters]))
        while (packet := self._client.read(10.0)).kind != SUBACK:
            early.append(packet)
        if max(packet.reason_codes) >= 0x80:
            raise Closed(f"the subscription was refused: {packet}")
        return early

    def _take(self, packet: Packet) -> None:
        if packet.kind == PUBREL:
            self._received_qos_2.discard(packet.packet_id)
            self._client.acknowledge(PUBCOMP, packet.packet_id)
        if packet.kind != PUBLISH:
            return
        repeated = packet.qos == 2 and packet.packet_id in self._received_qos_2
        if not repeated:
            with self._lock:
                self._packets.append(packet)
        if packet.qos == 1:
            self._client.acknowledge(PUBACK, packet.packet_id)
        elif packet.qos == 2:
            self._received_qos_2.add(packet.packet_id)
            self._client.acknowledge(PUBREC, packet.packet_id)
