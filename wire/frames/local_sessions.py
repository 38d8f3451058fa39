"""Frames of local sessions: live delivery, subscriptions, retained messages."""

from __future__ import annotations

from wire.frames.base import Frame, frame_kind


@frame_kind(18)
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
    """QueueStore -> Listener: what ``request`` asked for is committed, or needs no commit: send the SUBACK or UNSUBACK.

    The ``Retained`` that ``request`` asked for have gone before.
    """

    epoch: int
    request: int
    source: int


@frame_kind(30)
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
