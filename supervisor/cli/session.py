"""``bascule session``: look at the sessions of local clients, end them, disconnect their clients. The node must run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import click

from supervisor.cli.node_calls import JSON, GivenNode, about_node, confirm
from supervisor.units import counted
from wire.figure import to_map
from wire.status.answers import Session, SessionRow

_NEVER_MS = 1 << 62

_ORDERS: dict[str, Callable[[SessionRow], Any]] = {  # those that are equal stay in the order of their identifiers
    "depth": lambda row: -row.depth,
    "bytes": lambda row: -(row.bytes or 0),
    "since": lambda row: _NEVER_MS if row.since_ms is None else row.since_ms,
    "expires": lambda row: _NEVER_MS if row.expires_ms is None else row.expires_ms,
}


@click.group()
def session() -> None:
    """Look at the sessions of local clients, and end them."""


@session.command("list")
@about_node(like="[GLOB]")
@click.option("--connected", "state", flag_value="yes", help="Only those whose client is connected.")
@click.option("--disconnected", "state", flag_value="no", help="Only those whose client is away.")
@click.option("--user", help="Only those of this user.")
@click.option(
    "--sort", type=click.Choice(["id", *_ORDERS]), default="id", show_default=True, help="The most, or the longest, first."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
def list_sessions(node: GivenNode, like: str | None, state: str | None, user: str | None, sort: str, as_json: bool) -> int:
    """List sessions by client identifier, or those that match GLOB.

    Each line shows whether the client is connected, since when, and how much is kept for it. In flight counts messages that were
    sent and are not acknowledged, QoS 2 those that were received and are not released.
    """
    rows = node.client.each_session(like=like, user=user, connected=None if state is None else state == "yes")
    if sort != "id":
        rows = iter(sorted(rows, key=_ORDERS[sort]))
    if as_json:
        for row in rows:
            print(json.dumps(to_map(row)))
        return 0
    from supervisor.terminal.session_view import print_sessions

    print_sessions(list(rows))
    return 0


@session.command()
@about_node(client_id="CLIENT_ID")
@click.option("--will", "whole_will", is_flag=True, help="Show the payload of its Will, too, which the role view may not see.")
@JSON
def show(node: GivenNode, client_id: str, whole_will: bool, as_json: bool) -> int:
    """Show one session: its subscriptions, the topic of its Will."""
    found = node.client.session(client_id)
    found = replace(found, filters=tuple(sorted(found.filters, key=attrgetter("filter"))))
    will = node.client.will(client_id) if whole_will else None
    from supervisor.terminal.session_view import print_session, will_json

    if as_json:
        print(json.dumps(to_map(found) | ({"will": will_json(will)} if whole_will else {})))
        return 0
    print_session(found, will if whole_will else found.will)
    return 0


@session.command()
@about_node(client_id="CLIENT_ID")
@click.option("--no-will", is_flag=True, help="Do not publish its Will.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def end(node: GivenNode, client_id: str, no_will: bool, yes: bool, as_json: bool) -> int:
    """End the session of CLIENT_ID for good.

    Its subscriptions and its queue go, and its identifier is free. Its client, if it is connected, is disconnected first (MQTT 5:
    reason code 0x98). Its Will is published at once, as it is when a session ends in any other way [MQTT-3.1.2-8, MQTT-3.1.3-9],
    unless --no-will takes it back. Messages that a shared subscription gave to it go to other members with lasting sessions. A
    client that comes again gets a new session; who may come is the business of passwords and access rules.
    """
    if not yes:
        _confirm(node.client.session(client_id))
    result = node.client.end_session(client_id, drops_will=no_will)
    if as_json:
        print(json.dumps(to_map(result)))
        return 0
    gone = f"{counted(result.purged, 'message')} and {counted(result.subscriptions, 'subscription')} went with it"
    client = "; its client was disconnected" if result.was_connected else ""
    will = "" if result.will == "none" else f"; its Will is {result.will}"
    print(f"{_shown(client_id)}: session ended; {gone}{client}{will}")
    return 0


@session.command()
@about_node(client_id="CLIENT_ID")
@JSON
def disconnect(node: GivenNode, client_id: str, as_json: bool) -> int:
    """Close the connection of CLIENT_ID.

    An MQTT 5 client gets reason code 0x98. A session that lasts stays. Its Will is published when its delay has passed, unless the
    client comes back before [MQTT-3.1.2-8].
    """
    result = node.client.disconnect(client_id)
    if as_json:
        print(json.dumps(to_map(result)))
        return 0
    rest = "its session is kept" if result.kept else "its session has ended with it"
    print(f"{_shown(client_id)}: disconnected from {result.address}; {rest}")
    return 0


# --- inside ---


def _confirm(found: Session) -> None:
    state = f"which is connected from {found.address}" if found.connected else "which is away"
    what = f"the session of {_shown(found.client_id)}, {state}, with {counted(found.depth, 'message')}"
    what += f" and {counted(found.subscriptions, 'subscription')}"
    confirm(f"End {what}, for good?", f"this would end {what}; nothing was done: add --yes to mean it")


def _shown(client_id: str) -> str:
    from supervisor.terminal.message_text import printable

    return printable(client_id)
