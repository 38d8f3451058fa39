"""The judge of an exchange: what came, held against what was sent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self


class Order:
    """The order of first arrivals: nothing comes first behind what was sent later, among those of one key (a topic, a QoS, ...)."""

    def __init__(self) -> None:
        self._highest: dict[Hashable, int] = {}

    def is_late(self, place: int, *key: Hashable) -> bool:
        """Whether what was sent at ``place`` came first behind what was sent later."""
        return place < self._highest.get(key, -1)

    def came(self, place: int, *key: Hashable) -> None:
        """The message that was sent at ``place`` came first."""
        self._highest[key] = max(place, self._highest.get(key, -1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The fate of the messages of one topic: those that never came, came twice, came first behind a later one, or unasked."""

    missing: list[str]
    duplicates: list[str]
    out_of_order: list[str]
    unexpected: list[str]

    @classmethod
    def of(cls, came: Iterable[str], sent: Sequence[str]) -> Self:
        """Judge the payloads that ``came``, repeats included, by those that were ``sent``; both in order."""
        counts = Counter(came)  # in the order of the first arrivals
        places = {payload: at for at, payload in reversed(list(enumerate(sent)))}
        order, late = Order(), []
        for payload in counts:
            place = places.get(payload)
            if place is None:
                continue
            if order.is_late(place):
                late.append(payload)
            order.came(place)
        return cls(
            missing=[payload for payload in dict.fromkeys(sent) if payload not in counts],
            duplicates=[payload for payload, count in counts.items() if count > 1 and payload in places],
            out_of_order=late,
            unexpected=[payload for payload in counts if payload not in places],
        )

    def are_exact(self) -> bool:
        """Each once, in order, and nothing else."""
        return not (self.missing or self.duplicates or self.out_of_order or self.unexpected)

    def are_complete(self) -> bool:
        """Each at least once, first occurrences in order, and nothing else."""
        return not (self.missing or self.out_of_order or self.unexpected)
