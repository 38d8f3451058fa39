"""Wires one process: reads its arguments and settings, builds its actors, and ends the process when one of them fails.

``python -m actors.process --process bridge:cloud:0 --epoch 12 --settings FILE``; started by the supervisor only.
The process dies with its supervisor (PR_SET_PDEATHSIG), and its exit status tells whose fault an end was (``wire/errors.py``).
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

from actors.host import ChildHost
from actors.logs import configure_logging
from actors.mailbox import Mailbox
from actors.post import Post
from wire.errors import BasculeError, Unavailable
from wire.frames import Command
from wire.names import CONNECTION, DISTRIBUTOR, FORWARDER, LISTENER, QUEUE_STORE, actors_of
from wire.settings import NodeSettings, load

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
    """Run the actors of one process until they stop; the exit status is 0 after a stop in good order."""
    parser = argparse.ArgumentParser(prog="actors.process")
    parser.add_argument("--process", required=True, help="clients, store, or bridge:NAME:LANE")
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--paused", action="store_true", help="a bridge that waits to be resumed")
    arguments = parser.parse_args(argv)
    die_with_parent(arguments.parent)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the supervisor decides; it tells, and kills if it must
        signal.signal(number, signal.SIG_IGN)

    settings = load(arguments.settings.read_bytes())
    configure_logging(settings.log_level, node=settings.name, process=arguments.process)
    try:
        post = Post(Path(settings.run_dir), arguments.process)
    except Unavailable as error:
        log.error("actor.failed", extra={"error": str(error)})
        return error.exit_status
    host = ChildHost(post, settings, arguments.epoch)
    host.add_children(make_actors(post, settings, arguments.epoch, paused=arguments.paused))
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # the path of a message makes many objects and no cycles
    failure = host.run()
    post.close()
    if failure is None:
        return 0
    return failure.exit_status if isinstance(failure, BasculeError) else EXIT_BUG


def make_actors(post: Post, settings: NodeSettings, epoch: int, *, paused: bool) -> list[MailboxActor]:
    """The actors of the process that ``post`` belongs to; if it is ``paused``, the Connection hears so before anything else."""
    made = []
    for name in actors_of(post.name):
        module, cls = ACTORS[name.partition(":")[0]]
        actor_class: type[MailboxActor] = getattr(importlib.import_module(module), cls)
        made.append(actor_class(Mailbox(post, name), settings, epoch))
        if paused and name.partition(":")[0] == CONNECTION:
            post.tell(name, Command(verb="pause"))
    return made


if __name__ == "__main__":
    sys.exit(main())
