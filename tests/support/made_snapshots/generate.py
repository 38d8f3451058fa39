"""Makes realistic snapshots of any size, through the real Tier 1: for tests, benchmarks and demonstrations.

``python -m tests.support.made_snapshots.generate --to DIR --messages 1000000`` writes snapshots of nodes that never were, and with
``--plant-loss`` and ``--plant-duplicate`` falsifies the last one of the first node, so that a reconciliation has something to find.
The work of the nodes is ``traffic``'s; the same seed makes the same messages.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from storage.engine.engine import Write
from storage.engine.keys import lane_key
from storage.queue.history import Settlement, settlement_key, settlement_of
from storage.queue.ledger import LedgerRow
from tests.support.made_snapshots.node_model import NodeModel
from tests.support.made_snapshots.traffic import generate_day

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
PLANTED_IN = "bridge:cloud:0"
DELIVERED = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The nodes and messages to make: ``nodes`` nodes, each with ``messages`` messages in ``hours`` and ``snapshots`` snapshots on
    the way."""

    messages: int = 100_000
    nodes: int = 1
    hours: float = 24.0
    snapshots: int = 1
    seed: int = 1
    payload_bytes: int = 120
    plant_loss: bool = False
    plant_duplicate: bool = False
    start_ms: int = START_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A falsification: the sequence of ``queue`` that was lost, or settled twice."""

    kind: str
    node: str
    queue: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The folders of the snapshots, and what is wrong with the last one of the first node."""

    snapshots: tuple[Path, ...]
    planted: tuple[Planted, ...]


def generate(wanted: Wanted, to: Path) -> Made:
    """Make what is ``wanted`` below the folder ``to``: a folder of snapshots for each node."""
    snapshots: list[Path] = []
    planted: list[Planted] = []
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to, prefix=".generating-") as scratch:
        for number in range(wanted.nodes):
            name = f"box-{number + 1}"
            model, traffic = generate_day(
                Path(scratch) / name,
                name,
                messages=wanted.messages,
                hours=wanted.hours,
                seed=wanted.seed * 1000 + number,
                start_ms=wanted.start_ms,
                payload_bytes=wanted.payload_bytes,
            )
            with model:
                due = [traffic.steps * (place + 1) // wanted.snapshots - 1 for place in range(wanted.snapshots)]
                for step in traffic.run():
                    if step == due[-1] and number == 0:
                        planted = _plant(model, wanted)
                    if step in due:
                        snapshots.append(model.snapshot(to / name))
            shutil.rmtree(Path(scratch) / name)
    return Made(snapshots=tuple(snapshots), planted=tuple(planted))


# --- falsification ---


def _plant(model: NodeModel, wanted: Wanted) -> list[Planted]:
    """Falsify the settlements on disk behind the back of Tier 1, which knows nothing of it: neither do the ledgers."""
    found = _settlements(model, PLANTED_IN)
    planted = []
    if wanted.plant_loss:
        key, row, seq = _within(found, part=3)
        _put(model, key, _without(row, seq))
        planted.append(Planted(kind="loss", node=model.settings.node.name, queue=PLANTED_IN, seq=seq))
    if wanted.plant_duplicate:
        _, _, seq = _within(found, part=2)
        key, row = found[-1]
        again = replace(row, outcomes=(*row.outcomes, (DELIVERED, ((seq, seq + 1),))))
        _put(model, key, again)
        planted.append(Planted(kind="duplicate", node=model.settings.node.name, queue=PLANTED_IN, seq=seq))
    return planted


def _settlements(model: NodeModel, queue: str) -> list[tuple[bytes, Settlement]]:
    """The settlements of ``queue`` that delivered something, in order."""
    numbers = {key[1:].decode(): int.from_bytes(value, "big") for key, value in model.engine.scan("meta", b"N", b"O")}
    number = numbers[queue]
    row = LedgerRow.decode(model.engine.get("meta", lane_key(number)) or b"", queue=queue)
    rows = model.engine.scan("history", settlement_key(number, row.history.first), settlement_key(number, row.history.next))
    every = [(key, Settlement.decode(value)) for key, value in rows]
    begins = row.history.begins
    return [
        (key, settlement)
        for key, settlement in every
        if any(outcome == DELIVERED and ranges[0][0] >= begins for outcome, ranges in settlement.outcomes)
    ]


def _within(found: list[tuple[bytes, Settlement]], *, part: int) -> tuple[bytes, Settlement, int]:
    """A settlement of three or more sequences in one range, about a ``part`` of the way in, and a sequence in its middle."""
    for key, row in found[len(found) // part :]:
        for outcome, ranges in row.outcomes:
            for start, stop in ranges:
                if outcome == DELIVERED and stop - start >= 3:
                    return key, row, (start + stop) // 2
    raise ValueError("too few messages were settled to falsify anything: make more")


def _without(row: Settlement, seq: int) -> Settlement:
    """``row`` as if ``seq`` had not been settled by it."""
    outcomes = []
    for outcome, ranges in row.outcomes:
        kept: list[tuple[int, int]] = []
        for start, stop in ranges:
            split = ((start, seq), (seq + 1, stop)) if start <= seq < stop and outcome == DELIVERED else ((start, stop),)
            kept.extend(bounds for bounds in split if bounds[0] < bounds[1])
        outcomes.append((outcome, tuple(kept)))
    return replace(row, outcomes=tuple(outcomes))


def _put(model: NodeModel, key: bytes, row: Settlement) -> None:
    assert settlement_of(key)[0] > 0
    write = Write()
    write.put("history", key, row.encode())
    model.engine.commit(write, sync=False)


# --- by hand ---


def main(argv: Sequence[str] | None = None) -> int:
    """Make snapshots as the arguments say; prints what was made as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.made_snapshots.generate", description="Make realistic snapshots."
    )
    parser.add_argument("--to", type=Path, required=True, help="the folder in which each node gets a folder of snapshots")
    parser.add_argument("--messages", type=int, default=100_000, help="messages a node (%(default)s)")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--hours", type=float, default=24.0, help="the time in which they come (%(default)s)")
    parser.add_argument("--snapshots", type=int, default=1, help="snapshots a node, evenly spaced, the last at the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--payload-bytes", type=int, default=120, help="what payloads have at most, beside some 40 bytes")
    parser.add_argument("--plant-loss", action="store_true", help="one message of the first node is lost without a trace")
    parser.add_argument("--plant-duplicate", action="store_true", help="one message of the first node is settled twice")
    words = vars(parser.parse_args(argv))
    to = words.pop("to")
    made = generate(Wanted(**words), to)
    result = {"snapshots": [str(path) for path in made.snapshots], "planted": [asdict(each) for each in made.planted]}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
