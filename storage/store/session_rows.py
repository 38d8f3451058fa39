"""The sessions of the node: what of each outlives its connection, each thing in a row of its own.

A session is a local client's, under its client identifier, or one that a lane has at a remote, under a name that begins with a NUL
(``wire/frames/names.py``). Its row says whose it is and how long it lasts; beside it are a row for each subscription, for its Will,
and for the received QoS 2 identifiers. Those are committed with their messages and removed before
PUBCOMP [MQTT-4.3.3-2]; subscriptions before SUBACK; the Will before CONNACK. All sessions are in memory; how many there may be is
limited. Queues, retained messages and frames are the business of ``storage/store/local_sessions.py``.

store.identifier-with-its-message [P1, P2, MQTT]: a received QoS 2 identifier is in the commit of its message, and removed by the
    commit before PUBCOMP [MQTT-4.3.3-2].
store.will-kept-until-published [P3, MQTT]: a Will stays on record until a batch with it is committed, or the client took it back
    [MQTT-3.1.2-8, MQTT-3.14.4-3]. It was taken with its client, so it comes into a queue that is full.
store.session-written-as-it-changes [P5]: what changes of a session is written, and nothing else of it: a packet costs the disk in
    proportion to its bytes, whatever its session has, and one that changes nothing costs nothing.
store.row-of-known-session-only [P2]: a row of a session at a remote is there only for one that its lane knows. Late messages of a
    session that the remote has lost are dropped.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import DIGEST_BYTES, PARTS, PARTS_END, digest, part_key, session_key
from storage.queue.ledger import unpack_row
from storage.queue.queue import Queue
from wire.clock_steps import elapsed_ms
from wire.errors import StorageDamaged
from wire.frames.batch import pack_column, unpack_column
from wire.frames.names import (
    connection_name,
    connection_of_session,
    lane_of_actor,
    lane_of_queue,
    queue_name,
    remote_session_name,
)
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S

log = logging.getLogger("bascule")

ROW_VERSION = 1
RECEIVED, _WILL, _FILTER = b"r", b"w", b"s"  # rows beside a session's own: the identifiers, its Will, a subscription

Opening = tuple[str, int, int]  # sender, its epoch, its request

Will = tuple[bytes, int, bytes, bytes, int]  # topic, flags, payload, properties, delay in seconds


@dataclass(slots=True)
class Session:
    """One session.

    expiry_s: how long it outlives its connection; 0: it ends with it. connected: epoch of the Listener's life and number of the
    connection; None while there is none, since ``since_ms`` (UTC epoch). queue: its Tier-1 queue, empty for none. opening: the last
    one, and whether it found the session: asked for again, because a store died with the answer, it gets the same answer. user: who
    alone may open it; None: anybody, and the first user that does is the one. will: what is to be published once its client is
    gone. listener: where the listener listens by which its client came last, empty
    where that is not known. owner: in whose share of all sessions it counts.
    """

    name: str
    expiry_s: int = 0
    connected: tuple[int, int] | None = None
    since_ms: int = 0
    queue: str = ""
    subscriptions: dict[str, tuple[int, int]] = field(default_factory=dict)
    will: Will | None = None
    received: set[int] = field(default_factory=set)
    opening: Opening | None = None
    found: bool = False
    user: str | None = None
    listener: str = ""
    owner: str = ""
    request: tuple[int, int] = (0, 0)  # the newest SUBSCRIBE that is on record: epoch of the Listener's life, its number

    def begin(self, opening: Opening, *, found: bool, expiry_s: int, user: str | None, listener: str) -> None:
        """It begins or goes on by ``opening``; user: see above, None changes nothing."""
        self.opening, self.found, self.expiry_s, self.listener = opening, found, expiry_s, listener
        if user is not None:
            self.user = user

    def connect(self, connection: tuple[int, int]) -> None:
        """Its client is connected."""
        self.connected = connection

    def leave(self, wall_ms: int) -> None:
        """Its client is there no more."""
        self.connected, self.since_ms = None, wall_ms

    def limit(self, expiry_s: int) -> None:
        """It outlives its connection no longer than that."""
        self.expiry_s = min(self.expiry_s, expiry_s)

    def expire_after(self, expiry_s: int) -> None:
        """It outlives its connection for so long."""
        self.expiry_s = expiry_s

    def take_queue(self, queue: str, owner: str) -> None:
        """It has a queue, and counts in the share of ``owner``."""
        self.queue, self.owner = queue, owner

    def lose_queue(self) -> None:
        """Its queue goes."""
        self.queue = ""

    def subscribe(self, request: tuple[int, int]) -> bool:
        """A SUBSCRIBE came; whether it is newer than those that are on record."""
        newer = self.request < request
        self.request = max(self.request, request)
        return newer

    @property
    def lasting(self) -> bool:
        """Whether there is anything that outlives the connection."""
        return bool(self.expiry_s or self.queue or self.will is not None)

    @property
    def will_due_ms(self) -> int:
        """The time at which the Will of a client that is gone is published: after its delay, at the latest when the session
        ends."""
        assert self.will is not None
        return self.since_ms + min(self.will[4], self.expiry_s) * 1000

    def ended(self, wall_ms: int) -> bool:
        """Whether nobody is connected and its time is up; one with a Will waits until that is out [MQTT-3.1.2-8]."""
        if self.connected is not None or self.will is not None:
            return False
        return self.expiry_s != SESSION_NEVER_EXPIRES_S and elapsed_ms(self.since_ms, wall_ms) >= self.expiry_s * 1000

    def encode(self) -> bytes:
        """The value of its row, without what has a row of its own; its name, which may be long, is in the key alone."""
        queue = self.queue.removesuffix(self.name)
        fields = self.expiry_s, self.connected, self.since_ms, queue, self.opening, self.found
        return _packed(*fields, self.user, self.listener, self.owner)

    def received_column(self) -> bytes:
        """The received QoS 2 identifiers, as a u16 column."""
        return pack_column(array("H", sorted(self.received)))

    @classmethod
    def decode(cls, name: str, value: bytes) -> Session:
        """The session that ``encode`` made; what has rows of its own is still to be taken.

        Raises:
            StorageDamaged: it is not a row.
            ConfigError: a newer build wrote it.
        """
        fields = unpack_row(value, ROW_VERSION, what="session", name=name)
        try:
            expiry_s, connected, since_ms, queue, opening, found, user, listener, owner = fields
        except ValueError as error:
            raise StorageDamaged("the row of a session is damaged", session=name) from error
        queue += name if queue else ""
        more = {"opening": opening, "found": found, "user": user, "listener": listener, "owner": owner}
        return cls(name, expiry_s, connected, since_ms, queue, **more)

    def take(self, part: bytes, value: bytes) -> None:
        """Take up the row ``part`` that it has beside its own.

        Raises:
            StorageDamaged: it is not such a row.
            ConfigError: a newer build wrote it.
        """
        fields = unpack_row(value, ROW_VERSION, what="session", name=self.name)
        try:
            if part == RECEIVED:
                (column,) = fields
                self.received.update(unpack_column("H", column))
            elif part == _WILL:
                topic, flags, payload, properties, delay_s = fields
                self.will = (topic, flags, payload, properties, delay_s)
            else:
                topic_filter, options, identifier, epoch, number = fields
                self.subscriptions[topic_filter] = (options, identifier)
                self.request = max(self.request, (epoch, number))
        except (TypeError, ValueError) as error:
            raise StorageDamaged("a row of a session is damaged", session=self.name) from error


def is_remote(name: str) -> bool:
    """Whether it is a session that a lane has at a remote; no client identifier has a NUL [MQTT-1.5.4-2]."""
    return name.startswith("\0")


def take_parts(
    sessions: Iterable[Session], rows: Iterable[tuple[bytes, bytes]], damaged: Callable[[bytes, str, StorageDamaged], None]
) -> None:
    """Give ``sessions`` what ``rows``, those of ``PARTS``, have of them.

    damaged: is told the key of one that cannot be read, or that belongs to no session, and of which session it is.

    Raises:
        ConfigError: a newer build wrote one.
    """
    by_digest = {digest(session.name): session for session in sessions}
    for key, value in rows:
        session = by_digest.get(key[1 : 1 + DIGEST_BYTES])
        try:
            if session is None:
                raise StorageDamaged("a row is of no session")
            session.take(key[1 + DIGEST_BYTES :], value)
        except StorageDamaged as error:
            damaged(key, "" if session is None else session.name, error)


class Sessions:
    """Changes memory at once and disk with the next ``write_rows``; whoever answers waits for that commit.

    damaged: rows beside a session's own that could not be read; they are left out, named, and removed with the next commit.
    """

    def __init__(self, engine: Engine) -> None:
        """Read every session.

        Raises:
            StorageDamaged, ConfigError, Unavailable: a session's own row cannot be read.
        """
        self._sessions: dict[str, Session] = {}
        for key, value in engine.scan("meta", session_key(""), b"T"):
            name = key[1:].decode()
            self._sessions[name] = Session.decode(name, value)
        self._hear_of_remotes: list[Callable[[str], None]] = []
        self._changed: set[str] = set()
        self._received: set[str] = set()  # those whose identifiers have changed
        self._parts: dict[bytes, bytes | None] = {}  # other rows that have changed; None: it is gone
        self.damaged = 0
        take_parts(self._sessions.values(), engine.scan("meta", PARTS, PARTS_END), self._leave_out)

    def _leave_out(self, key: bytes, name: str, error: StorageDamaged) -> None:
        self.damaged += 1
        self._parts[key] = None
        log.error("session.row_damaged", extra={"client_id": name, "error": str(error)})

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def get(self, name: str) -> Session | None:
        """The session of that name, if anything is known of it."""
        return self._sessions.get(name)

    def keep(self, session: Session) -> None:
        """The session is new, or something of its own row has changed: that goes with the next write."""
        self._sessions[session.name] = session
        self._changed.add(session.name)

    def forget(self, name: str) -> None:
        """The session has ended, and all of it."""
        session = self._sessions.pop(name, None)
        if session is None:
            return
        self._changed.add(name)
        self.empty(session)
        self.put_will(session, None)

    def empty(self, session: Session) -> None:
        """Nothing is subscribed to in it any more, and no identifier is received."""
        self.unsubscribe(session, tuple(session.subscriptions))
        if session.received:
            session.received.clear()
            self._received.add(session.name)

    def subscribe(self, session: Session, topic_filter: str, options: int, identifier: int) -> None:
        """Add a subscription, or change it, by the newest ``request`` of the session."""
        session.subscriptions[topic_filter] = (options, identifier)
        self._put(session, filter_part(topic_filter), _packed(topic_filter, options, identifier, *session.request))

    def unsubscribe(self, session: Session, filters: Iterable[str]) -> None:
        """Remove subscriptions; unknown ones are ignored."""
        for topic_filter in filters:
            if session.subscriptions.pop(topic_filter, None) is not None:
                self._put(session, filter_part(topic_filter), None)

    def put_will(self, session: Session, will: Will | None) -> None:
        """``will``, or none, is what the session has on record."""
        if session.will != will:
            session.will = will
            self._put(session, _WILL, None if will is None else _packed(*will))
            self._changed.add(session.name)  # without one, the session may last no longer

    def receive(self, name: str, packet_ids: Iterable[int]) -> None:
        """Add identifiers, whose messages go into the same write; those of a session that has ended are of no use."""
        session = self._sessions.get(name)
        if session is not None:
            session.received.update(packet_ids)
            self._received.add(name)

    def release(self, name: str, packet_ids: Iterable[int]) -> None:
        """Remove identifiers, whose PUBREL came; unknown ones are ignored."""
        session = self._sessions.get(name)
        if session is not None:
            session.received.difference_update(packet_ids)
            self._received.add(name)

    def has_received(self, queue: Queue) -> bool:
        """Whether there is anything on record of what came from the remote to the lane of ``queue``, at any address."""
        rows = map(self._sessions.get, sessions_of(queue))
        return any(row is not None and (row.subscriptions or row.received) for row in rows)

    def filters_of(self, queue: Queue) -> int:
        """How many filters the lane of ``queue`` may be subscribed to in the session that it uses."""
        place, sent = lane_of_queue(queue.name), queue.sent
        if place is None or not sent.session:
            return 0
        row = self._sessions.get(remote_session_name(connection_name(*place), sent.session, sent.generation))
        return 0 if row is None else len(row.subscriptions)

    def forget_unknown(self, queue: Queue) -> None:
        """The sessions of the lane of ``queue`` are others now: forget the rows of the rest (store.row-of-known-session-only)."""
        kept = sessions_of(queue)
        for name in tuple(self._sessions):
            if is_remote(name) and name not in kept and queue_of_session(name) == queue.name:
                self.forget(name)
        for hears in self._hear_of_remotes:
            hears(queue.name)

    def hear_of_remotes(self, hears: Callable[[str], None]) -> None:
        """From now on ``hears`` is told of each queue of a lane whose remote has begun another session, as that goes on record."""
        self._hear_of_remotes.append(hears)

    def _put(self, session: Session, part: bytes, value: bytes | None) -> None:
        self._parts[part_key(session.name, part)] = value

    def write_rows(self, write: Write, *_moment: object) -> None:
        """Put what changed into ``write``; what does not outlive its connection has no row."""
        if not (self._changed or self._received or self._parts):
            return
        for name in sorted(self._changed):
            session = self._sessions.get(name)
            if session is not None and session.lasting:
                write.put("meta", session_key(name), session.encode())
            else:
                self.forget(name)
                write.delete("meta", session_key(name))
        for name in sorted(self._received):
            session = self._sessions.get(name)
            received = session.received_column() if session is not None else b""
            self._parts[part_key(name, RECEIVED)] = _packed(received) if received else None
        for key, value in self._parts.items():
            if value is None:
                write.delete("meta", key)
            else:
                write.put("meta", key, value)
        self._changed.clear()
        self._received.clear()
        self._parts.clear()


def filter_part(topic_filter: str) -> bytes:
    """Which of a session's rows the subscription is."""
    return _FILTER + digest(topic_filter)


def _packed(*fields: object) -> bytes:
    packed: bytes = msgpack.packb((ROW_VERSION, *fields))
    return packed


def sessions_of(queue: Queue) -> set[str]:
    """The names of the sessions at remotes that the lane of ``queue`` knows: the one it uses, and those that it left.

    There is one for each of its addresses at most (``wire/exchange/former_sessions.py``), named by client identifier, address and
    number.
    """
    place = lane_of_queue(queue.name)
    if place is None:
        return set()
    known = [(left.session, left.generation) for left in queue.sent.left]
    if queue.sent.session:
        known.append((queue.sent.session, queue.sent.generation))
    return {remote_session_name(connection_name(*place), *each) for each in known}


def queue_of_session(name: str) -> str:
    """The queue of the lane that has the session ``name`` at a remote; empty for a name that no lane gives."""
    place = lane_of_actor(connection_of_session(name))
    return "" if place is None else queue_name(*place)
