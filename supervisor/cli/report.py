"""``bascule report``: hands what was typed to the analysis, which knows the options; nothing of it is imported before.

Without a snapshot it is about those of a node on this machine: that node makes one first, if it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from supervisor.cli.node_calls import GivenNode, config_option, is_config, moments
from supervisor.snapshots.asked_snapshot import folder_of, make_snapshot, newest_snapshot

_CHOICES_SHOWN = 5  # more are named in the help's text
_MOMENTS = ("since", "until")  # they are typed as for every command, where the analysis takes no time but a whole one


class _Checked(click.ParamType[str]):
    """A text that the analysis takes; it is passed on as it was typed."""

    def __init__(self, name: str, check: Callable[[str], object]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            self._check(value)
        except (argparse.ArgumentTypeError, ValueError) as error:
            self.fail(str(error), param, ctx)
        return value


class Report(click.Command):
    """The command, with the options of the analysis."""

    @cached_property
    def _options(self) -> list[click.Parameter]:
        return [_parameter(action) for action in _parser()._actions if action.dest not in ("help", *_MOMENTS)]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*self._options, *super().get_params(ctx)]


def _parser() -> argparse.ArgumentParser:
    from analysis.job import arguments

    return arguments("bascule report")


def _parameter(action: argparse.Action) -> click.Parameter:
    if not action.option_strings:
        return click.Argument([action.dest], nargs=-1, metavar=f"[CONFIG] | {action.metavar}...")
    if action.nargs == 0:
        return click.Option([*action.option_strings, action.dest], is_flag=True, help=_sentence(action))
    kind: click.ParamType[Any] | None = click.Choice(list(action.choices)) if action.choices else None
    if kind is None and action.type is not None:
        kind = _Checked(str(action.metavar or "number"), action.type)  # type: ignore[arg-type]  # argparse also takes names of types
    many = isinstance(action, argparse._AppendAction)
    metavar = str(action.metavar) if action.metavar else None
    text = _sentence(action)
    if action.choices and len(list(action.choices)) > _CHOICES_SHOWN:
        metavar, text = "NAME", f"{text} One of {', '.join(action.choices)}."
    return click.Option([*action.option_strings, action.dest], type=kind, multiple=many, metavar=metavar, help=text)


def _sentence(action: argparse.Action) -> str:
    text = action.help or ""
    return f"{text[:1].upper()}{text[1:]}."


@click.command(cls=Report)
@config_option
@moments("History from then on", "History and snapshots up to then")
@click.option("--last", is_flag=True, help="Of the node's own snapshots: make none, take the newest.")
@click.pass_context
def report(context: click.Context, /, last: bool, **given: Any) -> int:
    """Report backlogs, latency and losses, from snapshots.

    SNAPSHOT is a snapshot, a folder or a glob of them, or what bascule export wrote; without one, those of the node of CONFIG,
    which makes one first if it runs. The report says whether everything adds up. It is printed, or written as Parquet, JSON and a
    page.
    """
    parser = _parser()
    from analysis.job import run

    given |= {name: datetime.fromtimestamp(given[name] / 1000, UTC).isoformat() for name in _MOMENTS if given[name] is not None}

    places: tuple[str, ...] = given["inputs"]
    node = None
    if not places or (len(places) == 1 and is_config(places[0])):
        node = GivenNode(context, Path(places[0]) if places else None)
        given["inputs"] = (str(folder_of(node.place).path),)
        given["data_dir"] = given["data_dir"] or node.place.data_dir
    elif last:
        raise click.UsageError("--last is about the snapshots of a node, and SNAPSHOT was given", context)
    words = [word for action in parser._actions for word in _words(action, given.get(action.dest))]
    make_input = None if node is None else lambda: _snapshot(node, last)
    return run(parser.parse_args(words), "bascule report", make_input)


def _snapshot(node: GivenNode, last: bool) -> None:
    """Have ``node`` make a snapshot, unless the ``last`` one will do, or it does not run.

    Raises:
        Unavailable: there is none.
    """
    from supervisor.lock import running_pid

    if last or running_pid(Path(node.place.data_dir)) is None:
        why = "" if last else ", which does not run"
        print(f"the newest snapshot of node {node.place.name}{why}", file=sys.stderr, flush=True)
        newest_snapshot(node.place)
        return
    print(f"node {node.place.name} makes a snapshot", file=sys.stderr, flush=True)
    make_snapshot(node.client)


def _words(action: argparse.Action, value: Any) -> list[str]:
    """``value`` as it is typed for ``action``."""
    if value in (None, False, ()):
        return []
    if not action.option_strings:
        return ["--", *value] if any(word.startswith("-") for word in value) else list(value)
    name = action.option_strings[-1]
    if value is True:
        return [name]
    return [word for one in (value if isinstance(value, tuple) else (value,)) for word in (name, str(one))]
