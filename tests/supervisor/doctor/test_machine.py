"""The machine: each trouble is named with its cure, and what is well is not complained of."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from storage.engine.engine import BLOCK_CACHE_BYTES, WAL_MAX_BYTES
from supervisor.doctor import machine
from supervisor.doctor.findings import FAIL, OK, WARN, Finding
from tests.supervisor.settings import node_settings
from tests.support.settings import bridge, itself
from tests.support.waiting import wait_until
from wire.config_settings import NodeSettings, Tier2Settings

Usage = namedtuple("Usage", "total used free")
GIB = 1 << 30


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    settings = node_settings(tmp_path)
    persistence = replace(settings.persistence, mode="file-native", sync="full")
    return replace(settings, persistence=persistence, limits=replace(settings.limits, min_free_disk_bytes=GIB))


@pytest.mark.parametrize(
    ("total", "free", "verdict", "cure"),
    [
        (100 * GIB, 50 * GIB, OK, ""),
        (100 * GIB, GIB + 1, WARN, "make room"),
        (100 * GIB, GIB - 1, FAIL, "make room on the disk"),
        (GIB // 2, GIB // 4, FAIL, "more than the whole disk"),
    ],
)
def test_room_on_the_disk(
    total: int, free: int, verdict: str, cure: str, settings: NodeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(total, total - free, free))

    (finding,) = machine.disk_room(settings, tmp_path)

    assert finding.verdict == verdict
    assert cure in finding.cure


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
server:/x /srv/our\\040data nfs4 rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/var/lib", "ext4"), ("/run/x", "tmpfs"), ("/running", "ext4"), ("/srv/our data/q", "nfs4"), ("/", "ext4")],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert machine.filesystem_of(Path(folder), MOUNTS) == kind


@pytest.mark.parametrize(("kind", "verdict"), [("ext4", OK), ("tmpfs", FAIL), ("nfs4", WARN)])
def test_what_forgets_or_is_far_away_is_told(
    kind: str, verdict: str, settings: NodeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "filesystem_of", lambda folder, mounts: kind)

    assert [finding.verdict for finding in machine.disk_kind(settings, tmp_path)] == [verdict]


@pytest.mark.parametrize(("took_s", "sync", "verdict"), [(0.001, "full", OK), (0.05, "full", WARN), (0.05, "os", OK)])
def test_a_slow_disk_is_told_where_acknowledgements_wait_for_it(
    took_s: float, sync: str, verdict: str, settings: NodeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_sync_s", lambda folder: took_s)
    settings = replace(settings, persistence=replace(settings.persistence, sync=sync))

    (finding,) = machine.sync_time(settings, tmp_path)

    assert finding.verdict == verdict
    assert f"{took_s * 1000:.1f} ms" in finding.found


def test_a_synced_write_is_measured_and_leaves_nothing(settings: NodeSettings, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())

    (finding,) = machine.sync_time(settings, tmp_path)

    assert "a synced write takes" in finding.found
    assert sorted(tmp_path.iterdir()) == before


def test_in_memory_the_disk_is_nobody_s_concern(settings: NodeSettings, tmp_path: Path) -> None:
    settings = replace(settings, persistence=replace(settings.persistence, mode="in-memory"))

    for look in (machine.disk_room, machine.disk_kind, machine.sync_time):
        assert list(look(settings, tmp_path)) == []


def test_a_clock_that_was_never_set_or_set_back_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "file").write_bytes(b"")
    os.utime(tmp_path / "store" / "file", (1_800_000_000, 1_800_000_000))

    assert machine.clock(tmp_path, 1000.0).verdict == FAIL
    back = machine.clock(tmp_path, 1_799_999_000.0)
    assert (back.verdict, "set back" in back.cure) == (FAIL, True)
    assert machine.clock(tmp_path, 1_800_000_010.0).verdict == OK
    assert machine.clock(tmp_path / "nothing", 1_800_000_010.0).verdict == OK


@pytest.mark.parametrize(
    ("limit", "placement", "verdict"),
    [
        (1024, "isolated", WARN),
        (5000, "isolated", OK),
        (5000, "together", WARN),
        (1 << 20, "isolated", OK),
        (1 << 20, "together", OK),
        (-1, "together", OK),
    ],
)
def test_descriptors_for_all_clients(
    limit: int, placement: str, verdict: str, settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (limit, limit))
    supervision = replace(settings.supervision, placement=placement)
    settings = replace(settings, clients=replace(settings.clients, connections_max=4096), supervision=supervision)

    assert machine.descriptors(settings).verdict == verdict


@pytest.mark.process
def test_the_descriptors_of_a_node_that_runs_are_its_own_and_not_those_of_who_looks(settings: NodeSettings) -> None:
    settings = replace(settings, clients=replace(settings.clients, connections_max=4096))
    with subprocess.Popen(["prlimit", "--nofile=100:300", "sleep", "60"]) as node:
        try:
            wait_until(lambda: "300" in Path(f"/proc/{node.pid}/limits").read_text(), 10.0, "its limit")
            finding = machine.descriptors(settings, node.pid)
        finally:
            node.kill()

    assert (finding.verdict, finding.found.partition(";")[0]) == (WARN, "300 for each process of the node")
    assert "started here" in machine.descriptors(settings, node.pid).found, "it runs no more"


def test_memory_for_all_lanes_and_what_they_may_hold(settings: NodeSettings) -> None:
    settings = replace(settings, bridges=(replace(bridge(), lanes=11, tier2=Tier2Settings(max_bytes=10 << 20)),))
    wanted = (70 + 80 + 10 * 8 + 11 * 10) << 20

    assert machine.memory(settings, wanted).verdict == OK
    short = machine.memory(settings, wanted - 1)
    assert (short.verdict, short.found) == (WARN, "up to 340.0 MiB for 11 lanes and what they may hold; 340.0 MiB are free")
    assert machine.memory(settings, None).verdict == OK
    assert machine.STORE_BYTES == BLOCK_CACHE_BYTES + WAL_MAX_BYTES
    assert (machine.available_bytes() or 0) > 1 << 20


def test_all_of_it_on_this_machine(settings: NodeSettings) -> None:
    findings = list(machine.examine_machine(settings))

    assert all(isinstance(finding, Finding) for finding in findings)
    assert {finding.about for finding in findings} >= {"disk room", "file system", "disk", "clock", "open files", "memory"}
    assert all(finding.cure for finding in findings if finding.verdict != OK)


def test_a_data_folder_that_cannot_be_made_is_told_before_the_disk_is_blamed(tmp_path: Path) -> None:
    settings = itself(node_settings(tmp_path), data_dir="/proc/bascule/data")

    findings = [finding for finding in machine.examine_machine(settings) if finding.verdict == FAIL]

    assert [finding.about for finding in findings] == ["data folder"]
    assert findings[0].found.startswith("/proc ")
    assert "node.data_dir" in findings[0].cure
    assert not any(word in findings[0].cure for word in ("smartctl", "min_free_disk", "chown"))


def test_a_link_to_what_is_not_mounted_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("/mnt/nowhere")

    fault = machine.folder_fault(tmp_path / "data")

    assert fault is not None
    assert "leads to /mnt/nowhere, which is not there" in fault[0]


@pytest.mark.parametrize(
    ("number", "found", "cure"),
    [
        (errno.EROFS, "mounted read-only", "mount it for writing"),
        (errno.EACCES, "cannot be written to by this user", "chown"),
        (errno.EPERM, "cannot be written to by this user", "chown"),
        (errno.EIO, "Input/output error", "another folder"),
    ],
)
def test_why_a_folder_takes_nothing_decides_the_cure(
    number: int, found: str, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **keys: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    fault = machine.folder_fault(tmp_path / "data")

    assert fault is not None
    assert found in fault[0]
    assert cure in fault[1]
    assert "chown" not in fault[1] or number in (errno.EACCES, errno.EPERM)


def test_a_folder_that_can_be_made_is_left_as_it_was(tmp_path: Path) -> None:
    assert machine.folder_fault(tmp_path / "a" / "b") is None
    assert list(tmp_path.iterdir()) == []
