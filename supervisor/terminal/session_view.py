"""The output of ``bascule session`` on a terminal: many sessions as plain columns, one in full. Text from clients is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from supervisor.terminal.message_text import printable, properties_of, shown
from supervisor.terminal.view import folded, print_columns, print_table, say, size
from supervisor.units import counted, write_time
from wire.figure import to_map
from wire.status.answers import Session, SessionFacts, SessionRow, SessionWill, WholeWill

_ID_MAX = 60  # characters of a client identifier in a list
_COLUMNS = ("client id", "user", "state", "since", "expires", ">subs", ">depth", ">size", ">in flight", ">QoS 2")


def will_json(will: WholeWill | None) -> dict[str, Any] | None:
    """A Will with its content in JSON."""
    if will is None:
        return None
    told: dict[str, Any] = to_map(will)
    return told | {"payload": shown(will.payload, will.size), "properties": properties_of(will.properties)}


def print_sessions(rows: Sequence[SessionRow]) -> None:
    """Print a line for each; tens of thousands of them, too."""
    if not rows:
        say("no sessions")
        return
    print_columns(_COLUMNS, [_cells(row) for row in rows])


def print_session(found: Session, will: SessionWill | None) -> None:
    """Print one, with its subscriptions and its ``will``."""
    client = f"connected from {found.address}" if found.connected else "away"
    if found.connected:
        client += f", MQTT {'5.0' if found.level == 5 else '3.1.1'}, keep alive {found.keep_alive_s:g} s"
    facts = [
        ("client id", printable(found.client_id)),
        ("user", _user(found.user)),
        ("client", f"{client}, since {_time(found.since_ms)}"),
        ("expires", _expiry(found)),
        ("queue", _queue(found)),
        ("in flight", _in_flight(found)),
        ("Will", _will(will)),
    ]
    for name, text in facts:
        say(folded(f"{name:<10} {text}", indent=11))
    rows = [
        (
            printable(one.filter),
            str(one.qos),
            "yes" if one.no_local else "no",
            "yes" if one.retain_as_published else "no",
            "-" if one.identifier is None else str(one.identifier),
        )
        for one in found.filters
    ]
    if rows:
        print_table("subscriptions", ("filter", ">QoS", "no local", "retain as published", ">identifier"), rows)
    else:
        say("no subscriptions")


def _cells(row: SessionRow) -> list[str]:
    name = printable(row.client_id)
    return [
        name if len(name) <= _ID_MAX else name[: _ID_MAX - 3] + "...",
        _user(row.user),
        ("damaged, " if row.damaged else "") + (row.address or "away"),
        _time(row.since_ms),
        _expires(row),
        str(row.subscriptions),
        str(row.depth),
        "-" if row.bytes is None else size(row.bytes),
        str(row.in_flight),
        str(row.received),
    ]


def _user(user: str | None) -> str:
    return "-" if user is None else printable(user)


def _expires(row: SessionFacts) -> str:
    """The end of the session; while its client is connected, how long it lasts from the connection's end on."""
    if not row.lasting:
        return "with connection"
    if row.expiry_s is None:
        return "never"
    return f"+{row.expiry_s} s" if row.expires_ms is None else _time(row.expires_ms)


def _expiry(found: Session) -> str:
    if found.lasting and found.expiry_s is not None and found.expires_ms is None:
        return f"{found.expiry_s} s after the connection has ended"
    return _expires(found)


def _in_flight(found: Session) -> str:
    received = f"{found.received} QoS 2 received and not released"
    if found.connected:
        return f"{found.in_flight} sent and not acknowledged; {received}"
    return f"{found.in_flight} sent before, to be sent again; {received}"


def _queue(found: Session) -> str:
    if not found.lasting:
        return f"none that outlives the connection; {counted(found.depth, 'message')} waiting"
    damaged = ", DAMAGED" if found.damaged else ""
    return f"{printable(found.queue)}: {counted(found.depth, 'message')}, {size(found.bytes or 0)}{damaged}"


def _will(will: SessionWill | None) -> str:
    if will is None:
        return "none"
    retain = ", retained" if will.retain else ""
    delay = f", delay {will.delay_s} s" if will.delay_s else ""
    due = f", due {_time(will.due_ms)}" if will.due_ms is not None else ""
    head = f"to {printable(will.topic)} at QoS {will.qos}{retain}{delay}{due}"
    if not isinstance(will, WholeWill):
        return f"{head}, {size(will.size)}"
    properties = "".join(f", {name}={value}" for name, value in properties_of(will.properties).items())
    return f"{head}{printable(properties)}: {shown(will.payload, will.size)}"


def _time(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    try:
        return write_time(at_ms)
    except (OverflowError, ValueError):
        return "never"  # in more than 7,000 years
