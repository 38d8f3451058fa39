"""``bascule user``: users and their passwords in a password file.

The file is replaced in one step, with mode 0600 and the owner it had; a running node notices within a second. The lines are read by
``wire/access/password_table.py``, hashed by ``actors/access/password_hashes.py``.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from getpass import GetPassWarning
from pathlib import Path
from typing import TYPE_CHECKING

import click

from storage import files
from supervisor.cli.completion import entries
from supervisor.cli.node_calls import JSON
from supervisor.cli.secret_file import locked, replace

if TYPE_CHECKING:
    from wire.access.password_table import PasswordTable

_PASSWORD_BYTES_MAX = 65_535  # a CONNECT carries no more


FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
USER = click.argument("user", shell_complete=entries(lambda file: _read(file).users))


@click.group()
def user() -> None:
    """Add and remove users of the local broker, and their passwords."""


@user.command()
@FILE
@USER
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from the first line of standard input.")
def add(file: Path, user: str, from_stdin: bool) -> int:
    """Give USER a password in the password file FILE.

    FILE is made if need be; it holds hashes. A USER who has a password already gets this one. A running node notices within a
    second.
    """
    from wire.access.password_table import name_fault, with_password

    fault = name_fault(user)
    if fault is not None:
        raise click.BadParameter(fault, param_hint="USER")
    stored = _hash(_password(user, from_stdin=from_stdin))
    _change(file, lambda text: with_password(text, user, stored))
    click.echo(f"{file}: {user} has a new password")
    return 0


@user.command("list")
@FILE
@JSON
def list_users(file: Path, as_json: bool) -> int:
    """List the users in the password file FILE."""
    users = _read(file).users
    print(json.dumps([{"name": name} for name in users]) if as_json else "\n".join(users or ["no users"]))
    return 0


@user.command()
@FILE
@USER
def remove(file: Path, user: str) -> int:
    """Remove USER from the password file FILE.

    The password is refused within a second. A client that is connected stays.
    """
    from wire.access.password_table import without_user

    if not _change(file, lambda text: without_user(text, user)):
        print(f"bascule: there is no user {user} in {file}", file=sys.stderr)
        return 1
    click.echo(f"{file}: {user} removed")
    return 0


def _read(file: Path) -> PasswordTable:
    """The users of ``file``. Raises ConfigError if it is wrong."""
    from actors.access.password_file import read_passwords

    return read_passwords(file)


def _change(file: Path, change: Callable[[str], str | None]) -> bool:
    """Put what ``change`` makes of the text of ``file`` in its place; whether it made anything. A file that is wrong stays."""
    file = Path(os.path.realpath(file))
    try:
        with locked(file.parent):
            there = file.exists()
            if there:
                _read(file)
            changed = change(file.read_text(encoding="utf-8-sig") if there else "")
            if changed is None:
                return False
            replace(file, changed.encode())
    except OSError as error:
        raise files.unwritable(file, error) from error
    return True


def _password(user: str, *, from_stdin: bool) -> bytes:
    if from_stdin:
        password = sys.stdin.buffer.readline().rstrip(b"\r\n")
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", GetPassWarning)  # it would ask, and show what is typed
                prompted: str = click.prompt(f"Password for {user}", hide_input=True, confirmation_prompt="Again")
        except GetPassWarning as error:
            raise click.UsageError("there is no terminal to ask for the password on; give it with --stdin") from error
        password = prompted.encode()
    if not 0 < len(password) <= _PASSWORD_BYTES_MAX:
        raise click.UsageError(f"a password has 1 to {_PASSWORD_BYTES_MAX} bytes")
    return password


def _hash(password: bytes) -> str:
    from actors.access.password_hashes import hash_password

    return hash_password(password)
