"""By which routes the messages of a queue go (``wire/routing/routes.py``), and up to where: so that ``status`` can tell of rules
that are gone.

The destination of a message is never looked up here: its chunk has that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from storage.queue.ledger import RoutesRow
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute, kind_of_route
from wire.settings import RuleSettings
from wire.status.bridges import FormerRule


class QueuedRoutes:
    """For each encoded route of a message that may be in the queue (``kind_of_route``), the sequence after the last of them."""

    def __init__(self, row: RoutesRow = ()) -> None:
        self._stops = dict(row)

    def take(self, routes: Iterable[bytes], stop: int) -> None:
        """Messages that end at ``stop`` go by ``routes``."""
        for route in routes:
            self._stops[kind_of_route(route)] = stop

    def row(self, head: int) -> RoutesRow:
        """The record to write: the routes of messages at or above ``head``. The others are forgotten."""
        for route in [route for route, stop in self._stops.items() if stop <= head]:
            del self._stops[route]
        return tuple(self._stops.items())


class WithRoutes(Protocol):
    """A queue."""

    routes: QueuedRoutes
    settled: RangeSet

    @property
    def head(self) -> int: ...

    @property
    def tail(self) -> int: ...

    @property
    def depth(self) -> int: ...


def former_rules(queue: WithRoutes, rules: Iterable[RuleSettings]) -> tuple[FormerRule, ...]:
    """The rules of messages in ``queue`` that are not in the file any more, or say something else now, as ``status`` tells of them.

    rules: those that are in the file. messages: at most so many wait, since others may be among them.
    """
    configured = {MessageRoute.of(rule).encode() for rule in rules}
    rows = []
    for encoded, stop in queue.routes.row(queue.head):
        waiting = queue.settled.missing(queue.head, min(stop, queue.tail))
        messages = min(queue.depth, sum(high - low for low, high in waiting))
        if messages and encoded not in configured:
            route = MessageRoute.decode(encoded)
            rows.append(FormerRule(rule=route.rule, destination=route.destination, messages=messages))
    return tuple(rows)
