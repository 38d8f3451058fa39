"""Clients that are not read for a while: each goes on when what it waits for has come, and is read again by then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from actors.access.client import BEHIND, CROWDING, NO_ROOM, TOO_FAST
from actors.broker.waiting_clients import NEXT_TURN_S, RATE_TIMER, TURN_S, TURN_TIMER, WaitingClients


class FakeClient:
    """Why it is not read."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False
        self.muted = 0

    def hear(self, heard: bool, why: int) -> None:
        self.muted = self.muted & ~why if heard else self.muted | why

    def hear_again(self, now_s: float, why: int) -> None:
        self.hear(True, why)


class Desk:
    """The clients that wait, on a clock that the test moves; ``took``: those that went on."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.takes_s = 0.0
        self.timers: dict[str, float] = {}
        self.took: list[int] = []
        mailbox: Any = SimpleNamespace(now_s=lambda: self.now_s, set_timer=self.timers.__setitem__)
        self.waiting = WaitingClients(mailbox)

    def client(self, number: int) -> Any:
        return FakeClient(number)

    def take(self, client: Any) -> None:
        self.took.append(client.number)
        self.now_s += self.takes_s


def test_who_waits_for_the_batch_goes_on_with_it_unless_it_stays_or_has_gone() -> None:
    desk = Desk()
    first, second, third, fourth = (desk.client(number) for number in (1, 2, 3, 4))
    for client, why in ((first, NO_ROOM), (second, BEHIND), (third, NO_ROOM), (fourth, BEHIND)):
        desk.waiting.wait_for_batch(client, why)
        assert client.muted == why
    third.closed = True
    desk.waiting.on_closed(fourth)
    desk.waiting.batch_went_on(desk.take, lambda client: client is first)
    assert desk.took == [2]
    assert (first.muted, second.muted) == (NO_ROOM, 0)
    assert list(desk.waiting.for_batch) == [1]
    desk.waiting.go_on(first)
    desk.waiting.go_on(second)
    assert (first.muted, desk.waiting.for_batch) == (0, {})


def test_who_begins_to_wait_again_while_others_go_on_waits_for_the_next_batch() -> None:
    desk = Desk()
    client = desk.client(1)
    desk.waiting.wait_for_batch(client, NO_ROOM)
    desk.waiting.batch_went_on(lambda client: desk.waiting.wait_for_batch(client, NO_ROOM), lambda client: False)
    assert (client.muted, list(desk.waiting.for_batch)) == (NO_ROOM, [1])


def test_who_has_waited_a_turn_goes_on_as_far_as_there_is_time() -> None:
    desk = Desk()
    desk.takes_s = TURN_S * 0.6
    clients = [desk.client(number) for number in (1, 2, 3)]
    for client in clients:
        desk.waiting.wait_a_turn(client)
    assert desk.timers == {TURN_TIMER: 100.0 + NEXT_TURN_S}
    desk.waiting.turn_has_come(100.0, desk.take)
    assert desk.took == [1, 2]
    assert [client.muted for client in clients] == [0, 0, CROWDING]
    assert desk.timers == {TURN_TIMER: desk.now_s + NEXT_TURN_S}
    desk.waiting.turn_has_come(desk.now_s, desk.take)
    assert desk.took == [1, 2, 3]


def test_who_is_too_fast_goes_on_when_its_rate_allows_and_one_timer_runs_for_all() -> None:
    desk = Desk()
    first, second, third = (desk.client(number) for number in (1, 2, 3))
    for client, until_s in ((first, 103.0), (second, 102.0), (third, 102.0), (first, 104.0)):
        desk.waiting.slow_down(client, until_s)
    assert desk.waiting.slowed == 3, "it waits already"
    assert desk.timers == {RATE_TIMER: 102.0}

    def take(client: Any) -> None:
        desk.take(client)
        desk.waiting.on_closed(third)  # a newer connection takes its session over

    desk.waiting.rate_allows(102.0, take)
    assert desk.took == [2]
    assert (first.muted, second.muted) == (TOO_FAST, 0)
    assert [desk.waiting.hold_if_too_fast(client) for client in (first, second, third)] == [True, False, False]
    assert desk.timers == {RATE_TIMER: 104.0}


def test_who_is_closed_while_others_have_their_turn_is_not_looked_for() -> None:
    """The one before it may have filled the room for input, of which it holds most."""
    desk = Desk()
    clients = [desk.client(number) for number in (1, 2, 3)]
    for client in clients:
        desk.waiting.wait_a_turn(client)

    def take(client: Any) -> None:
        desk.take(client)
        desk.waiting.on_closed(clients[1])

    desk.waiting.turn_has_come(100.0, take)
    assert desk.took == [1, 3]
