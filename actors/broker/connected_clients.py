"""The connections of local clients: each by its number, what is written to them, and how one ends.

``actors/access/listening_sockets.py`` decides who may come in, ``actors/broker/client_sessions.py`` what a connection's end means
for its session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.access.client import Client
from actors.access.closing_connections import ClosingConnections
from actors.access.connection_limits import CONNECTIONS_PER_USER
from actors.access.listening_sockets import ListeningSockets
from actors.process.mailbox import Mailbox
from actors.system.free_memory import give_memory_back
from wire.config_settings import SettingsNow
from wire.frames.frame import Frame

log = logging.getLogger("bascule")

REPORT_PERIOD_S = 60.0  # of what each limit refuses
GIVE_BACK_LEFT = 500  # what so many had is worth a look at all that the process has
GIVE_BACK_AFTER_S = 12.0  # by then nothing speaks of them any more

Parted = Callable[[Client, bool], None]


class ConnectedClients:
    """Everybody who is connected, and the traffic with them; the ``ListenerInterface`` of the modules that serve clients."""

    def __init__(
        self,
        mailbox: Mailbox,
        epoch: int,
        reception: ListeningSockets,
        lingering: ClosingConnections,
        settings: SettingsNow,
        *,
        parted: Parted,
    ) -> None:
        """``parted`` is told of each connection that ends, and whether its Will is to be published: what was kept of it goes."""
        self.mailbox = mailbox
        self.send = mailbox.send  # type: ignore[method-assign]  # the same as the method, without its call
        self.name = mailbox.name
        self.epoch = epoch
        self.settings = settings
        self.packets_sent = self.bytes_sent = 0
        self.connected = 0  # with CONNACK
        self.most_connected = 0  # at a time
        self._reception = reception
        self._lingering = lingering
        self._parted = parted
        self._by_number: dict[int, Client] = {}
        self._reported_s: dict[str, float] = {}  # by limit
        self._left = 0  # since memory was given back
        self._left_s = 0.0

    def __len__(self) -> int:
        return len(self._by_number)

    def add(self, client: Client) -> None:
        """It has come in, and has not said anything."""
        self._by_number[client.number] = client

    def client(self, number: int) -> Client | None:
        """The connection with that number, if it is still there."""
        return self._by_number.get(number)

    def clients(self) -> list[Client]:
        """All connections, in the order in which they came."""
        return list(self._by_number.values())

    def send(self, peer: str, frame: Frame) -> None:
        """Queue ``frame`` for another actor."""
        self.mailbox.send(peer, frame)

    def on_limited(self, limit: str) -> None:
        """Count for status what ``limit`` has refused, and tell of it once in ``REPORT_PERIOD_S``."""
        refused, now_s = self._reception.admission.refused, self.mailbox.now_s()
        refused[limit] += 1
        if now_s - self._reported_s.get(limit, float("-inf")) >= REPORT_PERIOD_S:
            self._reported_s[limit] = now_s
            log.warning("clients.limited", extra={"limit": limit, "count": refused[limit]})

    def on_greeted(self, client: Client) -> None:
        """The client's CONNECT was read: it is not half open any more."""
        self._reception.admission.on_greeted(client.number)

    def logs_in(self, client: Client, older: Client | None) -> bool:
        """Whether its user may have this connection as well, in place of ``older`` of the same identifier; it is counted then."""
        allowed = self._reception.admission.log_in(client.number, client.user, None if older is None else older.number)
        if not allowed:
            self.on_limited(CONNECTIONS_PER_USER)
        return allowed

    def give_back(self, now_s: float) -> None:
        """Have the memory of clients that have left returned to the system, once many have left and a while has passed."""
        if self._left < max(GIVE_BACK_LEFT, len(self._by_number)):
            self._left_s = now_s
        elif now_s - self._left_s >= GIVE_BACK_AFTER_S:
            self._left, self._left_s = 0, now_s
            give_memory_back()

    def on_welcomed(self) -> None:
        """A client has its CONNACK."""
        self.connected += 1
        self.most_connected = max(self.most_connected, self.connected)

    def write(self, client: Client, data: bytes, packets: int = 1) -> None:
        """Send ``data``, so many packets, to the client, within the limit on what it has not read yet."""
        if client.closed:
            return
        self.packets_sent += packets
        self.bytes_sent += len(data)
        if client.output_bytes > self.settings.now.clients.output_max_bytes:
            self.on_limited("output_max_bytes")
            self.close_client(client, "output_limit")
        elif not client.write(data):
            self.close_client(client, "gone")

    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None:
        """End the connection; its Will is published unless it said goodbye [MQTT-3.1.2-10].

        The client may read its last packet as long as it is there (``actors/access/closing_connections.py``).
        """
        if client.closed:
            return
        if client.gone:
            client.close()
        else:
            self._lingering.add(*client.part())
        self._reception.admission.leave(client.number)
        self._reception.resume()
        del self._by_number[client.number]
        self._left += 1
        self._parted(client, publish_will)
        if client.outbox is not None:
            self.connected -= 1
        if client.flow is not None:
            log.debug("client.disconnected", extra={"client_id": client.session, "address": client.address, "why": why})
