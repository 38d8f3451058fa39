"""By which ways the messages of a queue go (``wire/routing/ways.py``), and up to where: so that ``status`` can tell of rules that
are gone.

The destination of a message is never looked up here: its chunk has that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from storage.queue.ledger import WaysRow
from wire.ranges import RangeSet
from wire.routing.ways import Way, kind_of_way
from wire.settings import RuleSettings
from wire.status.bridges import FormerRule


class QueuedWays:
    """For each encoded way of a message that may be in the queue (``kind_of_way``), the sequence after the last of them."""

    def __init__(self, row: WaysRow = ()) -> None:
        self._stops = dict(row)

    def take(self, ways: Iterable[bytes], stop: int) -> None:
        """Messages that end at ``stop`` go by ``ways``."""
        for way in ways:
            self._stops[kind_of_way(way)] = stop

    def row(self, head: int) -> WaysRow:
        """The record to write: the ways of messages at or above ``head``. The others are forgotten."""
        for way in [way for way, stop in self._stops.items() if stop <= head]:
            del self._stops[way]
        return tuple(self._stops.items())


class WithWays(Protocol):
    """A queue."""

    ways: QueuedWays
    settled: RangeSet

    @property
    def head(self) -> int: ...

    @property
    def tail(self) -> int: ...

    @property
    def depth(self) -> int: ...


def former_rules(queue: WithWays, rules: Iterable[RuleSettings]) -> tuple[FormerRule, ...]:
    """The rules of messages in ``queue`` that are not in the file any more, or say something else now, as ``status`` tells of them.

    rules: those that are in the file. messages: at most so many wait, since others may be among them.
    """
    configured = {Way.of(rule).encode() for rule in rules}
    rows = []
    for encoded, stop in queue.ways.row(queue.head):
        waiting = queue.settled.missing(queue.head, min(stop, queue.tail))
        messages = min(queue.depth, sum(high - low for low, high in waiting))
        if messages and encoded not in configured:
            way = Way.decode(encoded)
            rows.append(FormerRule(rule=way.rule, destination=way.destination, messages=messages))
    return tuple(rows)
