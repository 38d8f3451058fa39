"""A split of a queue reads its own settlements, and no others; with those of an older build, which tell no bounds, it reads all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import msgpack
import pytest

from analysis.tables import message_table
from analysis.tables.checkpoint_reader import CheckpointReader
from analysis.tables.reader import SplitFilters, plan, read
from analysis.tables.settlements import Missing, Settlements
from storage.engine.engine import Write
from storage.queue.history import settlement_key
from storage.snapshots.manifest import find_snapshots
from tests.analysis.plainly import Plain
from tests.analysis.rows import Row, rows_of, table
from tests.storage.building import batch, bridge, node
from tests.support.made_snapshots.node_model import LaneModel, NodeModel

QUEUE = "bridge:cloud:0"
NUMBER = 1
COMMITS = 400
ROWS = 4
COLUMNS = ["queue", "seq", "state", "settled_at", "outcome", "settled_by", "settlement"]


def as_version_1(model: NodeModel) -> None:
    """All settlements become what an older build wrote."""
    write = Write()
    for key, value in list(model.engine.scan("history", settlement_key(NUMBER, 0), settlement_key(NUMBER + 1, 0))):
        write.put("history", key, msgpack.packb((1, *msgpack.unpackb(value)[1:4])))
    model.engine.commit(write, sync=False)


def settle_some(model: NodeModel, lane: LaneModel, rnd: Random) -> None:
    """Most of what is in hand leaves the queue, in order or not, by some outcomes."""
    in_hand = [seq for start, stop in lane.in_hand.ranges() for seq in range(start, stop)][: 3 * ROWS]
    chosen = in_hand if rnd.random() < 0.5 else rnd.sample(in_hand, rnd.randint(0, len(in_hand)))
    outcomes = [
        (outcome, tuple((seq, seq + 1) for seq in sorted(chosen[part::2])))
        for part, outcome in enumerate(("delivered", "dropped:refused_0x99"))
    ]
    model.settle(lane, [*outcomes, ("redelivered", ((in_hand[-1], in_hand[-1] + 1),) if in_hand else ())], session="s")


def snapshot(tmp_path: Path, old_commits: int) -> Path:
    """Of a queue of many small commits, the first ``old_commits`` of which an older build has made."""
    rnd = Random(5)
    with NodeModel(tmp_path / "node", node(replace(bridge(), retention_s=3600.0)), start_ms=1_700_000_000_000) as model:
        lane = model.open_lane(QUEUE)
        for commit in range(COMMITS):
            if commit == old_commits:
                as_version_1(model)
            model.publish({QUEUE: batch([b"x"] * ROWS, accepted_ms=model.wall_ms)})
            model.advance(10)
            settle_some(model, lane, rnd)
        if old_commits == COMMITS:
            as_version_1(model)
        return model.snapshot(tmp_path / "snapshots")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The numbers of the settlements that are read in bulk, from now on."""
    found: list[tuple[int, int]] = []
    real: Callable[..., Settlements] = Settlements.read

    def counted(store: CheckpointReader, queue: int, first: int, stop: int, missing: Missing) -> Settlements:
        found.append((first, stop))
        return real(store, queue, first, stop, missing)

    monkeypatch.setattr(Settlements, "read", counted)
    message_table._RECENT.clear()
    return found


def plain(path: Path) -> list[Row]:
    return [{name: row[name] for name in COLUMNS} for row in Plain(path).messages()]


def test_a_split_reads_the_settlements_of_its_own_sequences_only(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    path = snapshot(tmp_path, 0)
    values = [value for key, value in sorted(Plain(path).families["history"].items()) if key[:1] == b"T"]
    bounds = [msgpack.unpackb(value)[4:] for value in values]
    splits = plan(find_snapshots(path), "messages", 50)
    assert len(splits) > 20
    found = []
    for split in splits:
        message_table._RECENT.clear()  # as in a process of its own
        reads.clear()
        found += rows_of(read(split, COLUMNS))
        (part,) = split.parts
        for first, stop in reads:  # one, or none where nothing is settled
            near = [number for number, (head, reach) in enumerate(bounds) if reach > part.start and head < part.stop]
            assert list(range(first, stop)) == near
        assert sum(stop - first for first, stop in reads) < len(values) / 4

    assert found == plain(path)


@pytest.mark.parametrize("old_commits", [1, COMMITS // 2, COMMITS])
def test_settlements_of_before_are_read_with_those_of_now(tmp_path: Path, reads: list[tuple[int, int]], old_commits: int) -> None:
    path = snapshot(tmp_path, old_commits)

    assert table(path, "messages", COLUMNS, target_rows=50) == plain(path)
    assert [(row["number"], row["first_seq"]) for row in table(path, "settlements")] == [
        (row["number"], row["first_seq"]) for row in Plain(path).settlements()
    ]
    if old_commits == COMMITS:
        assert len(reads) == 1, "nothing tells them apart: all of them, once"


def test_what_a_stream_has_seen_is_not_read_again(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    path = snapshot(tmp_path, 0)
    every = plain(path)
    last = max(row["settlement"] or 0 for row in every)
    reads.clear()

    found = table(path, "messages", COLUMNS, SplitFilters(numbers={QUEUE: ((last - 5, last + 1),)}))

    assert found == [row for row in every if row["state"] != "settled" or row["settlement"] >= last - 5]
    assert [first for first, _ in reads] == [last - 5]
