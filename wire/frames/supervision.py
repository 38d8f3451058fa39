"""Frames of supervision: heartbeats, peers, operators' commands, events, snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wire.frames.frame import Frame, frame_kind
from wire.frames.names import LaneLabel


@frame_kind(40)
class Heartbeat(Frame):
    """Process -> Supervisor, of the child ``name``: when one of ``states`` changes, in answer to ``ReportNow``, with figures each
    few seconds; of the first of the process's children each period.

    state: starting, ready, stopping, stopped (its actors have ended, and others live on in the process); ``states`` has that of
    each of its actors. request: the ``ReportNow`` it answers, 0 for none.
    settings: the number of those that it goes by. traffic: frames sent and received, and turns, since it began.
    figures: actor -> what it reports, as ``wire/status/actors.py`` says; empty where that is as before, as far as anybody needs to
    know.
    """

    name: str
    epoch: int
    pid: int
    state: str
    request: int
    states: dict[str, str]
    settings: int
    traffic: tuple[int, int, int]
    figures: dict[str, Any]


@frame_kind(41)
class ReportNow(Frame):
    """Supervisor -> process: send a heartbeat with fresh figures now."""

    request: int


@frame_kind(42)
class PeerUp(Frame):
    """Supervisor -> process -> its actors: ``name`` is ready in a new life, ``epoch``.

    Frames to an earlier one may be lost.
    """

    name: str
    epoch: int


@frame_kind(66)
class ChildBegins(Frame):
    """Supervisor -> process that several share: ``child`` is to live in it, under ``epoch``.

    process: the epoch of the process that is meant; another one is not, and ignores it. settings: the number of those that it
    begins with, at least. flags: as on the command line of a process of its own.
    """

    process: int
    child: str
    epoch: int
    settings: int
    flags: tuple[str, ...]


@frame_kind(43)
class ResetMarkers(Frame):
    """Supervisor -> QueueStore: the lane's process has ended, in its life ``epoch``; its in-flight markers mean nothing any more.

    Without effect where a later life has opened the lane already.
    """

    queue: str
    epoch: int


@frame_kind(44)
class Command(Frame):
    """Supervisor -> Connection: ``verb`` is pause, resume or dial, which is to connect though nothing is to be sent."""

    verb: str


@frame_kind(45)
class Stop(Frame):
    """Supervisor -> process -> its actors, the last first: end intake, pass on and commit what is in hand, then end."""


@frame_kind(49)
class Reconfigure(Frame):
    """Supervisor -> process -> its actors: what the operator wrote is this now, ``wire.config_settings.dump`` of settings
    ``number``.

    One that is not newer than what the process has is without effect, so it may come twice. It is sent again to whoever does not
    say that number in its heartbeats. A lane does not take changes of its own bridge: the supervisor begins it anew.
    children: of a process that several share, who go by it.
    """

    number: int
    settings: bytes
    children: tuple[str, ...] = ()


@frame_kind(60)
class AclChanged(Frame):
    """Supervisor -> Listener -> Distributor: the rules in the ACL file ``path`` are these now.

    Each has the fields of ``AclRuleSettings``. The Listener passes them on, so that what is published later is dealt by them.
    """

    path: str
    rules: tuple[tuple[tuple[str, ...], bool, str, tuple[str, ...], bool, tuple[str, ...]], ...]


@frame_kind(61)
class NodeFigures(Frame):
    """Supervisor -> Listener, each ``sys_period_s``: what it needs for the ``$SYS`` topics. values: topic -> figure."""

    version: str
    uptime_s: int
    values: dict[str, int]


@frame_kind(67)
class LinkStands(Frame):
    """Connection -> Supervisor: the link of the lane of ``actor``, in its life ``epoch``, stands now, or does not; where local
    clients are told of it. Lost with one of the two, which the other notices.
    """

    actor: str
    epoch: int
    stands: bool


@frame_kind(68)
class NodeTopics(Frame):
    """Notifier -> Supervisor: what of troubles is to be told on topics. Supervisor -> Listener, as it begins and when something
    changes: all that the node itself tells on topics.

    states: by topic, to be retained; empty of one that is over. It has all of them, so a repeat is without effect; after a loss the
    next has what that had. events: topic and payload, to be published once; what is lost is not told.
    """

    states: dict[str, bytes]
    events: tuple[tuple[str, bytes], ...] = ()


@frame_kind(62)
class NodeEvents(Frame):
    """Supervisor, Connection or Listener -> QueueStore: what happened, to be kept with the events of the node.

    events: (UTC epoch in ms, kind, bridge, lane, actor, reason, count, details), as ``storage/store/event_rows.py`` says.
    """

    events: tuple[tuple[int, str, str, LaneLabel, str, str, int, Mapping[str, str | int | float | bool]], ...]


@frame_kind(65)
class RoleChanged(Frame):
    """QueueStore -> Supervisor: this node is to be ``role`` now, leader or standby, for ``reason``.

    at_once: another node leads already, or may; whoever speaks to clients or remotes is to be killed. epoch: the highest that a
    process of an earlier leader had; those of this node begin above it.
    """

    role: str
    at_once: bool
    epoch: int
    reason: str


@frame_kind(46)
class QueueCommand(Frame):
    """Supervisor -> QueueStore: storage/store/queue_commands.py says which ``verb`` there is, and what ``arguments`` are."""

    request: int
    verb: str
    arguments: dict[str, Any]


@frame_kind(47)
class QueueAnswer(Frame):
    """QueueStore -> Supervisor: the ``result`` of command ``request``, committed, as ``wire/status/answers.py`` has it; or the kind
    of ``error`` and a ``message``.

    A ``SessionCommand`` is answered to its asker: to the Listener, which passes the answer on, or to the Supervisor.
    """

    request: int
    error: str
    message: str
    result: dict[str, Any]


@frame_kind(48)
class SessionCommand(Frame):
    """Supervisor -> Listener -> QueueStore: ``verb`` is ls, show, end or disconnect; storage/store/session_commands.py says more.

    asker: the mailbox that gets the ``QueueAnswer``. live: what the Listener knows of the clients that are connected and meant, as
    ``ConnectedClient`` of ``wire/status/answers.py``; of an ls only of those up to ``until``, None for all. If no Listener lives,
    the store is asked at once, and none is.
    """

    request: int
    verb: str
    arguments: dict[str, Any]
    asker: str
    live: tuple[Any, ...] = ()
    until: str | None = None


@frame_kind(63)
class SnapshotWanted(Frame):
    """Supervisor -> QueueStore: commit everything and make a checkpoint in the new folder ``path``, whose parent is there."""

    request: int
    path: str


@frame_kind(64)
class SnapshotMade(Frame):
    """QueueStore -> Supervisor: the checkpoint of ``request`` is made, and ``facts`` say what it holds
    (``storage/store/checkpoint.py``).

    error: why not, in a word, with a ``message``; then there are no facts, and what is at the path is to be removed.
    """

    request: int
    error: str
    message: str
    facts: dict[str, Any]
