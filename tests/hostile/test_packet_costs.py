"""The node's costs for a byte that it is sent, written and held: of each packet of clients and remotes, and of each property in it.

Both are counted, not timed: what the node's processes gave to write() (``wchar``: log, rows, and RocksDB's files), and what memory
they came to hold. A kind of packet or a property that is new is among them by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bridge.test_remote_subscriptions import passing
from tests.conftest import StartNode
from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import (
    AUTH,
    AUTH_DATA,
    AUTH_METHOD,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SESSION_EXPIRY,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    USER_PROPERTY,
    Properties,
    Value,
    Will,
    connect_bytes,
    encode_properties,
    packet_bytes,
    publish_bytes,
    string,
    subscribe_bytes,
)
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.scripted_remote import RemoteEnd, ScriptedRemote
from tests.support.waiting import PATIENCE_S, wait_until
from wire.mqtt.properties import KINDS, Place

pytestmark = pytest.mark.process

WRITTEN, HELD = 4, 2  # bytes for a byte
WRITTEN_A_PACKET = 600  # a commit with its row, or a line of the log
WRITTEN_FIXED, HELD_FIXED = 128 * 1024, 4 * 1024 * 1024
HELD_ON_THE_PATH = 40 * 1024 * 1024  # where messages are: buffers of four processes, most of them RocksDB's
HELD_A_CLIENT = 32 * 1024
LONG = "x" * 60_000
BYTES = 1_000_000  # of packets that are long, so few
PACKETS = 1_000  # of those that are short
CONNECTIONS = 50
REMOTE_CONNECTIONS = 3
LAST_ID = 65_000
SPOILS = {AUTH_METHOD, AUTH_DATA}  # a packet that has them is refused for them

# By their nodes: what asks for nothing shares one.
PUBLISHES = {PUBLISH: Place.PUBLISH}
OF_BOTH = {PUBACK: Place.PUBACK, PUBREC: Place.PUBREC, PUBREL: Place.PUBREL, PUBCOMP: Place.PUBCOMP}
LASTS = {DISCONNECT: Place.DISCONNECT, AUTH: Place.AUTH}
OF_CLIENTS = {
    "CONNECT": {CONNECT: Place.CONNECT},
    "Will": {CONNECT: Place.WILL},
    "PUBLISH": PUBLISHES,
    "subscriptions": {SUBSCRIBE: Place.SUBSCRIBE, UNSUBSCRIBE: Place.UNSUBSCRIBE},
    "answers": OF_BOTH | {PINGREQ: Place(0)},
    "lasts": LASTS,
}
OF_REMOTES = {
    "PUBLISH": PUBLISHES,
    "answers": OF_BOTH | {SUBACK: Place.SUBACK, UNSUBACK: Place.UNSUBACK, PINGRESP: Place(0)},
    "firsts and lasts": {CONNACK: Place.CONNACK} | LASTS,
}
FIRST_OR_LAST = {CONNECT, CONNACK, DISCONNECT, AUTH}  # of its connection


# --- packets ---


def longest(identifier: int) -> Value:
    """The value of a property that takes most room; 1 where that is the same for all."""
    for value in (0xFFFF_FFFE, 0xFFF_FFFF, 1, (LONG[:30_000], LONG[:30_000]), LONG, LONG.encode()):
        try:
            KINDS[identifier].form.encode(value)
        except (AssertionError, AttributeError, OverflowError, TypeError):
            continue
        return value
    raise AssertionError(f"no value for {KINDS[identifier].name}")


def said_in(place: Place) -> Iterator[Properties]:
    """Nothing, then each property that may stand there, at its longest."""
    yield []
    for identifier, kind in sorted(KINDS.items()):
        if kind.places & place:
            yield [*([(AUTH_METHOD, "m")] if identifier == AUTH_DATA else []), (identifier, longest(identifier))]


def packet(kind: int, number: int, said: Properties) -> bytes:
    """The ``number``-th of ``kind``, with an identifier that nobody waits for where it has one of the receiver's."""
    packet_id = number % 60_000 + 1
    identifier, properties, topic = struct.pack("!H", packet_id), encode_properties(said), f"in/{number % 500}"
    if kind == PUBLISH:
        return publish_bytes(5, topic, b"", 1, packet_id, properties=said, retain=number % 2 == 0)
    if kind == SUBSCRIBE:
        return subscribe_bytes(5, packet_id, [(topic, 1)], said)
    if kind == UNSUBSCRIBE:
        return packet_bytes(kind, 2, identifier + properties + string(topic))
    if kind in (PINGREQ, PINGRESP):
        return packet_bytes(kind)
    if kind in (SUBACK, UNSUBACK):
        return packet_bytes(kind, 0, identifier + properties + b"\x80")
    if kind == CONNACK:
        return packet_bytes(kind, 0, b"\0\0" + properties)
    if kind in (DISCONNECT, AUTH):
        return packet_bytes(kind, 0, (b"\x18" if kind == AUTH else b"\x80") + properties)
    return packet_bytes(kind, 2 * (kind == PUBREL), identifier + (b"\x92" if kind in (PUBREL, PUBCOMP) else b"\x80") + properties)


def name_of(kind: int, place: Place, said: Properties) -> str:
    """The name in a failure."""
    return " ".join([place.name or str(kind), *(KINDS[identifier].name for identifier, _ in said)])


# --- what it costs ---


def _figure(file: Path, name: str) -> int:
    """A figure of a process; 0 once it has ended, as the template does where actors share a process."""
    try:
        return int(file.read_text().split(name)[1].split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0


class Cost:
    """The bytes that the node writes and holds from here on, and for what; for all messages together, as RocksDB writes large
    files."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._packets = self._sent = self._clients = 0
        self._wrote, self._held = self._now()

    def _now(self) -> tuple[int, int]:
        self._node.status()  # every process has answered, so has had its turn
        places = [Path(f"/proc/{pid}") for pid in self._node.pids()]
        wrote = sum(_figure(place / "io", "wchar: ") for place in places)
        held = sum(_figure(place / "smaps_rollup", "Private_Dirty:") for place in places)
        return wrote, held * 1024

    def add(self, packets: int, sent: int, clients: int = 0) -> None:
        """They were sent. clients: those that stay."""
        self._packets, self._sent, self._clients = self._packets + packets, self._sent + sent, self._clients + clients

    def is_bounded(self, what: str) -> None:
        """Memory on its way counts until it is given back."""
        write_max = WRITTEN * self._sent + WRITTEN_A_PACKET * self._packets + WRITTEN_FIXED
        hold_max = HELD * self._sent + HELD_A_CLIENT * self._clients
        hold_max += HELD_ON_THE_PATH if what.startswith("PUBLISH") else HELD_FIXED

        def costs() -> tuple[int, int]:
            wrote, held = self._now()
            return wrote - self._wrote, held - self._held

        def words() -> str:
            counts = f"{self._packets} packets, {self._sent} bytes, {self._clients} clients"
            return f"{what}: {counts}: {costs()} written, held"

        wait_until(lambda: costs()[1] <= hold_max, PATIENCE_S, words)
        assert costs()[0] <= write_max, words()


def in_bursts(kind: int, said: Properties, send: Callable[[bytes], None]) -> tuple[int, int]:
    """Give ``send`` packets of ``kind`` that say ``said``, many at a time; how many, and their bytes."""
    count, sent = min(PACKETS, BYTES // len(encode_properties(said))), 0
    for start in range(0, count, 500):
        burst = b"".join(packet(kind, number, said) for number in range(start, min(start + 500, count)))
        send(burst)
        sent += len(burst)
    return count, sent


# --- clients ---


def connections(node: Node, kind: int, said: Properties, name: str, stack: ExitStack, *, will: bool) -> tuple[int, int, int]:
    """Connect many clients, whose sessions last; those that are let in stay in ``stack`` where ``kind`` is CONNECT."""
    count, sent, clients = min(CONNECTIONS, BYTES // len(encode_properties(said))), 0, 0
    in_connect = said if kind == CONNECT and not will else []
    if not any(known == SESSION_EXPIRY for known, _ in in_connect):
        in_connect = [*in_connect, (SESSION_EXPIRY, 3_600)]
    for number in range(count):
        client = MqttClient(node.port, version=5)
        client.dial()
        last = Will(topic="last", payload=b"", qos=1, properties=said) if will else None
        data = connect_bytes(5, f"{name}-{number}", clean=False, will=last, properties=in_connect)
        data += packet(kind, number, said) if kind != CONNECT else b""
        client.send(data)
        sent += len(data)
        code = client.read().reason_code
        if kind == CONNECT and code == 0:
            stack.callback(client.close)
            clients += 1
        else:
            client.rest()
            client.close()
    return count, sent, clients


def packets_of_one(node: Node, kind: int, said: Properties, name: str, stack: ExitStack) -> tuple[int, int, int]:
    """One client, whose session lasts, sends them, as often as it is closed in between."""
    client = stack.enter_context(MqttClient(node.port, name, version=5, clean=False, session_expiry_s=3_600))

    def send(burst: bytes) -> None:
        try:
            client.send(burst)
            client.drain()
        except (Closed, ConnectionError):
            client.connect()

    return *in_bursts(kind, said, send), 1


def attack(node: Node, kind: int, said: Properties, name: str, stack: ExitStack, *, will: bool = False) -> tuple[int, int, int]:
    """Packets of ``kind``; how many, their bytes, and how many clients stay."""
    if kind in FIRST_OR_LAST:
        return connections(node, kind, said, name, stack, will=will)
    return packets_of_one(node, kind, said, name, stack)


@pytest.mark.parametrize("group", OF_CLIENTS)
def test_bytes_of_clients(start_node: StartNode, group: str) -> None:
    """While a queue waits for a remote that is not there; what the first clients and messages of a life take is taken before."""
    node = start_node(node_config(bridge_config("cloud", free_port())))
    cost = Cost(node)
    with ExitStack() as stack:
        for warm in (PUBLISH, CONNECT, SUBSCRIBE):
            for said in ([], [(USER_PROPERTY, longest(USER_PROPERTY))]):
                cost.add(*attack(node, warm, said, f"warm-{warm}-{len(said)}", stack))
        for kind, place in OF_CLIENTS[group].items():
            for turn, said in enumerate(said_in(place)):
                cost = cost if kind == PUBLISH else Cost(node)
                cost.add(*attack(node, kind, said, f"c-{kind}-{turn}", stack, will=place is Place.WILL))
                cost.is_bounded(name_of(kind, place, said))


# --- remotes ---


class Remote:
    """A remote of the bridge ``peer``, which subscribes at it; the next connection is there when one has ended."""

    def __init__(self, remote: ScriptedRemote) -> None:
        self._remote = remote
        self._end: RemoteEnd | None = None

    def send(self, burst: bytes) -> None:
        """Send ``burst``; on return the bridge has read it, or has closed for it."""
        end = self._end or self._welcome()
        try:
            end.send(burst, publish_bytes(5, "in/last", b"", 1, LAST_ID))
            while (found := end.read()).kind != PUBACK or found.packet_id != LAST_ID:
                pass
        except (Closed, ConnectionError):
            end.close()
            self._end = None

    def send_first_or_last(self, kind: int, said: Properties) -> tuple[int, int]:
        """A connection for each packet; how many, and their bytes."""
        data = packet(kind, 0, said)
        for _ in range(REMOTE_CONNECTIONS):
            if self._end is not None:
                self._end.close()
                self._end = None
            if kind == CONNACK:
                self._end = self._remote.accept_silently()
            self.send(data)
        return REMOTE_CONNECTIONS, REMOTE_CONNECTIONS * len(data)

    def _welcome(self) -> RemoteEnd:
        end = self._end = self._remote.accept()
        end.answer_subscribe(1)
        return end


@pytest.mark.parametrize("group", OF_REMOTES)
def test_bytes_of_a_remote(start_node: StartNode, group: str) -> None:
    """Its messages wait for another remote, which is not there."""
    with ScriptedRemote() as scripted:
        bridge = bridge_config("peer", scripted.port, protocol="mqtt5", remote_subscriptions=[{"filters": ["in/#"]}])
        node = start_node(node_config(bridge, passing(free_port())))
        remote = Remote(scripted)
        cost = Cost(node)
        for warm in ([], [(USER_PROPERTY, longest(USER_PROPERTY))]):
            cost.add(*in_bursts(PUBLISH, warm, remote.send))
        for kind, place in OF_REMOTES[group].items():
            sayings = list(said_in(place))
            if kind in FIRST_OR_LAST:  # a connection for each would take long
                sayings = [[], [one for said in sayings for one in said if one[0] not in SPOILS]]
            for said in sayings:
                cost = cost if kind == PUBLISH else Cost(node)
                cost.add(*(remote.send_first_or_last(kind, said) if kind in FIRST_OR_LAST else in_bursts(kind, said, remote.send)))
                cost.is_bounded(name_of(kind, place, said))


def test_every_place_of_a_property_is_among_them() -> None:
    assert {place for groups in (OF_CLIENTS, OF_REMOTES) for group in groups.values() for place in group.values()} >= set(Place)
