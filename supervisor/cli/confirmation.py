"""The question before an order that cannot be undone."""

from __future__ import annotations

import sys

import click

from wire.errors import BasculeError


class NotConfirmed(BasculeError):
    """An order that cannot be undone came without --yes, and there is nobody to ask: nothing was done."""

    exit_status = 2


def confirm(question: str, otherwise: str) -> None:
    """Ask ``question`` at a terminal; a no ends the command.

    Raises:
        NotConfirmed: this is no terminal; its message is ``otherwise``.
    """
    if not sys.stdin.isatty():
        raise NotConfirmed(otherwise)
    click.confirm(question, abort=True)
