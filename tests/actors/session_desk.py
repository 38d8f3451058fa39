"""The parts that open and end local clients' sessions, with a store that answers when the test does."""

from __future__ import annotations

import select
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from actors.access.access_control import AccessControl
from actors.access.client import Client
from actors.broker.client_sessions import ClientSessions
from actors.broker.client_wills import ClientWills
from actors.broker.reserved_topics import ReservedTopics
from actors.broker.session_openings import SessionOpenings
from actors.broker.session_records import SessionRecords
from actors.process.local_messages import SessionDown
from actors.process.mailbox import PollGroup
from tests.supervisor.settings import node_settings
from tests.support.settings import node
from wire.config_settings import ListenerSettings, NodeSettings, SettingsNow
from wire.exchange.wills import Message
from wire.frames.frame import Frame
from wire.frames.intake import SessionClose, SessionOpen, SessionOpened, SessionsKnown
from wire.mqtt.packets import Connect, Will
from wire.mqtt.properties import Properties

WILL = Will(topic="gone", payload=b"x", qos=0, retain=False)
LEFT = (b"site/gone", 1, b"bye", b"", 30)


class FakeMailbox:
    """Time stands still until it is moved on."""

    time_s = 0.0

    def traffic(self) -> dict[str, int]:
        return {}

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return 0

    def set_timer(self, name: str, at_s: float) -> None: ...

    def cancel_timer(self, name: str) -> None: ...


class Unconnected(Client):
    """A client whose socket nobody watches, and nobody is at the other end of."""

    def __init__(self, number: int, now_s: float = 0.0) -> None:
        near, far = socket.socketpair()
        group: Any = SimpleNamespace(watch=lambda *_: None, forget=lambda *_: None)
        super().__init__(near, f"unix:{number}", number, group, now_s)
        near.close()
        far.close()

    def _watch(self) -> None:
        pass


class FakeHost:
    """Keeps what is asked for and what is said."""

    name = "sender"
    epoch = 1

    def __init__(self) -> None:
        self.mailbox = FakeMailbox()
        self.settings = SettingsNow(node())
        self.asked: list[SessionOpen] = []
        self.ends: list[SessionClose] = []
        self.down: list[SessionDown] = []
        self.wills: list[str] = []
        self.limits: list[str] = []
        self.sessions: ClientSessions | None = None
        self.said = b""
        self.writes = 0
        self.full = False
        self.busy_sessions: set[str] = set()

    def send(self, peer: str, frame: Frame) -> None:
        if isinstance(frame, SessionOpen):
            self.asked.append(frame)
        elif isinstance(frame, SessionClose):
            self.ends.append(frame)
        elif isinstance(frame, SessionDown):
            self.down.append(frame)

    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None:
        if not client.closed:
            client.close()
            assert self.sessions is not None
            self.sessions.on_closed(client, publish_will=publish_will)

    def add_will(self, session: str, message: Message, source: int, refused: tuple[int, int] = (0, 0)) -> None:
        self.wills.append(session)

    def logs_in(self, client: Client, older: Client | None) -> bool:
        return True

    def on_limited(self, limit: str) -> None:
        self.limits.append(limit)

    def write(self, client: Client, data: bytes) -> None:
        self.said += data
        self.writes += 1

    def busy(self, session: str) -> bool:
        return session in self.busy_sessions

    def on_welcomed(self, client: Client) -> None: ...

    def on_greeted(self, client: Client) -> None: ...


def opened(asked: SessionOpen, *, received: bytes = b"") -> SessionOpened:
    return SessionOpened(
        sender=asked.sender,
        epoch=asked.epoch,
        store=1,
        request=asked.request,
        session=asked.session,
        present=False,
        received=received,
    )


class Parts:
    """They, put together as the Listener does; ``host`` stands for the connections and for the batches."""

    def __init__(self, host: Any, settings: NodeSettings) -> None:
        host.settings = SettingsNow(settings)
        access = AccessControl(host, lambda _: True)
        self.records = SessionRecords()
        self.wills = ClientWills(host, access, ReservedTopics(host), host, self.records)
        self.openings = SessionOpenings(host, access, self.records, self.wills, busy=host.busy, welcomed=host.on_welcomed)
        self.sessions = ClientSessions(host, access, self.records, self.wills, self.openings)
        host.sessions = self.sessions


def local_parts(host: Any, folder: Path) -> Parts:
    settings = replace(node_settings(folder), listeners=(ListenerSettings(bind="127.0.0.1:1"),))
    return Parts(host, settings)


class Door:
    """Local clients that come to ``ClientSessions``, whose store answers when the test does."""

    def __init__(self, folder: Path, *records: str, will: tuple[bytes, int, bytes, bytes, int] | None = None) -> None:
        """``records``: identifiers of sessions that are on record, each with ``will``, which is due after 20 seconds."""
        host: Any = FakeHost()
        self.host = host
        listeners = (ListenerSettings(bind="127.0.0.1:1"),)
        settings = replace(node_settings(folder), listeners=listeners)
        self.parts = Parts(host, settings)
        self.sessions = self.parts.sessions
        self._server = socket.create_server(("127.0.0.1", 0))
        self._outer = select.epoll()
        self._numbers = 0
        rows = tuple((name, f"session:1:{name}", (), will, 20_000, None, "", "") for name in records)
        self.sessions.known(SessionsKnown(epoch=1, store=1, sessions=rows, last=True))

    def come(self, *, clean: bool = True, will: Will | None = None, level: int = 4, name: str = "c", expiry_s: int = 0) -> Client:
        """A client sends CONNECT, and a turn ends."""
        self._numbers += 1
        sock = socket.create_connection(self._server.getsockname())
        client = Client(sock, "somewhere", self._numbers, PollGroup(self._outer), self.host.mailbox.now_s())
        properties = Properties(session_expiry_interval=expiry_s) if level == 5 else Properties()
        connect = Connect(level=level, client_id=name, clean_start=clean, keep_alive_s=0, will=will, properties=properties)
        self.sessions.connect(client, connect)
        self.turn()
        return client

    def turn(self) -> None:
        self.parts.openings.let_in()
        self.parts.openings.look_up()

    def wait(self, period_s: float) -> None:
        """Time passes, in which the store says nothing."""
        self.host.mailbox.time_s += period_s
        self.parts.openings.wait_no_longer(self.host.mailbox.time_s)
        self.turn()

    def said(self) -> bytes:
        """The packets that were sent to clients since the last time."""
        said, self.host.said = self.host.said, b""
        return bytes(said)

    def answer(self, *, queue: str = "", present: bool = False, refused: str = "") -> None:
        """The store answers the oldest question."""
        answer = opened(self.host.asked.pop(0))
        self.parts.openings.on_opened(replace(answer, queue=queue, present=present, refused=refused))

    def commit_ends(self) -> None:
        """The store has committed how connections ended."""
        ends, self.host.ends = self.host.ends, []
        for end in ends:
            self.parts.records.end_committed(end.source)
        self.turn()

    def close(self) -> None:
        self._server.close()
        self._outer.close()
