"""Which rules have messages in a queue."""

from __future__ import annotations

from storage.queue.tail import QueuedRoutes, former_rules
from tests.wire.rules import rule
from wire.config_settings import RuleSettings
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute

ONE, TWO = rule(1, "a", destination="one/{#}"), rule(2, "b", destination="two/{#}")


class PlainQueue:
    """As much of a queue as is asked for."""

    def __init__(self, tail: int, *rules: tuple[RuleSettings, int]) -> None:
        self.routes = QueuedRoutes()
        for one, stop in rules:
            self.routes.take([MessageRoute.of(one).encode()], stop)
        self.head = 0
        self.tail = tail
        self.settled = RangeSet()

    @property
    def depth(self) -> int:
        return sum(high - low for low, high in self.settled.missing(self.head, self.tail))


def told(queue: PlainQueue, *rules: RuleSettings) -> list[tuple[str, str, int]]:
    return [(row.rule, row.destination, row.messages) for row in former_rules(queue, rules)]


def test_a_rule_that_is_not_configured_is_told_until_its_last_message_has_left() -> None:
    queue = PlainQueue(10, (ONE, 4), (TWO, 10))
    assert told(queue, ONE, TWO) == []
    assert told(queue, TWO) == [("rule-1", "one/{#}", 4)]
    assert told(queue) == [("rule-1", "one/{#}", 4), ("rule-2", "two/{#}", 10)]
    queue.settled.add(1, 3)
    assert told(queue, TWO) == [("rule-1", "one/{#}", 2)], "two of them have left"
    queue.head = 4
    assert told(queue, TWO) == []


def test_a_way_counts_up_to_the_last_message_that_goes_it() -> None:
    queue = PlainQueue(10, (ONE, 4), (TWO, 6), (ONE, 8))
    assert told(queue, TWO) == [("rule-1", "one/{#}", 8)], "at most: those of the other rule are among them"


def test_what_is_on_record_is_what_waits() -> None:
    routes = QueuedRoutes(((b"one", 4), (b"two", 10)))
    assert routes.row(3) == ((b"one", 4), (b"two", 10))
    assert routes.row(4) == ((b"two", 10),)
    assert routes.row(0) == ((b"two", 10),), "the other is forgotten"
