"""An operator looks at the queues while the disk takes nothing; what would change them is refused, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from storage.engine.engine import Family
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, node, settle_frame
from tests.storage.commanding import command, listed, refused
from tests.storage.turns import EPOCH, of, open_lane, turn
from tests.support.stores import open_store
from wire.errors import Unavailable
from wire.frames.intake import Committed
from wire.frames.lanes import HandOut

RETRIES_S = (100.01, 100.2, 105.0, 130.0)  # between two attempts on the disk, and at one


class Shut(RecordingEngine):
    """A disk on which the store cannot even be opened again, so nothing can be read."""

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self.refusing:
            raise Unavailable("the store is closed")
        return super().scan(family, start, stop)

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        if self.refusing:
            raise Unavailable("the store is closed")
        return super().seek_before(family, key, low)


def filled(engine: RecordingEngine, *, anew: bool = False) -> Store:
    """Three messages are committed, and one of them is delivered; then the disk refuses, and a fourth one waits for it.

    anew: the store has died before that, so nothing is in memory that was read or written.
    """
    store = open_store(engine, node(), 1)
    open_lane(store)
    store.receive(append_frame(1, {QUEUE: (batch([b"a", b"b", b"c"]), None)}))
    assert of([*store.admit(100.0, 0), *store.commit(100.0, 0)], HandOut)
    if anew:
        store = open_store(engine, node(), 2)
    engine.refusing = True
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, 1),))), append_frame(2, {QUEUE: (batch([b"d"]), None)}))
    return store


def test_queues_are_listed_and_shown_as_they_are_on_record() -> None:
    store = filled(RecordingEngine())
    for now_s in RETRIES_S:
        (row,) = command(store, "list", now_s=now_s)["queues"]
        assert (row["head"], row["tail"], row["oldest_age_s"] is None) == (1, 3, False)
        page = command(store, "peek", now_s=now_s, bridge="cloud", lane=0)
        assert [(one["payload"], one["state"]) for one in page["messages"]] == [(b"b", "handed out"), (b"c", "handed out")]
        assert command(store, "peek", now_s=now_s, bridge="cloud", lane=0, count=1)["next"] == 2


def test_what_changes_a_queue_is_refused_and_not_done_later() -> None:
    engine = RecordingEngine()
    store = filled(engine)
    for now_s in RETRIES_S:
        for verb in ("purge", "replay"):
            kind, text = refused(store, verb, now_s=now_s, bridge="cloud", in_flight=True)
            assert (kind, "nothing was done" in text) == ("unavailable", True)
    engine.refusing = False
    assert [frame.number for frame in of(store.commit(200.0, 0), Committed)] == [2]
    assert listed(store)["queues"][0]["depth"] == 3


def test_where_the_store_cannot_be_read_it_says_so_and_still_says_how_the_queues_stand() -> None:
    engine = Shut()
    store = filled(engine, anew=True)
    (row,) = command(store, "list", now_s=100.01)["queues"]
    assert (row["depth"], row["oldest_age_s"]) == (4, None)
    kind, text = refused(store, "peek", now_s=100.02, bridge="cloud", lane=0)
    assert (kind, "cannot be read for now" in text) == ("unavailable", True)
    engine.refusing = False
    assert of(store.commit(200.0, 0), Committed)
    assert len(command(store, "peek", now_s=200.0, bridge="cloud", lane=0)["messages"]) == 4
