"""``bascule passwd``: users and their passwords in a password file.

The file is replaced in one step, with mode 0600 and the owner it had; a running node notices within a second. The lines are read by
``wire/access/password_table.py``, hashed by ``actors/access/password_hashes.py``.
"""

from __future__ import annotations

import os
import sys
import warnings
from getpass import GetPassWarning
from pathlib import Path

import click

from supervisor.cli.secret_file import locked, replace
from wire.errors import Unavailable

_PASSWORD_BYTES_MAX = 65_535  # a CONNECT carries no more


@click.command()
@click.option("-D", "--delete", is_flag=True, help="Remove USER.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from the first line of standard input.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("user")
def passwd(file: Path, user: str, delete: bool, from_stdin: bool) -> int:
    """Give USER a password in the password file FILE.

    FILE is made if need be; it holds hashes. A running node notices within a second.
    """
    from actors.access.password_file import read_passwords
    from wire.access.password_table import name_fault, with_password, without_user

    fault = name_fault(user)
    if fault is not None:
        raise click.BadParameter(fault, param_hint="USER")
    if delete and from_stdin:
        raise click.UsageError("--stdin has no use with -D")
    stored = None if delete else _hash(_password(user, from_stdin=from_stdin))
    file = Path(os.path.realpath(file))
    try:
        with locked(file.parent):
            there = file.exists()
            if there:
                read_passwords(file)  # a file that is wrong stays as it is
            text = file.read_text(encoding="utf-8-sig") if there else ""
            changed = without_user(text, user) if stored is None else with_password(text, user, stored)
            if changed is None:
                print(f"bascule: there is no user {user} in {file}", file=sys.stderr)
                return 1
            replace(file, changed.encode())
    except OSError as error:
        raise Unavailable("the password file cannot be changed", path=str(file), error=str(error)) from error
    click.echo(f"{file}: {user} {'removed' if delete else 'has a new password'}")
    return 0


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
