"""Finds the nodes that run from a configuration file, whatever that file says by now: an edited ``data_dir`` hides no node.

The kernel keeps the record: the command line of a node's supervisor names the file, and its open lock the data folder. So there is
nothing that could be stale. Only a node's owner sees that much of it, as with its control socket.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack

from supervisor.lock import FILE_NAME, AnothersLock, running_pid

MODULE = "supervisor.tree.run"  # what a node's supervisor runs, with the configuration file behind it
RUN_NAME = "run"  # the folder of sockets below the data folder
SETTINGS_NAME = "settings"  # in there, what the node goes by


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The place of a node: its name, its data folder, the folder of its sockets."""

    name: str
    data_dir: str
    run_dir: str


def run_dir_of(data_dir: str) -> str:
    """The folder of the sockets of a node whose data is in ``data_dir``."""
    return str(Path(data_dir) / RUN_NAME)


def running_from(config: Path) -> list[NodePlace]:
    """The nodes that run from the file ``config`` and that this user may ask."""
    found = []
    for pid in supervisors_of(config):
        try:
            found += [_place(data_dir / RUN_NAME / SETTINGS_NAME) for data_dir in _locked_by(pid)]
        except (OSError, ValueError, AnothersLock):
            continue  # it has ended meanwhile, or is another user's
    return found


def supervisors_of(config: Path) -> list[int]:
    """The processes that run the file ``config``, or are about to."""
    wanted = os.path.realpath(config)
    found = []
    for pid in _supervisors():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
            written = words[words.index(MODULE) + 1]
            if os.path.realpath(os.path.join(os.readlink(f"/proc/{pid}/cwd"), written)) == wanted:
                found.append(pid)
        except (OSError, IndexError, ValueError):
            continue
    return found


def last_name(data_dir: Path) -> str:
    """The name of the node that ran last in that folder; empty where none has, or it cannot be told."""
    try:
        return _place(data_dir / RUN_NAME / SETTINGS_NAME).name
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _place(settings: Path) -> NodePlace:
    """Processes that go by that file: three of its values, without all that the other hundreds would need to be imported."""
    told = msgpack.unpackb(settings.read_bytes())
    return NodePlace(told["node"]["name"], told["node"]["data_dir"], told["run_dir"])


def _supervisors() -> Iterator[int]:
    wanted = f"\0{MODULE}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if wanted in (entry / "cmdline").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue


def _locked_by(pid: int) -> Iterator[Path]:
    """The data folders whose lock the process has."""
    folder = Path(f"/proc/{pid}/fd")
    for descriptor in folder.iterdir():
        target = Path(os.readlink(descriptor))
        if target.name == FILE_NAME and running_pid(target.parent) == pid:
            yield target.parent
