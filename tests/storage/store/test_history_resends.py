"""Messages that have left a queue go once more: which, where to, and once, whatever dies in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.engine.engine import RocksEngine
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, bridge, node, settle_frame
from tests.storage.commanding import ask, command, refused
from tests.storage.turns import EPOCH, NEXT_LIFE, handed, open_lane, turn
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.config_settings import NodeSettings, RuleSettings
from wire.frames.batch import from_rows
from wire.frames.intake import Append
from wire.routing.message_route import MessageRoute

OTHER = "bridge:other:0"
RULE = RuleSettings(name="told", filters=("#",), provenance="user-properties")


def kept(**changed: Any) -> NodeSettings:
    """A node whose bridge ``cloud`` keeps a history; ``other`` keeps none."""
    return node(replace(bridge(), retention_s=3600.0, **changed), bridge("other"))


def comes(number: int, *payloads: bytes, at_ms: int = 1000, rule: RuleSettings | None = None) -> Append:
    batch = from_rows([(b"t", 1, payload) for payload in payloads], accepted_ms=at_ms)
    if rule is not None:
        batch.take_route(MessageRoute.of(rule).encode())
    return append_frame(number, {QUEUE: (batch, None)})


def with_history(engine: RocksEngine | RecordingEngine, messages: int = 10, settings: NodeSettings | None = None) -> Store:
    """A store of whose queue so many messages have left, each accepted a second behind the one before; two more wait."""
    store = open_store(engine, settings or kept(), 1)
    open_lane(store)
    for number in range(1, messages + 3):
        turn(store, comes(number, b"%d" % (number - 1), at_ms=1000 * number))
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, messages),))))
    turn(store, now_s=200.0)  # by now that is on record
    return store


def payloads(store: Store, queue: str = QUEUE, start: int = 0) -> list[bytes]:
    found = store.lanes.all[queue].queue
    return [message.payload for message in found.read(start, found.tail)]


@pytest.fixture(params=["recording", "rocks"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "recording":
        yield RecordingEngine()
        return
    rocks = RocksEngine(tmp_path / "store")
    yield rocks
    rocks.close()


def test_what_has_left_joins_the_end_of_the_queue_page_by_page(engine: RocksEngine | RecordingEngine) -> None:
    """What waits is not sent twice; the run ends at the head that it began with, though what it sent again leaves meanwhile."""
    store = with_history(engine)
    first = command(store, "resend", bridge="cloud", run="r", count=4)
    assert (first["resent"], first["next"], first["below"], first["full"]) == (4, 4, 10, False)
    assert payloads(store, start=12) == [b"0", b"1", b"2", b"3"]
    turn(store, settle_frame(2, EPOCH, ("delivered", ((10, 16),))))
    second = command(store, "resend", bridge="cloud", run="r")
    assert (second["resent"], second["total"], second["next"]) == (6, 10, None)
    again = command(store, "resend", bridge="cloud", run="r")
    assert (again["resent"], again["total"], again["next"]) == (0, 10, None)
    figures = store.status(5000).queues[QUEUE]
    assert (figures.accepted, figures.resent, figures.depth, figures.ledger_closes) == (22, 10, 6, True)
    told = command(store, "events")["events"]
    assert [(event["reason"], event["count"]) for event in told if event["kind"] == "queue.resent"] == [("begun", 4), ("ended", 10)]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"from": 3, "below": 5}, [b"3", b"4"]),
        ({"since_ms": 3000, "until_ms": 5000}, [b"2", b"3"]),
        ({"from": 8, "below": 100}, [b"8", b"9"]),
        ({"since_ms": 90_000}, []),
        ({"from": 50}, []),
    ],
)
def test_a_run_is_about_sequences_or_times(
    engine: RocksEngine | RecordingEngine, bounds: dict[str, int], expected: list[bytes]
) -> None:
    store = with_history(engine)
    page = command(store, "resend", bridge="cloud", run="r", into="other", **bounds)
    assert (page["resent"], page["next"]) == (len(expected), None)
    assert payloads(store, OTHER) == expected
    assert store.status(5000).queues[OTHER].resent == len(expected)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, [b"%d" % number for number in range(10)]),
        ({"from": 7}, [b"7", b"8", b"9"]),
        ({"since_ms": 3000, "until_ms": 5000}, [b"2", b"3"]),
        ({"since_ms": 90_000}, []),
    ],
)
def test_what_has_left_is_looked_at_with_how_and_when_and_stays_as_it_is(
    engine: RocksEngine | RecordingEngine, bounds: dict[str, int], expected: list[bytes]
) -> None:
    store = with_history(engine)
    found: list[dict[str, Any]] = []
    position: int | None = bounds.get("from", 0)
    while position is not None:
        page = command(store, "peek", bridge="cloud", lane=0, left=True, **{**bounds, "from": position, "count": 4})
        assert len(page["messages"]) <= 4
        found, position = found + page["messages"], page["next"]

    assert [row["payload"] for row in found] == expected
    assert {row["state"] for row in found} <= {"delivered"}
    assert all(row["at_ms"] > 0 for row in found)
    assert payloads(store) == [b"10", b"11"], "what waits is not among them, and stays"


def test_each_message_that_has_left_says_how(engine: RocksEngine | RecordingEngine) -> None:
    """Also one that left before those in front of it."""
    store = open_store(engine, kept(), 1)
    open_lane(store)
    for number in range(1, 6):
        turn(store, comes(number, b"%d" % number))
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, 1), (3, 4))), ("expired", ((1, 2),))))

    page = command(store, "peek", bridge="cloud", lane=0, left=True)

    assert [(row["payload"], row["state"]) for row in page["messages"]] == [
        (b"1", "delivered"),
        (b"2", "expired"),
        (b"4", "delivered"),
    ]
    assert refused(store, "peek", bridge="other", lane=0, left=True)[0] == "not_kept"


def test_a_full_queue_has_the_run_wait_where_it_stands(engine: RocksEngine | RecordingEngine) -> None:
    store = with_history(engine, settings=kept(limits=limits(max_messages=12, overflow="drop-newest")))
    assert command(store, "resend", bridge="cloud", run="first")["next"] is None
    page = command(store, "resend", bridge="cloud", run="r")
    assert (page["resent"], page["full"], page["next"]) == (0, True, 0)
    turn(store, settle_frame(2, EPOCH, ("delivered", ((10, 13),))))
    page = command(store, "resend", bridge="cloud", run="r")
    assert (page["resent"], page["full"], page["next"]) == (3, True, 3)
    assert payloads(store)[-3:] == [b"0", b"1", b"2"]


def test_a_message_says_that_it_was_sent_again_where_its_rule_has_it_tell(engine: RocksEngine | RecordingEngine) -> None:
    store = open_store(engine, kept(), 1)
    open_lane(store)
    turn(store, comes(1, b"a", rule=RULE), comes(2, b"b"))
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, 2),))))
    command(store, "resend", bridge="cloud", run="r")
    queue = store.lanes.all[QUEUE].queue
    told, bare = queue.read(2, queue.tail)
    assert (told.payload, told.properties) == (b"a", b"\x26\x00\x0ebascule-resent\x00\x04true")
    assert (bare.payload, bare.properties) == (b"b", b"")
    assert told.route == MessageRoute.of(RULE).encode()


def test_what_is_not_kept_any_more_is_told_as_missed(engine: RocksEngine | RecordingEngine) -> None:
    store = with_history(engine)
    assert command(store, "resend", bridge="cloud", run="r", count=2)["next"] == 2
    history = store.lanes.all[QUEUE].queue.trimming.history
    assert history is not None
    history.begins = 6
    page = command(store, "resend", bridge="cloud", run="r")
    assert (page["missed"], page["resent"], page["total"]) == (4, 4, 6)


def test_orders_that_make_no_sense_are_refused(engine: RocksEngine | RecordingEngine) -> None:
    store = with_history(engine)
    assert refused(store, "resend", bridge="other", run="r")[0] == "not_kept"
    assert refused(store, "resend", bridge="cloud", run="r", into="nobody")[0] == "not_configured"
    assert refused(store, "resend", bridge="nobody", run="r")[0] == "unknown_bridge"
    assert refused(store, "resend", bridge="cloud", run="r", lane=7)[0] == "unknown_lane"


def test_runs_are_forgotten_by_their_last_use() -> None:
    store = with_history(RecordingEngine())
    for number in range(102):
        command(store, "resend", bridge="cloud", run=f"r{number}", below=0)
    resends = store.lanes.resends["cloud"]
    assert (resends.find("r1", QUEUE), resends.find("r2", QUEUE) is not None) == (None, True)


def test_a_kill_or_a_power_cut_at_any_write_sends_nothing_twice_and_leaves_nothing_out() -> None:
    """store.resent-once: the same order goes on until the run has ended, whatever came of it before."""
    engine = RecordingEngine()
    store = with_history(engine)
    turn(store, comes(13, b"synced"))
    before = len(engine.writes)
    for _ in range(4):
        ask(store, "resend", bridge="cloud", run="r", count=3)
        turn(store)
    for issued, kept_writes, survived in engine.survivors(before):
        again = open_store(survived, kept(), 2)
        open_lane(again, NEXT_LIFE)
        while command(again, "resend", bridge="cloud", run="r", count=3)["next"] is not None:
            pass
        expected = [b"10", b"11", b"synced", *(b"%d" % number for number in range(10))]
        assert payloads(again) == expected, (issued, kept_writes)
        figures = again.status(5000).queues[QUEUE]
        assert (figures.resent, figures.accepted, figures.ledger_closes) == (10, 23, True)
        assert handed(turn(again)) == []


def lines(*payloads: bytes) -> list[tuple[bytes, int, bytes, bytes, str, str]]:
    return [(b"t", 1, payload, b"", "r", "x/{#}") for payload in payloads]


def test_a_file_enters_a_queue_once_page_by_page(engine: RocksEngine | RecordingEngine) -> None:
    """A page that does not begin where the run stands changes nothing, and says where that is."""
    store = open_store(engine, kept(), 1)
    asked: dict[str, Any] = {"bridge": "other", "run": "f", "below": 3}
    assert command(store, "import", **asked, messages=lines(b"a", b"b"), **{"from": 0})["next"] == 2
    again = command(store, "import", **asked, messages=lines(b"a", b"b"), **{"from": 0})
    assert (again["imported"], again["next"]) == (0, 2)
    last = command(store, "import", **asked, messages=lines(b"c", b"beyond"), **{"from": 2})
    assert (last["imported"], last["total"], last["next"]) == (1, 3, None)
    assert command(store, "import", **asked, messages=lines(b"a"), **{"from": 0})["imported"] == 0
    assert payloads(store, OTHER) == [b"a", b"b", b"c"]
    queue = store.lanes.all[OTHER].queue
    assert {MessageRoute.decode(message.route).destination for message in queue.read(0, 9)} == {"x/{#}"}
    figures = store.status(5000).queues[OTHER]
    assert (figures.accepted, figures.resent, figures.ledger_closes) == (3, 3, True)
    assert refused(store, "import", **asked | {"below": 4}, messages=[], **{"from": 0})[0] == "bad_arguments"
    assert refused(store, "import", **asked | {"bridge": "nobody"}, messages=[], **{"from": 0})[0] == "not_configured"


def test_a_file_waits_for_room_and_is_lowered_where_nothing_persists(engine: RocksEngine | RecordingEngine) -> None:
    small = replace(bridge(), persist=False, limits=limits(max_messages=2, overflow="drop-newest"))
    store = open_store(engine, node(small), 1)
    page = command(store, "import", bridge="cloud", run="f", below=3, messages=lines(b"a", b"b", b"c"), **{"from": 0})
    assert (page["imported"], page["full"], page["next"]) == (2, True, 2)
    queue = store.lanes.all[QUEUE].queue
    assert [message.flags for message in queue.read(0, 9)] == [0, 0]


def test_a_kill_or_a_power_cut_at_any_write_imports_nothing_twice() -> None:
    """store.resent-once"""
    engine = RecordingEngine()
    store = open_store(engine, kept(), 1)
    everything = lines(*(b"%d" % number for number in range(6)))
    for first in (0, 2, 4):
        ask(store, "import", bridge="other", run="f", below=6, messages=everything[first : first + 2], **{"from": first})
    for issued, kept_writes, survived in engine.survivors():
        again = open_store(survived, kept(), 2)
        position: int | None = 0
        while position is not None:
            page = command(
                again,
                "import",
                bridge="other",
                run="f",
                below=6,
                messages=everything[position : position + 2],
                **{"from": position},
            )
            position = page["next"]
        assert payloads(again, OTHER) == [b"%d" % number for number in range(6)], (issued, kept_writes)
