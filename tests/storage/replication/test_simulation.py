"""A simulated cluster keeps its promises through whatever befalls it, and each planted bug is found (P1, P2, P3, P4)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.storage.replication.judge import Violation
from tests.storage.replication.mutations import MUTATIONS
from tests.storage.replication.simulation import simulate

SEEDS = 48
SEEDS_MAX = 150  # within which a planted bug is found
FOUND_AT = {"replication.record-of-its-own-parts/part-alone": 94}  # the others within the first few


def simulate_all(seeds: Iterable[int], folder: Path) -> int:
    """How many leaders there were in all of them."""
    return sum(simulate(seed, folder).judge.terms for seed in seeds)


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_a_cluster_keeps_its_promises(first: int, tmp_path: Path) -> None:
    """Replay one with ``python -m tests.storage.replication.simulation SEED``."""
    assert simulate_all(range(first, first + 8), tmp_path) > 16, "hardly anybody has taken over"


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    with MUTATIONS[name].applied(), pytest.raises(Violation):
        simulate_all((FOUND_AT.get(name, 0), *range(SEEDS_MAX)), tmp_path)


def test_a_seed_is_one_schedule(tmp_path: Path) -> None:
    once, again = (simulate(3, tmp_path) for _ in range(2))

    assert once.now_s == again.now_s
    assert once.judge.states == again.judge.states
