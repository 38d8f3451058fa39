"""Bodies and answers of the REST API, as the OpenAPI document says them. Answers are the control commands' results as they are,
so their models are made of ``wire/status/answers.py``.

Answers that grow from version to version may have more fields than are named here; a client leaves out what it does not know.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model

from wire.figure import held
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


class Will(_Answer):
    """The message that is published for a client that is gone."""

    will: dict[str, Any] | None = Field(description="Null if it has none.")


class _Nothing(_Body):
    """Nobody has reported it yet, or it is not configured."""


@cache
def model_of(kind: Any) -> type[BaseModel]:
    """The figures of ``kind`` as a model: each field with its sentence. One that is None unless it is given may be left out."""
    declared = zip(fields(kind), field_types(kind), strict=True)
    typed: dict[str, Any] = {
        each.name: (
            _typed(hint, each.metadata["part"]),
            Field(None if each.default is None else ..., description=each.metadata["text"]),
        )
        for each, (_, hint) in declared
    }
    model: type[BaseModel] = create_model(kind.__name__, __base__=_Answer, __doc__=kind.__doc__, **typed)
    return model


def _typed(hint: Any, is_part: bool) -> Any:
    kind, within = held(hint)
    if kind is None:
        return hint
    model: Any = model_of(kind)
    if within in (tuple, dict):
        model = list[model] if within is tuple else dict[str, model]
    return model | _Nothing if is_part else model | None if type(None) in get_args(hint) else model


class Purge(_Body):
    """The messages to remove: those that wait for a bridge and were never sent, or its dead letters."""

    lane: int | str | None = Field(None, description="One lane only: its number, or its class.")
    dead: bool = Field(False, description="The dead letters instead.")
    reason: str | None = Field(
        None,
        description="Of the dead letters those that died for this reason, a page at most; the answer says what is next.",
    )
    start: int | None = Field(None, ge=0, alias="from", description="With a reason: begin at this sequence.")
    in_flight: bool = Field(
        False, description="Remove messages that may have been sent, too; the lane then connects with a clean session."
    )

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class Replay(_Body):
    """Which dead letters go back."""

    reason: str | None = Field(None, description="Only messages that died for this reason.")
    start: int = Field(0, ge=0, alias="from", description="Begin at this sequence.")
    count: int = Field(500, ge=1, le=500, description="The most to replay.")

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class Resend(_Body):
    """The messages to send again; the first page of a run says which, the others have it go on."""

    run: str = Field(description="The name of the run.")
    lane: int | None = Field(None, ge=0, description="Of this lane; without it, of lane 0.")
    into: str | None = Field(None, description="The bridge that gets them; without it, their own.")
    start: int | None = Field(None, ge=0, alias="from", description="From this sequence on.")
    below: int | None = Field(None, ge=0, description="Below this sequence.")
    since_ms: int | None = Field(None, ge=0, description="Accepted from then on, in UTC.")
    until_ms: int | None = Field(None, ge=0, description="Accepted before then.")
    count: int = Field(500, ge=1, le=500, description="The most to send.")

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class Import(_Body):
    """Messages of a file, as queue export writes them."""

    run: str = Field(description="The name of the run.")
    start: int = Field(ge=0, alias="from", description="How many messages of the file come before these.")
    below: int = Field(ge=1, description="How many the file has.")
    messages: str = Field(description="JSON Lines, of at most 200,000 bytes.")

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class Reload(_Body):
    """The file is read again, and what differs is applied."""

    yes: bool = Field(False, description="Also what is destructive.")


class BridgeText(_Body):
    """The content of the file of a bridge, as text or as the bridge itself."""

    text: str | None = Field(None, description="YAML: bridges: with the one bridge of that name, and nothing else.")
    bridge: dict[str, Any] | None = Field(None, description="The bridge, with the keys of the configuration; name may be left out.")


class StepDown(_Body):
    """The member that is to lead next."""

    to: str = Field("", description="The member; empty is whichever is first.")


class Trace(_Body):
    """The messages to follow."""

    topic: str = Field(description="A topic filter; the next message that matches is followed.", examples=["plant/#"])
    timeout_s: int = Field(30, ge=1, le=3600, description="How long to wait for it.")
