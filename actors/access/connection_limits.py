"""Which connection may stay: counts by address, by listener and in all, and who gives way when too many never say CONNECT. Pure.

access.connections-bounded [P5, alive]: never more than ``connections_max`` connections are there, of a listener's own limit, of
    ``connections_per_address`` from one address, or of ``connections_per_user`` that one user has logged in by. Counts are given
    back, once, when the connection is closed. Before anybody is refused, or has to give way, clients that have left are seen off:
    ``is_full`` asks for that.
access.half-open-bounded [P5, alive]: never more than ``half_open_max`` connections are without an accepted CONNECT: one more closes
    the oldest of the address that has most of them, so that a flood from one place is at its own cost.

Loopback and Unix sockets have no limit per address: what comes from there shares one address without being one client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network

from wire.config_settings import ClientLimitSettings

CONNECTIONS_MAX = "connections_max"
LISTENER_CONNECTIONS_MAX = "listener_connections_max"
CONNECTIONS_PER_ADDRESS = "connections_per_address"
CONNECTIONS_PER_USER = "connections_per_user"
HALF_OPEN_MAX = "half_open_max"

LOCAL = ""  # the key of what has no limit per address
_PREFIX_BITS = 64  # what one IPv6 customer has at least


def address_key(host: str) -> str:
    """The unit that counts as one address: an IPv4 address, the /64 of an IPv6 one, ``LOCAL`` for loopback and what is no IP
    address."""
    try:
        if ":" not in host:
            return LOCAL if IPv4Address(host).is_loopback else host
        address = IPv6Address(host)
    except AddressValueError:
        return LOCAL
    if address.ipv4_mapped is not None:
        return address_key(str(address.ipv4_mapped))
    if address.is_loopback:
        return LOCAL
    return str(IPv6Network((int(address), _PREFIX_BITS), strict=False))


@dataclass(frozen=True, slots=True)
class Verdict:
    """refused: the limit that keeps the newcomer out, empty if it may stay. gives_way: the connection to close for it, or None."""

    refused: str = ""
    gives_way: int | None = None


class ConnectionLimits:
    """Counts connections by their numbers. ``refused`` has, by limit, how many were not let in or had to go."""

    def __init__(self, limits: Callable[[], ClientLimitSettings]) -> None:
        """limits: those that hold now; who is here stays."""
        self._limits = limits
        self._places: dict[int, tuple[str, str, str | None]] = {}  # address, listener, and user
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._by_user: Counter[str | None] = Counter()
        self._half_open: dict[str, dict[int, None]] = {}
        self.half_open = 0
        self.refused: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._places)

    def is_full(self, host: str, listener: str = "", listener_max: int | None = None) -> bool:
        """Whether a newcomer from ``host`` would be refused, or another have to give way for it."""
        crowded = self.half_open >= self._limits().half_open_max
        return crowded or bool(self._full(address_key(host), listener, listener_max))

    def enter(self, number: int, host: str, listener: str = "", listener_max: int | None = None) -> Verdict:
        """Judge connection ``number`` from ``host``; one that may stay is counted from here on, as half open."""
        address = address_key(host)
        refused = self._full(address, listener, listener_max)
        if refused:
            self.refused[refused] += 1
            return Verdict(refused=refused)
        gives_way = None
        if self.half_open >= self._limits().half_open_max:
            crowd = max(self._half_open.values(), key=len)
            gives_way = next(iter(crowd))
            self.leave(gives_way)
            self.refused[HALF_OPEN_MAX] += 1
        self._places[number] = (address, listener, None)
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        self._half_open.setdefault(address, {})[number] = None
        self.half_open += 1
        return Verdict(gives_way=gives_way)

    def on_greeted(self, number: int) -> None:
        """The CONNECT of ``number`` was read: it is not half open any more."""
        if number in self._places:
            self._close_half(number, self._places[number][0])

    def log_in(self, number: int, user: str | None, older: int | None = None) -> bool:
        """Count ``number`` for ``user`` from here on, None for anonymous, unless that is one too many; whether it is not.

        older: a connection that gives way for it.
        """
        there = self._by_user[user] - (older in self._places and self._places[older][2] == user)
        per_user_max = self._limits().connections_per_user
        if user is not None and per_user_max is not None and there >= per_user_max:
            return False
        if user is not None and number in self._places:
            address, listener, _ = self._places[number]
            self._places[number] = address, listener, user
            self._by_user[user] += 1
        return True

    def leave(self, number: int) -> None:
        """``number`` is closed; unknown ones are ignored."""
        place = self._places.pop(number, None)
        if place is None:
            return
        address, listener, user = place
        self._close_half(number, address)
        if user is not None:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _full(self, address: str, listener: str, listener_max: int | None) -> str:
        limits = self._limits()
        if len(self._places) >= limits.connections_max:
            return CONNECTIONS_MAX
        if listener_max is not None and self._by_listener[listener] >= listener_max:
            return LISTENER_CONNECTIONS_MAX
        per_address_max = limits.connections_per_address
        if per_address_max is not None and address and self._by_address[address] >= per_address_max:
            return CONNECTIONS_PER_ADDRESS
        return ""

    def _close_half(self, number: int, address: str) -> None:
        crowd = self._half_open.get(address)
        if crowd is not None and number in crowd:
            del crowd[number]
            self.half_open -= 1
            if not crowd:
                del self._half_open[address]
