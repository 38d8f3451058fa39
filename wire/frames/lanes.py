"""Frames of a lane: store <-> Forwarder <-> Connection."""

from __future__ import annotations

from wire.frames.frame import Frame, Ranges, frame_kind


@frame_kind(20)
class LaneOpen(Frame):
    """Forwarder -> QueueStore: reset the markers of ``queue`` and start again at its head under the new ``epoch``."""

    queue: str
    epoch: int


@frame_kind(21)
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


@frame_kind(22)
class Credit(Frame):
    """Receiver -> giver (Forwarder -> QueueStore, Connection -> Forwarder): how far it may hand out, in messages and bytes.

    Both are totals since the lane was opened under ``epoch``, so a repeated frame is harmless. Lower ones withdraw what is unused.
    """

    queue: str
    epoch: int
    messages: int
    size_bytes: int


@frame_kind(23)
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


@frame_kind(24)
class Settle(Frame):
    """Connection -> Forwarder -> QueueStore: what became of messages.

    settled: (outcome, ranges), the outcome being ``delivered``, ``expired``, ``dropped:<reason>``, ``dead:<reason>`` or
    ``redelivered`` (a count only: it settles nothing). released: PUBREC came, in that order; commit,
    then answer ``Settled`` with ``number``.
    session: the remote session now on record, in its ``generation``, a new one of which forgets what was released before it; None:
    both are unchanged, whatever ``generation`` says. left: with a session, those at other addresses that are kept, each as a
    ``LeftSession``. times: in the order in which they were delivered, how many messages were, and when (UTC epoch in ms).
    """

    queue: str
    epoch: int
    number: int
    settled: tuple[tuple[str, Ranges], ...]
    released: Ranges
    session: str | None
    generation: int
    left: tuple[tuple[str, int, int, Ranges, Ranges], ...] = ()
    times: tuple[tuple[int, int], ...] = ()


@frame_kind(25)
class Settled(Frame):
    """QueueStore -> Forwarder -> Connection: every ``Settle`` of the lane up to ``number`` is committed."""

    queue: str
    epoch: int
    number: int


@frame_kind(26)
class LaneReopen(Frame):
    """QueueStore -> Forwarder or Listener: drop what the lane holds and send ``LaneOpen`` with a new epoch."""

    queue: str


@frame_kind(28)
class LaneClose(Frame):
    """Listener -> QueueStore: nobody takes from ``queue`` until it is opened again; its markers and what is in memory go.

    sent_below: what was handed out from this sequence on was never sent; -1: that is not known.
    """

    queue: str
    epoch: int
    sent_below: int


@frame_kind(76)
class LaneAwaited(Frame):
    """Connection -> QueueStore: its link is closed until something is to be sent; answer ``LaneWaits`` once so much waits.

    messages, size_bytes: so many; of no bytes, whatever their size is. age_ms: anything, for so long; -1: however long. A loss or a
    repeat costs nothing: it is sent again each minute.
    """

    queue: str
    epoch: int
    messages: int
    size_bytes: int
    age_ms: int


@frame_kind(77)
class LaneWaits(Frame):
    """QueueStore -> Connection: so much waits in ``queue``. A lost one comes again, once it is asked for again."""

    queue: str
    epoch: int
