"""Whether a local client has been silent for too long. Pure.

exchange.silence-from-last-packet [alive, MQTT]: a client is silent from its last whole packet on: bytes of one that never ends are
    none [MQTT-3.1.2-24 of 3.1.1, MQTT-3.1.2-22 of 5.0]. A packet that goes on coming has its time: another period for each one in
    which at least ``PACE_BYTES`` of it came. So on a slow link a large packet may take many periods, and one of fewer bytes than
    that has to be whole within one.

A period is one and a half times the keep alive.
"""

from __future__ import annotations

from math import inf

GRACE = 1.5
PACE_BYTES = 1_024


class KeepAlive:
    """One connection's. keep_alive_s: as agreed at CONNECT; 0 is never."""

    __slots__ = ("_came_bytes", "_since_s", "keep_alive_s")

    def __init__(self, now_s: float) -> None:
        self.keep_alive_s = 0.0
        self.on_heard(now_s)

    def agree(self, keep_alive_s: float) -> None:
        """So much was agreed."""
        self.keep_alive_s = keep_alive_s

    def on_heard(self, now_s: float) -> None:
        """A whole packet came, or the client could not be heard till now."""
        self._since_s = now_s
        self._came_bytes = 0

    @property
    def over_s(self) -> float:
        """The earliest time at which ``poll_over`` may be true, if nothing comes."""
        return self._since_s + self.keep_alive_s * GRACE if self.keep_alive_s else inf

    def stood_still(self, passed_s: float, now_s: float) -> None:
        """For so long nobody was heard: that is no silence."""
        self._since_s = min(now_s, self._since_s + passed_s)

    def poll_over(self, now_s: float, under_way_bytes: int) -> bool:
        """Whether the client is silent for too long. under_way_bytes: what has come of a packet that is not whole."""
        if not self.keep_alive_s or now_s - self._since_s <= self.keep_alive_s * GRACE:
            return False
        if under_way_bytes - self._came_bytes < PACE_BYTES:
            return True
        self._since_s, self._came_bytes = now_s, under_way_bytes
        return False
