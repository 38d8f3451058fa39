"""The steps of the clock on record: over lives of the node, over starts of the machine, and in a file that is damaged."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from actors.system.clock_file import FILE_NAME, WRITE_PERIOD_MS, ClockFile
from wire.clock_steps import ClockSteps

BEGIN_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def life(folder: Path, wall_ms: int, steady_ms: int, machine_run: str = "first") -> tuple[ClockSteps, ClockFile]:
    """A life of the node, or a process of it, that has read what is on record."""
    clock = ClockSteps()
    file = ClockFile(folder, clock, machine_run)
    file.read(wall_ms, steady_ms)
    return clock, file


def test_a_first_life_knows_of_no_step(tmp_path: Path) -> None:
    clock, _ = life(tmp_path, BEGIN_MS, 10)

    assert clock.elapsed_ms(BEGIN_MS - HOUR_MS, BEGIN_MS) == HOUR_MS


def test_a_step_is_on_record_at_once(tmp_path: Path) -> None:
    _, file = life(tmp_path, BEGIN_MS, 0)
    file.write(BEGIN_MS, 0)

    file.write(BEGIN_MS + HOUR_MS + 5_000, 5_000)
    clock, _ = life(tmp_path, BEGIN_MS + HOUR_MS + 9_000, 9_000)

    assert clock.steps == [(BEGIN_MS + 5_000, BEGIN_MS + HOUR_MS + 5_000)]
    assert clock.elapsed_ms(BEGIN_MS, BEGIN_MS + HOUR_MS + 9_000) == 9_000


def test_where_the_kernel_does_not_name_its_starts_the_steady_clock_tells_nothing_across_lives(tmp_path: Path) -> None:
    _, file = life(tmp_path, BEGIN_MS, 60_000, machine_run="")
    file.write(BEGIN_MS, 60_000)

    clock, _ = life(tmp_path, BEGIN_MS + HOUR_MS, 10, machine_run="")

    assert clock.steps == [], "the machine may have started again"


def test_a_step_while_nothing_ran_is_known_in_the_same_run_of_the_machine(tmp_path: Path) -> None:
    _, file = life(tmp_path, BEGIN_MS, 0)
    file.write(BEGIN_MS, 0)

    clock, _ = life(tmp_path, BEGIN_MS + HOUR_MS + 60_000, 60_000)

    assert clock.elapsed_ms(BEGIN_MS, BEGIN_MS + HOUR_MS + 60_000) == 60_000


def test_time_without_power_counts_where_the_clock_went_on(tmp_path: Path) -> None:
    _, file = life(tmp_path, BEGIN_MS, 70_000)
    file.write(BEGIN_MS, 70_000)

    clock, _ = life(tmp_path, BEGIN_MS + HOUR_MS, 2_000, "second")

    assert clock.elapsed_ms(BEGIN_MS, BEGIN_MS + HOUR_MS) == HOUR_MS


def test_a_machine_without_a_battery_clock_expires_nothing_by_its_first_correction(tmp_path: Path) -> None:
    """It starts in 1970, and is set two days after the last time that was known."""
    _, file = life(tmp_path, BEGIN_MS, 70_000)
    file.write(BEGIN_MS, 70_000)
    clock, file = life(tmp_path, 3_000, 2_000, "second")
    file.write(3_000, 2_000)
    assert clock.elapsed_ms(BEGIN_MS - 40_000, 33_000) == 70_000

    now_ms = BEGIN_MS + 48 * HOUR_MS
    clock.read(now_ms, 62_000)

    assert clock.elapsed_ms(BEGIN_MS - 40_000, now_ms) == 100_000
    assert clock.elapsed_ms(20_000, now_ms) == 43_000


def test_it_is_written_now_and_then_without_a_step(tmp_path: Path) -> None:
    _, file = life(tmp_path, BEGIN_MS, 0)
    file.write(BEGIN_MS, 0)
    before = (tmp_path / FILE_NAME).read_bytes()

    file.write(BEGIN_MS + WRITE_PERIOD_MS - 1, WRITE_PERIOD_MS - 1)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    file.write(BEGIN_MS + WRITE_PERIOD_MS, WRITE_PERIOD_MS)
    assert (tmp_path / FILE_NAME).read_bytes() != before


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{}", b"[]", b"\xff", b'{"machine_run": "first", "wall_ms": 1e400, "steady_ms": 1, "steps": []}', b'{"steps": [[1]]}'],
)
def test_a_damaged_record_is_named_and_knows_of_no_step(damaged: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).write_bytes(damaged)

    with caplog.at_level(logging.WARNING):
        clock, file = life(tmp_path, BEGIN_MS, 0)

    assert [record.message for record in caplog.records] == ["clock.unreadable"]
    assert clock.steps == []
    file.write(BEGIN_MS, 0)
    assert life(tmp_path, BEGIN_MS, 0)[0].steps == []
