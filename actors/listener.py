"""The Listener: local MQTT clients in and out.

It owns the clients and the batch that is being built. ``actors/reception.py`` lets clients in; PUBACKs are released in
``actors/acknowledgements.py``; packets that are not PUBLISH are answered by way of ``actors/client_packets.py``; what goes out
to clients is ``actors/client_deliveries.py``'s. Parsing is ``wire/mqtt``'s, the numbering and resending of batches
``wire/link.py``'s.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from actors.access import Access, Verified
from actors.acknowledgements import RETRY_TIMER, Acknowledgements, Owed
from actors.actor import MailboxActor
from actors.client import BEHIND, CROWDING, NO_ROOM, RECEIVE_BYTES, REQUESTS_MAX, TOO_FAST, Client
from actors.client_admin import ClientAdmin
from actors.client_deliveries import SETTLE_TIMER, Deliveries
from actors.client_packets import ClientPackets
from actors.client_sessions import ClientSessions
from actors.client_stalls import ClientStalls
from actors.client_subscriptions import ClientSubscriptions
from actors.client_sys import SysTopics
from actors.handed_over import Deliver, Published
from actors.lingering import Lingering, Parting
from actors.mailbox import HANGUP, READ, WRITE, Mailbox
from actors.passing import PASSING_TIMER, Passing
from actors.reception import OPEN_TIMER, Door, Reception
from wire.batch import Batch, pack_column
from wire.copies import Copies
from wire.errors import PeerViolation, Unavailable
from wire.frames import (
    AclChanged,
    Committed,
    Frame,
    HandOut,
    LaneOpened,
    LaneReopen,
    NodeFigures,
    QueueAnswer,
    Retained,
    SenderResumes,
    SessionClosed,
    SessionCommand,
    SessionGone,
    SessionOpened,
    SessionsKnown,
    Settled,
    SubscriptionsKept,
)
from wire.inbound import AnswerBurst, InboundFlow
from wire.input_budget import InputBudget
from wire.link import BATCH_BYTES_MAX, BATCH_ROWS_MAX, OVERLAPPING_ROWS_MIN, SendingLink
from wire.mqtt.codec import missing_bytes, split
from wire.mqtt.properties import USER_PROPERTIES_MAX
from wire.mqtt.publish_stream import BatchBuilder, parse_publishes
from wire.mqtt.reason_codes import ReasonCode
from wire.mqtt.topics import TopicLimits
from wire.names import DISTRIBUTOR, QUEUE_STORE
from wire.pace import Pace
from wire.rate_limit import PublishRate
from wire.sequences import PUBACK, PUBCOMP, PUBREC
from wire.settings import NodeSettings
from wire.sys_topics import RESERVED, ListenerFigures, Traffic, packets_in
from wire.wills import Message, RefusedWill

log = logging.getLogger("bascule")

HOUSEKEEPING_S = 0.5
TURN_S = 0.05  # clients that are not read within it are read first in the next turn: frames and heartbeats wait no longer
NEXT_TURN_S = 0.001  # a timer that is due at once would come before the sockets are looked at
PUBREL_BYTES = 64  # what one keeps in memory until its batch is committed, about
PACKETS_PER_TURN = 500  # of one client, runs of PUBLISH aside: each is handled by itself
REST_S = 0.004  # while a batch is being committed and little comes, clients are heard when it is committed, or after this
RESTING_CLIENTS_MIN = 8  # what a few send meanwhile gathers in their own sockets, and is there sooner when it is read at once
RESTING_ROWS_MAX = 16  # if more came in a turn, clients stay heard: there may soon be enough for another batch
PUBLISH_BYTE, PUBREL_BYTE = 0x30, 0x60
_SUBSCRIPTIONS = b"\x82\xa2"  # what SUBSCRIBE and UNSUBSCRIBE begin with
QOS_0_MASK, QOS_0_BYTE = 0xF6, 0x30  # a PUBLISH of QoS 0, whatever its other flags
BESIDE_ROWS, BESIDE_BYTES = 2_048, 512 * 1024  # room for messages of QoS 0 in a batch that is full of others
LAST_READS_MAX = 4  # of a client that has left, before another is refused; who has sent more is still here
RECEIVE_BYTES_FULL = 4_096  # from each client while the batch is full: what they send may have to wait here
STOOD_STILL_S = 2 * HOUSEKEEPING_S  # the Listener did: nobody was read, so nobody was silent
_ACKNOWLEDGEMENTS = (PUBACK, PUBREC, PUBCOMP)
LIMIT_OF: dict[int, str] = {  # reason code of a violation -> the limit that it broke
    ReasonCode.PACKET_TOO_LARGE: "packet_max_bytes",
    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED: "receive_maximum",
    ReasonCode.TOPIC_NAME_INVALID: "topic_limits",
}


class Listener(MailboxActor):
    """Accepts local clients, gathers their PUBLISHes into batches, and answers each when its batch is committed."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._group = mailbox.group()
        self._clients: dict[int, Client] = {}
        self._access = Access(self, settings)
        self._sessions = ClientSessions(self, settings, self._access)
        self._admin = ClientAdmin(self, self._sessions)
        self._subscriptions = ClientSubscriptions(self, settings, self._access)
        self._packets = ClientPackets(self, self._sessions, self._subscriptions, settings)
        self._deliveries = Deliveries(self, settings, self._access)
        self._stalls = ClientStalls(self, self._packets, settings.clients)
        limits = settings.clients
        self._rated = limits.publish_messages_per_s is not None or limits.publish_bytes_per_s is not None
        self._builder = BatchBuilder(
            rows_max=BATCH_ROWS_MAX,
            bytes_max=BATCH_BYTES_MAX,
            packet_max_bytes=settings.clients.packet_max_bytes,
            topic_limits=TopicLimits(settings.clients.topic_levels_max, settings.clients.topic_max_bytes),
            properties_max=USER_PROPERTIES_MAX,
            reserved=RESERVED.encode(),
            forbidden_take_room=self._rated,
        )
        self.traffic = Traffic()
        self._sys = SysTopics(self, self._deliveries, self._sys_figures)
        self._most_connected = 0
        self._link: SendingLink[Published, Owed] = SendingLink()
        self._touched: dict[int, Client] = {}
        self._unparsed: dict[int, Client] = {}
        self._acknowledgements = Acknowledgements(self, self._link, self._builder)
        self._passing = Passing(self, self._link, self._builder)
        self._wills: list[tuple[str, int, int, int]] = []  # those in the batch that is being built, as in ``Publishes``
        self._lingering = Lingering(mailbox)
        backoff = settings.supervision.restart_backoff
        self._reception = Reception(mailbox, self._group, self._lingering, settings.clients, backoff)
        self._too_fast: dict[int, float] = {}
        self._crowding: dict[int, Client] = {}
        self._input = InputBudget(settings.clients.input_max_bytes)
        self._passed_over: set[Any] = set()
        self._slowed = 0
        self._heard = False  # clients published this turn
        self._looked_s = mailbox.now_s()
        self._resting = False
        self._pace = Pace(settings.persistence.gather_s)
        self._has_committed = False  # in this turn

    # --- life ---

    def on_start(self) -> None:
        super().on_start()
        self.mailbox.set_timer("housekeeping", self.mailbox.now_s() + HOUSEKEEPING_S)

    def on_peer_up(self, name: str, epoch: int) -> None:
        if name not in (DISTRIBUTOR, QUEUE_STORE):
            return
        if name == QUEUE_STORE:
            self._sessions.store_is_new()
            self._admin.store_is_new()
            self._deliveries.store_is_new()
            self._subscriptions.store_is_new()
            number, stalled = self._link.committed + 1, self._acknowledgements.stalled
            self.send(name, SenderResumes(sender=self.name, epoch=self.epoch, number=number, stalled=stalled))
            self._resend()
        self._open_doors()

    def on_stopping(self) -> None:
        self._reception.close()
        self._group.hear(False)
        self._finish_stop()

    def status(self) -> dict[str, Any]:
        return {
            "clients": len(self._clients),
            **self._reception.figures(),
            "slowed": self._slowed,
            "input_bytes": self._input.held_bytes,
            "outstanding_batches": len(self._link),
            "published": self.traffic.publish_received,
            "reserved_publishes": self._builder.reserved_publishes,
            "refused": self._acknowledgements.refused,
            "pending_wills": self._sessions.pending_wills,
            "refused_wills": self._sessions.refused_wills,
            **self._deliveries.figures(),
            "passing": self._passing.figures(),
            "access": self._access.status(),
        }

    def _finish_stop(self) -> None:
        """Leave once nothing that was read waits for its commit, no Will, and nobody to read the last that he was told.

        What was not read stays with its publisher.
        """
        if len(self._link) or len(self._builder):
            return
        for client in list(self._clients.values()):
            self._packets.say_goodbye(client)
            self.close_client(client, "server_stopped")
        self._lingering.hurry()
        if not len(self._builder) and not len(self._lingering):  # the turn's end sends the Wills
            self.finished()

    def _open_doors(self) -> None:
        """Begin to serve once both actors behind are there; if an address cannot be had, try again later."""
        if self._reception.doors or self.state != "starting" or not {DISTRIBUTOR, QUEUE_STORE} <= self.peers.keys():
            return
        try:
            self._listen()
        except Unavailable as refusal:
            self._reception.open_later(refusal)
        else:
            self.ready()

    def _listen(self) -> None:
        self._reception.open(self.settings.listeners)

    # --- frames ---

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Committed():
                if frame.sender == self.name and frame.epoch == self.epoch and not self.is_former(QUEUE_STORE, frame.store):
                    self._acknowledgements.release(frame)
                    self._has_committed = True
                    self._end_rest()  # what has come meanwhile is read in this turn, and goes out as one batch
            case HandOut() | LaneOpened() | Settled() | LaneReopen():
                self._deliveries.lane(frame)
            case SessionGone():
                self._admin.gone(frame.session)
                self._sessions.gone(frame)
                self._acknowledgements.session_ended(frame.queue)
            case SessionCommand():
                self._admin.command(frame)
            case QueueAnswer():
                self._admin.answered(frame)
            case Deliver():
                self._deliveries.deliver(frame)
            case SessionsKnown():
                self._sessions.known(frame)
            case Retained() | SessionOpened() | SessionClosed() | SubscriptionsKept():
                if frame.epoch == self.epoch:
                    self._of_this_life(frame)
            case AclChanged():
                self._access.acl_changed(frame)
            case NodeFigures():
                self._sys.told(frame)
            case _:
                raise AssertionError(f"not for a Listener: {frame}")

    def _of_this_life(self, frame: Retained | SessionOpened | SessionClosed | SubscriptionsKept) -> None:
        match frame:
            case Retained():
                self._subscriptions.retained(frame)
            case SubscriptionsKept():
                self._subscriptions.kept(frame)
            case SessionOpened():
                if not self.is_former(QUEUE_STORE, frame.store):  # the new one is asked again, and may know nothing of this
                    self._sessions.opened(frame)
            case SessionClosed():
                self._sessions.close_committed(frame)

    def on_told(self, message: Any) -> None:
        assert isinstance(message, Verified), f"not for a Listener: {message}"
        self._access.verified(message)

    def on_turn_end(self, now_s: float) -> None:
        self._sessions.let_in()
        self._end_batch(now_s)
        self._sessions.look_up()
        self._deliveries.turn_end(now_s)
        if self.state == "stopping":
            self._finish_stop()

    def _end_batch(self, now_s: float) -> None:
        rows = len(self._builder)
        if self._has_committed and not len(self._link):
            self._pace.committed(waiting=bool(rows or self._touched))
        self._has_committed = False
        while (len(self._builder) or self._touched or self._unparsed) and self._worth_sending(now_s):
            self._send_batch(now_s)
            if not self._unparsed:
                break
            self._parse_leftovers()  # what waited in the clients' buffers for this batch
        if len(self._builder):
            self._pass_on(now_s)
        if not len(self._link) and (len(self._builder) or self._touched):
            self._rest(self._pace.due_s)
        elif (
            len(self._link)
            and not self._resting
            and rows < RESTING_ROWS_MAX
            and (self._pace.busy or (self._heard and self._many_clients))
        ):
            self._rest(now_s + REST_S)
        self._heard = False
        self._group.hear(self._may_hear())

    def _worth_sending(self, now_s: float) -> bool:
        rows, full = len(self._builder), self._builder.full
        gathered = now_s >= self._pace.due_s or rows >= OVERLAPPING_ROWS_MIN or full
        return gathered and self._link.worth_sending(rows, full=full)

    @property
    def _many_clients(self) -> bool:
        return len(self._clients) >= RESTING_CLIENTS_MIN

    def _pass_on(self, now_s: float) -> None:
        """Messages of QoS 0 don't wait for the disk."""
        if self._passing.turn_end(now_s):
            self._parse_leftovers()  # who waited behind his own goes on
        while self._builder.full and (places := self._passing.make_room(row for _, row, _, _ in self._wills)) is not None:
            self._wills = [(session, places[row], epoch, number) for session, row, epoch, number in self._wills]
            self._parse_leftovers()
            self._passing.turn_end(now_s)

    def _may_hear(self) -> bool:
        return not self._resting and self.state == "ready"

    def _rest(self, until_s: float) -> None:
        """Leave clients alone for a moment: what they publish waits anyway, and a turn for each message costs."""
        self._resting = True
        self.mailbox.set_timer("rest", until_s)

    def _end_rest(self) -> None:
        if self._resting:
            self._resting = False
            self.mailbox.cancel_timer("rest")
            self._group.hear(self._may_hear())
            self.mailbox.look_again()

    def on_timer(self, name: str, now_s: float) -> None:
        if name == "rest":
            self._end_rest()
        elif name == "housekeeping":
            self.mailbox.set_timer("housekeeping", now_s + HOUSEKEEPING_S)
            self._reception.look_at_certificates(now_s)
            self._access.reload()
            if self._link.overdue(now_s):
                self._resend()
            self._lingering.look(now_s)
            self._close_silent(now_s)
            self._sessions.wait_no_longer(now_s)
            self._subscriptions.wait_no_longer(now_s)
            self._sessions.publish_due_wills(now_s)
            if not self._builder.full:
                self._sessions.publish_refused_wills(now_s)
        elif name == PASSING_TIMER:
            self._passing.on_timer()  # what is due goes at the turn's end
        elif name == SETTLE_TIMER:
            self._deliveries.settle_all()
        elif name == "accept":
            self._reception.resume()
        elif name == OPEN_TIMER:
            self._open_doors()
        elif name == "publish_rate":
            self._go_on(now_s)
        elif name == "crowding":
            self._parse_crowding(now_s)
        elif name == RETRY_TIMER:
            self._acknowledgements.retry()

    def _close_silent(self, now_s: float) -> None:
        """Close clients that are silent for too long; a time in which this process stood still does not count."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if passed_s > STOOD_STILL_S:
            self._sessions.stood_still(passed_s)
            for client in self._clients.values():
                client.keep_alive.stood_still(passed_s, now_s)
                client.accepted_s = min(now_s, client.accepted_s + passed_s)
        for client in self._packets.overdue(list(self._clients.values()), now_s):
            if client.flow is None:
                self.limited("connect_timeout")
            self.close_client(client, "keep_alive_timeout" if client.flow else "connect_timeout")
        self._stalls.look(now_s, stood_still=passed_s > STOOD_STILL_S)

    # --- intake ---

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        now_s = self.mailbox.now_s()
        rows = len(self._builder)
        self._reception.turn.begin()
        if self._passed_over:
            ready = sorted(ready, key=lambda one: one[0] not in self._passed_over)
            self._passed_over = set()
        for index, (token, events) in enumerate(ready):
            if index and self.mailbox.now_s() - now_s > TURN_S:
                self._passed_over = {token for token, _ in ready[index:]}
                return
            if isinstance(token, Client):
                if events & WRITE and not token.closed:
                    if token.flush():
                        self._deliveries.touched(token)
                    else:
                        self.close_client(token, "gone")
                if events & (READ | HANGUP) and not token.closed:
                    self._read(token, now_s)
            elif isinstance(token, Parting):
                self._lingering.ready(token, events)
            else:
                self._accept(token, now_s)
        self._heard = len(self._builder) > rows

    def _accept(self, door: Door, now_s: float) -> None:
        limits = self.settings.clients
        for client in self._reception.accept(door, now_s, self._give_way, self._see_off):
            self._clients[client.number] = client
            if self._rated:
                client.rate = PublishRate(limits.publish_messages_per_s, limits.publish_bytes_per_s, now_s)

    def _give_way(self, number: int) -> None:
        self.close_client(self._clients[number], "half_open_max")

    def _see_off(self) -> None:
        """Take the last of what clients that have left had to say, so that they are gone."""
        now_s = self.mailbox.now_s()
        for client in self._group.left():
            for _ in range(LAST_READS_MAX):
                if client.closed or not client.heard:
                    break
                self._read(client, now_s)

    def _read(self, client: Client, now_s: float) -> None:
        data = client.receive(RECEIVE_BYTES_FULL if self._builder.full else RECEIVE_BYTES)
        if data is None:
            self._reception.failed(client, now_s)
            self.close_client(client, client.fault or "gone")
        elif data:
            self.traffic.bytes_received += len(data)
            if client.missing > len(data):
                client.missing -= len(data)
                client.gathered += data
                self._hold_input(client)
                return
            if client.gathered:
                client.buffer = b"".join((client.buffer, client.gathered, data))
                client.gathered = bytearray()
            else:
                client.buffer = client.buffer + data if client.buffer else data
            size_bytes = len(client.buffer)
            self._parse(client)
            if len(client.buffer) < size_bytes:
                client.keep_alive.heard(now_s)

    def _parse(self, client: Client) -> None:
        """Take what is whole in the client's buffer: runs of PUBLISH into the batch, everything else one by one."""
        data, position, handled = client.buffer, 0, 0
        client.missing = 0
        packet_max_bytes = self.settings.clients.packet_max_bytes
        try:
            while not client.closed and client.asking < REQUESTS_MAX:
                if client.flow is not None:
                    self._touched[client.number] = client
                    position = self._take_publishes(client, client.flow, data, position)
                if position == len(data) or self._waits(client, first_byte := data[position]):
                    break
                if client.flow is None:
                    self._packets.check_first(first_byte)
                elif first_byte in _ACKNOWLEDGEMENTS and (end := self._take_acknowledgements(client, data, position)) > position:
                    position = end
                    continue
                packet = split(data, position, packet_max_bytes)
                if packet is None:
                    client.missing = missing_bytes(data, position)
                    break
                _, start, stop = packet
                if first_byte & 0xF0 == PUBLISH_BYTE:
                    if not client.leaves:  # of QoS 0: there is no room beside the full batch either
                        self._passing.crowded = True
                        self._wait_for_batch(client, NO_ROOM)
                        break
                    position = stop  # left out: its client sends it again, behind what the store has refused
                    continue
                position = stop
                self._packets.handle(client, first_byte, data[start:stop])
                handled += 1
                self.traffic.messages_received += 1
                if handled >= PACKETS_PER_TURN and position < len(data) and not client.closed:
                    self._wait_a_turn(client)
                    break
        except PeerViolation as error:
            if error.reason_code in LIMIT_OF:
                self.limited(LIMIT_OF[error.reason_code])
            self._packets.violated(client, error)
        self._keep_input(client, data[position:] if position else data)

    def _take_publishes(self, client: Client, flow: InboundFlow, data: bytes, position: int) -> int:
        """Take the run of PUBLISH that stands at ``position`` into the batch; where what is not taken begins."""
        if client.held_back:
            return position
        before = position
        if client.rate is not None:
            return self._take_rated(client, flow, data, position)
        position = parse_publishes(data, position, client.level, flow, self._builder)
        if position != before:
            flow.check_quota()
        if self._builder.full and position < len(data) and data[position] & QOS_0_MASK == QOS_0_BYTE:
            position = self._parse_beside(client, flow, data, position)
        return position

    def _take_rated(self, client: Client, flow: InboundFlow, data: bytes, position: int) -> int:
        """The same of a client whose rate is limited; a run of its messages may end with what was forbidden, and go on."""
        while True:
            before = position
            position = self._parse_rated(client, flow, data, position)
            if position == before:
                return position
            flow.check_quota()
            goes_on = position < len(data) and data[position] & 0xF0 == PUBLISH_BYTE
            if not goes_on or self._builder.full or client.number in self._too_fast:
                return position

    def _waits(self, client: Client, first_byte: int) -> bool:
        """Leave ``client`` unread if the packet that begins like this has to wait."""
        if client.flow is None:
            return bool(client.level)  # CONNECT was read, and its session is being looked up: parse_on goes on
        if client.number in self._too_fast:
            return True
        kind = first_byte & 0xF0
        if kind == PUBLISH_BYTE and client.held_back:
            if client.leaves:
                return False
            client.hear(False)  # behind what the store has refused
        elif kind in (PUBLISH_BYTE, PUBREL_BYTE) and self._builder.full and first_byte & QOS_0_MASK != QOS_0_BYTE:
            self._wait_for_batch(client, NO_ROOM)
        elif first_byte in _SUBSCRIPTIONS and self._builder.holds(client.number):
            self._wait_for_batch(client, BEHIND)
        else:
            return False
        return True

    def _wait_for_batch(self, client: Client, why: int) -> None:
        """Leave ``client`` unread until the batch has room, or has gone."""
        client.hear(False, why)
        self._unparsed[client.number] = client

    def _keep_input(self, client: Client, data: bytes) -> None:
        """``data`` is what has to wait of the client's input."""
        client.buffer = data
        if data or client.held:
            self._hold_input(client)

    def _hold_input(self, client: Client) -> None:
        """Count what is kept of the client's input; who has most of it goes where all together have too much (B1)."""
        client.held = 0 if client.closed else len(client.buffer) + len(client.gathered)
        if not self._input.hold(client.number, client.held):
            return
        while (number := self._input.over()) is not None:
            self.limited("input_max_bytes")
            self._packets.violated(
                self._clients[number],
                PeerViolation("clients.input_max_bytes is reached", reason_code=ReasonCode.QUOTA_EXCEEDED),
            )

    def _take_acknowledgements(self, client: Client, data: bytes, position: int) -> int:
        """A run of PUBACK, PUBREC and PUBCOMP for what was sent on this connection."""
        if client.outbox is None or not client.outbox.live:
            return position
        self._deliveries.touched(client)
        end = client.outbox.received(data, position)
        self.traffic.messages_received += packets_in(data, position, end)
        return end

    def _parse_rated(self, client: Client, flow: InboundFlow, data: bytes, position: int) -> int:
        """``parse_publishes`` as far as the client's rate allows; a client that is at its end is not read until it has more."""
        assert client.rate is not None
        now_s = self.mailbox.now_s()
        messages, size_bytes = client.rate.allowance(now_s)
        builder, before, start = self._builder, len(self._builder) + flow.forbidden_publishes, position
        rows_max, bytes_max = builder.rows_max, builder.bytes_max
        if messages and size_bytes:
            builder.rows_max = int(min(rows_max, len(builder) + messages))
            builder.bytes_max = int(min(bytes_max, builder.used_bytes + size_bytes))
            try:
                position = parse_publishes(data, position, client.level, flow, builder)
            finally:
                builder.rows_max, builder.bytes_max = rows_max, bytes_max
                client.rate.take(len(builder) + flow.forbidden_publishes - before, position - start)
        wait_s = client.rate.wait_s()
        if wait_s:
            self._slow_down(client, now_s + wait_s)
        return position

    def _parse_beside(self, client: Client, flow: InboundFlow, data: bytes, position: int) -> int:
        """Take PUBLISHes of QoS 0 into the full batch: they don't wait for the disk, which those that fill it do."""
        builder = self._builder
        rows_max, bytes_max = builder.rows_max, builder.bytes_max
        builder.rows_max, builder.bytes_max = rows_max + BESIDE_ROWS, bytes_max + BESIDE_BYTES
        builder.take_only_qos_0(True)
        try:
            return parse_publishes(data, position, client.level, flow, builder)
        finally:
            builder.rows_max, builder.bytes_max = rows_max, bytes_max
            builder.take_only_qos_0(False)

    def _wait_a_turn(self, client: Client) -> None:
        """Leave what ``client`` has sent for later, unread what it goes on to send: others are served first."""
        client.hear(False, CROWDING)
        self._crowding[client.number] = client
        self.mailbox.set_timer("crowding", self.mailbox.now_s() + NEXT_TURN_S)

    def _parse_crowding(self, now_s: float) -> None:
        """Go on with clients that have waited a turn, as far as there is time; those that wait longest come first."""
        for number in list(self._crowding):
            client = self._crowding.pop(number)
            client.hear_again(now_s, CROWDING)
            self._parse(client)
            if self.mailbox.now_s() - now_s > TURN_S:
                break
        if self._crowding:
            self.mailbox.set_timer("crowding", self.mailbox.now_s() + NEXT_TURN_S)

    def _slow_down(self, client: Client, until_s: float) -> None:
        """Do not read ``client`` until ``until_s``; what it sends meanwhile waits in its own buffers."""
        client.hear(False, TOO_FAST)
        self._slowed += client.number not in self._too_fast
        self._too_fast[client.number] = until_s
        self.mailbox.set_timer("publish_rate", min(self._too_fast.values()))

    def _go_on(self, now_s: float) -> None:
        """Go on reading the clients that may publish again."""
        for number in [number for number, until_s in self._too_fast.items() if until_s <= now_s]:
            if self._too_fast.pop(number, None) is None:
                continue  # it went as another one came
            client = self._clients[number]
            client.hear_again(now_s, TOO_FAST)
            self.parse_on(client)
        if self._too_fast:
            self.mailbox.set_timer("publish_rate", min(self._too_fast.values()))

    def _parse_leftovers(self) -> None:
        waiting, self._unparsed = self._unparsed, {}
        now_s = self.mailbox.now_s()
        for client in waiting.values():
            if not client.closed:
                if self._builder.full and client.buffer and client.buffer[0] & QOS_0_MASK != QOS_0_BYTE:
                    self._unparsed[client.number] = client
                else:
                    self._has_room(client, now_s)
                    self._parse(client)

    def _has_room(self, client: Client, now_s: float) -> None:
        """Read ``client`` again, which waited for room in the batch, or for the batch to go."""
        client.hear_again(now_s, NO_ROOM | BEHIND)

    # --- for ClientPackets and Acknowledgements ---

    def client(self, number: int) -> Client | None:
        """The connection with that number, if it is still there."""
        return self._clients.get(number)

    def go_on(self, client: Client) -> None:
        """Take what a client goes on to send that was held back."""
        client.held_back = client.leaves
        client.hear_again(self.mailbox.now_s())
        self.parse_on(client)

    def parse_on(self, client: Client) -> None:
        """Go on with what a client sent before its CONNACK."""
        if self._unparsed.pop(client.number, None) is not None:
            self._has_room(client, self.mailbox.now_s())
        self._parse(client)

    def limited(self, limit: str) -> None:
        """Count for status what ``limit`` has refused."""
        self._reception.admission.refused[limit] += 1

    def greeted(self, client: Client) -> None:
        """The client's CONNECT was read: it is not half open any more."""
        self._reception.admission.greeted(client.number)

    def touched(self, client: Client) -> None:
        """The client is owed an answer with the batch that is being built."""
        self._touched[client.number] = client

    def released(self, client: Client) -> None:
        """The client's PUBREL is to be answered with the batch that is being built, and takes room in it like a message."""
        self._touched[client.number] = client
        self._builder.take_room(PUBREL_BYTES)

    def busy(self, session: str) -> bool:
        """Whether a batch that is not committed changes the received identifiers of ``session``, or has its Will.

        A Will that was refused is on record by itself and concerns no opening.
        """
        if _has_will(self._wills, session) or any(client.session == session for client in self._touched.values()):
            return True  # the one that is being built
        return any(
            session in batch.kept.received
            or _has_will(batch.kept.wills, session)
            or any(client.session == session for client, _ in batch.kept.bursts)
            for batch in self._link
        )

    def clients(self) -> list[Client]:
        """All connections, in the order in which they came."""
        return list(self._clients.values())

    def opened(self, client: Client) -> None:
        """The client has its CONNACK."""
        self._acknowledgements.opened(client)
        self._deliveries.opened(client)
        self._sys.opened(client)
        self._most_connected = max(self._most_connected, len(self._clients) - self._reception.admission.half_open)

    def subscribed(self, client: Client, wanted: dict[str, bool], retained: Sequence[Retained], late: Sequence[Batch]) -> None:
        """The client has its SUBACK. wanted: topic filter -> whether it is to get what is retained.

        retained: what the store has of that; late: what was published meanwhile, as granted.
        """
        for frame in retained:
            self._deliveries.retained(frame)
        self._sys.subscribed(client, wanted)
        for batch in late:
            self._deliveries.send(Copies(batch, self.mailbox.wall_ms()), (client.number,))

    def _sys_figures(self) -> ListenerFigures:
        connected = sum(client.flow is not None for client in self._clients.values())
        return ListenerFigures(
            connected=connected,
            most_connected=max(connected, self._most_connected),
            outstanding_batches=len(self._link),
            refused_messages=self._acknowledgements.refused,
            reserved_publishes=self._builder.reserved_publishes,
            refused=self._reception.admission.refused,
        )

    @property
    def batch_full(self) -> bool:
        """Whether the batch that is being built takes no more."""
        return self._builder.full

    def add_will(self, session: str, message: Message, source: int, refused: tuple[int, int] = (0, 0)) -> None:
        """Put a Will into the batch that is being built; its record goes with the same commit [MQTT-3.1.2-8].

        refused: epoch and number of the batch in which it was, if there was no room for it.
        """
        topic, flags, payload, properties, _ = message
        self._wills.append((session, len(self._builder), *refused))
        self._builder.add(topic, flags, payload, source=source, properties=properties)

    def will_refused(self, will: RefusedWill) -> None:
        """There was no room for a Will: it is sent again later."""
        self._sessions.will_refused(will)

    def write(self, client: Client, data: bytes, packets: int = 1) -> None:
        """Send ``data``, so many packets, to the client, within the limit on what it has not read yet."""
        if client.closed:
            return
        self.traffic.messages_sent += packets
        self.traffic.bytes_sent += len(data)
        if client.output_bytes > self.settings.clients.output_max_bytes:
            self.limited("output_max_bytes")
            self.close_client(client, "output_limit")
        elif not client.write(data):
            self.close_client(client, "gone")

    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None:
        """End the connection; its Will is published unless it said goodbye [MQTT-3.1.2-10].

        What the client was told last it may read, as long as it is there (``actors/lingering.py``).
        """
        if client.closed:
            return
        if client.gone:
            client.close()
        else:
            self._lingering.add(*client.part())
        self._reception.admission.leave(client.number)
        self._reception.resume()
        del self._clients[client.number]
        self._too_fast.pop(client.number, None)
        self._unparsed.pop(client.number, None)
        self._crowding.pop(client.number, None)
        self._input.hold(client.number, 0)
        self._acknowledgements.forget(client)
        self._deliveries.closed(client)
        self._subscriptions.closed(client)
        self._sessions.closed(client, publish_will=publish_will)
        if client.flow is not None:
            log.debug("client.disconnected", extra={"client_id": client.session, "address": client.address, "why": why})

    # --- batches ---

    def _send_batch(self, now_s: float) -> None:
        # A client may be gone already and still have sent something of this batch.
        kept_sessions = {client.session for client in self._touched.values() if _keeps(client)}
        bursts, released = self._seal()
        if not bursts and not len(self._builder):
            return
        received = self._builder.received
        batch = self._builder.build(accepted_ms=self.mailbox.wall_ms())
        sources = self._builder.sources_column()
        self.traffic.publish_received += len(self._builder)
        self.traffic.messages_received += len(self._builder)
        self._builder.clear()
        self._passing.batch_sent()
        published = Published(
            sender=self.name,
            epoch=self.epoch,
            number=self._link.next_number,
            batch=batch,
            sources=sources,
            received={session: columns for session, columns in received.items() if session in kept_sessions},
            released=released,
            wills=tuple(self._wills),
        )
        self._pace.sent(now_s)
        self._link.sent(published, Owed(bursts, received, sources, batch, published.wills), now_s)
        self._wills.clear()
        self.send(DISTRIBUTOR, published)

    def _seal(self) -> tuple[list[tuple[Client, AnswerBurst]], dict[str, bytes]]:
        bursts: list[tuple[Client, AnswerBurst]] = []
        released: dict[str, bytes] = {}
        for client in self._touched.values():
            sealed = client.flow.seal() if client.flow is not None else None
            if sealed is None:
                continue
            burst, released_ids = sealed
            if released_ids and _keeps(client):
                released[client.session] = pack_column(array("H", released_ids))
            bursts.append((client, burst))
        self._touched = {}
        return bursts, released

    def _resend(self) -> None:
        for published in self._link.resend(self.mailbox.now_s()):
            self.send(DISTRIBUTOR, published)


def _keeps(client: Client) -> bool:
    """Whether the received identifiers of the client's session are kept; not of one that has ended."""
    return bool(client.queue) and (not client.closed or client.expiry_s > 0)


def _has_will(wills: Iterable[tuple[str, int, int, int]], session: str) -> bool:
    """Whether the Will of ``session`` is among them, and was not refused before."""
    return any(name == session and not number for name, _, _, number in wills)
