"""The sockets of one turn: clients are read and written to, newcomers accepted, and nobody is served at the cost of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.access.client import Client
from actors.access.closing_connections import ClosingConnection
from actors.access.listening_sockets import ListeningSocket, ListeningSockets
from actors.broker.client_input import ClientInput
from actors.broker.connected_clients import ConnectedClients
from actors.broker.waiting_clients import TURN_S
from actors.process.mailbox import HANGUP, READ, WRITE

LAST_READS_MAX = 4  # of a client that has left, before another is refused; who has sent more is still here


class ClientSockets:
    """Those of the clients, of who lingers after his end, and of the doors."""

    def __init__(
        self,
        clients: ConnectedClients,
        reception: ListeningSockets,
        client_input: ClientInput,
        *,
        arrived: Callable[[Client, float], None],
        touched: Callable[[Client], None],
    ) -> None:
        """arrived: is told of a client that has come in, and when; touched: of one whose socket has taken more."""
        self._clients = clients
        self._reception = reception
        self._input = client_input
        self._arrived = arrived
        self._touched = touched
        self._passed_over: set[Any] = set()

    def serve(self, ready: list[tuple[Any, int]]) -> bool:
        """Serve what is ready; False if there was no time for all of it: the others come first in the next turn."""
        mailbox = self._clients.mailbox
        now_s = mailbox.now_s()
        self._reception.turn.begin()
        if self._passed_over:
            ready = sorted(ready, key=lambda one: one[0] not in self._passed_over)
            self._passed_over = set()
        for index, (token, events) in enumerate(ready):
            if index and mailbox.now_s() - now_s > TURN_S:
                self._passed_over = {token for token, _ in ready[index:]}
                return False
            if isinstance(token, Client):
                if events & WRITE and not token.closed:
                    if token.flush():
                        self._touched(token)
                    else:
                        self._clients.close_client(token, "gone")
                if events & (READ | HANGUP) and not token.closed:
                    self._read(token, now_s)
            elif isinstance(token, ClosingConnection):
                self._reception.lingering.ready(token, events)
            else:
                self._accept(token, now_s)
        return True

    def _read(self, client: Client, now_s: float) -> None:
        if client.proxied is not None:
            if not self._reception.read_header(client, client.proxied, now_s, self._give_way, self._see_off):
                self._clients.close_client(client, "refused")
        elif not self._input.read(client, now_s):
            self._reception.on_failed(client, now_s)
            self._clients.close_client(client, client.fault or "gone")

    def _accept(self, door: ListeningSocket, now_s: float) -> None:
        for client in self._reception.accept(door, now_s, self._give_way, self._see_off):
            self._clients.add(client)
            self._arrived(client, now_s)

    def _give_way(self, number: int) -> None:
        client = self._clients.client(number)
        assert client is not None, "Admission counts those that are here"
        self._clients.close_client(client, "half_open_max")

    def _see_off(self) -> None:
        """Take the last of what clients that have left had to say, so that they are gone."""
        now_s = self._clients.mailbox.now_s()
        for client in self._reception.left():
            for _ in range(LAST_READS_MAX):
                if client.closed or not client.heard or client.proxied is not None:
                    break
                self._read(client, now_s)
