"""``bascule report``: hands what was typed to the analysis, which knows the options; nothing of it is imported before."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cached_property
from typing import Any

import click

from wire.errors import ConfigError

_CHOICES_SHOWN = 5  # more are named in the help's text


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
        return [_parameter(action) for action in _parser()._actions if "-h" not in action.option_strings]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*self._options, *super().get_params(ctx)]


def _parser() -> argparse.ArgumentParser:
    """Raises: ConfigError, if the analysis is not installed."""
    try:
        from analysis.job import arguments
    except ImportError as error:
        raise ConfigError("the analysis is not installed: pip install 'bascule[analysis]'", missing=error.name) from error
    return arguments("bascule report")


def _parameter(action: argparse.Action) -> click.Parameter:
    if not action.option_strings:
        return click.Argument([action.dest], nargs=-1, required=True, metavar=f"{action.metavar}...")
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
def report(**given: Any) -> int:
    """Report backlogs, latency and losses, from snapshots.

    SNAPSHOT is a snapshot, a folder or a glob of them, or what bascule export wrote. The report says whether everything adds up. It
    is made by Spark, and printed, or written as Parquet, JSON and a page.
    """
    parser = _parser()
    from analysis.job import run

    words = [word for action in parser._actions for word in _words(action, given.get(action.dest))]
    return run(parser.parse_args(words), "bascule report")


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
