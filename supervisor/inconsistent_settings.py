"""Settings that contradict each other, and the sentences that say so to the operator."""

from __future__ import annotations

from collections.abc import Iterable

Fault = tuple[tuple[str | int, ...], str]  # the key, from the section that was looked at; a sentence for the operator


class Inconsistent(ValueError):
    """Settings that cannot be true together: ``problems`` are one or more of them."""

    def __init__(self, problems: Iterable[Fault]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(message for _, message in self.problems))
