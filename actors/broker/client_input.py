"""Input of local clients: read, and taken in the order in which it came.

Runs of PUBLISH go into the batch (parsing is ``wire/mqtt/publish_batch_parser.py``'s), acknowledgements to the client's outbox,
every other packet to ``actors/broker/client_packets.py``. Clients that have to wait are ``actors/broker/waiting_clients.py``'s;
input that is kept meanwhile is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from actors.access.client import BEHIND, NO_ROOM, REQUESTS_MAX, Client
from actors.access.input_budget import InputBudget
from actors.broker.client_batches import ClientBatches
from actors.broker.client_packets import ClientPackets
from actors.broker.listener_interface import ListenerInterface
from actors.broker.waiting_clients import TURN_TIMER, WaitingClients
from actors.system.receive_buffer import RECEIVE_BYTES
from wire.errors import PeerViolation
from wire.exchange.packet_identifiers import PUBACK, PUBCOMP, PUBREC
from wire.exchange.receiver import ReceiverHalf
from wire.mqtt.codec import missing_bytes, split
from wire.mqtt.packets import MQTT_5_0
from wire.mqtt.publish_batch_parser import parse_publishes
from wire.mqtt.reason_codes import ReasonCode
from wire.routing.sys_topics import packets_in

PACKETS_PER_TURN = 500  # of one client, runs of PUBLISH aside: each is handled by itself
PUBLISH_BYTE, PUBREL_BYTE = 0x30, 0x60
_SUBSCRIPTIONS = b"\x82\xa2"  # what SUBSCRIBE and UNSUBSCRIBE begin with
QOS_0_MASK, QOS_0_BYTE = 0xF6, 0x30  # a PUBLISH of QoS 0, whatever its other flags
BESIDE_ROWS, BESIDE_BYTES = 2_048, 512 * 1024  # room for messages of QoS 0 in a batch that is full of others
RECEIVE_BYTES_FULL = 4_096  # from each client while the batch is full: what they send may have to wait here
_ACKNOWLEDGEMENTS = (PUBACK, PUBREC, PUBCOMP)
LIMIT_OF: dict[int, str] = {  # reason code of a violation -> the limit that it broke
    ReasonCode.PACKET_TOO_LARGE: "packet_max_bytes",
    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED: "receive_maximum",
    ReasonCode.TOPIC_NAME_INVALID: "topic_limits",
}


class ClientInput:
    """Takes it, as far as there is room for it."""

    def __init__(
        self,
        host: ListenerInterface,
        batches: ClientBatches,
        packets: ClientPackets,
        *,
        acknowledged: Callable[[Client], None],
        crowded: Callable[[], None],
    ) -> None:
        """acknowledged: told of a client that has sent acknowledgements. crowded: told when there is no room for QoS 0 either.

        bytes_received, packets_received: in all; those of PUBLISH are counted with their batch.
        """
        self.bytes_received = self.packets_received = 0
        self.waiting = WaitingClients(host.mailbox)
        self._host = host
        self._batches = batches
        self._builder = batches.builder
        self._packets = packets
        self._acknowledged = acknowledged
        self._crowded = crowded
        self._budget = InputBudget(host.settings.now.clients.input_max_bytes)

    def on_limits_changed(self) -> None:
        """Others hold from now on, for those who are connected as well."""
        self._budget.limit(self._host.settings.now.clients.input_max_bytes)
        now_s = self._host.mailbox.now_s()
        for client in self._host.clients():
            self._limit_rate(client, now_s)

    @property
    def held_bytes(self) -> int:
        """The kept input of all clients."""
        return self._budget.held_bytes

    # --- going on ---

    def begin(self, client: Client, now_s: float) -> None:
        """The client has come in."""
        self._limit_rate(client, now_s)

    def _limit_rate(self, client: Client, now_s: float) -> None:
        limits = self._host.settings.now.clients
        client.limit_rate(limits.publish_messages_per_s, limits.publish_bytes_per_s, now_s)

    def read(self, client: Client, now_s: float) -> bool:
        """Take what the client's socket has; False when it is gone."""
        data = client.receive(RECEIVE_BYTES_FULL if self._builder.full else RECEIVE_BYTES)
        if data is None:
            return False
        if data:
            self.bytes_received += len(data)
            untaken = client.input
            if untaken.front:
                whole = untaken.join(data)
                if whole is None:
                    self._hold(client)
                    return True
                data = whole
            self._take(client, data)
            if untaken.front is not data:  # something was whole
                client.keep_alive.on_heard(now_s)
        return True

    def read_on(self, client: Client) -> None:
        """Go on with what the client has sent: it has its CONNACK, or fewer of its requests wait for their answers."""
        self.waiting.go_on(client)
        self._take_on(client)

    def room_came(self, bridges: Container[str] | None = None) -> None:
        """Go on with those that wait for room in a queue of these, or of any."""
        self.waiting.room_came(bridges, self._take_on)

    def read_departed(self) -> None:
        """Who waits for room, and has left, is read to its end; what it has published there is not taken."""
        for client, _ in list(self.waiting.for_room.values()):
            if client.has_left():
                self.waiting.for_room.pop(client.number, None)
                client.read_to_end(self._host.mailbox.now_s())
                self._take_on(client)

    def go_on_with_room(self) -> None:
        """The batch has gone, or has room again: go on with those that wait for it."""
        self.waiting.batch_went_on(self._take_on, self._has_no_room)

    def on_timer(self, name: str, now_s: float) -> None:
        """``TURN_TIMER`` or ``RATE_TIMER`` is due."""
        if name == TURN_TIMER:
            self.waiting.turn_has_come(now_s, self._take_on)
        else:
            self.waiting.rate_allows(now_s, self.read_on)

    def on_closed(self, client: Client) -> None:
        """The client has gone, and what it sent with it."""
        self.waiting.on_closed(client)
        self._budget.hold(client.number, 0)

    # --- packets ---

    def _take_on(self, client: Client) -> None:
        """Take what is kept of the client's input, as far as it goes now."""
        self._take(client, client.input.front)

    def _take(self, client: Client, data: bytes) -> None:
        """Take what is whole in ``data``, the client's input: runs of PUBLISH into the batch, everything else one by one."""
        position = handled = missing = 0
        packet_max_bytes = self._host.settings.now.clients.packet_max_bytes
        try:
            while not client.closed and client.asking < REQUESTS_MAX:
                if client.flow is not None:
                    self._batches.add_answer_due(client)
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
                    missing = missing_bytes(data, position)
                    break
                _, start, stop = packet
                if first_byte & 0xF0 == PUBLISH_BYTE:
                    if not client.leaves:  # of QoS 0: there is no room beside the full batch either
                        self._crowded()
                        self.waiting.wait_for_batch(client, NO_ROOM)
                        break
                    position = stop  # left out: its client sends it again
                    continue
                position = stop
                self._packets.handle(client, first_byte, data[start:stop])
                handled += 1
                self.packets_received += 1
                if handled >= PACKETS_PER_TURN and position < len(data) and not client.closed:
                    self.waiting.wait_a_turn(client)
                    break
        except PeerViolation as error:
            if error.reason_code in LIMIT_OF:
                self._host.on_limited(LIMIT_OF[error.reason_code])
            self._packets.violated(client, error)
        if client.input.keep(data[position:] if position else data, missing):
            self._hold(client)

    def _waits(self, client: Client, first_byte: int) -> bool:
        """Leave ``client`` unread if the packet that begins like this has to wait."""
        if client.flow is None:
            return bool(client.level)  # CONNECT was read, and its session is being looked up: read_on goes on
        if client.rate is not None and self.waiting.hold_if_too_fast(client):
            return True
        kind = first_byte & 0xF0
        if kind == PUBLISH_BYTE and client.leaves:
            return False
        if kind == PUBLISH_BYTE and (bridge := self._batches.room.waits_for) is not None:
            self.waiting.wait_for_room(client, bridge)
        elif kind in (PUBLISH_BYTE, PUBREL_BYTE) and self._builder.full and first_byte & QOS_0_MASK != QOS_0_BYTE:
            self.waiting.wait_for_batch(client, NO_ROOM)
        elif first_byte in _SUBSCRIPTIONS and self._builder.holds(client.number):
            self.waiting.wait_for_batch(client, BEHIND)
        else:
            return False
        return True

    def _has_no_room(self, client: Client) -> bool:
        """Whether what waits of ``client`` would go on waiting for the batch, as it is."""
        return self._builder.full and bool(client.input.front) and client.input.front[0] & QOS_0_MASK != QOS_0_BYTE

    def _take_acknowledgements(self, client: Client, data: bytes, position: int) -> int:
        """A run of PUBACK, PUBREC and PUBCOMP for what was sent on this connection."""
        if client.outbox is None or not client.outbox.live:
            return position
        self._acknowledged(client)
        end = client.outbox.on_received(data, position)
        self.packets_received += packets_in(data, position, end)
        return end

    # --- runs of PUBLISH ---

    def _take_publishes(self, client: Client, flow: ReceiverHalf, data: bytes, position: int) -> int:
        """Take the run of PUBLISH that stands at ``position`` into the batch; where what is not taken begins."""
        room = self._batches.room
        if room.waits_for is not None:
            room.begin()
        if client.leaves:
            return position
        before = position
        if client.rate is not None:
            return self._take_rated(client, flow, data, position)
        position = parse_publishes(data, position, client.level, flow, self._builder)
        if client.level == MQTT_5_0 and position != before:
            flow.check_quota()
        if position < len(data) and data[position] & QOS_0_MASK == QOS_0_BYTE and self._builder.full:
            position = self._take_beside(client, flow, data, position)
        return position

    def _take_beside(self, client: Client, flow: ReceiverHalf, data: bytes, position: int) -> int:
        """Take PUBLISHes of QoS 0 into the full batch: they don't wait for the disk, which those that fill it do."""
        builder = self._builder
        rows_max, bytes_max = builder.rows_max, builder.bytes_max
        builder.limit(rows_max + BESIDE_ROWS, bytes_max + BESIDE_BYTES)
        builder.take_only_qos_0(True)
        try:
            return parse_publishes(data, position, client.level, flow, builder)
        finally:
            builder.limit(rows_max, bytes_max)
            builder.take_only_qos_0(False)

    def _take_rated(self, client: Client, flow: ReceiverHalf, data: bytes, position: int) -> int:
        """The same of a client whose rate is limited; a run of its messages may end with what was forbidden, and go on."""
        while True:
            before = position
            position = self._take_allowed(client, flow, data, position)
            if position == before:
                return position
            flow.check_quota()
            goes_on = position < len(data) and data[position] & 0xF0 == PUBLISH_BYTE
            if not goes_on or self._builder.full or self.waiting.hold_if_too_fast(client):
                return position

    def _take_allowed(self, client: Client, flow: ReceiverHalf, data: bytes, position: int) -> int:
        """``parse_publishes`` as far as the client's rate allows; a client that is at its end is not read until it has more."""
        assert client.rate is not None
        now_s = self._host.mailbox.now_s()
        messages, size_bytes = client.rate.allowance(now_s)
        builder, before, start = self._builder, len(self._builder) + flow.forbidden_publishes, position
        rows_max, bytes_max = builder.rows_max, builder.bytes_max
        if messages and size_bytes:
            builder.limit(int(min(rows_max, len(builder) + messages)), int(min(bytes_max, builder.used_bytes + size_bytes)))
            try:
                position = parse_publishes(data, position, client.level, flow, builder)
            finally:
                builder.limit(rows_max, bytes_max)
                client.rate.take(len(builder) + flow.forbidden_publishes - before, position - start)
        wait_s = client.rate.wait_s()
        if wait_s:
            self.waiting.slow_down(client, now_s + wait_s)
        return position

    # --- what is kept ---

    def _hold(self, client: Client) -> None:
        """Count what is kept of the client's input; who has most of it goes where all together have too much.

        access.input-bounded
        """
        if not self._budget.hold(client.number, 0 if client.closed else client.input.size_bytes):
            return
        while (number := self._budget.over()) is not None:
            self._host.on_limited("input_max_bytes")
            largest = self._host.client(number)
            assert largest is not None, "it gives back what it held when it goes"
            self._packets.violated(
                largest, PeerViolation("clients.input_max_bytes is reached", reason_code=ReasonCode.QUOTA_EXCEEDED)
            )
