"""Messages between the actors of one process: none of them is ever encoded, late or lost."""

from __future__ import annotations

from array import array
from dataclasses import field

from wire.durability import Durability
from wire.frames.batch import Batch
from wire.frames.frame import Frame
from wire.frozen_records import named_record
from wire.status.states import LinkState


@named_record
class PublishedMessages(Frame):
    """Listener -> Distributor: ``Publishes`` of local clients; again, as the same object, where a store may have lost it.

    sources: per row the Listener's number of the connection (u32 column). room, refused: as in ``Append``.
    durability: the strictest of the listeners by which it came; None: the store's own.
    """

    sender: str
    epoch: int
    number: int
    batch: Batch
    sources: bytes
    received: dict[str, bytes] = field(default_factory=dict)
    released: dict[str, bytes] = field(default_factory=dict)
    wills: tuple[tuple[str, int], ...] = ()
    room: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    durability: Durability | None = None


@named_record
class PublishedAhead(Frame):
    """Listener -> Distributor: messages of QoS 0 that local clients get now, though the batch that has them waits for another.

    They are delivered live, and nothing else is done with them. sources: as in ``Publishes``.
    """

    batch: Batch
    sources: bytes


@named_record
class Deliver(Frame):
    """Distributor -> Listener: live messages out of ``batch``.

    groups: (client connections u32 column, rows of the batch u16 column, empty for all).
    grants: for each group (granted QoS, whether RETAIN goes as published, subscription identifiers); empty: QoS 0, nothing else.
    """

    batch: Batch
    groups: tuple[tuple[bytes, bytes], ...]
    grants: tuple[tuple[int, bool, tuple[int, ...]], ...] = ()


@named_record
class SessionUp(Frame):
    """Listener -> Distributor: ``session`` is connected as ``source``, with these subscriptions and no others.

    queue: its Tier-1 queue, empty if the session ends with its connection. subscriptions: as in ``SessionOpened``. user, listener:
    as in ``SessionOpen``; who may read what follows from them. owner: in whose share it counts what it has retained. bridge: it is
    another broker's bridge of MQTT 3.1.1.
    """

    session: str
    source: int
    queue: str
    subscriptions: tuple[tuple[str, int, int], ...]
    user: str | None = None
    listener: str = ""
    owner: str = ""
    bridge: bool = False


@named_record
class SessionDown(Frame):
    """Listener -> Distributor: connection ``source`` of ``session`` has ended; ``ended``: so has the session.

    published: something of it may come yet, under its number.
    """

    session: str
    source: int
    ended: bool
    published: bool = True


# --- a lane's Forwarder and Connection ---------------------------------------------------------------------------------------


@named_record
class Passed(Frame):
    """Forwarder -> Connection: messages ``first_seq + offset``, as the remote is to see them; offsets None means 0, 1, 2, ...

    size_bytes: how much of the Connection's credit they take.
    """

    first_seq: int
    offsets: array[int] | None
    size_bytes: int
    batch: Batch


@named_record
class LinkStateChanged(Frame):
    """Connection -> Forwarder: ``state`` of the remote connection."""

    state: LinkState
