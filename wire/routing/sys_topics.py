"""The ``$SYS`` topics of the local broker: their names, their values, and who of the clients gets which. Pure.

Names are those that users know from Mosquitto, where there is the same figure; what only this node has is below ``$SYS/bascule``.
Counters begin with the life of the Listener, the uptime with that of the node. The supervisor tells what other processes know, by
``NodeFigures``; ``actors/broker/client_sys_topics.py`` sends.

routing.sys-stays-here [access, MQTT]: no client publishes below ``$SYS/``, where the node's values are, and these never cross a
    bridge. Below ``$SYS/broker/connection/``, where the node has none, bridges of other brokers say how they are: these are
    messages. Only a filter whose first level is ``$SYS`` matches the node's own topics [MQTT-4.7.2-1].
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from math import exp
from typing import NamedTuple

from wire.access.access_rules import ClientAccess
from wire.frames.batch import RETAIN, Batch
from wire.frames.names import LaneLabel
from wire.mqtt.topics import matches, parse_shared
from wire.status.bridges import QueueFigures
from wire.status.client_figures import DistributorFigures, TrafficFigures
from wire.status.store import SessionFigures

RESERVED = "$SYS/"

_BROKER = "$SYS/broker/"
_OURS = "$SYS/bascule/"
_MINUTES = (1, 5, 15)
_RETAIN_AS_PUBLISHED = 0x08

Filters = Mapping[str, tuple[int, int]]  # topic filter -> options as in ``SessionOpened``, subscription identifier
Wanting = tuple[int, Filters, ClientAccess | None]  # a connection, its filters, what it may read; None: everything
Share = tuple[list[int], bool, tuple[int, ...]]  # rows, whether they keep RETAIN, subscription identifiers


def is_reserved(topic: bytes) -> bool:
    """Whether ``topic`` is the node's own: no client publishes to it (routing.sys-stays-here)."""
    return topic.startswith(b"$SYS/") and not topic.startswith(b"$SYS/broker/connection/")


def asks_for_sys(topic_filter: str) -> bool:
    """Whether ``topic_filter``, plain or shared, can match a ``$SYS`` topic (routing.sys-stays-here)."""
    shared = parse_shared(topic_filter)
    return (topic_filter if shared is None else shared.topic_filter).startswith(RESERVED)


_LOADS = tuple(field.name.replace("_", "/") for field in fields(TrafficFigures))


class LoadAverages:
    """Exponentially weighted averages over 1, 5 and 15 minutes of what each counter of ``TrafficFigures`` grows in a minute."""

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._last: tuple[int, ...] = astuple(TrafficFigures())
        self._loads = [[0.0] * len(_MINUTES) for _ in _LOADS]

    def update(self, traffic: TrafficFigures, now_s: float) -> None:
        """Take in what was counted since the last time."""
        passed_s = now_s - self._at_s
        if passed_s <= 0:
            return
        counts = astuple(traffic)
        fades = [exp(-passed_s / (60 * minutes)) for minutes in _MINUTES]
        for loads, count, last in zip(self._loads, counts, self._last, strict=True):
            per_minute = (count - last) * 60 / passed_s
            loads[:] = [per_minute + fade * (load - per_minute) for load, fade in zip(loads, fades, strict=True)]
        self._at_s, self._last = now_s, counts

    def values(self) -> dict[str, str]:
        """Topic -> payload."""
        return {
            f"{_BROKER}load/{name}/{minutes}min": f"{load:.2f}"
            for name, loads in zip(_LOADS, self._loads, strict=True)
            for minutes, load in zip(_MINUTES, loads, strict=True)
        }


class SysLane(NamedTuple):
    """A lane, whether its link stands, and what the store reports of its queue."""

    bridge: str
    label: LaneLabel
    is_connected: bool
    queue: QueueFigures


def node_values(
    distributor: DistributorFigures | None, sessions: SessionFigures | None, lanes: Sequence[SysLane]
) -> dict[str, int]:
    """Topic -> figure, for those that other processes than the Listener know.

    A figure that nobody has reported yet is left out.
    """
    values: dict[str, int] = {}
    if distributor is not None:
        values[_BROKER + "subscriptions/count"] = distributor.subscriptions
    if sessions is not None:
        retained = sessions.retained
        stored = sessions.depth + retained.messages + sum(lane.queue.depth or 0 for lane in lanes)
        values |= {
            _BROKER + "clients/disconnected": sessions.kept - sessions.connected,
            _BROKER + "clients/expired": sessions.expired,
            _BROKER + "retained messages/count": retained.messages,
            _BROKER + "messages/stored": stored,
            _BROKER + "store/messages/count": stored,
            _BROKER + "store/messages/bytes": sessions.bytes + retained.bytes + sum(lane.queue.bytes or 0 for lane in lanes),
            _OURS + "sessions/kept": sessions.kept,
            _OURS + "sessions/depth": sessions.depth,
        }
    for bridge, label, is_connected, queue in lanes:
        of_lane = f"{_OURS}bridge/{bridge}/{label}/"
        values[of_lane + "connected"] = int(is_connected)
        if queue.depth is not None and queue.refused is not None:
            values |= {of_lane + "depth": queue.depth, of_lane + "refused": queue.refused}
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class SysFigures:
    """The Listener's figures. refused: limit -> how often it refused something."""

    connected: int
    most_connected: int
    outstanding_batches: int
    refused_messages: int
    reserved_publishes: int
    refused: Mapping[str, int]


def listener_values(traffic: TrafficFigures, figures: SysFigures) -> dict[str, int]:
    """Topic -> figure, for those that the Listener knows."""
    values = {
        _BROKER + "clients/connected": figures.connected,
        _BROKER + "clients/active": figures.connected,
        _BROKER + "clients/maximum": figures.most_connected,
        _BROKER + "messages/received": traffic.messages_received,
        _BROKER + "messages/sent": traffic.messages_sent,
        _BROKER + "publish/messages/received": traffic.publish_received,
        _BROKER + "publish/messages/sent": traffic.publish_sent,
        _BROKER + "bytes/received": traffic.bytes_received,
        _BROKER + "bytes/sent": traffic.bytes_sent,
        _OURS + "batches/outstanding": figures.outstanding_batches,
        _OURS + "refused/messages": figures.refused_messages,
        _OURS + "refused/reserved_topic": figures.reserved_publishes,
    }
    return values | {f"{_OURS}refused/{limit}": count for limit, count in figures.refused.items()}


def sys_batch(
    version: str, uptime_s: int, node: Mapping[str, int], listener: Mapping[str, int], loads: Mapping[str, str], wall_ms: int
) -> Batch:
    """All values as messages of QoS 0 with RETAIN, one a topic."""
    values: dict[str, object] = {
        _BROKER + "version": f"bascule version {version}",
        _BROKER + "uptime": f"{uptime_s} seconds",
        **node,
        **listener,
        **loads,
    }
    disconnected = node.get(_BROKER + "clients/disconnected")
    if disconnected is not None:
        values[_BROKER + "clients/inactive"] = disconnected
        values[_BROKER + "clients/total"] = listener[_BROKER + "clients/connected"] + disconnected
    payloads = [str(value).encode() for value in values.values()]
    return Batch(
        accepted_ms=wall_ms,
        topics=[topic.encode() for topic in values],
        topic_of=array("H", range(len(values))),
        flags=bytes([RETAIN]) * len(values),
        lengths=array("I", map(len, payloads)),
        payloads=b"".join(payloads),
        properties={},
    )


def rows_for(topic_filter: str, topics: Sequence[bytes]) -> list[int]:
    """Which of the ``topics`` the plain ``topic_filter`` matches."""
    if topic_filter == RESERVED + "#":
        return list(range(len(topics)))
    return [row for row, topic in enumerate(topics) if matches(topic_filter, topic.decode())]


def shares(filters: Filters, topics: Sequence[bytes]) -> list[Share]:
    """The messages for a client with these plain ``filters``: each topic once, whatever the number of filters that match it.

    RETAIN is kept if one of them wants it as published; the identifiers are those of all [MQTT-3.3.4-4].
    """
    keeps: dict[int, bool] = {}
    identifiers: dict[int, set[int]] = {}
    for topic_filter, (options, identifier) in filters.items():
        for row in rows_for(topic_filter, topics):
            keeps[row] = keeps.get(row, False) or bool(options & _RETAIN_AS_PUBLISHED)
            identifiers.setdefault(row, set()).update((identifier,) if identifier else ())
    found: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
    for row in sorted(keeps):
        found.setdefault((keeps[row], tuple(sorted(identifiers[row]))), []).append(row)
    return [(rows, keep, of) for (keep, of), rows in found.items()]


class _Member(NamedTuple):
    """A connection in a shared subscription. granted: options and subscription identifier."""

    number: int
    granted: tuple[int, int]
    rights: ClientAccess | None


class SysTopicReaders:
    """Subscribers of ``$SYS`` topics, grouped so that those who get the same are served together."""

    def __init__(self) -> None:
        self._turn = 0

    def groups(self, subscribers: Iterable[Wanting], topics: Sequence[bytes]) -> list[tuple[list[int], Share]]:
        """(connections, what each of them gets), for connections with filters that ask for ``$SYS``.

        A shared subscription gives the values of one period to one of its members, and those of the next to the next (4.8.2): to
        members that may read them, as ``wire/routing/shared_subscription.py`` deals (routing.one-member-per-share). Topics that a
        connection may not read are left out at delivery.
        """
        self._turn += 1
        alike: dict[tuple[tuple[str, tuple[int, int]], ...], list[int]] = {}
        members: dict[str, list[_Member]] = {}
        for number, filters, rights in subscribers:
            plain = []
            for topic_filter, granted in filters.items():
                if parse_shared(topic_filter) is None:
                    plain.append((topic_filter, granted))
                else:
                    members.setdefault(topic_filter, []).append(_Member(number, granted, rights))
            alike.setdefault(tuple(sorted(plain)), []).append(number)
        groups = [(numbers, share) for plain_filters, numbers in alike.items() for share in shares(dict(plain_filters), topics)]
        for topic_filter, of_filter in members.items():
            shared = parse_shared(topic_filter)
            assert shared is not None
            for readers, rows in _by_readers(of_filter, rows_for(shared.topic_filter, topics), topics):
                number, (options, identifier), _ = readers[self._turn % len(readers)]
                groups.append(([number], (rows, bool(options & _RETAIN_AS_PUBLISHED), (identifier,) if identifier else ())))
        return groups


def _by_readers(
    members: Sequence[_Member], rows: Sequence[int], topics: Sequence[bytes]
) -> Iterator[tuple[Sequence[_Member], list[int]]]:
    """``rows`` by the members that may read them; all members where nobody may."""
    of_rights = {one.rights for one in members}
    found: dict[frozenset[ClientAccess | None], list[int]] = {}
    for row in rows:
        readers = frozenset(one for one in of_rights if len(of_rights) == 1 or one is None or one.may_receive(topics[row]))
        found.setdefault(readers or frozenset(of_rights), []).append(row)
    for readers, theirs in found.items():
        yield [one for one in members if one.rights in readers], theirs


def packets_in(data: bytes, begin: int, end: int) -> int:
    """How many packets stand in ``data[begin:end]``, whole ones of at most 127 bytes behind the fixed header, as PUBACKs are."""
    if 4 * data[begin + 1 : end : 4].count(2) == end - begin:
        return (end - begin) // 4
    count = 0
    while begin < end:
        begin += 2 + data[begin + 1] if data[begin + 1] < 0x80 else 3 + (data[begin + 1] & 0x7F | data[begin + 2] << 7)
        count += 1
    return count
