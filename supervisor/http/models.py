"""Bodies and answers of the REST API, as the OpenAPI document says them. Answers are the control commands' results as they are.

Answers that grow from version to version may have more fields than are named here; a client leaves out what it does not know.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model

from wire.figure import held
from wire.status import node as figures
from wire.typed_values import field_types


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorText(BaseModel):
    """The fault."""

    kind: str = Field(description="Why, in a word, for programs.", examples=["unknown_bridge"])
    message: str = Field(description="Why, in words, for people.", examples=["there is no bridge 'clud'; known: cloud"])


class Error(BaseModel):
    """Every answer with a status of 400 or more."""

    error: ErrorText


class Live(_Answer):
    """The HTTP process serves."""

    live: bool = Field(examples=[True])


class Ready(_Answer):
    """Whether the node takes messages."""

    ready: bool
    state: Literal["ready", "standby", "starting", "stopping", "unknown"]
    reasons: list[str] = Field(description="Why it is not ready, in words.", examples=[["store is restarting"]])
    stop_left_s: float | None = Field(default=None, description="While it stops: how long that takes at most.")


class Caller(_Answer):
    """The name of the token."""

    name: str = Field(description="Of the token; `loopback` where none is needed.", examples=["ada"])
    role: Literal["view", "operate", "admin"]


class _Nothing(_Body):
    """Nobody has reported it yet, or it is not configured."""


def _model_of(kind: Any) -> type[BaseModel]:
    """The figures of ``kind`` as a model: each field with its sentence."""
    declared = zip(fields(kind), field_types(kind), strict=True)
    typed: dict[str, Any] = {
        each.name: (_typed(hint, each.metadata["part"]), Field(description=each.metadata["text"])) for each, (_, hint) in declared
    }
    model: type[BaseModel] = create_model(kind.__name__, __base__=_Answer, __doc__=kind.__doc__, **typed)
    return model


def _typed(hint: Any, is_part: bool) -> Any:
    kind, within = held(hint)
    if kind is None:
        return hint
    model: Any = _model_of(kind)
    if within in (tuple, dict):
        return list[model] if within is tuple else dict[str, model]
    return model | _Nothing if is_part else model | None if type(None) in get_args(hint) else model


Status = _model_of(figures.Status)


class Event(_Answer):
    """Something that happened; docs/reference/events.md has the kinds."""

    kind: str = Field(examples=["link.down"])
    at_ms: int
    bridge: str
    lane: int
    actor: str
    reason: str
    count: int
    details: dict[str, Any]


class Events(_Answer):
    """A page of events."""

    events: list[Event]
    next: int = Field(description="The `from` of the next page.")
    until: int = Field(description="One past the newest event.")


class Stopping(_Answer):
    """The node has begun to stop."""

    stopping: bool
    pid: int
    stop_timeout_s: float = Field(description="How long each group of its processes may take.")


class BridgeOrdered(_Answer):
    """The order was carried out."""

    bridge: str = Field(examples=["cloud"])
    processes: list[str] = Field(examples=[["bridge:cloud:0"]])


class Queue(_Answer):
    """The queue of one lane."""

    queue: str = Field(examples=["bridge:cloud:0"])
    bridge: str
    lane: int
    configured: bool
    state: str = Field(examples=["open"])
    depth: int
    bytes: int
    oldest_age_s: float | None
    in_flight: int
    head: int
    tail: int


class DeadLetterQueue(_Answer):
    """The dead letters of one bridge."""

    queue: str
    bridge: str
    configured: bool
    oldest_age_s: float | None
    held: int


class Queues(_Answer):
    """All queues, those of bridges that are not configured any more included."""

    queues: list[Queue]
    dead_letters: list[DeadLetterQueue]


class Message(_Answer):
    """One message, or a damaged dead letter, of which only the sequence is known."""

    queue: str
    seq: int
    topic: str | None = Field(None, examples=["plant/1/temperature"])
    qos: int | None = None
    retain: bool | None = None
    size: int | None = Field(None, description="Bytes of the payload.")
    age_s: float | None = None
    rule: str | None = None
    properties: dict[str, Any] | None = None
    payload: str | None = Field(None, description="The beginning of the payload, as text or in hex.")
    payload_base64: str | None = Field(None, description="With `whole`: all of it.")
    payload_text: str | None = Field(None, description="With `whole`, if it is UTF-8.")
    state: str | None = Field(
        None, description="Of one in a queue: waiting (never sent), maybe sent, handed out (sent, or about to be), released."
    )
    reason: str | None = Field(None, description="Of a dead letter: what it died of.")


class Messages(_Answer):
    """A page of messages."""

    queue: str
    messages: list[Message]
    next: int | None = Field(description="The `from` of the next page; null after the last.")
    tail: int = Field(description="One past the newest message.")


class Purge(_Body):
    """The messages to remove: those that wait for a bridge and were never sent, or its dead letters."""

    lane: int | None = Field(None, ge=0, description="One lane only.")
    dead: bool = Field(False, description="The dead letters instead.")
    in_flight: bool = Field(
        False, description="Remove messages that may have been sent, too; the lane then connects with a clean session."
    )


class Purged(_Answer):
    """The messages that were removed, and those that stay."""

    purged: int
    kept_lanes: list[dict[str, Any]] = Field(description="Lanes in which messages stay, and why.")


class Replay(_Body):
    """Which dead letters go back."""

    reason: str | None = Field(None, description="Only messages that died for this reason.")
    start: int = Field(0, ge=0, alias="from", description="Begin at this sequence.")
    count: int = Field(500, ge=1, le=500, description="The most to replay.")

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class Replayed(_Answer):
    """A page of dead letters went back to the end of the queue."""

    replayed: int
    damaged: int
    full: bool = Field(description="The queue has no more room; the others stay dead letters.")
    next: int | None = Field(description="The `from` of the next page; null after the last.")


class Session(_Answer):
    """The session of a local client."""

    client_id: str = Field(examples=["pump-7"])
    user: str | None
    connected: bool
    address: str | None
    since_ms: int | None
    subscriptions: int
    depth: int
    bytes: int | None
    will: Any


class Will(_Answer):
    """The message that is published for a client that is gone."""

    will: Any


class Sessions(_Answer):
    """A page of sessions, by client identifier."""

    sessions: list[Session]
    next: str | None = Field(description="The `after` of the next page; null after the last.")


class SessionEnded(_Answer):
    """The session has ended for good."""

    client_id: str
    was_connected: bool
    purged: int
    subscriptions: int
    will: Literal["none", "published", "dropped"]


class Disconnected(_Answer):
    """The client's connection was closed."""

    client_id: str
    address: str
    kept: bool = Field(description="Whether its session is kept.")


class SnapshotBegun(_Answer):
    """A snapshot is being made."""

    number: int


class SnapshotState(_Answer):
    """The result."""

    state: Literal["making", "made", "failed"]


class Change(_Answer):
    """One difference between the configuration that runs and the file."""

    what: str
    how: Literal["live", "reconnect", "restart", "destructive", "node-restart"]
    target: str
    detail: str


class ReloadPlan(_Answer):
    """The changes that a reload would make, or has made."""

    changes: list[Change]
    applied: bool
    refused: str | None = Field(description="Why nothing was changed, or would be.")
    problems: list[str] = Field(description="Faults of the file, with its lines.")
    number: int | None = Field(description="Of the settings that hold now, where they were applied.")


class Reload(_Body):
    """The file is read again, and what differs is applied."""

    yes: bool = Field(False, description="Also what is destructive.")


class Promoted(_Answer):
    """The node leads, or is to."""

    leads: bool = Field(description="Whether it leads already.")
    asked: str = Field("", description="The member that steps down for it as soon as it can; empty where nobody is asked.")
    silent_s: float = Field(0.0, description="For how long nobody who leads has said anything.")


class StepDown(_Body):
    """The member that is to lead next."""

    to: str = Field("", description="The member; empty is whichever is first.")


class SteppedDown(_Answer):
    """The node leads no more."""

    to: str = Field(description="The member that is to lead next; empty is whichever is first.")


class Forgotten(_Answer):
    """The member is waited for no more."""

    forgotten: str = Field(examples=["b"])


class Topic(_Answer):
    """One topic, as it flows."""

    topic: str
    messages: int
    bytes: int
    rate: float


class Topics(_Answer):
    """The topics with most messages, counted since somebody asks."""

    since_s: float = Field(description="For how long it was counted; counting ends ten seconds after the last question.")
    topics: list[Topic]
    others: int = Field(description="Messages of topics that are not shown.")


class Trace(_Body):
    """The messages to follow."""

    topic: str = Field(description="A topic filter; the next message that matches is followed.", examples=["plant/#"])
    timeout_s: int = Field(30, ge=1, le=3600, description="How long to wait for it.")


class TraceBegun(_Answer):
    """The next message is waited for."""

    number: int
    timeout_s: float


class TraceStep(_Answer):
    """A step of the message."""

    step: str = Field(description="Its kind.", examples=["taken", "routed", "committed", "sent", "settled"])
    actor: str
    queue: str
    at_ms: float = Field(description="UTC.")
    after_ms: float = Field(description="Since the first step.")
    details: dict[str, Any]


class TraceSteps(_Answer):
    """The steps of the message, one by one."""

    number: int
    topic: str
    state: Literal["waiting", "following", "done", "timed_out", "replaced"]
    note: str = Field(description="The fact in words.")
    steps: list[TraceStep]
