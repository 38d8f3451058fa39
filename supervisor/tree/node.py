"""One run of a node: prepares the data folder, becomes the Supervisor, and returns the exit status.

This is the edge of the supervisor's process. The loop between start and end is ``supervisor.py``'s.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from actors.process.host import Host
from actors.process.logs import configure_logging
from actors.process.mailbox import Mailbox
from actors.process.post import Post
from actors.system.clock_file import ClockFile
from actors.system.clocks import both_ms
from storage import files
from supervisor.lock import is_there, lock_data_dir
from supervisor.reload.source import Source
from supervisor.tree.child_processes import ChildProcesses
from supervisor.tree.child_table import Table, child_specs, standby_specs
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.epochs import Epochs
from supervisor.tree.pauses import Pauses
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.signals import SignalPipe
from supervisor.tree.store_ownership import claim
from supervisor.tree.supervisor import Supervisor
from supervisor.tree.template import Template
from wire.clock_steps import CLOCK
from wire.config_settings import NodeSettings
from wire.errors import BasculeError, ConfigError, Unavailable
from wire.frames.names import SUPERVISOR

log = logging.getLogger("bascule")

EXIT_BUG = 70
RESTORING_NAME = "restoring"  # in the data folder while a backup is being restored to it


def run_node(
    template: Template,
    signals: SignalPipe,
    load: Callable[[], NodeSettings],
    source: Source,
    table: Table = child_specs,
    consent: frozenset[str] = frozenset(),
) -> int:
    """Run the node in the foreground until one of ``signals`` or a command stops it.

    source: where the settings that ``load`` waits for are from. table: makes the children's table, another one in tests.
    consent: to what ``claim`` would refuse.

    Raises:
        Stopped: a signal came before the node began.
        ConfigError: what ``load`` raises, or a restore was cut short.
        Unavailable: another node runs in the data folder, or the folder cannot be used.
        StoreGone: the node's store is not there. StorageDamaged: another node's is, or the epoch file cannot be trusted.
    """
    settings = load()
    configure_logging(settings.log, node=settings.node.name, process=SUPERVISOR)
    data_dir = Path(settings.node.data_dir)
    try:
        files.make_folder(data_dir)
        with suppress(PermissionError):  # it is another's, which doctor tells
            data_dir.chmod(data_dir.stat().st_mode & 0o7755)  # nobody else gives names where sockets and the lock are
        lock = lock_data_dir(data_dir, signals.check)
    except OSError as error:
        raise _unusable(data_dir, error) from error
    try:
        signals.check()
        _claim(settings, consent)
        return _supervise(settings, source, table, template, signals, lock)
    finally:
        os.close(lock)


def _claim(settings: NodeSettings, consent: frozenset[str]) -> None:
    data_dir = Path(settings.node.data_dir)
    if (data_dir / RESTORING_NAME).exists():
        raise ConfigError(
            "a restore to this data folder was cut short: give bascule restore CONFIG BACKUP again", data_dir=str(data_dir)
        )
    if settings.persistence.mode != "in-memory":
        try:
            claim(settings, consent)
        except OSError as error:
            raise _unusable(data_dir, error) from error


def _supervise(
    settings: NodeSettings,
    source: Source,
    table: Table,
    template: Template,
    signals: SignalPipe,
    lock: int,
) -> int:
    role = table if settings.replication is None else standby_specs
    floor = 0
    while True:
        supervisor, settings = _one_life(settings, source, role, template, signals, lock, floor)
        if (change := supervisor.next_role) is not None:
            floor = max(floor, change.epoch)
            role = table if change.role == "leader" else standby_specs
        elif not supervisor.starts_again:
            return supervisor.exit_status


def _one_life(
    settings: NodeSettings,
    source: Source,
    table: Table,
    template: Template,
    signals: SignalPipe,
    lock: int,
    floor: int = 0,
) -> tuple[Supervisor, NodeSettings]:
    """The node in one role, until it ends or has another; its Supervisor, which has ended, and the settings that held last.

    floor: epochs begin above it.
    """
    data_dir, run_dir = Path(settings.node.data_dir), Path(settings.run_dir)
    try:
        epochs = Epochs(data_dir, time.time(), floor)
        pauses = Pauses(data_dir)
        current = prepare_run_dir(run_dir, settings)
        clock = ClockFile(data_dir, CLOCK)
        clock.read(*both_ms())
    except OSError as error:
        raise _unusable(data_dir, error) from error
    post = Post(run_dir, SUPERVISOR)
    mailbox = Mailbox(post, SUPERVISOR)
    spawner = ChildProcesses(template, current.file, clock, inherit=(lock,))
    children = RunningChildren(mailbox, current, table, spawner, epochs.next, pauses)
    post.place(children.process_of)
    has_folder = partial(is_there, data_dir, lock)
    supervisor = Supervisor(mailbox, signals, current, children, source, has_folder)
    host = Host(post)
    host.add(supervisor)
    failure = host.run()
    post.close()
    if failure is not None:  # the children die with this process
        log.critical("node.failed", exc_info=failure)
        supervisor.fail(failure.exit_status if isinstance(failure, BasculeError) else EXIT_BUG)
    return supervisor, current.now


def _unusable(data_dir: Path, error: OSError) -> Unavailable:
    why = (error.strerror or str(error)).lower()
    return Unavailable(f"the data folder {data_dir} cannot be used: {why}; the node's user has to be able to write there")


def prepare_run_dir(run_dir: Path, settings: NodeSettings) -> CurrentSettings:
    """Make ``run_dir`` for its owner only and write the settings for the children there, readable by the owner only."""
    files.make_folder(run_dir)
    run_dir.chmod(0o700)
    current = CurrentSettings(settings)
    current.write()
    return current
