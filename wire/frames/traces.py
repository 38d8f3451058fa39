"""Frames by which an operator sees what flows: one message through all actors, and how many go by each topic.

No promise needs them. One that is lost leaves a gap in what the operator sees, and one that comes twice changes nothing. Times
(``at_s``) are of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

from typing import Any

from wire.frames.frame import Frame, frame_kind


@frame_kind(70)
class TraceWanted(Frame):
    """Supervisor -> Distributor -> Listener: follow the next message whose topic matches ``topic_filter``, as ``request``.

    Within ``timeout_s`` from now; it takes the place of an earlier one. An empty filter: nothing any more. If it is lost, or its
    receiver dies, the trace ends when its time is up.
    """

    request: int
    topic_filter: str
    timeout_s: float


@frame_kind(71)
class TraceMark(Frame):
    """Distributor -> QueueStore, in front of the ``Append``, and Listener: row ``row`` of that batch is what ``request`` follows.

    source: the sender's number of the connection that published it. qos: as it was published. If it is lost, the rest is not seen.
    """

    request: int
    sender: str
    epoch: int
    number: int
    row: int
    source: int
    qos: int


@frame_kind(72)
class TraceFollow(Frame):
    """QueueStore -> Forwarder -> Connection, in front of the ``HandOut``: ``seq`` of ``queue`` is what ``request`` follows."""

    request: int
    queue: str
    seq: int


@frame_kind(73)
class TraceStep(Frame):
    """Distributor, Listener, QueueStore or Connection -> Supervisor: what has just happened to the message of ``request``.

    step: armed (the next message is followed), taken, denied, routed, committed, refused, acknowledged, handed_out, waits, sent,
    received (PUBREC), answered (PUBACK or PUBCOMP), settled. queue: the one that it happened in; empty for none. details: what more
    there is to say, by step.
    """

    request: int
    step: str
    actor: str
    queue: str
    at_s: float
    details: dict[str, Any]


@frame_kind(74)
class TopicsWanted(Frame):
    """Supervisor -> Distributor: how many messages went by each topic, the ``count`` busiest? Answered with ``TopicCounts``.

    Counting begins with the first question, and ends some seconds after the last. If it is lost, who asked is told so.
    """

    request: int
    count: int


@frame_kind(75)
class TopicCounts(Frame):
    """Distributor -> Supervisor: what was counted for ``since_s`` seconds.

    topics: (topic, messages, bytes of their payloads), those with most messages first. others: the messages of topics that are not
    among them.
    """

    request: int
    since_s: float
    topics: tuple[tuple[bytes, int, int], ...]
    others: int
