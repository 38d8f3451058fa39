"""Generated nodes add up, in every snapshot and by every sequence, except for what was planted; the same seed makes the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.analysis.rows import Row, table
from tests.support.made_snapshots.generate import Made, Wanted, generate, main


def faults(snapshot: Path) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """By each sequence of each queue that has a history: what was lost; what was settled twice, or is settled and still there."""
    lost: list[tuple[str, int]] = []
    twice: list[tuple[str, int]] = []
    unsettled = {
        (row["queue"], row["seq"]) for row in table(snapshot, "messages", ["queue", "seq", "state"]) if row["state"] != "settled"
    }
    settlements = table(snapshot, "settlements")
    for queue in table(snapshot, "queues"):
        if queue["history_from"] is None:
            continue
        name = queue["queue"]
        seen: Counter[int] = Counter()
        for row in settlements:
            if row["queue"] == name and row["outcome"] != "redelivered":
                seen.update(range(row["first_seq"], row["last_seq"] + 1))
        for start, stop in json.loads(queue["volatile_ranges"]):
            seen.update(range(start, stop))
        for seq in range(queue["history_from"], queue["tail"]):
            times = seen[seq] + ((name, seq) in unsettled)
            if times != 1:
                (twice if times else lost).append((name, seq))
    return lost, twice


def closes(queue: Row) -> bool:
    dropped, dead = (sum(count for _, count in queue[kind]) for kind in ("dropped", "dead"))
    held = queue["depth"] + queue["depth_volatile"]
    return bool(queue["accepted"] == queue["delivered"] + queue["expired"] + dropped + dead + held)


def test_a_day_adds_up_in_every_snapshot(day: Made) -> None:
    for path in day.snapshots:
        assert all(closes(queue) for queue in table(path, "queues"))
        assert faults(path) == ([], [])


def test_what_is_planted_is_the_only_fault_there_is_and_no_ledger_tells(tmp_path: Path) -> None:
    made = generate(Wanted(messages=3000, nodes=2, seed=5, plant_loss=True, plant_duplicate=True), tmp_path)
    first, second = made.snapshots
    loss, duplicate = made.planted

    assert (loss.kind, duplicate.kind) == ("loss", "duplicate")
    assert faults(first) == ([(loss.queue, loss.seq)], [(duplicate.queue, duplicate.seq)])
    assert faults(second) == ([], [])
    assert all(closes(queue) for path in made.snapshots for queue in table(path, "queues"))
    assert [row for path in made.snapshots for row in table(path, "damage")] == []


def test_the_same_seed_makes_the_same(tmp_path: Path) -> None:
    wanted = Wanted(messages=1500, seed=11)
    (one,), (other,) = (generate(wanted, tmp_path / name).snapshots for name in "ab")
    (different,) = generate(Wanted(messages=1500, seed=12), tmp_path / "c").snapshots

    for name in ("messages", "settlements", "events"):
        first, second = ([{**row, "store_id": ""} for row in table(path, name)] for path in (one, other))
        assert first == second  # but that they are two stores
    assert table(one, "messages") != table(different, "messages")


def test_by_hand_it_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--to", str(tmp_path), "--messages", "1500", "--plant-loss"]) == 0

    said = json.loads(capsys.readouterr().out)
    (path,) = said["snapshots"]
    (planted,) = said["planted"]
    assert faults(Path(path)) == ([(planted["queue"], planted["seq"])], [])
    assert list(tmp_path.glob(".*")) == [], "nothing else is left"
