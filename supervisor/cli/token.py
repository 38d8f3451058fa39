"""``bascule token``: tokens of the HTTP interface and their roles, in a tokens file.

The file is replaced in one step, with mode 0600 and the owner it had; a running node notices within a second. The lines are read by
``wire/access/token_table.py``. A token is told once, when it is made: the file has its hash.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

import click

from storage import files
from supervisor.cli.completion import entries
from supervisor.cli.node_calls import JSON
from supervisor.cli.secret_file import locked, replace
from wire.access.roles import ROLES, Role

FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
NAME = click.argument("name", shell_complete=entries(lambda file: _names(file)))

_TOKEN_BYTES = 32


@click.group()
def token() -> None:
    """Make and remove tokens of the HTTP interface."""


@token.command()
@FILE
@NAME
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="view",
    show_default=True,
    help="view sees, operate does what can be undone, admin all.",
)
@JSON
def add(file: Path, name: str, role: Role, as_json: bool) -> int:
    """Make a token for NAME in the tokens file FILE, and print it.

    It cannot be printed again: FILE, which is made if need be, has its hash. A running node notices within a second.
    """
    from wire.access.token_table import PREFIX, Token, digest_of, name_fault, with_token

    fault = name_fault(name)
    if fault is not None:
        raise click.BadParameter(fault, param_hint="NAME")
    file = Path(os.path.realpath(file))
    made = PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        with locked(file.parent):
            text = _read(file)
            if name in _names(file):
                print(f"bascule: {file} has a token {name} already; remove it first", file=sys.stderr)
                return 1
            replace(file, with_token(text, Token(name, role, digest_of(made))).encode())
    except OSError as error:
        raise files.unwritable(file, error) from error
    print(json.dumps({"name": name, "role": role, "token": made}) if as_json else made)
    return 0


@token.command("list")
@FILE
@JSON
def list_tokens(file: Path, as_json: bool) -> int:
    """List the names and roles in the tokens file FILE."""
    from actors.access.token_file import read_tokens

    rows = [(each.name, each.role) for each in read_tokens(file)]
    if as_json:
        print(json.dumps([{"name": name, "role": role} for name, role in rows]))
        return 0
    width = max((len(name) for name, _ in rows), default=0)
    for name, role in rows:
        print(f"{name:{width}}  {role}")
    return 0


@token.command()
@FILE
@NAME
def remove(file: Path, name: str) -> int:
    """Remove the token of NAME from the tokens file FILE.

    The token is refused within a second.
    """
    from wire.access.token_table import without_token

    file = Path(os.path.realpath(file))
    try:
        with locked(file.parent):
            changed = without_token(_read(file), name) if name in _names(file) else None
            if changed is None:
                print(f"bascule: there is no token {name} in {file}", file=sys.stderr)
                return 1
            replace(file, changed.encode())
    except OSError as error:
        raise files.unwritable(file, error) from error
    print(f"{file}: token {name} removed")
    return 0


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8-sig") if file.exists() else ""


def _names(file: Path) -> set[str]:
    """The names in ``file``. Raises ConfigError if it is wrong: it then stays as it is."""
    from actors.access.token_file import read_tokens

    return {each.name for each in read_tokens(file)} if file.exists() else set()
