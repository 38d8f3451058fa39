"""Files that outlive the power: written, named and removed so that it is on the disk when a call returns.

A name (creat, link, rename, unlink, mkdir) is on the disk once its folder is synced, and not before. Some file systems bring names
along with what they sync anyway, in the order in which they were made; others do not, and those that are not synced may come late
or never, each by itself. So all that a node names and later goes by is named here; RocksDB does as much in its own folder.
``tests/test_layout.py`` holds that nobody else does.

Files that are only written, such as evidence of damage that an operator may look at, need no promise; nothing ever goes by them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from wire.errors import ConfigError, DiskFull, Unavailable

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700  # for the owner only

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_CURES = {
    **dict.fromkeys(_NO_ROOM, "make room"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "give the command as a user who may write there, such as by sudo"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file has the name of a folder: give another place"),
    errno.EISDIR: "that is a folder: give another name",
    errno.EROFS: "give another place",
}


def unwritable(path: Path, error: OSError) -> Unavailable:
    """``error`` for who gave the command that writes ``path``, a file or a folder with what is in it: why not, and what to do."""
    why = (error.strerror or str(error)).lower()
    if error.filename is not None and not str(error.filename).startswith(str(path)):
        why = f"{error.filename}: {why}"
    cure = _CURES.get(error.errno or 0, "")
    if error.errno == errno.ENOENT and not path.parent.is_dir():
        why, cure = "no such file or directory", f"make the folder {path.parent} first"
    kind = DiskFull if error.errno in _NO_ROOM else Unavailable
    return kind(f"{path} cannot be written: {why}{f'; {cure}' if cure else ''}")


def local_path(where: str) -> str:
    """The path that ``where`` says: it may be a URL such as ``file:///snapshots``.

    Raises:
        ConfigError: it is the URL of something that is no file system.
    """
    url = urlsplit(where)
    if url.scheme == "file":
        return unquote(url.path)
    if "://" in where:
        raise ConfigError(f"{where!r} is not in a file system, and this takes local and mounted folders only: copy it, or mount it")
    return where


def make_folder(path: Path) -> None:
    """Have the folder ``path``, under its name on disk, with all folders above it that are missing: for the owner only.

    One that is there already is synced as well, for who made it may have been killed before that; its mode stays.

    Raises:
        OSError: the disk refuses, or something else has the name.
    """
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    sync(path.parent)
    for above in path.parents[1:]:  # theirs are often not for us to open
        with contextlib.suppress(OSError):
            sync(above)


@contextmanager
def replacing(path: Path, *, mode: int = PRIVATE, suffix: str = ".new", for_group_of_folder: bool = False) -> Iterator[IO[bytes]]:
    """Write what is to be at ``path``: whoever looks finds the old file or the new one, whole, and so it is after a loss of power.

    It is the new one when this ends. After an error it is the old one, unless the last step failed: the sync of the new name.
    mode: the file's, whatever the umask is. suffix: of the name under which it is written; two who write at once need two.
    for_group_of_folder: a service has to read it. Where root writes it into a folder of root's that a group may look into, and
    nobody else may, that group may read it; where it cannot be given to the group, it stays root's alone.

    Raises:
        OSError: the disk refuses.
    """
    new = path.with_name(path.name + suffix)
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            if for_group_of_folder and os.geteuid() == 0:
                _let_group_read(descriptor, path.parent)
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    sync(path.parent)


def _let_group_read(descriptor: int, folder: Path) -> None:
    """Let the group of ``folder`` read a file of root's, if the folder is as a package keeps a service's secrets."""
    found = os.stat(folder)
    if found.st_uid == 0 and found.st_gid and found.st_mode & 0o077 == 0o050:
        with contextlib.suppress(OSError):  # NFS, or a group that a container does not know
            os.fchown(descriptor, -1, found.st_gid)
            os.fchmod(descriptor, PRIVATE | 0o040)


def write(path: Path, content: bytes, *, mode: int = PRIVATE, for_group_of_folder: bool = False) -> None:
    """Have ``content`` at ``path``, as ``replacing`` does.

    Raises:
        OSError: the disk refuses.
    """
    with replacing(path, mode=mode, for_group_of_folder=for_group_of_folder) as file:
        file.write(content)


def touch(path: Path) -> None:
    """Have a file at ``path``, empty if there was none: its name is all that it says.

    Raises:
        OSError: the disk refuses. It may be there, and may not be on disk.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
    sync(path.parent)


def open_fixed(path: Path, size_bytes: int) -> int:
    """A descriptor of the file ``path`` that is to be written in place: of ``size_bytes``, with blocks of its own, zeros at first.

    Its name is on disk. Written bytes are durable after ``os.fsync``, and not before.

    Raises:
        OSError: the disk refuses.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        there = os.fstat(descriptor).st_size
        if there < size_bytes:
            write_at(descriptor, bytes(size_bytes - there), there)
            os.fsync(descriptor)
        sync(path.parent)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_at(descriptor: int, content: bytes, at: int) -> None:
    """Write all of ``content`` at the byte ``at``, and sync nothing.

    Raises:
        OSError: the disk refuses; some of it may be written.
    """
    written = os.pwrite(descriptor, content, at)
    while written < len(content):
        written += os.pwrite(descriptor, content[written:], at + written)


def rename(source: Path, target: Path) -> None:
    """Give ``source`` the name ``target``; what has that name is gone, unless it is a folder with something in it.

    Raises:
        OSError: the disk refuses. The name may be the new one, and may not be on disk.
    """
    source.rename(target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def remove(path: Path) -> None:
    """Remove the file ``path``, if it is there.

    Raises:
        OSError: the disk refuses. It may be gone, and may come back with a loss of power.
    """
    path.unlink(missing_ok=True)
    sync(path.parent)


def remove_empty(folder: Path) -> None:
    """Remove ``folder``, if it is there and nothing is in it. A loss of power may bring it back.

    Raises:
        OSError: the disk refuses.
    """
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def discard(folder: Path) -> None:
    """Remove ``folder`` with all in it, if it is there. A loss of power may bring back any of it, so its name must say that it is
    none that counts.

    Raises:
        OSError: some of it is still there.
    """
    if folder.exists():
        shutil.rmtree(folder)


def sync(path: Path) -> None:
    """Sync a file's content, or the names in a folder.

    Raises:
        OSError: the disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
