"""The Listener by its frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.acknowledgements import Owed
from actors.handed_over import Published
from actors.listener import Listener
from actors.mailbox import Mailbox
from tests.fuzz.in_process import LIMITS, InProcessNode
from tests.supervisor.settings import node_settings
from wire.batch import from_rows
from wire.frames import Committed, Frame, PeerUp, SenderResumes, SessionOpened
from wire.keep_alive import KeepAlive
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connect
from wire.names import QUEUE_STORE

PINGREQ, DISCONNECT = b"\xc0\x00", b"\xe0\x00"


class RecordingMailbox:
    """Keeps the frames that are sent, and watches no socket."""

    def __init__(self) -> None:
        self.name = "listener"
        self.sent: list[Frame] = []

    def group(self) -> None:
        return None

    def traffic(self) -> dict[str, int]:
        return {}

    def now_s(self) -> float:
        return 1.0

    def random(self) -> float:
        return 0.5

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append(frame)


def committed(number: int, *, store: int) -> Committed:
    return Committed(sender="listener", epoch=5, store=store, number=number, refused={})


def test_what_a_former_store_had_committed_is_offered_to_the_next(tmp_path: Path) -> None:
    """In memory it has nothing of it, and waits for the number that it was told; so that one must still come."""
    mailbox = RecordingMailbox()
    listener = Listener(cast(Mailbox, mailbox), node_settings(tmp_path), 5)
    batch = from_rows([(b"t", 1, b"x")])
    batches = [Published(sender="listener", epoch=5, number=number, batch=batch, sources=bytes(4)) for number in (1, 2)]
    for published in batches:
        listener._link.sent(published, Owed([], {}, published.sources, batch), 1.0)
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=7))
    listener.on_frame(committed(1, store=7))
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=8))
    assert mailbox.sent[-2] == SenderResumes(sender="listener", epoch=5, number=2)
    assert mailbox.sent[-1] is batches[1], "as it was"

    listener.on_frame(committed(2, store=7))
    assert listener._link.committed == 1

    listener.on_frame(committed(2, store=8))
    assert listener._link.committed == 2


def test_what_a_former_store_said_late_of_sessions_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory the next one has other queues; and whoever waits has been asked for there again."""
    listener = Listener(cast(Mailbox, RecordingMailbox()), node_settings(tmp_path), 5)
    heard: list[Frame] = []
    monkeypatch.setattr(listener._sessions, "opened", heard.append)
    listener.on_receive(PeerUp(name=QUEUE_STORE, epoch=8))
    frames = [
        SessionOpened(sender="listener", epoch=epoch, store=store, request=1, session="c", present=False, received=b"")
        for epoch, store in ((5, 7), (4, 8), (5, 8))
    ]

    for frame in frames:
        listener.on_frame(frame)

    assert heard == frames[2:]


@pytest.mark.parametrize(("greeted", "why"), [(True, "keep_alive_timeout"), (False, "connect_timeout")])
def test_a_time_in_which_the_listener_stood_still_is_no_client_s_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, greeted: bool, why: str
) -> None:
    """What came meanwhile waits in the clients' sockets, which are looked at after the timers."""
    listener = Listener(cast(Mailbox, RecordingMailbox()), node_settings(tmp_path), 5)
    flow = object() if greeted else None
    keep_alive = KeepAlive(1.0)
    keep_alive.keep_alive_s = 1.0
    client: Any = SimpleNamespace(
        flow=flow, outbox=None, level=0, keep_alive=keep_alive, under_way_bytes=0, heard=True, accepted_s=1.0
    )
    closed: list[str] = []
    monkeypatch.setattr(listener, "limited", lambda limit: None)
    monkeypatch.setattr(listener, "close_client", lambda client, why: closed.append(why))
    listener._clients[1] = client
    for now_s in (1.5, 101.5, 102.0):
        listener._close_silent(now_s)
    assert not closed
    for half_seconds in range(30):
        listener._close_silent(102.5 + half_seconds / 2)
    assert closed[0] == why


@pytest.mark.parametrize("last", [b"", PINGREQ, DISCONNECT], ids=["silent", "with a packet unread", "with goodbye"])
def test_who_has_left_is_not_in_the_way_of_who_comes(last: bytes) -> None:
    """Clients are not read for now, since a batch is being committed, and the door is ready first."""
    host = InProcessNode(replace(LIMITS, connections_max=2))
    leaving, staying = host.connect(), host.connect()
    for name, pipe in enumerate((leaving, staying)):
        pipe.sent.append(encode(Connect(level=4, client_id=f"c{name}", clean_start=True, keep_alive_s=0), 4))
    host.settle()
    host.listener._group.hear(False)
    leaving.sent.extend([last] if last else [])
    leaving.ended = True

    come = host.connect()
    late = host.connect()

    assert leaving.closed
    assert (come.closed, late.closed) == (False, True), "one place was given back, and not two"
    assert host.listener.status()["limited"] == {"connections_max": 1}
