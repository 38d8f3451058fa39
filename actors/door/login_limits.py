"""How often a login may fail from one address before that address has to wait. Pure.

door.failed-logins-wait [access]: after ``failures_max`` failures within ``period_s``, logins from that address are refused for
    ``block_s``.
door.refused-login-changes-nothing [access]: a refused attempt changes nothing, so a wait always ends. A success changes nothing
    either, or one good account would let an attacker try for ever.
door.ipv6-counts-by-64 [access]: IPv6 addresses count by their /64, which one subscriber has as a whole; IPv4 addresses one by one,
    also inside IPv6.
door.failed-addresses-bounded [P5]: memory is bounded: beyond ``addresses_max`` the address that has not failed for the longest time
    is forgotten.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from wire.settings import LoginLimitSettings

ADDRESSES_MAX = 10_000
_HOST_BITS = 64


def network_of(host: str) -> str:
    """What is limited when ``host`` fails: its IPv4 address or its IPv6 /64; empty for what is no address (a Unix socket)."""
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> _HOST_BITS << _HOST_BITS)}/{_HOST_BITS}"


@dataclass(slots=True)
class _Failures:
    at_s: deque[float]
    blocked_until_s: float = float("-inf")


class LoginLimits:
    """Counts failures by network, as ``network_of`` names it. ``failures_max`` None: without limit."""

    def __init__(self, failures_max: int | None, period_s: float, block_s: float, *, addresses_max: int = ADDRESSES_MAX) -> None:
        self._failures_max = failures_max
        self._period_s = period_s
        self._block_s = block_s
        self._addresses_max = addresses_max
        self._failures: dict[str, _Failures] = {}  # in the order of their last failures

    def adopt(self, limits: LoginLimitSettings) -> None:
        """These hold for who fails from now on; who has to wait does."""
        self._failures_max, self._period_s, self._block_s = limits.failures_max, limits.period_s, limits.block_s
        for failures in self._failures.values():
            failures.at_s = deque(failures.at_s, maxlen=limits.failures_max)

    def __len__(self) -> int:
        return len(self._failures)

    def blocked(self, network: str, now_s: float) -> bool:
        """Whether logins from ``network`` are refused at ``now_s``."""
        failures = self._failures.get(network)
        return failures is not None and now_s < failures.blocked_until_s

    def failed(self, network: str, now_s: float) -> bool:
        """Count one failure; True if ``network`` is refused from now on."""
        if self._failures_max is None or not network:
            return False
        failures = self._failures.pop(network, None) or _Failures(deque(maxlen=self._failures_max))
        if len(self._failures) >= self._addresses_max:
            del self._failures[next(iter(self._failures))]
        self._failures[network] = failures
        failures.at_s.append(now_s)
        if len(failures.at_s) < self._failures_max or now_s - failures.at_s[0] > self._period_s:
            return False
        failures.blocked_until_s = now_s + self._block_s
        failures.at_s.clear()
        return True
