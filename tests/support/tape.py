"""Every packet that passes a ``Proxy``, in order, with its time and direction, for those who judge afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.mqtt_packets import CONNACK, PUBLISH, Conversation, Packet
from tests.support.proxy import Tap

_NAMES = (
    *("CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK"),
    *("UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)


@dataclass(frozen=True, slots=True)
class Passed:
    """One whole packet on a numbered connection. up: towards the target of the proxy. at_s: since the tape began."""

    at_s: float
    connection: int
    up: bool
    packet: Packet

    def __str__(self) -> str:
        packet = self.packet
        words = [f"{self.at_s:9.4f} s", f"connection {self.connection}", "bridge -> remote" if self.up else "remote -> bridge"]
        words.append(_NAMES[packet.kind - 1])
        if packet.kind == CONNACK:
            words.append(f"session present {packet.session_present:d}, reason {packet.reason_code}")
        if packet.packet_id:
            words.append(f"id {packet.packet_id}")
        if packet.kind == PUBLISH:
            words += [f"DUP {packet.dup:d}", f"QoS {packet.qos}", packet.topic, packet.payload.decode(errors="replace")]
        return " ".join(words)


class Tape:
    """Is the ``tap`` of a ``Proxy``. A packet is on it once its last byte has passed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._lock = threading.Lock()
        self._conversations: dict[int, Conversation] = {}
        self._passed: list[Passed] = []

    def opened(self, connection: int) -> None:
        self._conversations[connection] = Conversation()

    def passed_up(self, connection: int, data: bytes) -> None:
        self._add(connection, True, self._conversations[connection].passed_up(data))

    def came_down(self, connection: int, data: bytes) -> None:
        self._add(connection, False, self._conversations[connection].came_down(data))

    @property
    def passed(self) -> list[Passed]:
        """Everything so far."""
        with self._lock:
            return list(self._passed)

    def by_client(self) -> dict[str, list[Passed]]:
        """Everything so far, by the client identifier of the connection."""
        clients: dict[int, str] = {}
        found: dict[str, list[Passed]] = {}
        for passed in self.passed:
            if passed.packet.connect is not None:
                clients[passed.connection] = passed.packet.connect.client_id
            found.setdefault(clients[passed.connection], []).append(passed)
        return found

    @property
    def count(self) -> int:
        """How many packets that is."""
        return len(self._passed)

    def _add(self, connection: int, up: bool, packets: list[Packet]) -> None:
        at_s = self._clock() - self._began_s
        with self._lock:
            self._passed += [Passed(at_s, connection, up, packet) for packet in packets]


class Taps:
    """Several taps of one ``Proxy``."""

    def __init__(self, *taps: Tap) -> None:
        self._taps = taps

    def opened(self, connection: int) -> None:
        for tap in self._taps:
            tap.opened(connection)

    def passed_up(self, connection: int, data: bytes) -> None:
        for tap in self._taps:
            tap.passed_up(connection, data)

    def came_down(self, connection: int, data: bytes) -> None:
        for tap in self._taps:
            tap.came_down(connection, data)


def excerpt(recording: Sequence[Passed], places: Sequence[int], around: int = 12) -> str:
    """The packets at ``places``, each marked and with ``around`` packets before and after it; what is left out is said."""
    marked = set(places)
    shown = sorted({at for place in places for at in range(place - around, place + around + 1) if 0 <= at < len(recording)})
    lines, last = [], -1
    for at in shown:
        if at != last + 1:
            lines.append(f"      ... {at - last - 1} packets")
        lines.append(f"{'  >>' if at in marked else '    '} {at:6} {recording[at]}")
        last = at
    if last + 1 < len(recording):
        lines.append(f"      ... {len(recording) - last - 1} packets")
    return "\n".join(lines)
