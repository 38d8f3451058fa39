"""The Listener: local MQTT clients in and out.

It owns the clients and the batch that is being built. PUBACKs are released in ``actors/acknowledgements.py``; the packets that are
not PUBLISH are answered in ``actors/client_packets.py``. Parsing is ``wire/mqtt``'s, the numbering and resending of batches
``wire/link.py``'s.
"""

from __future__ import annotations

import logging
import resource
import socket
from array import array
from typing import Any

from actors.acknowledgements import Acknowledgements, Owed
from actors.actor import MailboxActor
from actors.client import Client
from actors.client_packets import ClientPackets
from actors.mailbox import HANGUP, READ, WRITE, Mailbox
from wire.batch import Batch, pack_column, unpack_column
from wire.errors import PeerViolation, Unavailable
from wire.frames import (
    Committed,
    Deliver,
    Frame,
    Publishes,
    SenderResumes,
    SessionOpened,
    Subscribe,
    Unsubscribe,
    encode,
)
from wire.inbound import AnswerBurst
from wire.link import BATCH_BYTES_MAX, BATCH_ROWS_MAX, SendingLink
from wire.mqtt.codec import split
from wire.mqtt.encode_publish import encode_deliveries
from wire.mqtt.publish_stream import BatchBuilder, parse_publishes
from wire.names import DISTRIBUTOR, QUEUE_STORE
from wire.settings import NodeSettings

log = logging.getLogger("bascule")

HOUSEKEEPING_S = 0.5
ACCEPTS_PER_TURN = 64
LISTEN_BACKLOG = 1024
DESCRIPTORS_KEPT = 16  # for the other actors' new lives; without one, not even the clients that are here could be served
ACCEPT_PAUSE_S = 1.0
PAUSES_TOLD_PERIOD_S = 60.0


class Listener(MailboxActor):
    """Accepts local clients, gathers their PUBLISHes into batches, and answers each when its batch is committed."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._group = mailbox.group()
        self._clients: dict[int, Client] = {}
        self._packets = ClientPackets(self, settings)
        self._builder = BatchBuilder(
            rows_max=BATCH_ROWS_MAX, bytes_max=BATCH_BYTES_MAX, packet_max_bytes=settings.clients.packet_max_bytes
        )
        self._link: SendingLink[Owed] = SendingLink()
        self._touched: dict[int, Client] = {}
        self._unparsed: dict[int, Client] = {}
        self._acknowledgements = Acknowledgements(self, self._link, self._builder)
        self._delivered: dict[tuple[str, int], int] = {}
        self._sockets: list[socket.socket] = []
        self._accepting = True
        self._pause_told_s = float("-inf")
        self._numbers = 0
        self._published = 0
        self._output_dropped = 0

    # --- life ---

    def on_start(self) -> None:
        super().on_start()
        self.mailbox.set_timer("housekeeping", self.mailbox.now_s() + HOUSEKEEPING_S)

    def on_peer_up(self, name: str, epoch: int) -> None:
        if name not in (DISTRIBUTOR, QUEUE_STORE):
            return
        if name == DISTRIBUTOR:
            for client in self._clients.values():
                if client.filters:
                    self.subscribe(client, tuple(client.filters.items()))
        else:
            self._packets.reopen_sessions()
            self.send(name, SenderResumes(sender=self.name, epoch=self.epoch, number=self._link.committed + 1))
        self._resend()
        if not self._sockets and self.state == "starting" and DISTRIBUTOR in self.peers and QUEUE_STORE in self.peers:
            self._listen()
            self.ready()

    def on_stopping(self) -> None:
        for sock in self._sockets:
            self.mailbox.forget(sock.fileno())
            sock.close()
        self._sockets = []
        self._group.hear(False)
        self._finish_stop()

    def status(self) -> dict[str, Any]:
        return {
            "clients": len(self._clients),
            "accepting": self._accepting,
            "outstanding_batches": len(self._link),
            "published": self._published,
            "refused": self._acknowledgements.refused,
            "output_dropped": self._output_dropped,
        }

    def _finish_stop(self) -> None:
        """Leave once nothing that was read waits for its commit; what was not read stays with its publisher."""
        if len(self._link) or len(self._builder):
            return
        for client in list(self._clients.values()):
            self._packets.say_goodbye(client)
            self.close_client(client, "server_stopped", publish_will=False)
        self.finished()

    def _listen(self) -> None:
        for listener in self.settings.listeners:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((listener.host, listener.port))
                sock.listen(LISTEN_BACKLOG)
            except OSError as error:
                sock.close()
                raise Unavailable("cannot listen", bind=f"{listener.host}:{listener.port}", error=str(error)) from error
            sock.setblocking(False)
            self._sockets.append(sock)
            self.mailbox.watch(sock.fileno(), READ, sock)
            log.info("listener.opened", extra={"bind": f"{listener.host}:{listener.port}", "protocol": listener.protocol})

    # --- frames ---

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Committed():
                if frame.sender == self.name and frame.epoch == self.epoch and not self.is_former(QUEUE_STORE, frame.store):
                    self._acknowledgements.release(frame)
                    self._packets.batches_committed()
            case Deliver():
                if frame.epoch == self.epoch:
                    self._deliver(frame)
            case SessionOpened():
                if frame.epoch == self.epoch:
                    self._packets.session_opened(frame)
            case _:
                raise AssertionError(f"not for a Listener: {frame}")

    def on_turn_end(self, now_s: float) -> None:
        if not self._link.worth_sending(len(self._builder), full=self._builder.full):
            self._group.hear(not self._builder.full and self.state == "ready")
            return
        self._send_batch(now_s)
        while self._unparsed and self._link.may_send():  # what a full batch left in the clients' buffers
            self._parse_leftovers()
            self._send_batch(now_s)
        self._group.hear(not self._builder.full and self.state != "stopping")
        if self.state == "stopping":
            self._finish_stop()

    def on_timer(self, name: str, now_s: float) -> None:
        if name == "housekeeping":
            self.mailbox.set_timer("housekeeping", now_s + HOUSEKEEPING_S)
            if self._link.overdue(now_s):
                self._resend()
            for client in self._packets.overdue(list(self._clients.values()), now_s):
                self.close_client(client, "keep_alive_timeout" if client.flow else "connect_timeout")
        elif name == "accept":
            self._accept_again()
        elif name == "retry_refused":
            self._acknowledgements.offer_again()

    # --- intake ---

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        now_s = self.mailbox.now_s()
        for token, events in ready:
            if isinstance(token, Client):
                if events & WRITE and not token.closed and not token.flush():
                    self.close_client(token, "gone")
                if events & (READ | HANGUP) and not token.closed:
                    self._read(token, now_s)
            else:
                self._accept(token, now_s)

    def _accept(self, listening: socket.socket, now_s: float) -> None:
        descriptors_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - DESCRIPTORS_KEPT
        for _ in range(ACCEPTS_PER_TURN):
            if not self._accepting:
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):  # nobody waits, or who waited is gone
                return
            except OSError as error:  # no descriptor, no memory: it would be so again at once
                self._pause_accepting(now_s, str(error))
                return
            if sock.fileno() >= descriptors_max:  # the lowest free one is given
                sock.close()
                self._pause_accepting(now_s, "file descriptors are used up")
                return
            if len(self._clients) >= self.settings.clients.connections_max:
                log.warning("client.refused", extra={"address": address[0], "why": "connections_max"})
                sock.close()
                continue
            self._numbers += 1
            self._clients[self._numbers] = Client(sock, f"{address[0]}:{address[1]}", self._numbers, self._group, now_s)

    def _pause_accepting(self, now_s: float, why: str) -> None:
        """Let new clients wait in the kernel's queue, until a connection closes or a moment has passed."""
        self._accepting = False
        for sock in self._sockets:
            self.mailbox.forget(sock.fileno())
        self.mailbox.set_timer("accept", now_s + ACCEPT_PAUSE_S)
        if now_s - self._pause_told_s >= PAUSES_TOLD_PERIOD_S:
            self._pause_told_s = now_s
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            log.warning("listener.paused", extra={"why": why, "clients": len(self._clients), "descriptors_max": limit})

    def _accept_again(self) -> None:
        self._accepting = True
        for sock in self._sockets:
            self.mailbox.watch(sock.fileno(), READ, sock)

    def _read(self, client: Client, now_s: float) -> None:
        data = client.receive()
        if data is None:
            self.close_client(client, "gone")
        elif data:
            client.heard_s = now_s
            client.buffer = client.buffer + data if client.buffer else data
            self._parse(client)

    def _parse(self, client: Client) -> None:
        """Take what is whole in the client's buffer: runs of PUBLISH into the batch, everything else one by one."""
        data, position = client.buffer, 0
        packet_max_bytes = self.settings.clients.packet_max_bytes
        try:
            while not client.closed:
                if client.flow is not None:
                    self._touched[client.number] = client
                    before = position
                    position = parse_publishes(data, position, client.level, client.flow, self._builder)
                    if position != before:
                        client.flow.check_quota()
                    if self._builder.full:
                        self._unparsed[client.number] = client
                        break
                elif client.level:  # CONNECT was read, and its session is being looked up: parse_on goes on
                    break
                packet = split(data, position, packet_max_bytes)
                if packet is None:
                    break
                first_byte, start, stop = packet
                position = stop
                self._packets.handle(client, first_byte, data[start:stop])
        except PeerViolation as error:
            self._packets.violated(client, error)
        client.buffer = data[position:] if position else data

    def _parse_leftovers(self) -> None:
        waiting, self._unparsed = self._unparsed, {}
        for client in waiting.values():
            if not client.closed:
                if self._builder.full:
                    self._unparsed[client.number] = client
                else:
                    self._parse(client)

    # --- for ClientPackets and Acknowledgements ---

    def client(self, number: int) -> Client | None:
        """The connection with that number, if it is still there."""
        return self._clients.get(number)

    def parse_on(self, client: Client) -> None:
        """Go on with what a client sent before its CONNACK."""
        self._unparsed.pop(client.number, None)
        self._parse(client)

    def touched(self, client: Client) -> None:
        """The client is owed an answer with the batch that is being built."""
        self._touched[client.number] = client

    def busy_until(self, session: str) -> int:
        """The number of the last uncommitted batch that changes the received identifiers of ``session``; 0 for none."""
        if any(client.session == session for client in self._touched.values()):
            return self._link.next_number  # the one that is being built
        for batch in reversed(list(self._link)):
            if session in batch.kept.received or any(client.session == session for client, _ in batch.kept.bursts):
                return batch.number
        return 0

    def committed(self) -> int:
        """Every batch up to this number is committed."""
        return self._link.committed

    def clients(self) -> list[Client]:
        """All connections, in the order in which they came."""
        return list(self._clients.values())

    def publish_will(self, client: Client, topic: bytes, flags: int, payload: bytes, properties: bytes) -> None:
        """Put a client's Will message into the batch that is being built [MQTT-3.1.2-8]."""
        self._builder.add(topic, flags, payload, source=client.number, properties=properties)

    def subscribe(self, client: Client, filters: tuple[tuple[str, int], ...]) -> None:
        """Have the Distributor deliver what matches ``filters`` from the next batch on."""
        self.send(DISTRIBUTOR, Subscribe(epoch=self.epoch, source=client.number, filters=filters))

    def unsubscribe(self, client: Client, filters: tuple[str, ...]) -> None:
        """Take ``filters`` back; all of the client's when empty."""
        self.send(DISTRIBUTOR, Unsubscribe(epoch=self.epoch, source=client.number, filters=filters))

    def write(self, client: Client, data: bytes) -> None:
        """Send ``data`` to the client, within the limit on what it has not read yet."""
        if client.closed:
            return
        if client.output_bytes > self.settings.clients.output_max_bytes:
            self.close_client(client, "output_limit")
        elif not client.write(data):
            self.close_client(client, "gone")

    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None:
        """End the connection; its Will is published unless it said goodbye [MQTT-3.1.2-10]."""
        if client.closed:
            return
        client.close()
        if not self._accepting:
            self._accept_again()
        del self._clients[client.number]
        self._unparsed.pop(client.number, None)
        self._acknowledgements.forget(client)
        if client.filters:
            self.unsubscribe(client, ())
        if publish_will:
            self._packets.publish_will(client)
        if client.flow is not None:
            log.debug("client.disconnected", extra={"client_id": client.session, "address": client.address, "why": why})

    # --- batches ---

    def _send_batch(self, now_s: float) -> None:
        # A client may be gone already and still have sent something of this batch.
        kept_sessions = {client.session for client in self._touched.values() if client.keeps_session}
        bursts, released = self._seal()
        if not bursts and not len(self._builder):
            return
        received = self._builder.received
        body = self._builder.build(accepted_ms=self.mailbox.wall_ms()).encode()
        sources = self._builder.sources_column()
        self._published += len(self._builder)
        self._builder.clear()
        parts = encode(
            Publishes(
                sender=self.name,
                epoch=self.epoch,
                number=self._link.next_number,
                sources=sources,
                received={session: columns for session, columns in received.items() if session in kept_sessions},
                released=released,
                bodies=(body,),
            )
        )
        self._link.sent(parts, Owed(bursts, received, sources, body), now_s)
        self.mailbox.send_parts(DISTRIBUTOR, parts)

    def _seal(self) -> tuple[list[tuple[Client, AnswerBurst]], dict[str, bytes]]:
        bursts: list[tuple[Client, AnswerBurst]] = []
        released: dict[str, bytes] = {}
        for client in self._touched.values():
            sealed = client.flow.seal() if client.flow is not None else None
            if sealed is None:
                continue
            burst, released_ids = sealed
            if released_ids and client.keeps_session:
                released[client.session] = pack_column(array("H", released_ids))
            bursts.append((client, burst))
        self._touched = {}
        return bursts, released

    def _resend(self) -> None:
        for parts in self._link.resend(self.mailbox.now_s()):
            self.mailbox.send_parts(DISTRIBUTOR, parts)

    # --- live delivery ---

    def _deliver(self, frame: Deliver) -> None:
        """Send live messages to subscribers at QoS 0, each batch once even if it was resent to a new Distributor."""
        sender = (frame.sender, frame.sender_epoch)
        if frame.number <= self._delivered.get(sender, 0):
            return
        if sender not in self._delivered:
            self._delivered = {known: last for known, last in self._delivered.items() if known[0] != frame.sender}
        self._delivered[sender] = frame.number
        batch = Batch.decode(frame.bodies[0])
        for subscribers, rows_column in frame.groups:
            rows = unpack_column("H", rows_column) if rows_column else range(len(batch))
            encoded: dict[int, bytes] = {}
            for number in unpack_column("I", subscribers):
                client = self._clients.get(number)
                if client is None or client.flow is None:
                    continue
                if client.output_bytes > self.settings.clients.output_max_bytes // 2:
                    self._output_dropped += len(rows)
                    continue
                if client.level not in encoded:
                    encoded[client.level] = encode_deliveries(batch, rows, client.level)
                self.write(client, encoded[client.level])
