"""Which logins are refused because too many have failed, and who is known and let in all the same. Pure.

access.failed-logins-wait [access, P5]: after ``failures_max`` failures within ``period_s``, logins from that address are refused
    for ``block_s``. So are logins of a user that have failed from ``failures_max`` addresses. One address alone never has a user
    wait elsewhere. IPv6 addresses count by their /64, which one subscriber has as a whole; IPv4 addresses one by one, also inside
    IPv6.
    On a Unix socket the user of the process counts. A refused attempt changes nothing else, so a wait always ends. A success takes
    nothing back either, or one good account would let an attacker try for ever. Memory is bounded: of addresses, users and those
    who are known, ``entries_max`` each. Beyond, the one that has not failed, or not come, for the longest time is forgotten.
access.known-login-let-in [access, alive]: who was let in from an address before is let in from there with the same password,
    whatever others have tried: from that address, or for that user. While an address or a user is refused, ``failures_max``
    different wrong passwords for one who is known from there within ``period_s`` have that one wait for ``block_s`` too. They are
    answered as all that is refused, so neither code nor time tells who is known.

The trade: a password hash costs tens of milliseconds by design, so 2,000 clients that reconnect after a cut would keep a core busy
for a minute. So who is known is told by a keyed digest of user, password and password hash. A process that can read this one's
memory could try passwords against that faster than against the hash; but in that memory passwords pass in the clear anyway. The key
is made anew at each start and nothing is ever written. A changed password has another digest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import count
from typing import Any

from wire.config_settings import LoginLimitSettings

ENTRIES_MAX = 10_000
KNOWN_S = 30 * 86_400.0  # since it was let in last
_HOST_BITS = 64


@lru_cache(maxsize=1024)
def network_of(host: str) -> str:
    """The unit that is limited when ``host`` fails: its IPv4 address or its IPv6 /64; empty for what is no address."""
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
    """last_s: when each of them was last, the oldest first. Until ``until_s`` there are no more, since all is refused."""

    last_s: dict[Hashable, float] = field(default_factory=dict)
    until_s: float = float("-inf")

    def add(self, what: Hashable, now_s: float, limits: LoginLimitSettings) -> bool:
        """Count ``what``, once however often it comes; True if these are too many."""
        if limits.failures_max is None:
            return False
        self.last_s.pop(what, None)
        self.last_s[what] = now_s
        while len(self.last_s) > limits.failures_max:
            del self.last_s[next(iter(self.last_s))]
        if len(self.last_s) < limits.failures_max or now_s - next(iter(self.last_s.values())) > limits.period_s:
            return False
        self.until_s = now_s + limits.block_s
        self.last_s.clear()
        return True


@dataclass(slots=True)
class _Known:
    """One who was let in: with which credential, when last, and the wrong ones that were tried while others had to wait."""

    credential: bytes
    let_in_s: float
    guesses: _Failures = field(default_factory=_Failures)


class FailureCounts:
    """Failures by address or by user."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._failures: dict[Hashable, _Failures] = {}  # in the order of their last failures

    def waits(self, key: Hashable, now_s: float) -> bool:
        """Whether ``key`` has failed too often."""
        failures = self._failures.get(key)
        return failures is not None and now_s < failures.until_s

    def on_failed(self, key: Hashable, what: Hashable, now_s: float, limits: LoginLimitSettings) -> bool:
        """Count ``what`` for ``key``, unless that is empty; True if it has to wait from now on."""
        if not key:
            return False
        failures = self._failures.pop(key, None) or _Failures()
        _make_room(self._failures, self._entries_max)
        self._failures[key] = failures
        return failures.add(what, now_s, limits)


class LoginLimits:
    """Counts failures and knows who was let in.

    origin: as ``network_of`` names an address, or what else a login comes from. user and credential: digests of who it is, and of
    how that is proven. An empty origin or user is not counted.
    """

    def __init__(self, limits: Callable[[], LoginLimitSettings], *, entries_max: int = ENTRIES_MAX) -> None:
        self._limits = limits
        self._entries_max = entries_max
        self.origins, self.users = FailureCounts(entries_max), FailureCounts(entries_max)
        self._known: dict[tuple[str, bytes], _Known] = {}  # in the order in which they were let in last
        self._numbers = count()

    def is_known(self, origin: str, user: bytes, credential: bytes, now_s: float) -> bool:
        """Whether this login needs no look, since it was right from there before (access.known-login-let-in)."""
        known = self._known.get((origin, user))
        if known is None or known.credential != credential:
            return False
        return now_s - known.let_in_s < KNOWN_S and now_s >= known.guesses.until_s

    def refuses(self, origin: str, user: bytes, now_s: float) -> bool:
        """Whether a login that is not known is refused at ``now_s``."""
        return self.origins.waits(origin, now_s) or self.users.waits(user, now_s)

    def guessed(self, origin: str, user: bytes, credential: bytes, now_s: float) -> None:
        """A login was refused without a look (access.known-login-let-in)."""
        known = self._known.get((origin, user))
        if known is not None and known.credential != credential:
            known.guesses.add(credential, now_s, self._limits())

    def on_failed(self, origin: str, user: bytes, now_s: float) -> tuple[bool, bool]:
        """Count one that was found wrong. Returns: whether its address, and whether its user, is refused from now on."""
        by_origin = self.origins.on_failed(origin, next(self._numbers), now_s, self._limits())
        return by_origin, self.users.on_failed(user, origin, now_s, self._limits())

    def let_in(self, origin: str, user: bytes, credential: bytes, now_s: float) -> None:
        """It was right: it is known from now on."""
        known = self._known.pop((origin, user), None) or _Known(credential, now_s)
        _make_room(self._known, self._entries_max)
        known.credential, known.let_in_s = credential, now_s
        self._known[origin, user] = known


def _make_room(entries: dict[Any, Any], entries_max: int) -> None:
    """For one more: forget the first."""
    if len(entries) >= entries_max:
        del entries[next(iter(entries))]
