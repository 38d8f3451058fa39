"""The Listener by its frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from actors.acknowledgements import Owed
from actors.listener import Listener
from actors.mailbox import Mailbox
from tests.supervisor.settings import node_settings
from wire.frames import Committed, Frame, PeerUp, SenderResumes
from wire.names import QUEUE_STORE


class RecordingMailbox:
    """Keeps the frames that are sent, and watches no socket."""

    def __init__(self) -> None:
        self.name = "listener"
        self.sent: list[Frame] = []

    def group(self) -> None:
        return None

    def now_s(self) -> float:
        return 1.0

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append(frame)

    def send_parts(self, peer: str, parts: list[bytes]) -> None:
        """A batch, again."""


def committed(number: int, *, store: int) -> Committed:
    return Committed(sender="listener", epoch=5, store=store, number=number, refused={})


def test_what_a_former_store_had_committed_is_offered_to_the_next(tmp_path: Path) -> None:
    """In memory it has nothing of it, and waits for the number that it was told; so that one must still come."""
    mailbox = RecordingMailbox()
    listener = Listener(cast(Mailbox, mailbox), node_settings(tmp_path), 5)
    nothing: Any = Owed([], {}, b"", b"")
    for _ in range(2):
        listener._link.sent([b"batch"], nothing, 1.0)
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=7))
    listener.on_frame(committed(1, store=7))
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=8))
    assert mailbox.sent[-1] == SenderResumes(sender="listener", epoch=5, number=2)

    listener.on_frame(committed(2, store=7))
    assert listener._link.committed == 1

    listener.on_frame(committed(2, store=8))
    assert listener._link.committed == 2
