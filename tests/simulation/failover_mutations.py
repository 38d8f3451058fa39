"""Planted bugs in going back to the first address of a remote."""

from __future__ import annotations

from typing import Any

from wire.failback import Failback


def _at_once(original: Any) -> Any:
    def leaves(self: Failback, now_s: float, *, unfinished: bool) -> bool:
        left: bool = original(self, now_s, unfinished=False)
        return left

    return leaves


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    ("failback-unfinished", "a lane goes back to the first address with exchanges open", ((Failback, "leaves", _at_once),)),
)
