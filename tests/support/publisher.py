"""A publisher as real clients are: keeps its session, reconnects, and sends again with DUP what was not acknowledged.

It runs in a thread, so that a test can break things meanwhile, and numbers its messages 0, 1, 2, ... in their payloads, behind its
``mark`` and padded to ``size_bytes``.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBREC, PUBREL
from tests.support.waiting import PATIENCE_S, wait_until

_RECONNECT_PAUSE_S = 0.02
_PATIENCE_S = 20.0


class Publisher:
    """Publishes to ``topic`` until ``finish``: at most ``window`` unacknowledged, about ``rate_per_s`` messages a second."""

    def __init__(
        self,
        port: int,
        topic: str,
        *,
        qos: int,
        version: int = 4,
        window: int = 50,
        rate_per_s: float = 2000.0,
        size_bytes: int = 0,
        mark: str = "",
    ) -> None:
        self.topic = topic
        self.qos = qos
        self.reconnects = 0
        self.sessions_lost = 0
        self._client = MqttClient(
            port, f"publisher-{qos}-{topic.replace('/', '-')}", version=version, clean=False, session_expiry_s=3600
        )
        self._window = window
        self._size_bytes = size_bytes
        self._mark = mark
        self._period_s = window / 2 / rate_per_s
        self._sent = 0
        self._acknowledged = 0
        self._unacknowledged: dict[int, tuple[str, bool]] = {}  # packet identifier -> (payload, whether PUBREC came); in order
        self._ending = threading.Event()
        self._given_up = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._given_up.set()
        self._ending.set()
        self._client.close()
        self._thread.join(PATIENCE_S)

    @property
    def acknowledged(self) -> int:
        """How many messages have their PUBACK or PUBCOMP (QoS 0: were sent)."""
        return self._acknowledged

    @property
    def sent(self) -> list[str]:
        """Every payload that was published so far, in order."""
        return [self._payload(number) for number in range(self._sent)]

    def wait_acknowledged(self, more: int, deadline_s: float = PATIENCE_S) -> None:
        """Wait until ``more`` further messages are acknowledged."""
        target = self._acknowledged + more
        wait_until(
            lambda: self._acknowledged >= target or self._failure is not None,
            deadline_s,
            lambda: f"{more} more acknowledgements; {self._acknowledged} of {self._sent} are acknowledged",
        )
        assert self._failure is None, f"the publisher failed: {self._failure!r}"

    def finish(self, deadline_s: float = PATIENCE_S) -> list[str]:
        """Publish nothing new, wait until everything is acknowledged, and return all payloads in order."""
        self._ending.set()
        self._thread.join(max(deadline_s, PATIENCE_S))
        assert self._failure is None, f"the publisher failed: {self._failure!r}"
        assert not self._thread.is_alive(), f"not all acknowledged in time: {self._acknowledged} of {self._sent}"
        return self.sent

    def _run(self) -> None:
        try:
            while not self._is_done():
                try:
                    self._connect()
                    self._publish()
                except OSError:
                    self.reconnects += 1
                    self._given_up.wait(_RECONNECT_PAUSE_S)
        except AssertionError as error:
            self._failure = error
        finally:
            self._client.close()

    def _payload(self, number: int) -> str:
        return f"{self._mark}{number}".ljust(self._size_bytes)

    def _is_done(self) -> bool:
        return self._given_up.is_set() or (self._ending.is_set() and not self._unacknowledged and self._sent > 0)

    def _connect(self) -> None:
        connack = self._client.connect(deadline_s=10.0)
        if connack.reason_code != 0:
            raise Closed(f"refused with {connack.reason_code}")
        if self._sent and not connack.session_present:
            self.sessions_lost += 1
        for packet_id, (payload, released) in list(self._unacknowledged.items()):
            if released:
                self._client.acknowledge(PUBREL, packet_id)
            else:
                self._client.publish(self.topic, payload, qos=self.qos, packet_id=packet_id, dup=True)

    def _publish(self) -> None:
        """Bursts of half a window, paced; between them whatever acknowledgements there are."""
        next_burst_s = time.monotonic()
        progress_s = next_burst_s
        while not self._is_done():
            now_s = time.monotonic()
            has_room = len(self._unacknowledged) <= self._window // 2
            wants_more = not self._ending.is_set() or not self._sent
            if wants_more and has_room and now_s >= next_burst_s:
                self._burst()
                next_burst_s = max(next_burst_s + self._period_s, now_s)
            pause_s = max(0.001, next_burst_s - now_s) if wants_more and has_room else 0.5
            if not self.qos:
                self._given_up.wait(pause_s)
            elif self._take_acknowledgements(pause_s) or not self._unacknowledged:
                progress_s = time.monotonic()
            elif time.monotonic() - progress_s > _PATIENCE_S:
                raise Closed("no acknowledgement for long: connect again")

    def _burst(self) -> None:
        data = bytearray()
        for _ in range(min(self._window - len(self._unacknowledged), max(1, self._window // 2))):
            packet_id, payload = self._sent % 60_000 + 1, self._payload(self._sent)
            assert packet_id not in self._unacknowledged, "the packet identifiers are used up"
            data += self._client.encode_publish(self.topic, payload, self.qos, packet_id)
            if self.qos:
                self._unacknowledged[packet_id] = (payload, False)
            self._sent += 1
        self._client.send(bytes(data))
        if not self.qos:
            self._acknowledged = self._sent

    def _take_acknowledgements(self, patience_s: float) -> bool:
        """Take what comes within ``patience_s``, and all that is there then; whether anything came."""
        came = False
        try:
            while True:
                packet = self._client.read(0.0 if came else patience_s)
                self._take(packet.kind, packet.packet_id)
                came = True
        except TimeoutError:
            return came

    def _take(self, kind: int, packet_id: int) -> None:
        if kind == PUBREC:
            if packet_id in self._unacknowledged:
                self._unacknowledged[packet_id] = (self._unacknowledged[packet_id][0], True)
            self._client.acknowledge(PUBREL, packet_id)
        elif kind == (PUBACK if self.qos == 1 else PUBCOMP):
            if self._unacknowledged.pop(packet_id, None) is not None:
                self._acknowledged += 1
        else:
            raise AssertionError(f"unexpected packet of kind {kind}")
