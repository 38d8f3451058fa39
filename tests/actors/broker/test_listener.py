"""The Listener by its frames."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.broker.client_batches import Owed
from actors.broker.listener import LOOK_TIMER, Listener
from actors.process.local_messages import PublishedMessages
from actors.process.mailbox import Mailbox
from tests.supervisor.settings import node_settings
from wire.frames.batch import from_rows
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SenderResumes, SessionOpened
from wire.frames.names import QUEUE_STORE
from wire.frames.supervision import PeerUp, Stop


class RecordingMailbox:
    """Keeps the frames that are sent, and watches no socket."""

    def __init__(self) -> None:
        self.name = "listener"
        self.sent: list[Frame] = []

    def group(self) -> Any:
        return SimpleNamespace(hear=lambda heard: None)

    def set_timer(self, name: str, at_s: float) -> None: ...

    def traffic(self) -> dict[str, int]:
        return {}

    def now_s(self) -> float:
        return 1.0

    def random(self) -> float:
        return 0.5

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append(frame)


def committed(number: int, *, store: int) -> Committed:
    return Committed(sender="listener", epoch=5, store=store, number=number)


def test_what_a_former_store_had_committed_is_offered_to_the_next(tmp_path: Path) -> None:
    """In memory it has nothing of it, and waits for the number that it was told; so that one must still come."""
    mailbox = RecordingMailbox()
    listener = Listener(cast(Mailbox, mailbox), node_settings(tmp_path), 5)
    batch = from_rows([(b"t", 1, b"x")])
    batches = [PublishedMessages(sender="listener", epoch=5, number=number, batch=batch, sources=bytes(4)) for number in (1, 2)]
    for published in batches:
        listener.batches.link.on_sent(published, Owed([], {}), 1.0)
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=7))
    listener.on_frame(committed(1, store=7))
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=8))
    assert mailbox.sent[-2] == SenderResumes(sender="listener", epoch=5, number=2)
    assert mailbox.sent[-1] is batches[1], "as it was"

    listener.on_frame(committed(2, store=7))
    assert listener.batches.link.committed == 1

    listener.on_frame(committed(2, store=8))
    assert listener.batches.link.committed == 2


def test_what_a_former_store_said_late_of_sessions_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory the next one has other queues; and whoever waits has been asked for there again."""
    listener = Listener(cast(Mailbox, RecordingMailbox()), node_settings(tmp_path), 5)
    heard: list[Frame] = []
    monkeypatch.setattr(listener.openings, "on_opened", heard.append)
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=8))
    frames = [
        SessionOpened(sender="listener", epoch=epoch, store=store, request=1, session="c", present=False, received=b"")
        for epoch, store in ((5, 7), (4, 8), (5, 8))
    ]

    for frame in frames:
        listener.on_frame(frame)

    assert heard == frames[2:]


def test_nobody_is_silent_while_the_listener_waits_for_the_store_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is read then: whoever pinged or acknowledged would be thrown out, and its Will published."""
    listener = Listener(cast(Mailbox, RecordingMailbox()), node_settings(tmp_path), 5)
    looks: list[float] = []
    monkeypatch.setattr(listener.silence, "close_silent", looks.append)
    batch = from_rows([(b"t", 1, b"x")])
    published = PublishedMessages(sender="listener", epoch=5, number=1, batch=batch, sources=bytes(4))
    listener.batches.link.on_sent(published, Owed([], {}), 1.0)
    listener.on_timer(LOOK_TIMER, 2.0)

    listener.on_receive(Stop())
    assert not listener.ended
    listener.on_timer(LOOK_TIMER, 200.0)

    assert looks == [2.0]
