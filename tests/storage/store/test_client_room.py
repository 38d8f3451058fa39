"""Which queues have room for local clients, and which batches from remotes wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from storage.engine.memory_engine import MemoryEngine
from storage.store import client_room
from tests.storage.building import QUEUE, append_frame, batch, bridge, node, settle_frame
from tests.support.settings import limits
from tests.support.stores import change_settings, open_store
from wire.config_settings import BridgeSettings, LimitSettings
from wire.frames.batch import Batch
from wire.frames.frame import Effects, Frame
from wire.frames.intake import FULL, NEAR, OPEN, Append, Committed, Room, RoomWanted, SenderResumes
from wire.frames.lanes import Credit, LaneOpen

REMOTE = "connection:cloud:0"
BYTES = 1 << 40  # more than anything here


class Site:
    """A store with what its Listener and its lane say; ``told`` is what the Listener was told since it was asked for."""

    def __init__(self, *bridges: BridgeSettings, node_limit: LimitSettings | None = None) -> None:
        self.settings = node(*bridges, limit=node_limit)
        self.store = open_store(MemoryEngine(), self.settings, 1)
        self.rooms: list[Room] = []
        self.committed: dict[str, int] = {}
        self.numbers = {"listener": 0, REMOTE: 0}
        self.heeded = self.newest = 0
        self.now_s = 100.0
        self.turn(SenderResumes(sender="listener", epoch=1, number=1), LaneOpen(queue=QUEUE, epoch=1 << 20))

    def turn(self, *frames: Frame) -> Effects:
        for frame in frames:
            self.store.receive(frame)
        self.now_s += 0.01
        effects = self.store.commit(self.now_s, 5000)
        for _, frame in effects:
            if isinstance(frame, Room):
                self.rooms.append(frame)
                self.newest = frame.number
            elif isinstance(frame, Committed):
                self.committed[frame.sender] = frame.number
        return effects

    def told(self) -> list[dict[str, tuple[int, int]]]:
        """State and messages by bridge, for each ``Room`` that came."""
        rooms, self.rooms = self.rooms, []
        return [{name: (state, messages) for name, (state, messages, _) in room.queues.items()} for room in rooms]

    def heed(self) -> None:
        """The Listener has heard all, and says so."""
        self.heeded = self.newest
        self.publish()

    def frame(self, sender: str, payloads: Sequence[bytes], qos: int = 1, queues: Sequence[str] = (QUEUE,)) -> Append:
        self.numbers[sender] += 1
        parts: dict[str, tuple[Batch, Sequence[int] | None]] = {}
        for queue in queues if payloads else ():
            parts[queue] = batch(payloads, qos), None
        return replace(append_frame(self.numbers[sender], parts, sender=sender), room=self.heeded if sender == "listener" else 0)

    def publish(self, *payloads: bytes, **more: Any) -> None:
        self.turn(self.frame("listener", payloads, **more))

    def come(self, *payloads: bytes, **more: Any) -> bool:
        """A batch from a remote; whether it is answered."""
        self.turn(self.frame(REMOTE, payloads, **more))
        return self.committed.get(REMOTE, 0) == self.numbers[REMOTE]

    def ask(self, name: str = "cloud", messages: int = 1, size_bytes: int = 1) -> None:
        self.turn(RoomWanted(epoch=1, wanted={name: (messages, size_bytes)}))

    def settle(self, count: int) -> None:
        self.turn(Credit(queue=QUEUE, epoch=1 << 20, messages=10_000, size_bytes=BYTES))
        self.turn(settle_frame(self.settled, 1 << 20, ("delivered", ((self.done, self.done + count),))))
        self.done, self.settled = self.done + count, self.settled + 1

    done, settled = 1 << 32, 1  # sequences of a store in memory begin with its epoch

    def depth(self) -> int:
        return self.store.lanes.all[QUEUE].queue.depth


@pytest.fixture(autouse=True)
def few_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_room, "UNDER_WAY_ROWS", 4)


def small(messages: int | None = 3, **more: Any) -> BridgeSettings:
    return bridge(limit=limits(max_messages=messages, **more))


def test_a_queue_with_room_is_open_until_what_may_be_under_way_would_not_fit() -> None:
    site = Site(small(9))
    assert site.told() == [{}], "the first word names those that are not open"
    site.heed()
    site.publish(*[b"x"] * 5)
    assert site.told() == []
    site.publish(b"y")
    assert site.told() == [{"cloud": (NEAR, 0)}]
    site.settle(6)
    assert site.told() == [], "what was taken by the last word may still come"
    site.heed()
    assert site.told() == [{"cloud": (OPEN, 0)}]


def test_near_its_limit_a_queue_offers_what_is_left_and_then_it_is_full() -> None:
    site = Site(small(3))
    assert site.told() == [{"cloud": (NEAR, 0)}]
    site.rooms = []
    site.heeded = site.newest
    site.ask()
    assert site.told() == [], "what an earlier life of the store was sent may come first"
    site.heed()
    site.ask()
    assert site.told() == [{"cloud": (NEAR, 3)}]
    site.heeded = site.newest
    site.publish(b"a", b"b", b"c")
    site.ask()
    assert site.told() == [{"cloud": (FULL, 0)}]
    site.settle(1)
    assert site.told() == [{"cloud": (NEAR, 1)}], "who waits has it at once"
    assert site.depth() == 2


def test_what_was_offered_and_not_used_is_offered_again() -> None:
    site = Site(small(3))
    site.heed()
    site.ask()
    site.heed()
    site.told()
    site.ask()
    assert site.told() == [{"cloud": (NEAR, 3)}]


def test_a_full_queue_waits_for_a_twentieth_or_for_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_room, "UNDER_WAY_ROWS", 1000)
    site = Site(small(100))
    site.heed()
    site.ask()
    site.heeded = site.newest
    site.publish(*[b"x"] * 100)
    site.ask()
    site.told()
    site.settle(4)
    assert site.told() == []
    site.settle(1)
    assert site.told() == [{"cloud": (NEAR, 5)}]


def test_a_message_larger_than_what_is_left_fills_the_queue_to_who_asks() -> None:
    site = Site(small(None, max_bytes=100))
    site.heed()
    site.ask()
    site.heeded = site.newest
    site.publish(b"x" * 59)
    site.told()
    site.ask(size_bytes=60)
    assert site.told() == [{"cloud": (FULL, 0)}]
    site.settle(1)
    assert site.told() == [{"cloud": (NEAR, 4)}]


def test_queues_that_drop_are_never_named() -> None:
    site = Site(small(3, overflow="drop-oldest"))
    site.publish(*[b"x"] * 9)
    assert site.told() == [{}]


def test_the_node_is_named_by_an_empty_name_and_counts_every_copy() -> None:
    site = Site(small(None), bridge("other", limit=limits()), node_limit=limits(max_messages=4))
    site.heed()
    site.told()
    site.ask("", 2)
    assert site.told() == [{"": (NEAR, 4)}]
    site.heeded = site.newest
    site.publish(b"a", b"b", queues=(QUEUE, "bridge:other:0"))
    site.ask("", 2)
    assert site.told() == [{"": (FULL, 0)}]


def test_a_new_store_and_a_new_life_of_the_listener_are_told_all() -> None:
    site = Site(small(3))
    site.heed()
    site.ask()
    site.told()
    site.turn(SenderResumes(sender="listener", epoch=2, number=1))
    assert len(site.rooms) == 1
    assert site.told() == [{"cloud": (NEAR, 0)}]


def test_a_limit_that_is_lowered_and_raised_is_told() -> None:
    site = Site(small(1000))
    site.heed()
    site.told()
    site.publish(b"a", b"b")
    lower = replace(site.settings, bridges=(small(2),))
    change_settings(site.store, lower)
    site.turn()
    assert site.told() == [{"cloud": (NEAR, 0)}]
    site.heed()
    site.ask()
    assert site.told() == [{"cloud": (FULL, 0)}]
    change_settings(site.store, site.settings)
    site.turn()
    assert site.told() == [{"cloud": (OPEN, 0)}]


# --- remotes ---


def test_a_batch_from_a_remote_waits_until_it_fits_whole_and_those_behind_it_wait_too() -> None:
    site = Site(small(3))
    site.heed()
    assert site.come(b"a", b"b")
    assert not site.come(b"c", b"d")
    assert not site.come(b"e"), "it would fit"
    assert site.depth() == 2
    site.turn(append_frame(2, {QUEUE: (batch([b"c", b"d"]), None)}, sender=REMOTE))  # sent again
    site.settle(1)
    assert (site.depth(), site.committed[REMOTE]) == (3, 2)
    site.settle(2)
    assert (site.depth(), site.committed[REMOTE]) == (2, 3)


def test_qos_0_from_a_remote_does_not_wait() -> None:
    site = Site(small(1))
    site.heed()
    assert site.come(b"a")
    assert site.come(b"b", qos=0)
    assert site.store.status(5000).queues[QUEUE].refused == 1


def test_a_batch_larger_than_the_limit_comes_in_where_nothing_else_is() -> None:
    site = Site(small(2))
    site.heed()
    assert site.come(b"a")
    assert not site.come(b"b", b"c", b"d")
    site.settle(1)
    assert site.depth() == 3


def test_what_is_held_ready_for_clients_is_not_taken_by_a_remote() -> None:
    site = Site(small(3))
    assert not site.come(b"a"), "the Listener may have something under way"
    site.heed()
    assert site.committed[REMOTE] == 1
    site.ask()
    assert site.told()[-1] == {"cloud": (NEAR, 2)}
    assert not site.come(b"b")
    site.heeded = site.newest
    site.publish(b"c")
    assert (site.depth(), site.committed[REMOTE]) == (3, 2)


def test_a_remote_waits_for_what_clients_may_take_of_an_open_queue_until_they_ask() -> None:
    site = Site(small(9))
    site.heed()
    assert site.told() == [{}]
    assert not site.come(*[b"x"] * 6)
    assert site.told() == [{"cloud": (NEAR, 0)}]
    site.heed()
    assert (site.depth(), site.committed[REMOTE]) == (6, 1)


def test_clients_and_remotes_take_turns() -> None:
    site = Site(small(2))
    site.heed()
    assert site.come(b"a", b"b")
    site.ask()
    assert site.told()[-1] == {"cloud": (FULL, 0)}
    assert not site.come(b"c")
    assert not site.come(b"d")
    site.settle(1)
    assert (site.depth(), site.committed[REMOTE]) == (2, 2), "the remote has waited"
    site.settle(1)
    assert (site.depth(), site.committed[REMOTE]) == (1, 2), "then the clients"
    assert site.told()[-1] == {"cloud": (NEAR, 1)}
    site.heeded = site.newest
    site.publish(b"e")
    site.settle(1)
    assert site.committed[REMOTE] == 3


def test_what_waits_is_on_no_record() -> None:
    """A store that died has to take it when it is sent again."""
    engine = MemoryEngine()
    store = open_store(engine, node(small(1)), 1)
    for frame in (
        SenderResumes(sender="listener", epoch=1, number=1),
        append_frame(1, {}, rows=0),
        append_frame(1, {QUEUE: (batch([b"a"]), None)}, sender=REMOTE),
        append_frame(2, {QUEUE: (batch([b"b"]), None)}, sender=REMOTE),
    ):
        store.receive(replace(frame, room=1 << 40) if isinstance(frame, Append) else frame)
        store.commit(100.0, 5000)
    known = store.links.senders.get(REMOTE)
    assert known is not None
    assert (known.last, known.admitted, known.committed) == (2, 1, 1)


def test_refused_messages_are_counted_at_their_queue() -> None:
    site = Site(small(1))
    site.turn(replace(site.frame("listener", []), refused={QUEUE: 3, "bridge:gone:0": 1}))
    assert site.store.status(5000).queues[QUEUE].refused == 3
