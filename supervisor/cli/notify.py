"""``bascule notify``: whether notices arrive."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from supervisor.cli.completion import names
from supervisor.cli.node_calls import CONFIG, JSON, load


@click.group()
def notify() -> None:
    """Try the notices of troubles."""


@notify.command()
@CONFIG
@click.option("--rule", "only", shell_complete=names("notify_rule"), metavar="NAME", help="Only the receivers of this rule.")
@JSON
def test(config: Path, *, only: str | None, as_json: bool) -> int:
    """Send a test notice to each receiver of CONFIG.

    It prints which have taken it. The node need not run, and is not asked. The exit status is 1 if a receiver has not taken it.
    """
    from supervisor.notify.notices import test_notice
    from supervisor.notify.receivers import NotTaken, receivers_of

    settings = load(config)
    rules = [rule for rule in settings.notify if only in (None, rule.name)]
    if not rules:
        known = ", ".join(rule.name for rule in settings.notify) or "none"
        raise click.UsageError(f"{config} has no rule {only}; it has {known}" if only else f"{config} has no notify")
    failed = 0
    for rule in rules:
        notice = test_notice(settings.node.name, rule.name, int(time.time() * 1000))
        if rule.topic is not None and not as_json:
            click.echo(f"{rule.name}:topic: not tried: the node itself publishes there, while it runs")
        for name, receiver in receivers_of(rule):
            error = ""
            try:
                receiver.send(notice)
            except NotTaken as refused:
                error, failed = refused.message, failed + 1
            if as_json:
                click.echo(json.dumps({"receiver": name, "taken": not error, "error": error}))
            else:
                click.echo(f"{name}: {error or 'taken'}")
    return 1 if failed else 0
