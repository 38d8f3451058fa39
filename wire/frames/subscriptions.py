"""Frames of local sessions: live delivery, subscriptions, retained messages."""

from __future__ import annotations

from wire.frames.frame import Frame, frame_kind

PIECE_MESSAGES, PIECE_BYTES = 250, 256 << 10  # at most so much of what waits moves in one turn, but for one message


@frame_kind(18)
class SubscriptionsAdd(Frame):
    """Listener -> Distributor -> QueueStore: a SUBSCRIBE of ``session``.

    The Distributor routes by it, and passes it on if ``queue`` is not empty. filters: (topic filter, options as in
    ``SessionOpened``, subscription identifier, whether retained messages are wanted). The
    store keeps them, and in the same commit that it owes that queue the retained messages of QoS 1 and 2; it answers
    ``SubscriptionsKept``. Repeated with the same ``request`` until answered; without effect if it is of a former life.
    """

    epoch: int
    request: int
    session: str
    source: int
    queue: str
    filters: tuple[tuple[str, int, int, bool], ...]


@frame_kind(19)
class SubscriptionsDrop(Frame):
    """Listener -> Distributor -> QueueStore: an UNSUBSCRIBE of ``session``; answered with ``SubscriptionsKept`` as well."""

    epoch: int
    request: int
    session: str
    source: int
    queue: str
    filters: tuple[str, ...]


@frame_kind(29)
class SubscriptionsKept(Frame):
    """QueueStore -> Listener: what ``request`` asked for is committed: send the SUBACK or UNSUBACK.

    Distributor -> Listener for a session of which nothing is kept.
    """

    epoch: int
    request: int
    source: int


@frame_kind(30)
class RetainedPiece(Frame):
    """QueueStore -> Listener: the answer to the ``RetainedWanted`` with the same ``request``; to be sent with RETAIN 1.

    done: how many of its filters nothing is left of. after: where the next one of them goes on. places: for each of ``bodies`` the
    place of its filter.
    """

    epoch: int
    request: int
    done: int
    after: bytes
    places: tuple[int, ...]
    bodies: tuple[bytes, ...]


@frame_kind(31)
class RetainedWanted(Frame):
    """Listener -> Distributor -> QueueStore: read retained messages, so many messages and bytes at most, but for one.

    It comes behind all that was routed before, so that is in the answer. filters: (topic filter, the topic behind which to go on,
    whether only QoS 0 is wanted, since the rest goes through the session's queue). Nothing is kept of it: when the store dies, it
    is asked anew.
    """

    epoch: int
    request: int
    messages: int
    size_bytes: int
    filters: tuple[tuple[str, bytes, bool], ...]
