"""Interface between the Listener and the modules that serve local clients: the clients, and the other actors' mailboxes."""

from __future__ import annotations

from typing import Protocol

from actors.access.client import Client
from actors.process.mailbox import Mailbox
from wire.config_settings import SettingsNow
from wire.frames.frame import Frame


class ListenerInterface(Protocol):
    """``ConnectedClients``. Packets and closings through it are counted there."""

    name: str
    epoch: int
    mailbox: Mailbox
    settings: SettingsNow

    def send(self, peer: str, frame: Frame) -> None: ...
    def client(self, number: int) -> Client | None: ...
    def clients(self) -> list[Client]: ...
    def write(self, client: Client, data: bytes, packets: int = 1) -> None: ...
    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None: ...
    def on_greeted(self, client: Client) -> None: ...
    def logs_in(self, client: Client, older: Client | None) -> bool: ...
    def on_limited(self, limit: str) -> None: ...
