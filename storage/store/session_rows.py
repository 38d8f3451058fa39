"""The sessions of the node: what of each outlives its connection, in one row of its own.

A session is a local client's, under its client identifier, or one that a lane has at a remote, under a name that begins with a NUL
(``wire/frames/names.py``). Received QoS 2 identifiers are committed with their messages and removed before PUBCOMP [MQTT-4.3.3-2];
subscriptions before SUBACK; the Will before CONNACK. All sessions are in memory; how many there may be is limited. Queues, retained
messages and frames are the business of ``storage/store/local_sessions.py``.

store.identifier-with-its-message [P1, P2]: a received QoS 2 identifier is in the commit of its message.
store.identifier-gone-before-pubcomp [P2, MQTT]: PUBCOMP leaves after the commit that removes the identifier [MQTT-4.3.3-2].
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import session_key
from storage.queue.ledger import unpack_row
from wire.clock_steps import elapsed_ms
from wire.errors import StorageDamaged
from wire.frames.batch import pack_column, unpack_column
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S

ROW_VERSION = 1

Opening = tuple[str, int, int]  # sender, its epoch, its request

Will = tuple[bytes, int, bytes, bytes, int]  # topic, flags, payload, properties, delay in seconds


@dataclass(slots=True)
class Session:
    """One session.

    expiry_s: how long it outlives its connection; 0: it ends with it. connected: epoch of the Listener's life and number of the
    connection; None while there is none, since ``since_ms`` (UTC epoch). queue: its Tier-1 queue, empty for none. opening: the last
    one, and whether it found the session: asked for again, because a store died with the answer, it gets the same answer. user: who
    alone may open it; None: anybody, and the first user that does is the one. refused_wills: those for which there was no room,
    under epoch and number of their batch; they outlive the session. listener: where the listener listens by which its client came
    last, empty where that is not known. owner: in whose share of all sessions it counts.
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
    refused_wills: dict[tuple[int, int], Will] = field(default_factory=dict)
    listener: str = ""
    owner: str = ""
    request: tuple[int, int] = (0, 0)  # the newest SUBSCRIBE that is on record: epoch of the Listener's life, its number

    @property
    def lasting(self) -> bool:
        """Whether there is anything that outlives the connection."""
        return bool(self.expiry_s or self.queue or self.will is not None or self.refused_wills)

    @property
    def will_due_ms(self) -> int:
        """When the Will of a client that is gone is to be published: after its delay, at the latest when the session ends."""
        assert self.will is not None
        return self.since_ms + min(self.will[4], self.expiry_s) * 1000

    def ended(self, wall_ms: int) -> bool:
        """Whether nobody is connected and its time is up; one with a Will waits until that is out [MQTT-3.1.2-8]."""
        if self.connected is not None or self.will is not None:
            return False
        return self.expiry_s != SESSION_NEVER_EXPIRES_S and elapsed_ms(self.since_ms, wall_ms) >= self.expiry_s * 1000

    def encode(self) -> bytes:
        """The row's value."""
        packed: bytes = msgpack.packb(
            (
                ROW_VERSION,
                self.expiry_s,
                self.connected,
                self.since_ms,
                self.queue,
                [(topic_filter, *options) for topic_filter, options in self.subscriptions.items()],
                self.will,
                self.received_column(),
                self.request,
                self.opening,
                self.found,
                self.user,
                [(*batch, will) for batch, will in self.refused_wills.items()],
                self.listener,
                self.owner,
            )
        )
        return packed

    def received_column(self) -> bytes:
        """The received QoS 2 identifiers, as a u16 column."""
        return pack_column(array("H", sorted(self.received)))

    @classmethod
    def decode(cls, name: str, value: bytes) -> Session:
        """The session that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row.
            ConfigError: a newer build wrote it.
        """
        fields = unpack_row(value, ROW_VERSION, what="session", name=name)
        try:
            (
                expiry_s,
                connected,
                since_ms,
                queue,
                subscriptions,
                will,
                received,
                request,
                opening,
                found,
                user,
                refused,
                listener,
                owner,
            ) = fields
            return cls(
                name=name,
                expiry_s=expiry_s,
                connected=connected,
                since_ms=since_ms,
                queue=queue,
                subscriptions={topic_filter: (options, identifier) for topic_filter, options, identifier in subscriptions},
                will=will,
                received=set(unpack_column("H", received)),
                request=request,
                opening=opening,
                found=found,
                user=user,
                refused_wills={(epoch, number): will for epoch, number, will in refused},
                listener=listener,
                owner=owner,
            )
        except (TypeError, ValueError) as error:
            raise StorageDamaged("the row of a session is damaged", session=name) from error


def is_remote(name: str) -> bool:
    """Whether it is a session that a lane has at a remote; no client identifier has a NUL [MQTT-1.5.4-2]."""
    return name.startswith("\0")


class Sessions:
    """Changes memory at once and disk with the next ``write_rows``; whoever answers waits for that commit."""

    def __init__(self, engine: Engine) -> None:
        """Read every session.

        Raises:
            StorageDamaged, ConfigError, Unavailable: a row cannot be read.
        """
        self._sessions: dict[str, Session] = {}
        for key, value in engine.scan("meta", session_key(""), b"T"):
            name = key[1:].decode()
            self._sessions[name] = Session.decode(name, value)
        self._changed: set[str] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def get(self, name: str) -> Session | None:
        """The session of that name, if anything is known of it."""
        return self._sessions.get(name)

    def keep(self, session: Session) -> None:
        """The session is new, or something of it has changed: its row goes with the next write."""
        self._sessions[session.name] = session
        self._changed.add(session.name)

    def forget(self, name: str) -> None:
        """The session has ended."""
        if self._sessions.pop(name, None) is not None:
            self._changed.add(name)

    @property
    def changed(self) -> bool:
        """Whether something waits for ``write_rows``."""
        return bool(self._changed)

    def receive(self, name: str, packet_ids: Iterable[int]) -> None:
        """Add identifiers, whose messages go into the same write; those of a session that has ended are of no use."""
        session = self._sessions.get(name)
        if session is not None:
            session.received.update(packet_ids)
            self.keep(session)

    def release(self, name: str, packet_ids: Iterable[int]) -> None:
        """Remove identifiers, whose PUBREL came; unknown ones are ignored."""
        session = self._sessions.get(name)
        if session is not None:
            session.received.difference_update(packet_ids)
            self._changed.add(name)

    def write_rows(self, write: Write) -> None:
        """Put what changed into ``write``; what does not outlive its connection has no row."""
        for name in self._changed:
            session = self._sessions.get(name)
            if session is not None and not session.lasting:
                del self._sessions[name]
                session = None
            if session is None:
                write.delete("meta", session_key(name))
            else:
                write.put("meta", session_key(name), session.encode())
        self._changed.clear()
