"""Failback: when a Connection that uses a later address of its remote probes the first one, and when it goes back to it.

Pure. Connecting, asking and ending the exchange are the Connection's; what is unfinished is ``SenderHalf``'s to say.
"""

from __future__ import annotations

from wire.status.bridges import FirstAddress

Address = tuple[str, int]


def place_of(address: Address) -> str:
    """``address`` as it is written: host:port."""
    return f"{address[0]}:{address[1]}"


class Failback:
    """The addresses of one remote in their order, and how a Connection comes back to the first.

    exchange.failback-when-finished [P2, alive]: the first address is tried first, save for another one that is wanted; the others
        follow in their order. While a later address is used the first is probed every ``retry_s``; at once where it was not tried
        before. Once it answers, nothing new leaves, and the later address is left as soon as nothing is unfinished there. If that
        takes longer than ``finish_s`` the lane stays, and what waits goes on to the later address until the next probe.
    """

    def __init__(
        self, addresses: tuple[Address, ...], *, retry_s: float | None, finish_s: float, round_robin: bool = False
    ) -> None:
        """retry_s: None if the first address is never probed. round_robin: no address is better than another; each connection
        begins with the one after that of the last.
        """
        self._addresses = addresses
        self._round_robin = round_robin
        self._next = 0  # the address to begin with
        self._retry_s = None if round_robin else retry_s
        self._finish_s = finish_s
        self._number = 0
        self._probe_at_s: float | None = None
        self.finish_until_s: float | None = None
        self.on_disconnected()

    @property
    def first(self) -> str:
        """The first address, as it is written."""
        return place_of(self._addresses[0])

    def order(self, wanted: str = "") -> list[Address]:
        """The addresses in the order in which they are to be tried; ``wanted``, if it is one of them, before all others."""
        in_turn = (*self._addresses[self._next :], *self._addresses[: self._next])
        return sorted(in_turn, key=lambda address: place_of(address) != wanted)

    def on_connected(self, place: str, now_s: float, *, tried_first: bool) -> None:
        """The connection is up at ``place``, which is none of the addresses where one of them sent it there. tried_first: the first
        address was tried before, in vain.
        """
        self.on_disconnected()
        self.place = place
        places = [place_of(address) for address in self._addresses]
        self.later = place in places[1:] and not self._round_robin
        if self._round_robin and place in places:
            self._next = (places.index(place) + 1) % len(places)
        if self.later and self._retry_s is not None:
            self._probe_at_s = now_s + (self._retry_s if tried_first else 0.0)

    def on_disconnected(self) -> None:
        """The connection is gone; a probe that is under way tells nothing any more."""
        self.place = ""
        self.later = False  # whether the connection is at another address than the first
        self.error = ""  # why it stays there
        self._probing = False
        self._probe_at_s = self.finish_until_s = None

    @property
    def wakes_at_s(self) -> float | None:
        """The time at which ``probe`` or ``leaves`` has something to say even if nothing else happens; None for never."""
        return self._probe_at_s if self.finish_until_s is None else self.finish_until_s

    def probe(self, now_s: float) -> tuple[int, Address] | None:
        """The first address, to be probed now, under a number that ``on_probed`` wants back; None while it is not time."""
        if self._probe_at_s is None or now_s < self._probe_at_s:
            return None
        self._probe_at_s, self._probing = None, True
        self._number += 1
        return self._number, self._addresses[0]

    def on_probed(self, number: int, now_s: float, error: str) -> None:
        """Probe ``number`` has ended; ``error``: why the first address does not answer, empty if it does."""
        if not self._probing or number != self._number:
            return
        self._probing = False
        if error:
            self._stay(now_s, error)
        else:
            self.error = ""
            self.finish_until_s = now_s + self._finish_s

    @property
    def finishing(self) -> bool:
        """Whether nothing new may leave, because the connection is to end when nothing is unfinished."""
        return self.finish_until_s is not None

    def leaves(self, now_s: float, *, unfinished: bool) -> bool:
        """Whether to go to the first address now. If what is ``unfinished`` has taken too long, the connection stays."""
        if self.finish_until_s is None:
            return False
        if unfinished and now_s >= self.finish_until_s:
            self._stay(now_s, "what is in flight was not acknowledged in time")
        return not unfinished

    def _stay(self, now_s: float, error: str) -> None:
        assert self._retry_s is not None, "probed, and never to be"
        self.error = error
        self.finish_until_s = None
        self._probe_at_s = now_s + self._retry_s

    def note(self, now_s: float) -> str:
        """A note for the operator while a later address is used."""
        next_s = self.next_probe_s(now_s)
        if self.finishing:
            return f"uses {self.place}; goes back to {self.first} when all is acknowledged"
        if next_s is None:
            return f"uses {self.place}; {self.first} is {'being' if self._probing else 'not'} probed"
        why = f" ({self.error})" if self.error else ""
        return f"uses {self.place}; {self.first} is probed again in {next_s:.0f} s{why}"

    def figures(self, now_s: float) -> FirstAddress | None:
        """The first address for ``status`` while a later one is used; empty otherwise."""
        if not self.later:
            return None
        next_s = self.next_probe_s(now_s)
        return FirstAddress(
            address=self.first,
            returning=self.finishing,
            next_probe_s=None if next_s is None else round(next_s, 3),
            error=self.error,
        )

    def next_probe_s(self, now_s: float) -> float | None:
        """Seconds until the next probe; None if none is to come, as on the first address, or while one is under way."""
        return None if self._probe_at_s is None else max(0.0, self._probe_at_s - now_s)
