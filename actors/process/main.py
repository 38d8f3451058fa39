"""Wires one process: reads its arguments and settings, builds its actors, and ends the process when one of them fails.

``python -m actors.process.main --process bridge:cloud:0 --epoch 12 --settings FILE``; started by the supervisor only.
The process dies with its supervisor (PR_SET_PDEATHSIG), and its exit status tells whose fault an end was (``wire/errors.py``).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors.process.failed_actor import answer_when_asked, note_failed
from actors.process.host import ChildHost
from actors.process.logs import configure_logging
from actors.process.mailbox import Mailbox
from actors.process.post import Post
from actors.system.clock_file import ClockFile
from actors.system.clocks import both_ms
from wire.clock_steps import CLOCK
from wire.config_settings import NodeSettings, load
from wire.errors import BasculeError, Unavailable
from wire.frames.names import (
    CONNECTION,
    DISTRIBUTOR,
    FORWARDER,
    LISTENER,
    OPTIONAL_PROCESSES,
    QUEUE_STORE,
    actors_of,
    bridge_of_child,
)
from wire.frames.placement import SITE
from wire.frames.supervision import Command

if TYPE_CHECKING:
    from actors.process.actor import MailboxActor

    MakeActors = Callable[[Post, NodeSettings, int], list[MailboxActor]]

log = logging.getLogger("bascule")

PR_SET_PDEATHSIG = 1
EXIT_BUG = 70
STANDBY_STORE = "standby"  # the QueueStore of a node that stands by
FLAGS = ("--paused", "--standby")  # a bridge that waits to be resumed; the store of a node that stands by

ACTORS = {
    QUEUE_STORE: ("actors.store.queue_store", "QueueStore"),
    STANDBY_STORE: ("actors.store.standby_store", "StandbyStore"),
    DISTRIBUTOR: ("actors.broker.distributor", "Distributor"),
    LISTENER: ("actors.broker.listener", "Listener"),
    FORWARDER: ("actors.bridge.forwarder", "Forwarder"),
    CONNECTION: ("actors.bridge.connection", "Connection"),
}


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` ends; exit at once if it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_BUG)


def pairs(words: list[str]) -> dict[str, str]:
    """The options in ``words``, each with its value. Only our own programs write them; argparse would cost each child 0.7 MB."""
    return dict(zip(words[::2], words[1::2], strict=True))


def main(argv: list[str] | None = None, make: MakeActors | None = None) -> int:
    """Run the actors of one process until they stop; the exit status is 0 after a stop in good order.

    make: makes them, where they are not this package's.
    """
    words = sys.argv[1:] if argv is None else argv
    options = pairs([word for word in words if word not in FLAGS])
    name, epoch = options["--process"], int(options["--epoch"])
    die_with_parent(int(options["--parent"]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the supervisor decides; it tells, and kills if it must
        signal.signal(number, signal.SIG_IGN)

    settings = load(Path(options["--settings"]).read_bytes(), bridge=bridge_of_child(name))
    flags = tuple(word for word in words if word in FLAGS)
    configure_logging(settings.log, node=settings.node.name, process=name)
    ClockFile(Path(settings.node.data_dir), CLOCK).read(*both_ms())
    try:
        post = Post(Path(settings.run_dir), name)
        host = ChildHost(post, settings, epoch, partial(make_actors, post))
        if make is not None:
            host.add_children(make(post, settings, epoch))
        elif name != SITE:  # there children begin as the supervisor says
            host.add_children(make_actors(post, name, settings, epoch, flags))
    except Unavailable as error:
        log.error("actor.failed", extra={"error": str(error)})
        return error.exit_status
    gc.freeze()
    if name not in OPTIONAL_PROCESSES:  # the path of a message makes many objects and no cycles; a connection over HTTP makes some
        gc.set_threshold(50_000, 20, 50)
    note = partial(note_failed, Path(settings.run_dir), name, epoch)
    answer_when_asked(lambda: host.at_work, note, EXIT_BUG)
    failure = host.run()
    if failure is not None:
        note(host.at_work)
    post.close()
    if failure is None:
        return 0
    return failure.exit_status if isinstance(failure, BasculeError) else EXIT_BUG


def make_actors(post: Post, child: str, settings: NodeSettings, epoch: int, flags: tuple[str, ...]) -> list[MailboxActor]:
    """The actors of ``child`` in the process that ``post`` belongs to; of one that is paused, the Connection hears so before
    anything else.

    Raises:
        Unavailable: it is of a bridge that is not configured any more.
    """
    made = []
    for name in actors_of(child):
        module, cls = ACTORS[STANDBY_STORE if "--standby" in flags else name.partition(":")[0]]
        actor_class: type[MailboxActor] = getattr(importlib.import_module(module), cls)
        made.append(actor_class(Mailbox(post, name), settings, epoch))
        if "--paused" in flags and name.partition(":")[0] == CONNECTION:
            post.tell(name, Command(verb="pause"))
    return made


if __name__ == "__main__":
    sys.exit(main())
