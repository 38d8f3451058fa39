"""The names by which actors, queues and lanes are known, made and taken apart here alone; and how a lane's epoch is made. Pure.

An actor of the whole node is called by its kind (``listener``), a lane's by kind, bridge and lane: ``forwarder:cloud:0``, or of a
lane that has a name, ``forwarder:cloud:urgent``. A queue is called by its kind and by what it belongs to: ``bridge:cloud:0``,
``session:7:sensor-1``. Only the kind is sure to have no colon in it, so a name is taken apart by its kind. A child of the
supervisor is called like its kind, or with the lane as well: ``clients``, ``bridge:cloud:0``. Which process it lives in is
``wire/frames/placement.py``'s. The names of dead-letter queues, which no actor is told, are ``storage/queue/dead_letters.py``'s.
"""

from __future__ import annotations

from typing import NamedTuple

SUPERVISOR = "supervisor"
LISTENER = "listener"
DISTRIBUTOR = "distributor"
QUEUE_STORE = "queue_store"
FORWARDER = "forwarder"
CONNECTION = "connection"
HTTP_SERVER = "http_server"
METRICS_EXPORTER = "metrics_exporter"
NOTIFIER = "notifier"

STORE = "store"
BRIDGE = "bridge"
CLIENTS = "clients"
HTTP = "http"
TELEMETRY = "telemetry"
NOTIFY = "notify"

# The actors of each child, by what can fail on its own: the disk, one remote, and the local clients, who never touch the disk.
# They begin and end together. Those by which operators and monitoring know of the node have no part in a message's way. In the
# order in which they begin; they stop in reverse.
ACTORS_OF = {
    STORE: (QUEUE_STORE,),
    BRIDGE: (FORWARDER, CONNECTION),
    CLIENTS: (DISTRIBUTOR, LISTENER),
    HTTP: (HTTP_SERVER,),
    TELEMETRY: (METRICS_EXPORTER,),
    NOTIFY: (NOTIFIER,),
}

OPTIONAL_PROCESSES = (HTTP, TELEMETRY, NOTIFY)  # without them the node does its work; each has a process of its own

_BRIDGE_QUEUE = "bridge"
_SESSION_QUEUE = "session"
_CHILD_OF = {kind: child for child, kinds in ACTORS_OF.items() for kind in kinds}

# A lane epoch is its Forwarder's process epoch, shifted by this, plus how often that process has opened the lane.
LANE_EPOCH_SHIFT = 20

CLIENT_SESSION = "client"  # the session that the queue of a local session has on record, from its beginning

RETAINED = "retained"  # not a queue: where the Distributor sends the rows of a batch that are to be retained


LaneLabel = int | str  # the number of a lane that topics are spread over, or the name of one that is apart; no name is a number


class LaneName(NamedTuple):
    """One lane of a bridge."""

    bridge: str
    label: LaneLabel


def lane_label(text: str) -> LaneLabel:
    """The label that is written so."""
    return int(text) if text.isascii() and text.isdecimal() else text


def lane_order(label: LaneLabel) -> tuple[bool, int, str]:
    """The place of a lane among others of its bridge: by number, and those with names behind them."""
    return (False, label, "") if isinstance(label, int) else (True, 0, label)


def child_name(kind: str, bridge: str | None = None, lane: LaneLabel | None = None) -> str:
    """The name of a child: ``clients``, or ``bridge:cloud:0`` for a lane's."""
    return kind if bridge is None else f"{kind}:{bridge}:{lane}"


def forwarder_name(bridge: str, lane: LaneLabel) -> str:
    """The Forwarder of one lane of a bridge."""
    return f"{FORWARDER}:{bridge}:{lane}"


def connection_name(bridge: str, lane: LaneLabel) -> str:
    """The Connection of one lane of a bridge."""
    return f"{CONNECTION}:{bridge}:{lane}"


def queue_name(bridge: str, lane: LaneLabel) -> str:
    """The queue of one lane of a bridge."""
    return f"{_BRIDGE_QUEUE}:{bridge}:{lane}"


def remote_session_name(connection: str, session: str, number: int) -> str:
    """The name of the session in which a lane's Connection takes messages; no client identifier has a NUL in it.

    session: its client identifier and its remote's address. number: the lane has no two of one number.
    """
    return f"\0{connection}\0{session}#{number}"


def connection_of_session(name: str) -> str:
    """The Connection whose session at a remote has that ``name``; empty for the session of a local client."""
    return name.split("\0")[1] if name.startswith("\0") else ""


def lane_of_actor(name: str) -> LaneName | None:
    """The lane that the actor works for; None for an actor of the whole node."""
    kind, _, lane = name.partition(":")
    return _lane(lane) if kind in ACTORS_OF[BRIDGE] else None


def bridge_of_child(child: str) -> str | None:
    """The bridge that ``child`` works for; None for one of the whole node."""
    kind, _, lane = child.partition(":")
    return _lane(lane).bridge if kind == BRIDGE else None


def child_of(name: str) -> str:
    """The child that has the actor ``name``: ``clients``, or ``bridge:cloud:0``. A child is its own, and so is the Supervisor."""
    kind, colon, lane = name.partition(":")
    return f"{_CHILD_OF.get(kind, kind)}{colon}{lane}"


def actors_of(child: str) -> tuple[str, ...]:
    """The actors of ``child``, in the order in which they begin.

    Raises:
        KeyError: there is no such child.
    """
    kind, colon, lane = child.partition(":")
    return tuple(f"{actor}{colon}{lane}" for actor in ACTORS_OF[kind])


def lane_of_queue(queue: str) -> LaneName | None:
    """The lane whose queue it is; None for a queue of another kind."""
    kind, _, lane = queue.partition(":")
    return _lane(lane) if kind == _BRIDGE_QUEUE else None


def remote_client_id(configured: str, lane: LaneLabel) -> str:
    """A lane's client identifier at the remote: the ``configured`` one, with the label of all lanes but the first; none stays none.

    It does not depend on how many lanes there are, so a lane keeps its session at the remote when others come or go.
    """
    return f"{configured}-{lane}" if lane and configured else configured


def session_queue_name(number: int, session: str) -> str:
    """The queue of a local client's session; a ``number`` is never given twice, so no later session inherits the queue."""
    return f"{_SESSION_QUEUE}:{number}:{session}"


def session_of_queue(queue: str) -> str | None:
    """The client identifier of the session whose queue it is; None for a queue of another kind."""
    kind, _, place = queue.partition(":")
    return place.partition(":")[2] if kind == _SESSION_QUEUE else None


def peer_of(queue: str) -> str:
    """The actor to which the queue is handed out, and which settles it: the lane's Forwarder, or for a session the Listener.

    Raises:
        ValueError: no queue of this kind is handed out.
    """
    if session_of_queue(queue) is not None:
        return LISTENER
    lane = lane_of_queue(queue)
    if lane is None:
        raise ValueError(f"not a queue that is handed out: {queue!r}")
    return forwarder_name(*lane)


def _lane(text: str) -> LaneName:
    bridge, _, label = text.rpartition(":")
    return LaneName(bridge, lane_label(label))
