"""New events are looked at once each, also where another store numbers them anew."""

from __future__ import annotations

from typing import Any, cast

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import NotRunning
from supervisor.notify.events_seen import EventsSeen, new_events
from wire.figure import of_map
from wire.status.answers import Event, Events
from wire.status.node_status import Status

PAGE = 3
STARTED_MS = 1_000


class Node:
    """Keeps events, and answers pages of them as a ``ControlClient`` does."""

    def __init__(self, *at_ms: int, store_id: str = "a", since_ms: int | None = 5) -> None:
        self.at_ms = list(at_ms)
        self.figures = {"store_id": store_id, "since_ms": since_ms}
        self.runs = True

    def events(self, start: int = 0, count: int = PAGE) -> Events:
        if not self.runs:
            raise NotRunning("it does not run")
        rows = [self._event(number) for number in range(start, min(len(self.at_ms), start + min(count, PAGE)))]
        return of_map(Events, {"next": start + len(rows), "until": len(self.at_ms)} | {"events": rows})

    def all_events(self, start: int = 0) -> list[Event]:
        return [of_map(Event, self._event(number)) for number in range(start, len(self.at_ms))]

    def _event(self, number: int) -> dict[str, Any]:
        return {"number": number, "at_ms": self.at_ms[number], "kind": "process.ended"}

    def look(self, seen: EventsSeen, role: str | None = None) -> tuple[list[int], EventsSeen]:
        cluster = {} if role is None else {"replication": {"role": role}}
        status = of_map(Status, {"store": self.figures, "supervisor": {"started_at_ms": STARTED_MS}} | cluster)
        events, now = new_events(cast(ControlClient, self), status, seen)
        return [event.number for event in events], now


def test_what_was_there_before_the_first_look_is_old_and_each_later_one_is_new_once() -> None:
    node = Node(1, 2)
    numbers, seen = node.look(EventsSeen())
    assert (numbers, seen) == ([], EventsSeen(next=2, store="a/5"))

    node.at_ms += range(10, 18)  # more than a page
    numbers, seen = node.look(seen)
    assert numbers == list(range(2, 10))
    assert node.look(seen) == ([], seen)


def test_of_another_store_those_of_this_run_are_new_whatever_their_numbers_are() -> None:
    before = EventsSeen(next=7, store="a/5")
    restored = Node(900, 1_001, 1_002)  # of a backup of the same store
    fewer, more = Node(1_001, 1_002, store_id="b"), Node(*range(990, 1_010), store_id="b")

    assert restored.look(before) == ([1, 2], EventsSeen(next=3, store="a/5"))
    assert fewer.look(before) == ([0, 1], EventsSeen(next=2, store="b/5"))
    assert more.look(before) == (list(range(10, 20)), EventsSeen(next=20, store="b/5"))
    in_memory = Node(*[2_000] * 9, since_ms=6)  # its store began again with what it had in memory gone
    assert in_memory.look(before) == (list(range(9)), EventsSeen(next=9, store="a/6"))


def test_a_store_that_says_nothing_or_does_not_answer_leaves_all_as_it_was() -> None:
    seen = EventsSeen(next=7, store="a/5")
    silent, away = Node(*range(9), since_ms=None), Node(*range(9))
    away.runs = False

    assert silent.look(seen) == away.look(seen) == ([], seen)


def test_who_comes_to_lead_tells_nothing_of_what_happened_while_another_led() -> None:
    """The store of a cluster goes on as it was: another node has told of the events that came while this one stood by."""
    numbers, led = (node := Node(1, 2)).look(EventsSeen(), "leader")
    node.at_ms += [500, 600]  # before this node came to lead again, at STARTED_MS
    numbers, stood_by = node.look(led, "standby")
    assert numbers == []
    node.at_ms += [STARTED_MS + 1]
    assert node.look(stood_by, "leader") == ([4], EventsSeen(next=5, store="a/5"))
