"""The process of the HTTP interface: ``python -m supervisor.http.process``, started by the supervisor only.

It is supervised as the processes of ``actors/process/main.py`` are. Its libraries are imported here alone, after the fork.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from actors.process import main as process
from actors.process.mailbox import Mailbox
from supervisor.http.http_server import HttpServer
from wire.frames.names import actors_of

if TYPE_CHECKING:
    from actors.process.actor import MailboxActor
    from actors.process.post import Post
    from wire.config_settings import NodeSettings

_NICENESS = 5  # whatever is asked here, messages go first


def main(argv: list[str] | None = None) -> int:
    """Serve until the supervisor says to stop; the exit status is 0 after a stop in good order."""
    os.nice(_NICENESS)
    return process.main(argv, _make_actors)


def _make_actors(post: Post, settings: NodeSettings, epoch: int) -> list[MailboxActor]:
    return [HttpServer(Mailbox(post, name), settings, epoch) for name in actors_of(post.name)]
