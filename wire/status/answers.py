"""Answers to operators' commands, in the order of the commands; the REST API tells of them by these names and sentences.

Whoever carries out a command makes one, ``to_map`` writes it as the control socket has it, and ``ControlClient`` reads it back.
Times are UTC milliseconds, None where there is none.
"""

from __future__ import annotations

from typing import Any, Literal

from wire.figure import figure, figures
from wire.frames.names import LaneLabel
from wire.status.bridges import DeadLetterFigures

# --- the node ---


@figures
class Ping:
    """The node answers."""

    node: str = figure("Its name.")
    pid: int = figure("Of its supervisor.")
    ready: bool = figure("Whether all its actors work.")


@figures
class Stopping:
    """The node has begun to stop."""

    stopping: bool = figure("Always true.")
    pid: int = figure("Of its supervisor, which ends last.")
    stop_timeout_s: float = figure("How long each group of its processes may take.")


@figures
class ReloadChange:
    """One difference between the configuration that runs and the file."""

    what: str = figure("The key, in words.")
    how: str = figure("`live`, `reconnect`, `restart`, `destructive` or `node-restart`.")
    target: str = figure("The bridge or process that starts again, or the bridge that it is about.")
    detail: str = figure("More of it, in words.")


@figures
class ReloadPlan:
    """The changes that a reload would make, or has made."""

    changes: tuple[ReloadChange, ...] = figure("One by one.", default=())
    applied: bool = figure("Whether they were made.", default=False)
    refused: str | None = figure("Why nothing was changed, or would be.", default=None)
    problems: tuple[str, ...] = figure("Faults of the file, with its lines.", default=())
    number: int | None = figure("Of the settings that hold now, where they were applied.", default=None)


@figures
class BridgeFile:
    """The file of a bridge that can be changed by request, or why this one cannot."""

    name: str = figure("The bridge.")
    file: str = figure("Where it stands.")
    reasons: tuple[str, ...] = figure("Why it cannot be changed by request, each with its place; empty if it can.")
    text: str = figure("Its content, if it can be changed.")
    bridge: dict[str, Any] = figure("The bridge in it, key by key, if it can be changed.")


@figures
class AclRule:
    """A rule of an access control list."""

    permission: str = figure("`allow` or `deny`.")
    action: str = figure("`publish`, `subscribe` or `both`.")
    topics: tuple[str, ...] = figure("Topic patterns.")
    users: tuple[str, ...] = figure("User names that it is for.")
    anonymous: bool = figure("Whether it is for clients without a user name.")
    clients: tuple[str, ...] = figure("Client identifiers that it is for.")


@figures
class ListenerAccess:
    """Who is let in by some listeners, and what they may do; no password, and no hash of one."""

    listeners: tuple[str, ...] = figure("Addresses of the listeners.")
    allow_anonymous: bool = figure("Whether clients without a user name are let in.")
    users_file: str = figure("The file of the users; empty without one.")
    users: tuple[str, ...] = figure("Their names, the first 1,000.")
    users_count: int = figure("How many there are.")
    rules_file: str = figure("The file of the rules; empty where the configuration has them, or there are none.")
    rules: tuple[AclRule, ...] | None = figure("The rules in order, the first 1,000; null: all is allowed.")
    rules_count: int = figure("How many there are.")
    problems: tuple[str, ...] = figure("Why a file cannot be read now; what was read before may hold still.")


@figures
class TokenHolder:
    """The holder of a token of the HTTP interface; not the token."""

    name: str = figure("Its name.")
    role: str = figure("`view`, `operate` or `admin`.")


@figures
class Access:
    """Who may do what at this node."""

    listeners: tuple[ListenerAccess, ...] = figure("Listeners that have the same users and rules are told together.")
    tokens: tuple[TokenHolder, ...] | None = figure("Of the HTTP interface; null: it asks for none, on this machine alone.")
    problems: tuple[str, ...] = figure("Why the tokens cannot be read now.")


@figures
class Event:
    """Something that happened; docs/reference/events.md has the kinds."""

    number: int = figure("Events are numbered in the order in which the store got them.")
    at_ms: int = figure("When it happened.")
    kind: str = figure("Such as `link.down`.")
    bridge: str = figure("Of which bridge, or empty.")
    lane: LaneLabel = figure("Of which lane of it: its number, or its class; -1: of none, or of all.")
    actor: str = figure("By whom, or empty.")
    reason: str = figure("Why, or empty.")
    count: int = figure("Of how many messages, or how often.")
    details: dict[str, Any] = figure("More of it, by name.")


@figures
class Events:
    """A page of events."""

    events: tuple[Event, ...] = figure("The oldest first.")
    next: int = figure("The `from` of the next page.")
    until: int = figure("One past the newest event.")


# Of the history, a value a period: null where nobody knows, or nothing happened.
Counts = tuple[int | None, ...]
Values = tuple[float | None, ...]


@figures
class NodeHistory:
    """The node, a value a period."""

    published_rate: Values = figure("PUBLISHes of local clients a second.")
    clients: Counts = figure("Clients that were connected at the end.")
    sessions_depth: Counts = figure("Messages that waited for local sessions at the end.")
    cpu: Values = figure("Processor time of all its processes, as a part of one processor.")
    memory_bytes: Counts = figure("The most memory that all its processes took.")
    disk_free_bytes: Counts = figure("Free space on the disk of `data_dir` at the end.")


@figures
class LaneHistory:
    """A lane, a value a period."""

    bridge: str = figure("Which bridge; also of one that is not configured any more.")
    lane: LaneLabel = figure("Which of its lanes: its number, or its class.")
    depth: Counts = figure("Messages that waited at the end.")
    depth_min: Counts = figure("The fewest that waited at the end of a minute.")
    depth_max: Counts = figure("The most.")
    bytes: Counts = figure("Bytes that waited at the end.")
    rate_in: Values = figure("Messages a second that were accepted.")
    rate_out: Values = figure("Messages a second that were delivered.")
    lost: Counts = figure("Messages that were dropped, refused for good, expired or became dead letters.")
    age_s: Values = figure("The longest that the oldest message had waited at the end of a minute.")
    latency_p50_s: Values = figure("Half of what was delivered took no longer, in the worst minute.")
    latency_p99_s: Values = figure("99 % of what was delivered took no longer, in the worst minute.")
    down_s: Values = figure("How long its link was down; a pause does not count.")


@figures
class History:
    """Of the past, what the node has kept: a period after the other."""

    since_ms: int = figure("It begins there: later than asked for where that would be too much for one answer.")
    until_ms: int = figure("It ends there.")
    kept_since_ms: int | None = figure("The first that is on record; null where nothing is yet.")
    step_s: float = figure("The length of a period.")
    at_ms: tuple[int, ...] = figure("The beginning of each period; those of which nothing is on record are left out.")
    seconds: tuple[float, ...] = figure("How much of each is on record; the node did not run in the rest.")
    node: NodeHistory = figure("The node, a value a period.")
    lanes: tuple[LaneHistory, ...] = figure("The lanes of all bridges, or of the one that was asked for.")


@figures
class BridgeOrdered:
    """The order was carried out."""

    bridge: str = figure("Which bridge.")
    processes: tuple[str, ...] = figure("Its processes, such as `bridge:cloud:0`.")


# --- queues and dead letters ---


@figures
class Queue:
    """The queue of one lane."""

    queue: str = figure("Such as `bridge:cloud:0`.")
    bridge: str = figure("Of which bridge.")
    lane: LaneLabel = figure("Of which lane: its number, or its class.")
    configured: bool = figure("Whether the configuration has that lane.")
    state: str = figure("`open`: its bridge has it; `damaged`: it stands still.")
    depth: int = figure("Messages in it.")
    bytes: int = figure("Bytes of those.")
    held: int = figure("Those of `depth` that rules hold, since a newer one may stand for them.")
    oldest_age_s: float | None = figure("How long the oldest has waited.")
    in_flight: int = figure("Messages that are handed out to its bridge.")
    head: int = figure("Sequence of the oldest message.")
    tail: int = figure("One past the sequence of the newest.")
    session: str = figure("Of its lane at the remote, if one is on record.")
    generation: int = figure("How often that session was begun anew.")


@figures
class DeadLetterQueue(DeadLetterFigures):
    """The dead letters of one bridge."""

    queue: str = figure("Such as `dead:cloud`.")
    bridge: str = figure("Of which bridge.")
    configured: bool = figure("Whether the configuration has that bridge.")
    oldest_age_s: float | None = figure("How long ago the oldest died.")


@figures
class Queues:
    """All queues, those of bridges that are not configured any more included."""

    queues: tuple[Queue, ...] = figure("By bridge and lane.")
    dead_letters: tuple[DeadLetterQueue, ...] = figure("By bridge.")


@figures
class HeldMessage:
    """A message of a queue, or a dead letter, as the store has it. damaged: only ``seq`` is known."""

    seq: int = figure("Its sequence in the queue; of one that is held, its number among those.")
    damaged: bool = figure("Whether it cannot be read.", default=False)
    state: str | None = figure(
        "Of one in a queue: `released`, `handed out`, `maybe sent`, `waiting` or `held`; of one that has left, how: `delivered`, "
        "`expired`, `dropped:REASON`, `dead:REASON`, or `left` where that cannot be told.",
        default=None,
    )
    reason: str | None = figure("Of a dead letter: what it died of.", default=None)
    at_ms: int = figure("Of a dead letter, and of one that has left: when.", default=0)
    queue: str = figure("Of a dead letter: the queue that it was in.", default="")
    queue_seq: int = figure("Of a dead letter: its sequence there.", default=0)
    remote: str = figure("Of a dead letter: the remote, if one refused it.", default="")
    topic: bytes = figure("As it was published.", default=b"")
    qos: int = figure("0, 1 or 2.", default=0)
    retain: bool = figure("Whether it is to be retained.", default=False)
    size: int = figure("Bytes of the payload.", default=0)
    payload: bytes = figure("The payload, or its beginning.", default=b"")
    properties: bytes = figure("MQTT 5 properties, encoded.", default=b"")
    rule: str = figure("The rule that it came by.", default="")
    destination: str = figure("Of the rule.", default="")
    accepted_ms: int = figure("When it was taken.", default=0)


@figures
class HeldMessages:
    """A page of messages."""

    queue: str = figure("The queue, or that of the dead letters.")
    messages: tuple[HeldMessage, ...] = figure("By sequence.")
    next: int | None = figure("The `from` of the next page; null after the last.")
    tail: int = figure("One past the newest message.")
    damaged: int = figure("Of what has left: pieces of the history that cannot be read.", default=0)


@figures
class KeptLane:
    """Messages that a purge has left in a lane."""

    lane: LaneLabel = figure("Which lane: its number, or its class.")
    messages: int = figure("How many stay.")
    reason: str = figure("Why: `may_have_been_sent`.")
    remote: str = figure("The remote of its session, if one is on record.")
    link_up_ms: int | None = figure("When its link came up the last time; null if that was in an earlier life of the store.")


@figures
class Purged:
    """The messages that were removed, and those that stay."""

    purged: int = figure("Messages that are gone.")
    kept: int = figure("Messages that stay.", default=0)
    kept_in_flight: int = figure("Of those, messages that are handed out.", default=0)
    kept_lanes: tuple[KeptLane, ...] = figure("Lanes in which messages stay, and why.", default=())
    next: int | None = figure("Of dead letters of one reason: the `from` of the next page; null after the last.", default=None)


@figures
class Replayed:
    """A page of dead letters went back to the end of the queue."""

    replayed: int = figure("Dead letters that went back.")
    skipped: int = figure("Dead letters that died for another reason.")
    damaged: int = figure("Dead letters that cannot be read, and stay.")
    full: bool = figure("The queue has no more room; the others stay dead letters.")
    next: int | None = figure("The `from` of the next page; null after the last.")
    tail: int = figure("One past the newest dead letter.")


@figures
class Resent:
    """A page of messages that had left a queue went to the end of queues once more."""

    resent: int = figure("Messages that went.")
    total: int = figure("Messages of this run so far, through this queue.")
    missed: int = figure("Sequences that were to go, and of which nothing is kept any more.")
    damaged: int = figure("Pieces of the history that cannot be read.")
    full: bool = figure("A queue has no more room; the run goes on where it stands.")
    next: int | None = figure("The sequence at which it goes on; null after the last.")
    below: int = figure("The sequence before which it ends.")


@figures
class Imported:
    """A page of exported messages went to the end of the queue."""

    imported: int = figure("Messages that went.")
    total: int = figure("Messages of this run so far.")
    full: bool = figure("The queue has no more room; the run goes on where it stands.")
    next: int | None = figure("How many messages of the file are done; null after the last.")


# --- sessions of local clients ---


@figures
class SessionFacts:
    """The session of a local client."""

    client_id: str = figure("Its client identifier.")
    user: str | None = figure("The user who has it.")
    connected: bool = figure("Whether its client is connected.")
    address: str | None = figure("From where it is connected.")
    level: int | None = figure("By which version of MQTT: 4 is 3.1.1, 5 is 5.0.")
    keep_alive_s: float | None = figure("The keep alive of its connection.", default=None)
    since_ms: int | None = figure("Since when it is connected, or away.")
    expiry_s: int | None = figure("How long it outlives its connection; null is for ever.")
    expires_ms: int | None = figure("When it ends, if its client stays away.", default=None)
    lasting: bool = figure("Whether it outlives its connection.")
    subscriptions: int = figure("How many it has.")
    depth: int = figure("Messages in its queue.")
    bytes: int | None = figure("Bytes of those.")
    in_flight: int = figure("Messages that were sent and are not acknowledged.")
    received: int = figure("Messages of QoS 2 that it sent and has not released.")
    damaged: bool = figure("Whether its queue stands still.", default=False)


@figures
class SessionRow(SessionFacts):
    """A session in a list."""

    will: bool = figure("Whether it has a Will.")


@figures
class ConnectedClient(SessionRow):
    """A session as the Listener knows it, whose client is connected."""

    filters: tuple[tuple[str, int, int], ...] = figure("Topic filter, options, subscription identifier.", default=())


@figures
class Sessions:
    """A page of sessions, by client identifier."""

    sessions: tuple[SessionRow, ...] = figure("One by one.")
    next: str | None = figure("The `after` of the next page; null after the last.")


@figures
class Subscription:
    """A subscription of a session."""

    filter: str = figure("The topic filter.")
    qos: int = figure("The highest QoS that is delivered.")
    no_local: bool = figure("Whether it leaves out the client's own messages.")
    retain_as_published: bool = figure("Whether RETAIN stays as it was published.")
    identifier: int | None = figure("The subscription identifier.")


@figures
class SessionWill:
    """The Will of a session, without its content."""

    topic: str = figure("Where it is published.")
    qos: int = figure("0, 1 or 2.")
    retain: bool = figure("Whether it is to be retained.")
    size: int = figure("Bytes of the payload.")
    properties_size: int = figure("Bytes of the properties.")
    delay_s: int = figure("How long it waits for its client.")
    due_ms: int | None = figure("When it is published, if its client stays away.")


@figures
class WholeWill(SessionWill):
    """The Will of a session, with its content."""

    payload: bytes = figure("The beginning of the payload.")
    properties: bytes = figure("MQTT 5 properties, encoded.")


@figures
class Session(SessionFacts):
    """One session, with its subscriptions and the topic of its Will."""

    queue: str = figure("Its queue; empty if it ends with its connection.")
    filters: tuple[Subscription, ...] = figure("Its subscriptions.")
    will: SessionWill | None = figure("Its Will.")


@figures
class SessionPage(Session):
    """One session, with a page of its subscriptions."""

    next: int | None = figure("The `from` of the next page; None after the last.")


@figures
class Will:
    """The message that is published for a client that is gone."""

    will: WholeWill | None = figure("Null if it has none.")


@figures
class SessionEnded:
    """The session has ended for good."""

    client_id: str = figure("Its client identifier.")
    was_connected: bool = figure("Whether its client was connected.")
    purged: int = figure("Messages that went with it.")
    subscriptions: int = figure("Subscriptions that went with it.")
    will: Literal["none", "published", "dropped"] = figure("The fate of its Will.")


@figures
class Disconnected:
    """The client's connection was closed."""

    client_id: str = figure("Its client identifier.")
    address: str = figure("From where it was connected.")
    kept: bool = figure("Whether its session is kept.")


# --- what flows ---

TraceState = Literal["waiting", "following", "done", "timed_out", "replaced"]


@figures
class TraceBegun:
    """The next message is waited for."""

    number: int = figure("The number of the trace.")
    timeout_s: float = figure("How long it is waited for.")


@figures
class TracedStep:
    """A step of the message."""

    step: str = figure("Its kind: `taken`, `routed`, `committed`, `sent`, `settled` and others.")
    actor: str = figure("Who took it.")
    queue: str = figure("Of which queue, or empty.")
    at_ms: float = figure("UTC.")
    after_ms: float = figure("Since the first step.")
    details: dict[str, Any] = figure("More of it, by name.")


@figures
class TraceSteps:
    """The steps of the message, one by one."""

    number: int = figure("The number of the trace.")
    topic: str = figure("The topic filter.")
    state: TraceState = figure("The state of the trace.")
    note: str = figure("The fact in words.")
    steps: tuple[TracedStep, ...] = figure("By time.")


@figures
class CountedTopic:
    """One topic, as it flows."""

    topic: str = figure("Its name.")
    messages: int = figure("Messages since counting began.")
    bytes: int = figure("Bytes of those.")
    rate: float = figure("Messages a second.")


@figures
class Topics:
    """The topics with most messages, counted since somebody asks."""

    since_s: float = figure("For how long it was counted; counting ends ten seconds after the last question.")
    topics: tuple[CountedTopic, ...] = figure("The busiest first.")
    others: int = figure("Messages of topics that are not shown.")


# --- snapshots ---


@figures
class SnapshotBegun:
    """A snapshot is being made."""

    number: int = figure("The number of the snapshot.")


@figures
class SnapshotState:
    """The state of a snapshot; of one that was made, what it is."""

    state: Literal["making", "made", "failed"] = figure("Whether it is there.")
    stage: str | None = figure("While it is made: `beginning`, `checkpoint` or `finishing`.", default=None)
    kind: str | None = figure("Why it failed, in a word.", default=None)
    message: str | None = figure("Why it failed, in words.", default=None)
    id: str | None = figure("Its name.", default=None)
    path: str | None = figure("Its folder.", default=None)
    at_ms: int | None = figure("When it was made.", default=None)
    bytes: int | None = figure("Its size.", default=None)
    messages: int | None = figure("Messages in its queues.", default=None)
    took_s: float | None = figure("How long it took.", default=None)
    pause_ms: float | None = figure("For how long the store stood still.", default=None)


# --- the cluster ---


@figures
class Promoted:
    """The node leads, or is to."""

    leads: bool = figure("Whether it leads already.")
    asked: str = figure("The member that steps down for it as soon as it can; empty where nobody is asked.", default="")
    silent_s: float = figure("For how long nobody who leads has said anything.", default=0.0)


@figures
class SteppedDown:
    """The node leads no more."""

    to: str = figure("The member that is to lead next; empty is whichever is first.")


@figures
class MemberRemoved:
    """The member is none any more."""

    removed: str = figure("The member.")
