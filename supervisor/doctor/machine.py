"""The machine: room and speed of the disk, the clock, descriptors, memory."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from supervisor.doctor.findings import Finding, fail, ok, warn
from supervisor.units import write_size
from wire.config_settings import NodeSettings
from wire.frames.placement import Placement

SYNC_SLOW_S = 0.02
DESCRIPTORS_BESIDE = 256  # what a process has open beside its clients
PROCESS_BYTES, LANE_BYTES = 70 << 20, 8 << 20  # a node with one bridge, and each further lane, without messages
STORE_BYTES = 80 << 20  # RocksDB's cache, and what is to become tables (engine.BLOCK_CACHE_BYTES, WAL_MAX_BYTES)
_SYNCS = 20
_BUILT_S = 1_700_000_000  # a clock that says less was never set
_IN_MEMORY = {"tmpfs", "ramfs"}
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"}


def examine_machine(settings: NodeSettings, pid: int | None = None) -> Iterator[Finding]:
    """All findings on the machine that ``settings`` are to run on. pid: of the node, if it runs."""
    data_dir = Path(settings.node.data_dir)
    folder = nearest_folder(data_dir)
    if fault := folder_fault(data_dir):
        yield fail("data folder", *fault)
    else:
        yield from disk_room(settings, folder)
        yield from disk_kind(settings, folder)
        yield from sync_time(settings, folder)
    yield clock(Path(settings.node.data_dir), time.time())
    yield descriptors(settings, pid)
    yield memory(settings, available_bytes())


def nearest_folder(path: Path) -> Path:
    """``path``, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def folder_fault(path: Path) -> tuple[str, str] | None:
    """Why this user could not keep files in ``path``, or make it, and the cure; None if that can be done; a full disk is none."""
    if path.is_symlink() and not path.exists():
        return f"{path} leads to {os.readlink(path)}, which is not there", "mount or make that, or take another folder"
    folder = nearest_folder(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".bascule-", dir=folder):
            return None
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                return None
            case errno.EROFS:
                found, cure = (
                    "is on a file system that is mounted read-only",
                    "mount it for writing; dmesg says why, if nobody asked for it",
                )
            case errno.EACCES | errno.EPERM:
                found, cure = (
                    "cannot be written to by this user",
                    f"give the node's user the right to write there: chown or chmod {folder}",
                )
            case _:
                found, cure = f"takes no folder: {error.strerror}", "take another folder for node.data_dir"
        return f"{folder} {found}", cure


def disk_room(settings: NodeSettings, folder: Path) -> Iterator[Finding]:
    """Whether intake can go on, and for how long it looks so."""
    if settings.persistence.mode == "in-memory":
        return
    usage, least = shutil.disk_usage(folder), settings.limits.min_free_disk_bytes
    about, found = (
        "disk room",
        f"{write_bytes(usage.free)} free of {write_bytes(usage.total)}; intake stops below {write_bytes(least)}",
    )
    if least >= usage.total:
        yield fail(about, found, "limits.min_free_disk is more than the whole disk: intake would never begin; lower it")
    elif usage.free < least:
        yield fail(about, found, "make room on the disk of node.data_dir, or lower limits.min_free_disk")
    elif usage.free < 2 * least:
        yield warn(about, found, "make room, or move node.data_dir to a larger disk")
    else:
        yield ok(about, found)


def disk_kind(settings: NodeSettings, folder: Path) -> Iterator[Finding]:
    """Whether what is written stays."""
    kind = filesystem_of(folder, Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace"))
    about, found = "file system", f"{kind or 'unknown'} at {folder}"
    if settings.persistence.mode == "in-memory":
        return
    if kind in _IN_MEMORY:
        yield fail(about, found, "what is there is gone when the machine starts again; take a folder on a disk for node.data_dir")
    elif kind in _NETWORK:
        yield warn(about, found, "a commit waits for the network, and locks may not hold; take a local disk for node.data_dir")
    else:
        yield ok(about, found)


def filesystem_of(folder: Path, mounts: str) -> str:
    """The kind of file system that ``folder`` is on, by the text of /proc/mounts."""
    found = ("", "")
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        place = place.encode().decode("unicode_escape")
        if folder.is_relative_to(place) and len(place) >= len(found[0]):
            found = place, kind
    return found[1]


def sync_time(settings: NodeSettings, folder: Path) -> Iterator[Finding]:
    """How long a commit waits for the disk."""
    if settings.persistence.mode == "in-memory":
        return
    about = "disk"
    try:
        took_s = _sync_s(folder)
    except OSError as error:
        yield fail(about, f"{folder}: {error.strerror}", "see what is wrong with the disk: dmesg, smartctl")
        return
    found = f"a synced write takes {took_s * 1000:.1f} ms"
    if took_s > SYNC_SLOW_S and settings.persistence.sync == "full":
        yield warn(about, found, "each acknowledgement waits for one; take a faster disk, or persistence.sync: os if power is safe")
    else:
        yield ok(about, found)


def _sync_s(folder: Path) -> float:
    """The median time of a small write that is on the disk."""
    with tempfile.TemporaryFile(dir=folder) as file:
        times = []
        for place in range(_SYNCS):
            begun_s = time.monotonic()
            os.pwrite(file.fileno(), bytes(512), place * 512)
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - begun_s)
    return statistics.median(times)


def clock(data_dir: Path, now_s: float) -> Finding:
    """Whether the clock says a time that can be: message expiry, certificates and history go by it."""
    about, said = "clock", time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now_s))
    if now_s < _BUILT_S:
        return fail(about, f"it says {said}", "set it, and have it kept right: timedatectl set-ntp true")
    newest_s = max((file.stat().st_mtime for file in data_dir.glob("store/*")), default=0.0)
    if newest_s > now_s + 60:
        late = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(newest_s))
        return fail(about, f"it says {said}, and the store was written at {late}", "it was set back: set it right")
    return ok(about, said)


def descriptors(settings: NodeSettings, pid: int | None = None) -> Finding:
    """Whether as many clients fit as are allowed, into the limit of the node ``pid``, or else of a node that is started here."""
    limit, whose = resource.getrlimit(resource.RLIMIT_NOFILE)[1], "a process that is started here"
    if pid is not None:
        with suppress(OSError, StopIteration, ValueError):
            limit, whose = _descriptors_max(Path(f"/proc/{pid}/limits").read_text(encoding="ascii")), "each process of the node"
    wanted = Placement(settings).wanted_for(settings.clients.connections_max + DESCRIPTORS_BESIDE)
    found = f"{'no limit' if limit == resource.RLIM_INFINITY else limit} for {whose}; {wanted} are wanted for all clients"
    if limit != resource.RLIM_INFINITY and limit < wanted:
        return warn("open files", found, "raise it (LimitNOFILE= of the service, or ulimit -Hn), or lower clients.connections_max")
    return ok("open files", found)


def _descriptors_max(limits: str) -> int:
    """The hard limit, to which a node raises the soft one, by the text of /proc/PID/limits."""
    line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    hard = line.split()[4]
    return resource.RLIM_INFINITY if hard == "unlimited" else int(hard)


def memory(settings: NodeSettings, available: int | None) -> Finding:
    """Whether all bridges fit into memory, with what they may hold."""
    lanes = sum(len(bridge.lane_labels) for bridge in settings.bridges)
    held = sum(len(bridge.lane_labels) * bridge.tier2.max_bytes for bridge in settings.bridges)
    wanted = PROCESS_BYTES + max(0, lanes - 1) * LANE_BYTES + held
    wanted += (settings.limits.max_bytes or 0) if settings.persistence.mode == "in-memory" else STORE_BYTES
    found = f"up to {write_bytes(wanted)} for {lanes} {'lane' if lanes == 1 else 'lanes'} and what they may hold"
    if available is None:
        return ok("memory", found)
    found += f"; {write_bytes(available)} are free"
    if wanted > available:
        return warn("memory", found, "lower tier2.max_bytes or lanes of the bridges, or give the machine more")
    return ok("memory", found)


def available_bytes() -> int | None:
    """Memory that can be had without swapping, as the kernel says; None where it does not."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def write_bytes(count: int) -> str:
    """A size for people, in the largest unit that leaves a digit before the point."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        unit_bytes = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}[unit]
        if count >= unit_bytes:
            return f"{count / unit_bytes:.1f} {unit}"
    return write_size(count)
