"""How the node is asked: the status by all together, at its pace; all else up to a number at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError
from supervisor.http.http_counts import HttpCounts
from supervisor.http.node_calls import WAITING_MAX, NodeCalls
from tests.support.waiting import PATIENCE_S
from wire.figure import of_map
from wire.status.node_status import Status

ASKERS = 20


class Node:
    """Stands for the node: how often its status was asked for, and when the answers were begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.under_way = Counter[str]()
        monkeypatch.setattr(ControlClient, "status", self._status)

    def _status(self, *_: Any) -> Status:
        self.under_way["status"] += 1
        assert self.under_way["status"] == 1, "one after the other"
        self.number += 1
        answer = of_map(Status, {"supervisor": {"pid": self.number}})
        self.under_way["status"] -= 1
        return answer


async def asks(calls: NodeCalls, caller: str, what: Callable[[], bool]) -> bool:
    """A request of that caller."""
    calls.speak_for(caller)
    return await calls.ask(lambda _: what())


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_those_who_wait_for_the_status_share_the_next_one_and_nobody_gets_an_older_one(node: Node) -> None:
    async def ask() -> list[int]:
        calls = NodeCalls(Path("/nonexistent"), 1, HttpCounts())
        numbers = [(await calls.status()).supervisor.pid]
        for _ in range(2):
            before = node.number
            found = await asyncio.gather(*(calls.status() for _ in range(ASKERS)))
            assert {status.supervisor.pid for status in found} == {before + 1}
            numbers.append(before + 1)
        return numbers

    assert asyncio.run(ask()) == [1, 2, 3]


def test_a_status_that_fails_is_asked_for_anew(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ControlClient) -> Status:
        raise ControlError("busy", "too many status requests are waiting")

    async def ask() -> int:
        calls = NodeCalls(Path("/nonexistent"), 1, HttpCounts())
        with monkeypatch.context() as failing:
            failing.setattr(ControlClient, "status", refuse)
            with pytest.raises(ControlError):
                await calls.status()
        return (await calls.status()).supervisor.pid

    assert asyncio.run(ask()) == 1


def test_one_call_too_many_is_refused_at_once_and_the_status_is_told_all_the_same(node: Node) -> None:
    figures, go = HttpCounts(), Event()

    async def ask() -> None:
        calls = NodeCalls(Path("/nonexistent"), 2, figures)
        waiting = [asyncio.create_task(asks(calls, who, lambda: go.wait(PATIENCE_S))) for who in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(ControlError, match="under way"):
            await asks(calls, "c", lambda: True)
        assert (await calls.status()).supervisor.pid == 1
        go.set()
        assert await asyncio.gather(*waiting) == [True, True]
        assert await asks(calls, "c", lambda: True)

    asyncio.run(ask())
    assert figures.refused == {"busy": 1}


def test_one_caller_has_one_call_under_way_and_the_others_go_on() -> None:
    """tree.one-question-each"""
    figures, go, under_way = HttpCounts(), Event(), Counter[str]()

    def take_long() -> bool:
        under_way["now"] += 1
        under_way["most"] = max(under_way["most"], under_way["now"])
        done = go.wait(PATIENCE_S)
        under_way["now"] -= 1
        return done

    async def ask() -> None:
        calls = NodeCalls(Path("/nonexistent"), 8, figures)
        waiting = [asyncio.create_task(asks(calls, "greedy", take_long)) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(ControlError, match="of this caller"):
            await asks(calls, "greedy", lambda: True)
        assert await asks(calls, "honest", lambda: True)
        waiting.pop().cancel()
        go.set()
        assert all(await asyncio.gather(*waiting))
        assert await asks(calls, "greedy", lambda: True)

    asyncio.run(ask())
    assert under_way["most"] == 1
    assert figures.refused == {"busy": 1}
