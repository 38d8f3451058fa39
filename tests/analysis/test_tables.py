"""Every table, column and filter against the plain reading; splits together read every row once."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.tables.arrow import BATCH_BYTES_MAX, BATCH_ROWS_MAX
from analysis.tables.reader import SplitFilters, plan, read, read_table
from analysis.tables.schemas import TABLES, arrow_schema, columns_of
from storage.snapshots.manifest import find_snapshots, read_manifest
from tests.analysis.plainly import Plain
from tests.analysis.rows import Row, rows_of, table
from tests.storage.building import batch, bridge, node
from tests.support.made_snapshots.generate import Made
from tests.support.made_snapshots.node_model import NodeModel

READ_PLAINLY = ("messages", "queues", "inflight", "settlements", "events", "dead_letters", "sessions", "retained")


@pytest.mark.parametrize("name", READ_PLAINLY)
def test_a_table_is_what_a_plain_reading_of_the_store_gives(day: Made, name: str) -> None:
    for path in day.snapshots:
        expected, found = getattr(Plain(path), name)(), table(path, name)

        if name == "inflight":  # messages that are in memory only come behind the others of their queue
            found.sort(key=lambda row: (row["queue"], row["seq"]))
        assert found == expected
        assert path == day.snapshots[0] or expected, "the table is not empty, or this would show nothing"


def test_the_day_has_every_state_and_outcome(day: Made) -> None:
    """The other tests rely on this: nothing of what a store may hold is left out."""
    rows = [row for path in day.snapshots for row in table(path, "messages")]
    settlements = [row for path in day.snapshots for row in table(path, "settlements")]

    assert {row["state"] for row in rows} == {"queued", "in_flight", "released", "settled"}
    assert {row["qos"] for row in rows} == {1, 2}
    assert {(row["outcome"], row["reason"]) for row in settlements} >= {
        ("delivered", None),
        ("expired", None),
        ("redelivered", None),
        ("dropped", "overflow"),
        ("dropped", "purged"),
        ("dropped", "restart"),
        ("dead", "not-authorized"),
    }
    assert any(row["expires_at"] for row in rows)
    assert any(row["rule"] is None for row in rows)
    assert any(row["properties_bytes"] for row in rows)


@pytest.mark.parametrize("column", [column.name for column in TABLES["messages"]])
def test_a_column_alone_is_the_same_as_among_all(middle: Path, column: str) -> None:
    assert table(middle, "messages", [column]) == [{column: row[column]} for row in table(middle, "messages")]


def test_columns_come_in_the_order_in_which_they_are_asked_for(middle: Path) -> None:
    wanted = ["payload", "seq", "queue"]

    batches = list(read_table(find_snapshots(middle), "messages", wanted))

    assert all(each.schema == arrow_schema("messages", wanted) for each in batches)


def test_what_is_not_settled_is_exactly_the_depth(day: Made) -> None:
    for path in day.snapshots:
        unsettled = Counter(row["queue"] for row in table(path, "messages") if row["state"] != "settled")

        assert unsettled == Counter({queue.name: queue.depth for queue in read_manifest(path).queues if queue.depth})


CLOUD = "bridge:cloud:1"
FILTERS: list[tuple[SplitFilters, Callable[[Row], bool]]] = [
    (SplitFilters(queues=(CLOUD,)), lambda row: row["queue"] == CLOUD),
    (SplitFilters(bridges=("plant", "archive")), lambda row: row["bridge"] in ("plant", "archive")),
    (SplitFilters(nodes=("box-1",)), lambda row: True),
    (SplitFilters(nodes=("other",)), lambda row: False),
    (SplitFilters(seq_from=100, seq_to=333), lambda row: 100 <= row["seq"] < 333),
    (SplitFilters(seq_to=57), lambda row: row["seq"] < 57),
    (SplitFilters(states=("settled",)), lambda row: row["state"] == "settled"),
    (SplitFilters(states=("queued", "released")), lambda row: row["state"] in ("queued", "released")),
    (SplitFilters(states=("in_flight",), queues=(CLOUD,)), lambda row: row["state"] == "in_flight" and row["queue"] == CLOUD),
    (
        SplitFilters(numbers={CLOUD: ((20, 25), (40, 90))}),
        lambda row: (
            row["queue"] != CLOUD or row["state"] != "settled" or 20 <= row["settlement"] < 25 or 40 <= row["settlement"] < 90
        ),
    ),
]


@pytest.mark.parametrize("target_rows", [250_000, 500])
@pytest.mark.parametrize("which", range(len(FILTERS)))
def test_a_filter_lets_through_exactly_what_it_says(middle: Path, which: int, target_rows: int) -> None:
    filters, wanted = FILTERS[which]

    expected = [row for row in table(middle, "messages") if wanted(row)]

    assert table(middle, "messages", None, filters, target_rows=target_rows) == expected


@pytest.mark.parametrize("name", ["messages", "settlements", "events", "dead_letters", "retained", "inflight"])
def test_a_range_of_time_lets_through_exactly_what_is_in_it(middle: Path, name: str) -> None:
    column = {"messages": "accepted_at", "settlements": "settled_at", "inflight": "accepted_at", "retained": "accepted_at"}.get(
        name, "at"
    )
    every = table(middle, name)
    times = sorted(row[column] for row in every if row[column] is not None)
    since, until = times[len(times) // 4], times[len(times) * 3 // 4]

    found = table(middle, name, None, SplitFilters(since_us=since, until_us=until))

    assert found == [row for row in every if row[column] is not None and since <= row[column] < until]
    assert 0 < len(found) < len(every) or name == "inflight"


def test_settlements_are_found_by_sequence_and_number(middle: Path) -> None:
    every = table(middle, "settlements")

    by_seq = table(middle, "settlements", None, SplitFilters(queues=(CLOUD,), seq_from=50, seq_to=60))
    by_number = table(middle, "settlements", None, SplitFilters(numbers={CLOUD: ((5, 7), (30, 10**9)), "bridge:plant:0": ()}))

    assert by_seq == [row for row in every if row["queue"] == CLOUD and row["last_seq"] >= 50 and row["first_seq"] < 60]
    assert by_number == [
        row
        for row in every
        if row["queue"] != "bridge:plant:0" and (row["queue"] != CLOUD or row["number"] in (5, 6) or row["number"] >= 30)
    ]


@pytest.mark.parametrize("target_rows", [400, 5000])
def test_the_splits_together_read_every_row_once(day: Made, target_rows: int) -> None:
    found = find_snapshots(day.snapshots[0].parent)

    splits = plan(found, "messages", target_rows)

    rows = [row for split in pickle.loads(pickle.dumps(splits)) for row in rows_of(read(split, ["snapshot_id", "queue", "seq"]))]
    expected = [
        {"snapshot_id": path.name, "queue": row["queue"], "seq": row["seq"]}
        for path in day.snapshots
        for row in table(path, "messages")
    ]
    assert rows == expected
    assert len(splits) > 1 or target_rows == 5000


def test_many_small_snapshots_are_few_splits(day: Made) -> None:
    (found,) = find_snapshots(day.snapshots[2])
    assert found.manifest is not None
    many = [replace(found, path=Path(f"box-{number}")) for number in range(100)]

    splits = plan(many, "queues", 100_000)

    assert 5 <= len(splits) <= 20
    assert sum(len(split.parts) for split in splits) == 100


def test_batches_keep_to_their_limits(tmp_path: Path) -> None:
    """Also a large payload among small ones, and a chunk of more rows than a batch may have."""
    model = NodeModel(tmp_path / "node", node(bridge()), start_ms=1_700_000_000_000)
    payloads = [*(b"%d" % number for number in range(25_000)), *(bytes(1 << 20) for _ in range(20)), bytes(9 << 20), b"last"]
    with model:
        for start in range(0, len(payloads), 12_500):
            model.publish({"bridge:cloud:0": batch(payloads[start : start + 12_500], accepted_ms=model.wall_ms)})
        path = model.snapshot(tmp_path / "snapshots")

    batches = list(read_table(find_snapshots(path), "messages", ["payload"]))

    sizes = [sum(len(value) for value in each.column(0).to_pylist()) for each in batches]
    assert all(each.num_rows <= BATCH_ROWS_MAX for each in batches)
    assert all(size <= BATCH_BYTES_MAX or each.num_rows == 1 for size, each in zip(sizes, batches, strict=True))
    assert [value for each in batches for value in each.column(0).to_pylist()] == payloads


def test_without_retention_nothing_that_is_settled_is_told(tmp_path: Path) -> None:
    with NodeModel(tmp_path / "node", node(bridge()), start_ms=1_700_000_000_000) as model:
        lane = model.open_lane("bridge:cloud:0")
        model.publish({"bridge:cloud:0": batch([b"%d" % number for number in range(10)], accepted_ms=model.wall_ms)})
        model.settle(lane, [("delivered", ((0, 3), (5, 7)))], session="s")
        path = model.snapshot(tmp_path / "snapshots")

    rows = table(path, "messages")

    assert [row["seq"] for row in rows] == [3, 4, 7, 8, 9]
    assert {row["state"] for row in rows} == {"in_flight"}
    assert table(path, "settlements") == []
    assert rows == Plain(path).messages()


def test_a_table_or_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no table 'nothing'"):
        columns_of("nothing")
    with pytest.raises(ValueError, match="no column 'nothing'"):
        columns_of("messages", ["nothing"])


def test_a_schema_without_the_payload(middle: Path) -> None:
    names: list[Any] = arrow_schema("messages", payload=False).names

    assert names == [name for name in arrow_schema("messages").names if name != "payload"]
