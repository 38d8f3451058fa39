"""``bascule trace`` and ``bascule topics``: what flows through a node, one message in every step, or how much by topic."""

from __future__ import annotations

import json
import time

import click

from supervisor.cli.node_calls import JSON, GivenNode, about_node
from supervisor.terminal.typed_commands import typed
from wire.figure import to_map
from wire.status.answers import TracedStep

_POLL_S = 0.1
_WATCH_S = 2.0


@click.command()
@about_node(topic="TOPIC")
@click.option("--timeout", type=click.IntRange(1, 3600), default=30, show_default=True, metavar="S", help="Wait so many seconds.")
@JSON
def trace(node: GivenNode, topic: str, timeout: int, as_json: bool) -> int:
    """Follow the next message of TOPIC through the node.

    TOPIC is a topic filter, such as plant/#. The trace shows the publisher, the bridges and the reasons against other bridges, and
    the times at which the message was committed, acknowledged, sent (with its packet identifier), answered and settled. The exit
    status is 1 if no message came.
    """
    client = node.client
    number = client.trace(topic, timeout_s=timeout).number
    from supervisor.terminal.trace_view import head_line, step_line
    from supervisor.terminal.view import folded

    shown = 0
    while True:
        result = client.trace_result(number)
        ended = result.state not in ("waiting", "following")
        if not as_json:
            # Steps come from several processes: those of the last moment may have one in front of them that is still on its way.
            settled = result.steps if ended else tuple(step for step in result.steps if _is_old(step))
            if settled and not shown:
                print(folded(head_line(settled[0])), flush=True)
            for step in settled[shown:]:
                print(folded(step_line(step), indent=34), flush=True)
            shown = max(shown, len(settled))
        if ended:
            break
        time.sleep(_POLL_S)
    print(json.dumps(to_map(result)) if as_json else typed(result.note))
    return 0 if result.steps else 1


def _is_old(step: TracedStep) -> bool:
    return step.at_ms < (time.time() - 0.5) * 1000


@click.command()
@about_node()
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="How many topics.")
@click.option("--seconds", type=click.IntRange(1, 9), default=3, show_default=True, metavar="S", help="Count for so long.")
@click.option("--watch", is_flag=True, help="Go on until interrupted.")
@JSON
def topics(node: GivenNode, top: int, seconds: int, watch: bool, as_json: bool) -> int:
    """Show the topics with most messages.

    All messages that clients and remotes publish are counted, from the first question on; counting ends ten seconds after the last.
    """
    client = node.client
    client.topics(top)
    time.sleep(seconds)
    from supervisor.terminal.trace_view import topic_lines
    from supervisor.terminal.view import terminal_width

    while True:
        counted = client.topics(top)
        if as_json:
            print(json.dumps(to_map(counted)), flush=True)
        else:
            print("\n".join(topic_lines(counted, terminal_width())), flush=True)
        if not watch:
            return 0
        time.sleep(_WATCH_S)
        if not as_json:
            print()
