"""``bascule session``: look at the sessions of local clients, end them, disconnect their clients. The node must run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.node_calls import CONFIG, call_node, node_of
from supervisor.cli.queue import NotConfirmed

if TYPE_CHECKING:
    from supervisor.config.loading import NodePlace

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_TIMEOUT_S = 25.0  # longer than the supervisor waits for the store
_NEVER_MS = 1 << 62

_ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {  # those that are equal stay in the order of their identifiers
    "depth": lambda row: -row["depth"],
    "bytes": lambda row: -(row["bytes"] or 0),
    "since": lambda row: _NEVER_MS if row["since_ms"] is None else row["since_ms"],
    "expires": lambda row: _NEVER_MS if row["expires_ms"] is None else row["expires_ms"],
}


def _client_id(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """No client identifier is anything but UTF-8 [MQTT-1.5.4-1]."""
    try:
        if text is not None:
            text.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter("this is not UTF-8, so it is no client identifier") from error
    return text


CLIENT = click.argument("client_id", metavar="CLIENT_ID", callback=_client_id)


@click.group()
def session() -> None:
    """Look at the sessions of local clients, end them, disconnect their clients."""


@session.command("ls")
@CONFIG
@click.argument("like", metavar="[GLOB]", required=False, callback=_client_id)
@click.option("--connected", "state", flag_value="yes", help="Only those whose client is connected.")
@click.option("--disconnected", "state", flag_value="no", help="Only those whose client is away.")
@click.option("--user", callback=_client_id, help="Only those of this user.")
@click.option(
    "--sort", type=click.Choice(["id", *_ORDERS]), default="id", show_default=True, help="The most, or the longest, first."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
def list_sessions(config: Path, like: str | None, state: str | None, user: str | None, sort: str, as_json: bool) -> int:
    """List sessions by client identifier (those that match GLOB): who is connected, what is kept for whom.

    ``since``: connected, or away, since then. ``in flight`` is sent and not acknowledged, ``QoS 2`` received and not released.
    """
    wanted = {"like": like, "connected": state, "user": user}
    rows = _sessions(node_of(config), {name: text for name, text in wanted.items() if text is not None})
    if sort != "id":
        rows = iter(sorted(rows, key=_ORDERS[sort]))
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return 0
    from supervisor.terminal.session_view import print_sessions

    print_sessions(list(rows))
    return 0


@session.command()
@CONFIG
@CLIENT
@JSON
def show(config: Path, client_id: str, as_json: bool) -> int:
    """Show the session of CLIENT_ID, with its subscriptions and its Will."""
    found = _show(node_of(config), client_id)
    if as_json:
        print(json.dumps(found))
        return 0
    from supervisor.terminal.session_view import print_session

    print_session(found)
    return 0


@session.command()
@CONFIG
@CLIENT
@click.option("--no-will", is_flag=True, help="Do not publish its Will.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def end(config: Path, client_id: str, no_will: bool, yes: bool, as_json: bool) -> int:
    """End the session of CLIENT_ID: its subscriptions and its queue go for good, and its identifier is free.

    Its client, if it is connected, is disconnected first (MQTT 5: reason code 0x98). Its Will is published at once, as it is when a
    session ends in any other way [MQTT-3.1.2-8, MQTT-3.1.3-9], unless --no-will takes it back. A client that comes again gets a new
    session; who may come is the business of passwords and access rules.
    """
    node = node_of(config)
    if not yes:
        _confirm(_call(node, "session.show", {"client_id": client_id}))
    arguments = {"client_id": client_id, **({"drops_will": "yes"} if no_will else {})}
    result = _call(node, "session.end", arguments)
    if as_json:
        print(json.dumps(result))
        return 0
    gone = f"{result['purged']} messages and {result['subscriptions']} subscriptions went with it"
    client = "; its client was disconnected" if result["was_connected"] else ""
    will = "" if result["will"] == "none" else f"; its Will is {result['will']}"
    print(f"{_shown(client_id)}: session ended; {gone}{client}{will}")
    return 0


@session.command()
@CONFIG
@CLIENT
@JSON
def disconnect(config: Path, client_id: str, as_json: bool) -> int:
    """Close the connection of CLIENT_ID (MQTT 5: reason code 0x98); a session that lasts stays.

    Its Will is published when its delay has passed, unless the client comes back before [MQTT-3.1.2-8].
    """
    result = _call(node_of(config), "session.disconnect", {"client_id": client_id})
    if as_json:
        print(json.dumps(result))
        return 0
    rest = "its session is kept" if result["kept"] else "its session has ended with it"
    print(f"{_shown(client_id)}: disconnected from {result['address']}; {rest}")
    return 0


# --- inside ---


def _call(node: NodePlace, command: str, arguments: dict[str, str]) -> Any:
    return call_node(node, command, arguments, timeout_s=_TIMEOUT_S)


def _sessions(node: NodePlace, wanted: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The sessions, page by page."""
    after: str | None = ""
    while after is not None:
        page = _call(node, "session.ls", {**wanted, **({"after": after} if after else {})})
        after = page["next"]
        yield from page["sessions"]


def _show(node: NodePlace, client_id: str) -> dict[str, Any]:
    """The session with all its subscriptions, as it is printed."""
    from supervisor.terminal.session_view import will_json

    found: dict[str, Any] = _call(node, "session.show", {"client_id": client_id})
    following = found.pop("next")
    while following is not None:
        page = _call(node, "session.show", {"client_id": client_id, "from": str(following)})
        found["filters"] += page["filters"]
        following = page["next"]
    found["filters"].sort(key=itemgetter("filter"))
    found["will"] = None if found["will"] is None else will_json(found["will"])
    return found


def _confirm(found: dict[str, Any]) -> None:
    state = f"which is connected from {found['address']}" if found["connected"] else "which is away"
    what = f"the session of {_shown(found['client_id'])}, {state}, with {found['depth']} messages"
    what += f" and {found['subscriptions']} subscriptions"
    if not sys.stdin.isatty():
        raise NotConfirmed(f"this would end {what}; nothing was done: add --yes to mean it")
    click.confirm(f"End {what}, for good?", abort=True)


def _shown(client_id: str) -> str:
    from supervisor.terminal.message_text import printable

    return printable(client_id)
