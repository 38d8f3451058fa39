"""Files that a node writes and names are on disk when it goes by them, however the disk treats names; each sync in it is needed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from storage import files
from tests.storage.named_files import MADE, PLACES, SAID, contents
from tests.support.model_disk import DISCIPLINES, Discipline, Event, ModelDisk, compile_recorder, recorded
from wire.errors import DiskFull

DRAWS = 3
Contents = dict[str, str]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_recorder(tmp_path_factory.mktemp("recorder"))


def record(folder: Path, recorder: Path, place: str = "") -> tuple[ModelDisk, list[Event], int]:
    """The disk as it was before, what was done to it, and the inode of what was said."""
    (folder / MADE).mkdir(parents=True)
    (folder / MADE / "CURRENT").write_bytes(b"MANIFEST-1\n")
    (folder / MADE / "000001.sst").write_bytes(bytes(5000))
    (folder / SAID).write_bytes(b"")
    disk, log = ModelDisk(folder), folder.with_name("recorded")
    events = recorded(["-m", "tests.storage.named_files", str(folder), place], recorder, log, folder)
    return disk, events, (folder / SAID).stat().st_ino


def violations(folder: Path, recorder: Path, discipline: Discipline, place: str = "") -> Iterator[str]:
    """The faults in the images of all cuts: each has what was there before the step that was under way, or after it."""
    disk, events, said = record(folder, recorder, place)
    lines = [json.loads(line) for event in events if event.inode == said and event.what == "w" for line in [event.data]]
    assert len(lines) > 20
    chance, image = Random(7), folder.with_name("image")
    heard, before = 0, contents(folder.with_name("none"))
    for event in events:
        disk.play(event)
        if event.inode == said and event.what == "w":
            heard += 1
            before = lines[heard - 1] if lines[heard - 1] != "begins" else before
        if event.what == "w" and event.inode != said:
            continue  # what is written is in doubt until it is synced, which other cuts show
        after = lines[heard] if heard and lines[heard - 1] == "begins" else before
        for _ in range(DRAWS):
            disk.image(image, discipline, chance)
            yield from (f"{event.what} {event.path} {event.to}: {fault}" for fault in judge(contents(image), before, after))


def judge(found: Contents, before: Contents, after: Contents) -> list[str]:
    """Each file and folder is as before or as after the step, and a snapshot is there whole or not at all."""
    faults = [
        f"{name} is {found.get(name)}, was {before.get(name)}, is to be {after.get(name)}"
        for name in {*found, *before, *after}
        if found.get(name) not in (before.get(name), after.get(name)) and not name.startswith("snapshots/")
    ]
    for name in {name.split("/")[1] for name in found if name.startswith("snapshots/") and not name.startswith("snapshots/.")}:
        wanted = [{key: value for key, value in those.items() if key.startswith(f"snapshots/{name}/")} for those in (before, after)]
        if {key: value for key, value in found.items() if key.startswith(f"snapshots/{name}/")} not in wanted:
            faults.append(f"snapshot {name} is not whole")
    kept = {name for name in before if name in after and name.startswith("snapshots/")}
    return faults + [f"{name} is gone" for name in kept if name not in found]


@pytest.mark.process
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_what_a_node_names_is_there_when_it_goes_by_it(tmp_path: Path, recorder: Path, discipline: Discipline) -> None:
    assert list(violations(tmp_path / "box", recorder, discipline)) == []


@pytest.mark.process
@pytest.mark.parametrize("place", PLACES)
def test_without_one_sync_it_is_not(tmp_path: Path, recorder: Path, place: str) -> None:
    """Each sync of the module is left out in turn, and that shows."""
    assert next(violations(tmp_path / "box", recorder, "folder", place), None)


def test_a_file_that_cannot_be_replaced_is_the_old_one_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "users"
    files.write(path, b"old")

    class Refused(Exception):
        pass

    def replace() -> None:
        with files.replacing(path) as file:
            file.write(b"half of the n")
            raise Refused

    with pytest.raises(Refused):
        replace()

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_its_owners_only_and_leftovers_are_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "users"
    files.make_folder(path.parent)
    path.with_name("users.new").write_bytes(b"left of a life that was killed")

    files.write(path, b"new")

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to a group")
@pytest.mark.parametrize(("folder_mode", "mode"), [(0o750, 0o640), (0o755, 0o600), (0o770, 0o600), (0o700, 0o600)])
def test_the_service_can_read_what_root_writes_into_the_folder_of_its_secrets(tmp_path: Path, folder_mode: int, mode: int) -> None:
    """As a package has it: /etc/bascule/secrets is root's, its group is the service's, and nobody else may look into it."""
    folder, group = tmp_path / "secrets", 1
    folder.mkdir()
    os.chown(folder, 0, group)
    folder.chmod(folder_mode)

    for content in (b"first", b"second"):
        files.write(folder / "users", content, for_group_of_folder=True)

        found = (folder / "users").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, group if mode == 0o640 else os.getegid(), mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to a group")
def test_what_no_service_has_to_read_stays_roots_alone(tmp_path: Path) -> None:
    """Such as an export, a backup or a key in a folder that the administrators may look into."""
    os.chown(tmp_path, 0, 1)
    tmp_path.chmod(0o750)

    files.write(tmp_path / "export", b"payloads")

    assert mode_and_group(tmp_path / "export") == (0o600, os.getegid())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to a group")
def test_a_file_that_cannot_be_given_to_the_group_is_written_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS that squashes root, or in a container to which the group is not mapped."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    os.chown(tmp_path, 0, 1)
    tmp_path.chmod(0o750)
    monkeypatch.setattr(os, "fchown", refuse)

    files.write(tmp_path / "users", b"ada", for_group_of_folder=True)

    assert (tmp_path / "users").read_bytes() == b"ada"
    assert mode_and_group(tmp_path / "users") == (0o600, os.getegid())


def mode_and_group(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mode & 0o777, found.st_gid


def test_a_file_of_fixed_size_keeps_its_content(tmp_path: Path) -> None:
    descriptor = files.open_fixed(tmp_path / "mark", 4096)
    files.write_at(descriptor, b"here", 1000)
    os.close(descriptor)

    descriptor = files.open_fixed(tmp_path / "mark", 4096)
    try:
        assert os.pread(descriptor, 4096, 0) == bytes(1000) + b"here" + bytes(4096 - 1004)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("number", "filename", "said"),
    [
        (errno.EACCES, "made/file.new", "made/file cannot be written: permission denied; give the command as a user who may write"),
        (errno.ENOENT, "none/file", "none/file cannot be written: no such file or directory; make the folder {}/none first"),
        (errno.ENOTDIR, "made", "made/file cannot be written: {}/made: not a directory; a file has the name of a folder"),
        (errno.ENOSPC, None, "made/file cannot be written: no space left on device; make room"),
        (errno.EIO, "source", "made/file cannot be written: {}/source: input/output error"),
    ],
)
def test_who_gave_a_command_reads_what_cannot_be_written_and_what_to_do(
    tmp_path: Path, number: int, filename: str | None, said: str
) -> None:
    (tmp_path / "made").mkdir()
    path = tmp_path / ("none" if filename == "none/file" else "made") / "file"
    error = OSError(number, os.strerror(number), *([str(tmp_path / filename)] if filename else []))

    refused = files.unwritable(path, error)

    assert str(refused).startswith(f"{tmp_path}/{said.format(tmp_path)}")
    assert isinstance(refused, DiskFull) == (number == errno.ENOSPC)
