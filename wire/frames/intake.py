"""Frames of the intake: a sender (the Listener, or a Connection with remote subscriptions) to the store and back."""

from __future__ import annotations

from dataclasses import field

from wire.frames.frame import Frame, frame_kind

NO_ROW = -1  # of a Will that is not published
OPEN, NEAR, FULL = 0, 1, 2  # how full a queue is, as ``Room`` says


@frame_kind(1)
class Publishes(Frame):
    """Connection -> Distributor: what its remote has published since the last batch; ``bodies`` is one batch.

    received: QoS 2 identifiers to commit with their messages, session -> u16 column. released: those whose PUBREL came, likewise.
    listener: epoch of the Listener that the Connection knew when it first sent the batch; 0: none.
    """

    sender: str
    epoch: int
    number: int
    received: dict[str, bytes]
    released: dict[str, bytes]
    listener: int = 0
    bodies: tuple[bytes, ...]


@frame_kind(2)
class Append(Frame):
    """Distributor -> QueueStore: a routed ``Publishes``.

    parts: one for each of ``bodies``: (queue, rows in it, their bytes, how many are QoS 0, the row numbers in the original batch
    as a u16 column, empty for all rows). Commit them all, with ``received``, ``released`` and ``wills``, in one write. The part for
    ``names.RETAINED`` is no queue: its rows replace, or with an empty payload remove, what is retained under their topics; its
    body says whose they are (``wire/routing/retained_topics.py``).
    rows: how many the batch has. wills: Wills that are in it: (session, row; ``NO_ROW`` for one that is not published). Their
    records lose them in the same commit. lanes: the bridges with several, and how many, as the batch was routed. room: number of
    the last ``Room`` that was heeded when the batch was sent: nothing that comes later was taken by an earlier one. refused:
    queue -> messages that were not taken, since the batch before, because it was full. raised: queue -> rows of its part that a
    rule has raised, and how many of those came at QoS 0. thinned: queues whose part has rows of a rule that leaves some out.
    rules: the checksum of the bridges' rules by which the batch was routed, 0 where none leaves anything out. durability: the
    strictest of what it concerned when it was routed, as ``wire/durability.py`` has it.
    """

    sender: str
    epoch: int
    number: int
    rows: int
    received: dict[str, bytes]
    released: dict[str, bytes]
    wills: tuple[tuple[str, int], ...] = ()
    lanes: tuple[tuple[str, int], ...] = ()
    room: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    raised: dict[str, tuple[int, int]] = field(default_factory=dict)
    thinned: tuple[str, ...] = ()
    rules: int = 0
    durability: tuple[bool, float, bool]
    parts: tuple[tuple[str, int, int, int, bytes], ...]
    bodies: tuple[bytes, ...]


@frame_kind(3)
class Committed(Frame):
    """QueueStore -> sender: everything up to ``number`` is committed with the configured strength.

    store: the epoch of the QueueStore; what one that is gone had committed, the next one may not have (``in-memory``).
    """

    sender: str
    epoch: int
    store: int
    number: int


@frame_kind(4)
class RoomWanted(Frame):
    """Listener -> QueueStore: somebody waits who wants to publish to queues that are nearly full.

    wanted: bridge (empty: the node) -> how many messages, and how many bytes in all, one PUBLISH that waits comes to there.
    Answered with ``Room``, once there is something to say.
    """

    epoch: int
    wanted: dict[str, tuple[int, int]]


@frame_kind(12)
class CommitWanted(Frame):
    """Listener -> Distributor -> QueueStore: what was sent before need not wait for its flush period, since something stricter
    waits for it.

    Where it is lost, that waits for the period.
    """

    epoch: int


@frame_kind(11)
class Room(Frame):
    """QueueStore -> Listener: what has changed of how much may be taken for the queues that refuse when they are full.

    ``number`` rises, also from one life of the store to the next. Before the first one of a life nothing of QoS 1 or 2 is taken.
    queues: bridge (empty: the node) -> what is so from now on. ``OPEN``: no need to ask. ``NEAR``: only so many messages and bytes,
    all in the batch that is being built; beyond that, ask. ``FULL``: nothing, until told otherwise. What is not named stays as it
    was, at first ``OPEN``.
    """

    epoch: int
    store: int
    number: int
    queues: dict[str, tuple[int, int, int]]


@frame_kind(5)
class SessionOpen(Frame):
    """Sender -> QueueStore: ``session`` begins or goes on; a clean start forgets all that was kept of it, its queue too.

    Sent again, under the same ``request``, where the answer may be lost; it is then the same.
    A session is a local client's, under its client identifier, or the one that a lane has at its remote, under a NUL and the name
    of its Connection. The sender waits first for the commit of every batch that changes the session's identifiers.

    expiry_s: how long the session outlives its connection; 0 ends with it, 0xFFFFFFFF never ends. Only a session that outlives it
    has a queue and kept subscriptions. source: the connection's number. will: (topic, flags, payload, properties, delay in
    seconds), kept until ``SessionClose`` drops it or a batch with it is committed. resumes: asked again because the store is new;
    nothing is cleaned. user: who has logged in; None is nobody. listener: where the listener listens by which the client came.
    owner: in whose share the session counts (``wire/limit_shares.py``). filters: what a lane is about to subscribe to in it.
    given_up: what a lane has given up in it, of which nothing more is to come.
    """

    sender: str
    epoch: int
    request: int
    session: str
    clean: bool
    expiry_s: int = 0
    source: int = 0
    will: tuple[bytes, int, bytes, bytes, int] | None = None
    resumes: bool = False
    user: str | None = None
    listener: str = ""
    owner: str = ""
    filters: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()


@frame_kind(6)
class SessionOpened(Frame):
    """QueueStore -> sender: whether the session was known, and its received, unreleased QoS 2 identifiers (u16 column).

    queue: ``session:<number>:<session>``, a number that is never given twice; empty where the session ends with its connection.
    subscriptions: what is kept: (topic filter, options, subscription identifier), the options being those of a SUBSCRIBE as one
    byte (QoS 0x03, No Local 0x04, Retain As Published 0x08), the identifier 0 for none. Of a lane's session: each filter that was
    subscribed to in it and not given up, without options. refused: empty, or why nothing was opened: ``sessions_max`` or
    ``user_share_percent`` is reached, or the session is another ``user``'s. store: epoch of the store that answers.
    """

    sender: str
    epoch: int
    store: int
    request: int
    session: str
    present: bool
    received: bytes
    queue: str = ""
    subscriptions: tuple[tuple[str, int, int], ...] = ()
    refused: str = ""


@frame_kind(7)
class SenderResumes(Frame):
    """Sender -> QueueStore, Connection -> Distributor, when a new one is up: what is outstanding comes again, from ``number`` on.

    A Distributor takes nothing of a Connection before that, and nothing of an earlier epoch of it after that.
    A store that has forgotten what it answered (``in-memory``, ``acknowledge: fast``, or damage to what was not synced) takes the
    sender's numbers up there.
    """

    sender: str
    epoch: int
    number: int


@frame_kind(8)
class SessionClose(Frame):
    """Listener -> QueueStore: the connection ``source`` of ``session`` ended at ``wall_ms`` (UTC epoch).

    expiry_s: how long the session lives on now, which DISCONNECT may have changed; 0 ends it. keep_will: its Will is still to be
    published; if not, it is dropped [MQTT-3.14.4-3]. Without effect where a newer connection has taken the session over.
    Answered with ``SessionClosed``; sent again to a new store until it is.
    """

    sender: str
    epoch: int
    session: str
    source: int
    wall_ms: int
    expiry_s: int
    keep_will: bool


@frame_kind(9)
class SessionGone(Frame):
    """QueueStore -> Distributor: ``queue`` has gone, and ``session`` with it, unless that has another now.

    QueueStore -> Listener: ``session`` has ended, by its expiry or by an operator, and ``queue`` with it. drops_will: its Will, if
    one waits for its delay, is not to be published; else it is due now [MQTT-3.1.3-9].
    """

    session: str
    queue: str
    drops_will: bool = False


@frame_kind(10)
class SessionClosed(Frame):
    """QueueStore -> Listener: what ``SessionClose`` said of connection ``source`` is committed, or needs no commit."""

    epoch: int
    source: int


@frame_kind(16)
class SessionsWanted(Frame):
    """Distributor -> QueueStore: what sessions are kept? Answered with ``SessionsKnown``."""

    epoch: int


@frame_kind(17)
class SessionsKnown(Frame):
    """QueueStore -> Distributor -> Listener: kept sessions, in several frames; ``last`` ends the answer.

    sessions: (session, queue, subscriptions as in ``SessionOpened``, Will as in ``SessionOpen`` or None, when that Will is due as
    UTC epoch in ms, the user whose session it is or None, listener and owner as in ``SessionOpen``). A session whose connection was
    of an older life of the Listener counts as disconnected since this life began. store: epoch of the store that answers.
    """

    epoch: int
    store: int
    sessions: tuple[
        tuple[str, str, tuple[tuple[str, int, int], ...], tuple[bytes, int, bytes, bytes, int] | None, int, str | None, str, str],
        ...,
    ]
    last: bool
