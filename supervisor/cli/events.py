"""``bascule events``: what happened to a node, as its store has kept it. The node must run: it alone opens its store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from operator import attrgetter

import click

from supervisor.cli.completion import of
from supervisor.cli.node_calls import GivenNode, about_node, moments
from supervisor.units import nearest
from wire.figure import to_map
from wire.status.answers import Event
from wire.status.event_kinds import EventKind

_FOLLOW_PERIOD_S = 1.0
_LAST = 50
_GIVE_ORDERS = ("operator", "supervisor")


@click.command()
@about_node()
@click.option(
    "--last", type=click.IntRange(0), metavar="N", help="Number of the newest events; 0 is all.  [default: 50, or all of a stretch]"
)
@moments("Events from then on", "Events before then")
@click.option(
    "--kind",
    shell_complete=of(lambda: map(str, EventKind)),
    help="Only events of this kind, or of all kinds that begin so, such as link.",
)
@click.option("--follow", is_flag=True, help="Print new events as they happen, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
def events(
    node: GivenNode, last: int | None, since: int | None, until: int | None, kind: str | None, follow: bool, as_json: bool
) -> int:
    """Show the events of the node, by time.

    Events are links, restarts, drops, overflow, and the orders of operators.
    """
    if follow and until is not None:
        raise click.UsageError("--follow goes without --until: it has no end")
    client = node.client
    following, is_stretch = 0, since is not None or until is not None
    last = (0 if is_stretch else _LAST) if last is None else last
    if last:
        following = max(0, client.events(0, 1).until - last) if kind is None and not is_stretch else 0
    shown: list[Event] = []
    for event in client.each_event(following):
        following = event.number + 1
        if _wanted(event, kind) and (since or 0) <= event.at_ms < (inf if until is None else until):
            shown.append(event)
    for event in by_time(shown[-last:]):
        _print(event, as_json=as_json)
    if not (shown or follow or as_json):
        print(("no events" if kind is None else f"no events of the kind {kind}") + (" in that time" if is_stretch else ""))
        if kind is not None and not any(kind == known or known.startswith(f"{kind}.") for known in map(str, EventKind)):
            print(f"  there is no such kind{nearest(kind, [*_heads(), *map(str, EventKind)])}; those are {', '.join(_heads())}")
    while follow:
        time.sleep(_FOLLOW_PERIOD_S)
        news = client.all_events(following)
        following = news[-1].number + 1 if news else following
        for event in by_time(news):
            if _wanted(event, kind):
                _print(event, as_json=as_json)
    return 0


def by_time(events: Iterable[Event]) -> list[Event]:
    """``events``, which are in the order in which the store got them, in that in which they happened.

    Events from before a step of the clock stay before it: times on both sides cannot be compared.
    """
    ordered: list[Event] = []
    between: list[Event] = []
    for event in events:
        if event.kind == EventKind.CLOCK_JUMPED:
            ordered += [*sorted(between, key=attrgetter("at_ms")), event]
            between = []
        else:
            between.append(event)
    return ordered + sorted(between, key=attrgetter("at_ms"))


def _heads() -> list[str]:
    """The beginnings of all kinds."""
    return list(dict.fromkeys(str(kind).partition(".")[0] for kind in EventKind))


def _wanted(event: Event, kind: str | None) -> bool:
    return kind is None or event.kind == kind or event.kind.startswith(f"{kind}.")


def _print(event: Event, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(to_map(event)), flush=True)
        return
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    place = event.bridge + (f":{event.lane}" if event.lane != -1 else "")
    ordered = place and event.actor in _GIVE_ORDERS
    about = place if ordered else event.actor or place
    facts = [f"by {event.actor}" if ordered else "", event.reason]
    facts += [f"count={event.count}"] if event.count else []
    facts += [f"{name}={value}" for name, value in event.details.items()]
    from supervisor.terminal.view import folded

    line = f"{at}  {event.kind:<16}  {about:<24}  {'  '.join(fact for fact in facts if fact)}".rstrip()
    print(folded(line), flush=True)
