"""How fast messages come into each queue and leave it, from what the store has counted by two moments. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from wire.status.bridges import QueueFigures

WINDOW_S = 10.0  # a rate is over so long a time, or over as much of it as is known
_LEAST_S = 1.0  # two moments closer together say little


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second: accepted, and delivered; ``fastest``: the most that was delivered so far. None: not known yet."""

    rate_in: float | None = None
    rate_out: float | None = None
    fastest: float | None = None

    def drain_s(self, depth: int | None) -> float | None:
        """How long ``depth`` messages take to leave at these rates; None where they grow, stand still, or nobody knows."""
        return self._drain_s(depth, self.rate_out)

    def drain_at_best_s(self, depth: int | None) -> float | None:
        """How long they take once they leave as fast as ever so far; None where more comes, or nobody knows."""
        return self._drain_s(depth, self.fastest)

    def _drain_s(self, depth: int | None, rate_out: float | None) -> float | None:
        if depth == 0:
            return 0.0
        if depth is None or self.rate_in is None or rate_out is None or rate_out <= self.rate_in:
            return None
        return round(depth / (rate_out - self.rate_in), 1)


class RateMeter:
    """Remembers what each queue had counted, for ``WINDOW_S``."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[float, int, int]]] = {}
        self._fastest: dict[str, float] = {}

    def note(self, now_s: float, queues: Mapping[str, QueueFigures]) -> None:
        """``queues``: the figures of each, as the store tells them now. Queues that are not among them are forgotten."""
        self._samples = {name: samples for name, samples in self._samples.items() if name in queues}
        for name, figures in queues.items():
            counted = figures.accepted or 0, figures.delivered or 0
            samples = self._samples.setdefault(name, deque())
            if samples and (counted[0] < samples[-1][1] or counted[1] < samples[-1][2]):
                samples.clear()  # it counts anew
            if samples and now_s - samples[-1][0] < _LEAST_S and len(samples) > 1:
                samples.pop()
            samples.append((now_s, *counted))
            while len(samples) > 2 and samples[1][0] <= now_s - WINDOW_S:
                samples.popleft()
            if rate_out := self.rates(name).rate_out:
                self._fastest[name] = max(rate_out, self._fastest.get(name, 0.0))

    def rates(self, queue: str) -> Rates:
        """Those of ``queue``."""
        samples = self._samples.get(queue)
        if not samples or samples[-1][0] - samples[0][0] < _LEAST_S:
            return Rates()
        (then_s, accepted, delivered), (now_s, *counts) = samples[0], samples[-1]
        past_s = now_s - then_s
        rate_in, rate_out = ((now - then) / past_s for now, then in zip(counts, (accepted, delivered), strict=True))
        return Rates(round(rate_in, 1), round(rate_out, 1), self._fastest.get(queue))
