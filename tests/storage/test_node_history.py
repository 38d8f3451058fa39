"""The history on disk: what comes back, what goes, and what a crash, a damaged file or a moved clock leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.node_history import DAMAGED_NAME, FOLDER_NAME, HistoryFolder, LaneMinute, Minute, NodeMinute, read_minutes
from wire.frames.names import LaneName

EVER = 1 << 62
NODE = NodeMinute(published=120, clients=3, sessions_depth=0, cpu_s=1.5, memory_bytes=40 << 20, disk_free_bytes=1 << 40)
LANE = LaneMinute(depth=7, bytes=900, accepted=60, delivered=53, lost=0, age_s=2.5, p50_s=0.25, p99_s=0.5, down_s=15.0)
NOTHING = LaneMinute(None, None, None, None, None, None, None, None, None)
CLOUD, FAST = LaneName("cloud", 0), LaneName("cloud", "urgent")


def add(folder: HistoryFolder, *at_ms: int, keep_s: float = 1e9, max_bytes: int = 1 << 30) -> None:
    for each in at_ms:
        folder.add(each, 60.0, NODE, {CLOUD: LANE._replace(depth=each)}, keep_s=keep_s, max_bytes=max_bytes)


def times(folder: HistoryFolder) -> list[int]:
    return [minute.at_ms for minute in folder.minutes(0, EVER)]


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / FOLDER_NAME).glob("*.minutes"))


def rows(minute: Minute) -> dict[LaneName, LaneMinute]:
    return dict(zip(minute.lanes, minute.rows()[1], strict=True))


def test_what_was_put_on_record_comes_back_also_what_nobody_knows(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    nobody = NodeMinute(None, None, None, None, None, None)

    folder.add(1_000, 60.0, NODE, {CLOUD: LANE}, keep_s=1e9, max_bytes=1 << 30)
    folder.add(2_000, 59.5, nobody, {CLOUD: NOTHING, FAST: LANE}, keep_s=1e9, max_bytes=1 << 30)
    folder.add(3_000, 60.0, NODE, {}, keep_s=1e9, max_bytes=1 << 30)

    for read in (folder.minutes(0, EVER), HistoryFolder(tmp_path).minutes(0, EVER), read_minutes(tmp_path, 0, EVER)):
        first, second, third = read
        assert (first.at_ms, first.seconds, first.rows()[0], rows(first)) == (1_000, 60.0, NODE, {CLOUD: LANE})
        assert (second.seconds, second.rows()[0], rows(second)) == (59.5, nobody, {CLOUD: NOTHING, FAST: LANE})
        assert second.rows([1])[1] == [LANE]
        assert third.lanes == ()
    assert [minute.at_ms for minute in folder.minutes(1_000, 2_000)] == [2_000]


def test_the_oldest_goes_by_recorded_time_and_by_bytes(tmp_path: Path) -> None:
    by_time, by_size = HistoryFolder(tmp_path / "time"), HistoryFolder(tmp_path / "size")

    add(by_time, *range(1, 400), keep_s=80 * 60.0)
    add(by_size, *range(1, 2_000), max_bytes=64 << 10)

    assert times(by_time)[-80:] == list(range(320, 400))
    assert 80 <= len(times(by_time)) <= 90
    assert times(by_size)[-1] == 1_999
    assert (40 << 10) <= sum(path.stat().st_size for path in kept(tmp_path / "size")) == by_size.bytes <= (64 << 10)
    assert by_size.since_ms == times(by_size)[0]


@pytest.mark.parametrize("jump_ms", [20 * 365 * 86_400_000, -40 * 86_400_000])
def test_a_clock_that_was_set_wrong_for_a_while_removes_nothing(tmp_path: Path, jump_ms: int) -> None:
    folder, now_ms = HistoryFolder(tmp_path), 1_700_000_000_000

    right = [now_ms + minute * 60_000 for minute in range(60)]
    add(folder, *right[:30], keep_s=100 * 60.0)
    add(folder, *[at_ms + jump_ms for at_ms in right[30:40]], keep_s=100 * 60.0)
    add(folder, *right[40:], keep_s=100 * 60.0)

    asked = [minute.at_ms for minute in folder.minutes(now_ms - 1, right[-1])]
    assert asked == right[:30] + right[40:]


@pytest.mark.parametrize("cut", [1, 8, 20, 60])
def test_a_record_that_a_crash_cut_short_is_left_out_and_the_file_goes_on(tmp_path: Path, cut: int) -> None:
    add(HistoryFolder(tmp_path), 1, 2, 3)
    (path,) = kept(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])

    folder = HistoryFolder(tmp_path)
    add(folder, 4)

    assert times(folder) == times(HistoryFolder(tmp_path)) == [1, 2, 4]
    assert (kept(tmp_path), folder.damage) == ([path], "")


def test_a_tail_of_zeros_is_what_a_loss_of_power_leaves(tmp_path: Path) -> None:
    add(HistoryFolder(tmp_path), 1, 2)
    (path,) = kept(tmp_path)
    path.write_bytes(path.read_bytes() + bytes(200))

    folder = HistoryFolder(tmp_path)
    add(folder, 3)

    assert (times(folder), folder.damage) == ([1, 2, 3], "")


def _flip(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


@pytest.mark.parametrize(
    "damage", [_flip, lambda content: b"no history" * 9, lambda content: content[:30] + b"x" * 300 + content[30:]]
)
def test_a_damaged_file_is_named_and_set_aside_and_another_begun(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    add(HistoryFolder(tmp_path), *range(1, 40))
    (path,) = kept(tmp_path)
    bad = damage(path.read_bytes())
    path.write_bytes(bad)

    before = [minute.at_ms for minute in read_minutes(tmp_path, 0, EVER)]  # changes nothing
    folder = HistoryFolder(tmp_path)
    add(folder, 50)

    assert before == list(range(1, len(before) + 1))
    assert times(folder) == [50]
    assert str(path) in folder.damage
    assert (tmp_path / FOLDER_NAME / DAMAGED_NAME).read_bytes() == bad


def test_a_file_damaged_while_the_node_runs_is_set_aside_by_the_question(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    add(folder, *range(1, 40), keep_s=160 * 60.0)  # two files
    first, second = kept(tmp_path)
    first.write_bytes(_flip(first.read_bytes()))

    assert set(times(folder)) < set(range(20, 40))
    assert (str(first) in folder.damage, kept(tmp_path)) == (True, [second])
    add(folder, 40)
    assert times(folder)[-1] == 40


def test_a_disk_that_refuses_costs_the_minute_at_hand_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = HistoryFolder(tmp_path)
    add(folder, 1)
    (path,) = kept(tmp_path)
    path.chmod(0o400)

    def refuse(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "open", refuse)
        with pytest.raises(OSError, match="No space"):
            add(folder, 2)
    path.chmod(0o600)
    add(folder, 3)

    assert times(folder) == [1, 3]


def test_a_history_that_is_wanted_no_more_is_removed(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    add(folder, 1)

    folder.clear()
    HistoryFolder(tmp_path / "never").clear()

    assert list((tmp_path / FOLDER_NAME).iterdir()) == []
    add(folder, 2)
    assert times(folder) == [2]
