"""Every message between actors, typed and versioned, and the one codec that carries them.

A frame on the wire is a ZeroMQ multipart message: part 0 is the msgpack array ``[kind, version, field, ...]``, the parts after it
are the encoded batches named ``bodies`` in the class. An actor that only passes a batch on never unpacks it. Unknown kinds and
versions are refused with ``UnknownFrame``. Golden bytes in ``tests/wire/`` pin the format.

Names used in fields: ``epoch`` fences one life of a process (for lanes: one opening of the lane); ``number`` counts a sender's
frames from 1 within its epoch; ``queue`` is ``bridge:<name>:<lane>``; ranges are ``((start, stop), ...)`` with ``stop`` exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

import msgpack

from wire.errors import UnknownFrame

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Base of all frames."""

    KIND: ClassVar[int]
    VERSION: ClassVar[int] = 1


FrameType = TypeVar("FrameType", bound="Frame")

_KINDS: dict[int, type[Frame]] = {}
_HEADS: dict[type[Frame], tuple[bool, Callable[[Any], tuple[object, ...]]]] = {}
_NAMES: dict[type[Frame], tuple[str, ...]] = {}


def _frame(kind: int) -> Callable[[type[FrameType]], type[FrameType]]:
    """Register a frame class under ``kind``; a number is never given twice."""

    def register(cls: type[FrameType]) -> type[FrameType]:
        assert kind not in _KINDS, f"frame kind {kind} is given twice"
        names = tuple(field.name for field in fields(cls))
        has_bodies = "bodies" in names
        heads = tuple(name for name in names if name != "bodies")
        cls.KIND = kind
        _KINDS[kind] = cls
        _NAMES[cls] = heads
        getter = attrgetter(*heads) if len(heads) > 1 else (lambda frame: tuple(getattr(frame, name) for name in heads))
        _HEADS[cls] = (has_bodies, getter)
        return cls

    return register


def known_kinds() -> frozenset[type[Frame]]:
    """All frame classes."""
    return frozenset(_KINDS.values())


def encode(frame: Frame) -> list[bytes]:
    """The parts of ``frame`` for one ZeroMQ multipart message."""
    has_bodies, head = _HEADS[type(frame)]
    parts: list[bytes] = [msgpack.packb((frame.KIND, frame.VERSION, *head(frame)))]
    if has_bodies:
        parts.extend(frame.bodies)  # type: ignore[attr-defined]  # has_bodies says that the field is there
    return parts


def decode(parts: Sequence[bytes]) -> Frame:
    """The frame that ``encode`` made.

    Raises:
        UnknownFrame: the kind or its version is not known here, or the fields are not those of the kind.
    """
    try:
        kind, version, *values = msgpack.unpackb(parts[0], use_list=False, strict_map_key=False)
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise UnknownFrame("not a frame", length=len(parts[0]) if parts else 0) from error
    cls = _KINDS.get(kind)
    if cls is None or version != cls.VERSION:
        raise UnknownFrame("unknown frame kind or version", kind=kind, version=version)
    names = _NAMES[cls]
    if len(names) != len(values):
        raise UnknownFrame("frame with the wrong number of fields", kind=kind, fields=len(values))
    known = dict(zip(names, values, strict=True))
    if _HEADS[cls][0]:
        known["bodies"] = tuple(parts[1:])
    return cls(**known)


# --- intake: a sender (the Listener, or a Connection with remote subscriptions) to the store, by way of the Distributor -------


@_frame(1)
@dataclass(frozen=True, slots=True, kw_only=True)
class Publishes(Frame):
    """Connection -> Distributor: what its remote has published since the last batch; ``bodies`` is one batch.

    sources: per row the sender's number of the connection (u32 column). received: QoS 2 identifiers to commit with their
    messages, session -> (packet ids u16 column, rows u16 column). released: identifiers whose PUBREL came, session -> u16 column.
    listener: epoch of the Listener that the Connection knew when it first sent the batch; 0: none.
    """

    sender: str
    epoch: int
    number: int
    sources: bytes
    received: dict[str, tuple[bytes, bytes]]
    released: dict[str, bytes]
    listener: int = 0
    bodies: tuple[bytes, ...]


@_frame(2)
@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Frame):
    """Distributor -> QueueStore: a routed ``Publishes``.

    parts: one for each of ``bodies``: (queue, rows in it, their bytes, how many are QoS 0, the row numbers in the original batch
    as a u16 column, empty for all rows). Commit them all, with ``received``, ``released`` and ``wills``, in one write. The part for
    ``names.RETAINED`` is no queue: its rows replace, or with an empty payload remove, what is retained under their topics.
    wills: Wills that are in this batch: (session, row, epoch and number of the batch in which it was refused before, 0 and 0 for
    none). Their records lose them in the same commit; one that is refused stays on record, to be sent again.
    """

    sender: str
    epoch: int
    number: int
    sources: bytes
    received: dict[str, tuple[bytes, bytes]]
    released: dict[str, bytes]
    refusable: bytes
    wills: tuple[tuple[str, int, int, int], ...] = ()
    parts: tuple[tuple[str, int, int, int, bytes], ...]
    bodies: tuple[bytes, ...]


@_frame(3)
@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Frame):
    """QueueStore -> sender: everything up to ``number`` is committed with the configured strength.

    refused: number -> rows (u16 column) of which nothing was enqueued anywhere, because a limit was reached; of all the numbers
    that the sender may have outstanding, because earlier answers may have been lost. store: the epoch of the QueueStore; what one
    that is gone had committed, the next one may not have (``in-memory``).
    """

    sender: str
    epoch: int
    store: int
    number: int
    refused: dict[int, bytes]


@_frame(4)
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceResumed(Frame):
    """Sender -> QueueStore: rows of ``source``, which was stalled since one was refused, may be accepted from batch ``number`` on.

    If a row of it was refused in that batch or a later one already, this frame came too late and resumes nothing.
    The store refuses every later row of a source that cannot be told of a refusal (MQTT 3.1.1), so that order holds [MQTT-4.6.0-6].

    held: its refused messages that go on waiting at the sender, beside those that batch ``number`` offers again. given_up: refused
    messages of QoS 0 that nobody offers again, since the connection has ended.
    """

    sender: str
    epoch: int
    source: int
    number: int
    held: int = 0
    given_up: int = 0


@_frame(5)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen(Frame):
    """Sender -> QueueStore: ``session`` begins or goes on; a clean start forgets all that was kept of it, its queue too.

    Sent again, under the same ``request``, where the answer may be lost; it is then the same.
    A session is a local client's, under its client identifier, or the one that a lane has at its remote, under a NUL and the name
    of its Connection. The sender waits first for the commit of every batch that changes the session's identifiers.

    expiry_s: how long the session outlives its connection; 0 ends with it, 0xFFFFFFFF never ends. Only a session that outlives it
    has a queue and kept subscriptions. source: the connection's number. will: (topic, flags, payload, properties, delay in
    seconds), kept until ``SessionClose`` drops it or a batch with it is committed. resumes: asked again because the store is new;
    nothing is cleaned. user: who has logged in; None is nobody. listener: where the listener listens by which the client came.
    filters: what a lane is about to subscribe to in its session.
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
    filters: tuple[str, ...] = ()


@_frame(6)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Frame):
    """QueueStore -> sender: whether the session was known, and its received, unreleased QoS 2 identifiers (u16 column).

    queue: ``session:<number>:<session>``, a number that is never given twice; empty where the session ends with its connection.
    subscriptions: what is kept: (topic filter, options, subscription identifier), the options being those of a SUBSCRIBE as one
    byte (QoS 0x03, No Local 0x04, Retain As Published 0x08), the identifier 0 for none. Of a lane's session: each filter that was
    ever subscribed to in it, without options. refused: empty, or why nothing was opened: ``sessions_max`` is reached, or the
    session is another ``user``'s. store: epoch of the store that answers.
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


@_frame(7)
@dataclass(frozen=True, slots=True, kw_only=True)
class SenderResumes(Frame):
    """Sender -> QueueStore, Connection -> Distributor, when a new one is up: what is outstanding comes again, from ``number`` on.

    A Distributor takes nothing of a Connection before that, and nothing of an earlier epoch of it after that.
    stalled: sources of which a row was refused before that, and that were not resumed since.
    A store that has forgotten what it answered (``in-memory``, ``acknowledge: fast``, or damage to what was not synced) takes the
    sender's numbers up there, and refuses the rows of those sources, so that order holds.
    """

    sender: str
    epoch: int
    number: int
    stalled: tuple[int, ...] = ()


@_frame(8)
@dataclass(frozen=True, slots=True, kw_only=True)
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


@_frame(9)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGone(Frame):
    """QueueStore -> Distributor: ``queue`` has gone, and ``session`` with it, unless that has another now.

    QueueStore -> Listener: ``session`` has ended, by its expiry or by an operator, and ``queue`` with it. drops_will: its Will, if
    one waits for its delay, is not to be published; else it is due now [MQTT-3.1.3-9].
    """

    session: str
    queue: str
    drops_will: bool = False


@_frame(10)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed(Frame):
    """QueueStore -> Listener: what ``SessionClose`` said of connection ``source`` is committed, or needs no commit."""

    epoch: int
    source: int


@_frame(16)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsWanted(Frame):
    """Distributor -> QueueStore: what sessions are kept? Answered with ``SessionsKnown``."""

    epoch: int


@_frame(17)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsKnown(Frame):
    """QueueStore -> Distributor -> Listener: kept sessions, in several frames; ``last`` ends the answer.

    sessions: (session, queue, subscriptions as in ``SessionOpened``, Will as in ``SessionOpen`` or None, when that Will is due as
    UTC epoch in ms, the user whose session it is or None, the listener as in ``SessionOpen``). A session whose connection was of an
    older life of the Listener counts as disconnected since this life began. refused: Wills that are to be sent again: (session,
    epoch and number of the batch in which it was refused, the Will). store: epoch of the store that answers.
    """

    epoch: int
    store: int
    sessions: tuple[
        tuple[str, str, tuple[tuple[str, int, int], ...], tuple[bytes, int, bytes, bytes, int] | None, int, str | None, str],
        ...,
    ]
    last: bool
    refused: tuple[tuple[str, int, int, tuple[bytes, int, bytes, bytes, int]], ...] = ()


# --- local sessions: live delivery and subscriptions -----------------------------------------------------------------------


@_frame(18)
@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsAdd(Frame):
    """Listener -> Distributor -> QueueStore: a SUBSCRIBE of ``session``; the Distributor routes by it before it passes it on.

    filters: (topic filter, options as in ``SessionOpened``, subscription identifier, whether retained messages are wanted). The
    store keeps them if ``queue`` is not empty, puts the retained messages of QoS 1 and 2 into that queue in the same commit, and
    answers ``SubscriptionsKept``. Repeated with the same ``request`` until answered; without effect if it is of a former life.
    """

    epoch: int
    request: int
    session: str
    source: int
    queue: str
    filters: tuple[tuple[str, int, int, bool], ...]


@_frame(19)
@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsDrop(Frame):
    """Listener -> Distributor -> QueueStore: an UNSUBSCRIBE of ``session``; answered with ``SubscriptionsKept`` as well."""

    epoch: int
    request: int
    session: str
    source: int
    queue: str
    filters: tuple[str, ...]


@_frame(29)
@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsKept(Frame):
    """QueueStore -> Listener: what ``request`` asked for is committed, or needs no commit: send the SUBACK or UNSUBACK.

    The ``Retained`` that ``request`` asked for have gone before.
    """

    epoch: int
    request: int
    source: int


@_frame(30)
@dataclass(frozen=True, slots=True, kw_only=True)
class Retained(Frame):
    """QueueStore -> Listener: retained messages that ``request`` of connection ``source`` asked for, to be sent with RETAIN 1.

    They follow its SUBACK [MQTT-3.3.1-8]. Of those that went into the session's queue there is none here. qos: the subscription's;
    identifier: its identifier, 0 for none.
    """

    epoch: int
    request: int
    source: int
    qos: int
    identifier: int
    bodies: tuple[bytes, ...]


# --- lanes: store <-> Forwarder <-> Connection ------------------------------------------------------------------------------


@_frame(20)
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOpen(Frame):
    """Forwarder -> QueueStore: reset the markers of ``queue`` and start again at its head under the new ``epoch``."""

    queue: str
    epoch: int


@_frame(21)
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOpened(Frame):
    """QueueStore -> Forwarder -> Connection: the lane starts at ``head``.

    settled, released: ranges above the head, the latter in the order of the PUBRECs. dup_below: sequences below it may have been
    sent before, so they carry DUP. generation: which remote session they belong to. session: the remote session on record, empty
    for none. receives: there are filters or QoS 2 identifiers on record of what came from the remote to this lane. left: the
    sessions at other addresses, each as a ``LeftSession``.
    """

    queue: str
    epoch: int
    head: int
    tail: int
    dup_below: int
    settled: Ranges
    released: Ranges
    generation: int
    session: str
    receives: bool = False
    left: tuple[tuple[str, int, int, Ranges, Ranges], ...] = ()


@_frame(22)
@dataclass(frozen=True, slots=True, kw_only=True)
class Credit(Frame):
    """Receiver -> giver (Forwarder -> QueueStore, Connection -> Forwarder): how far it may hand out, in messages and bytes.

    Both are totals since the lane was opened under ``epoch``, so a repeated frame is harmless. Lower ones withdraw what is unused.
    """

    queue: str
    epoch: int
    messages: int
    size_bytes: int


@_frame(23)
@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut(Frame):
    """QueueStore -> Forwarder or Listener: messages ``first_seq + offset`` in order; no offsets (u32 column) means 0, 1, 2, ...

    They are marked in flight. ``bodies`` is one batch of ``count`` rows and ``size_bytes`` bytes.
    """

    queue: str
    epoch: int
    first_seq: int
    count: int
    size_bytes: int
    offsets: bytes
    bodies: tuple[bytes, ...]


@_frame(24)
@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Frame):
    """Connection -> Forwarder -> QueueStore: what became of messages.

    settled: (outcome, ranges), the outcome being ``delivered``, ``expired``, ``dropped:<reason>``, ``dead:<reason>`` or
    ``redelivered`` (a count only: it settles nothing). released: PUBREC came, in that order; commit,
    then answer ``Settled`` with ``number``.
    session: the remote session now on record, in its ``generation``, a new one of which forgets what was released before it; None:
    both are unchanged, whatever ``generation`` says. left: with a session, those at other addresses that are kept, each as a
    ``LeftSession``.
    """

    queue: str
    epoch: int
    number: int
    settled: tuple[tuple[str, Ranges], ...]
    released: Ranges
    session: str | None
    generation: int
    left: tuple[tuple[str, int, int, Ranges, Ranges], ...] = ()


@_frame(25)
@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Frame):
    """QueueStore -> Forwarder -> Connection: every ``Settle`` of the lane up to ``number`` is committed."""

    queue: str
    epoch: int
    number: int


@_frame(26)
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReopen(Frame):
    """QueueStore -> Forwarder or Listener: drop what the lane holds and send ``LaneOpen`` with a new epoch."""

    queue: str


@_frame(28)
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneClose(Frame):
    """Listener -> QueueStore: nobody takes from ``queue`` until it is opened again; its markers and what is in memory go.

    sent_below: what was handed out from this sequence on was never sent; -1: that is not known.
    """

    queue: str
    epoch: int
    sent_below: int


# --- supervision ------------------------------------------------------------------------------------------------------------


@_frame(40)
@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Frame):
    """Process -> Supervisor, each period, when one of ``states`` changes, and in answer to ``ReportNow``.

    state: starting, ready, stopping; ``states`` has that of each of its actors. request: the ``ReportNow`` it answers, 0 for none.
    status: actor -> its figures for ``bascule status``; empty where they are as before, as far as anybody needs to know.
    """

    name: str
    epoch: int
    pid: int
    state: str
    request: int
    states: dict[str, str]
    status: dict[str, dict[str, Any]]


@_frame(41)
@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNow(Frame):
    """Supervisor -> process: send a heartbeat with fresh figures now."""

    request: int


@_frame(42)
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUp(Frame):
    """Supervisor -> process -> its actors: ``name`` is ready in a new life, ``epoch``.

    What was sent to an earlier one may be lost.
    """

    name: str
    epoch: int


@_frame(43)
@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMarkers(Frame):
    """Supervisor -> QueueStore: the lane's process has ended, in its life ``epoch``; its in-flight markers mean nothing any more.

    Without effect where a later life has opened the lane already.
    """

    queue: str
    epoch: int


@_frame(44)
@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Frame):
    """Supervisor -> Connection: ``verb`` is pause, resume or reconnect."""

    verb: str


@_frame(45)
@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Frame):
    """Supervisor -> process -> its actors, the last first: end intake, pass on and commit what is in hand, then end."""


@_frame(60)
@dataclass(frozen=True, slots=True, kw_only=True)
class AclChanged(Frame):
    """Supervisor -> Listener -> Distributor: the rules in the ACL file ``path`` are these now.

    Each has the fields of ``AclRuleSettings``. The Listener passes them on, so that what is published later is dealt by them.
    """

    path: str
    rules: tuple[tuple[bool, bool, bool, tuple[str, ...], bool, tuple[str, ...], tuple[str, ...]], ...]


@_frame(61)
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures(Frame):
    """Supervisor -> Listener, each ``sys_period_s``: what it needs for the ``$SYS`` topics. values: topic -> figure."""

    version: str
    uptime_s: int
    values: dict[str, int]


@_frame(62)
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvents(Frame):
    """Supervisor, Connection or Listener -> QueueStore: what happened, to be kept with the events of the node.

    events: (UTC epoch in ms, kind, bridge, lane, actor, reason, count, details), as ``storage/events.py`` says.
    """

    events: tuple[tuple[int, str, str, int, str, str, int, Mapping[str, str | int | float | bool]], ...]


@_frame(46)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCommand(Frame):
    """Supervisor -> QueueStore: ``verb`` is ls, peek, purge or replay; storage/commands.py says what ``arguments`` are."""

    request: int
    verb: str
    arguments: dict[str, Any]


@_frame(47)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer(Frame):
    """QueueStore -> Supervisor: the ``result`` of command ``request``, committed; or the kind of ``error`` and a ``message``.

    A ``SessionCommand`` is answered to its asker: to the Listener, which passes the answer on, or to the Supervisor.
    """

    request: int
    error: str
    message: str
    result: dict[str, Any]


@_frame(48)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCommand(Frame):
    """Supervisor -> Listener -> QueueStore: ``verb`` is ls, show, end or disconnect; storage/session_commands.py says more.

    asker: the mailbox that gets the ``QueueAnswer``. live: what the Listener knows of the clients that are connected and meant;
    of an ls only of those up to ``until``, None for all. Where no Listener lives, the store is asked at once, and none is.
    """

    request: int
    verb: str
    arguments: dict[str, Any]
    asker: str
    live: tuple[dict[str, Any], ...] = ()
    until: str | None = None


@_frame(63)
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWanted(Frame):
    """Supervisor -> QueueStore: commit everything and make a checkpoint in the new folder ``path``, whose parent is there."""

    request: int
    path: str


@_frame(64)
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMade(Frame):
    """QueueStore -> Supervisor: the checkpoint of ``request`` is made, and ``facts`` say what it holds (``storage/checkpoint.py``).

    error: why not, in a word, with a ``message``; then there are no facts, and what is at the path is to be removed.
    """

    request: int
    error: str
    message: str
    facts: dict[str, Any]
