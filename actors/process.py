"""Wires one process: reads its arguments and settings, builds its actor, and ends the process when the actor fails.

``python -m actors.process --actor forwarder --bridge cloud --lane 0 --epoch 12 --settings FILE``; started by the supervisor only.
The process dies with its supervisor (PR_SET_PDEATHSIG), and its exit status tells whose fault an end was (``wire/errors.py``).
The one place with a broad ``except``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from actors.logs import configure_logging
from actors.mailbox import Mailbox
from wire.errors import BasculeError, Unavailable
from wire.frames import Command
from wire.names import CONNECTION, DISTRIBUTOR, FORWARDER, LISTENER, QUEUE_STORE, actor_name
from wire.settings import load

if TYPE_CHECKING:
    from actors.actor import MailboxActor

log = logging.getLogger("bascule")

PR_SET_PDEATHSIG = 1
EXIT_BUG = 70

ACTORS = {
    QUEUE_STORE: ("actors.queue_store", "QueueStore"),
    DISTRIBUTOR: ("actors.distributor", "Distributor"),
    LISTENER: ("actors.listener", "Listener"),
    FORWARDER: ("actors.forwarder", "Forwarder"),
    CONNECTION: ("actors.connection", "Connection"),
}


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` ends; exit at once if it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_BUG)


def main(argv: list[str] | None = None) -> int:
    """Run one actor until it stops; the exit status is 0 after a stop in good order."""
    parser = argparse.ArgumentParser(prog="actors.process")
    parser.add_argument("--actor", choices=sorted(ACTORS), required=True)
    parser.add_argument("--bridge")
    parser.add_argument("--lane", type=int)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--paused", action="store_true", help="a Connection that waits to be resumed")
    arguments = parser.parse_args(argv)
    die_with_parent(arguments.parent)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the supervisor decides; it tells, and kills if it must
        signal.signal(number, signal.SIG_IGN)

    settings = load(arguments.settings.read_bytes())
    name = actor_name(arguments.actor, arguments.bridge, arguments.lane)
    configure_logging(settings.log_level, node=settings.name, actor=name)
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # the path of a message makes many objects and no cycles
    module, cls = ACTORS[arguments.actor]
    actor_class: type[MailboxActor] = getattr(importlib.import_module(module), cls)
    try:
        mailbox = Mailbox(Path(settings.run_dir), name)
    except Unavailable as error:
        log.error("actor.failed", extra={"error": str(error)})
        return error.exit_status
    if arguments.paused:  # it hears this before anything that would have it connect
        mailbox.begin_with(Command(verb="pause"))
    try:
        failure = actor_class.run(mailbox, settings, arguments.epoch)
    except Exception as error:  # the edge of the process: nothing above can judge it
        log.critical("actor.failed", exc_info=True)
        failure = error
    mailbox.close()
    if failure is None:
        return 0
    return failure.exit_status if isinstance(failure, BasculeError) else EXIT_BUG


if __name__ == "__main__":
    sys.exit(main())
