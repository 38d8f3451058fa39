"""The process that sends notices: ``python -m supervisor.notify.process``, started by the supervisor only.

It is supervised as the processes of ``actors/process/main.py`` are. Its libraries are imported by the first sending.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from actors.process import main as process
from actors.process.mailbox import Mailbox
from supervisor.notify.notifier import Notifier
from wire.frames.names import actors_of

if TYPE_CHECKING:
    from actors.process.actor import MailboxActor
    from actors.process.post import Post
    from wire.config_settings import NodeSettings

_NICENESS = 5  # messages go first


def main(argv: list[str] | None = None) -> int:
    """Send until the supervisor says to stop; the exit status is 0 after a stop in good order."""
    os.nice(_NICENESS)
    return process.main(argv, _make_actors)


def _make_actors(post: Post, settings: NodeSettings, epoch: int) -> list[MailboxActor]:
    return [Notifier(Mailbox(post, name), settings, epoch) for name in actors_of(post.name)]
