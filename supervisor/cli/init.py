"""``bascule init``: a first configuration, asked for or given by options, with secrets in files that nobody else can read."""

from __future__ import annotations

import os
import secrets
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

import click

from storage import files
from supervisor.cli.completion import of
from supervisor.terminal.typed_commands import typed
from wire.errors import ConfigError

SECRETS = "secrets"
FILE_MODE = 0o644  # nothing secret is in it
LINE_MAX = 67  # characters beside an example's name


def _known() -> Iterable[str]:
    from supervisor.config.presets import PRESETS

    return PRESETS


def _example_names() -> Iterable[str]:
    from supervisor.config.examples import examples

    return examples()


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default="bascule.yaml")
@click.option("--name", help="The node's name; without it, the machine's.")
@click.option("--data-dir", default="data", show_default=True, help="The folder of the queues, relative to FILE.")
@click.option("--bind", help="The address for local clients; without it, 127.0.0.1:1883.")
@click.option("--user", help="A user of the local broker; the password is made, and kept beside FILE.")
@click.option("--remote", help="The remote broker, such as mqtts://user@broker.example; empty for a broker alone.")
@click.option(
    "--for",
    "known",
    shell_complete=of(_known),
    metavar="CLOUD",
    help="In place of --remote: one that many use, such as aws-iot; ? lists them.",
)
@click.option("--bridge", default="cloud", show_default=True, help="The bridge's name.")
@click.option("--client-id", help="The bridge's client identifier at the remote; without it, the node's name.")
@click.option("--password-stdin", is_flag=True, help="Read the remote's password from the first line of standard input.")
@click.option("--ca-file", help="Authorities to trust at the remote; without it, the system's.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    help="Topic filter of the messages that go to the remote; may be given several times. Without it, all.",
)
@click.option("--small", is_flag=True, help="For a small box: store, clients and bridges share one process.")
@click.option(
    "--example",
    shell_complete=of(_example_names),
    metavar="NAME",
    help="Write that example instead, such as default, which has every key; ? lists them.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: every option that is not given has its default.")
def init(
    file: Path,
    name: str | None,
    data_dir: str,
    bind: str | None,
    user: str | None,
    remote: str | None,
    known: str | None,
    bridge: str,
    client_id: str | None,
    password_stdin: bool,
    ca_file: str | None,
    filters: tuple[str, ...],
    small: bool,
    example: str | None,
    force: bool,
    yes: bool,
) -> int:
    """Write a first configuration to FILE, and check it.

    The file is small and commented. On a terminal, the command asks for everything that no option gives.
    """
    from supervisor.config.first_configuration import FirstAnswers, name_of, write_first

    if example == "?" or (known is not None and _lists_known(known, remote)):
        return _examples() if example == "?" else 0
    _check_new(file, force=force)
    if example is not None:
        return _from_example(file, example, data_dir)
    asks = not yes and sys.stdin.isatty()
    name = _answer(name, asks, "Name of the node", name_of(socket.gethostname()))
    bind = _answer(bind, asks, "Local clients connect to", "127.0.0.1:1883")
    user = _answer(user, asks, "User of the local broker (empty: everybody)", "" if _is_local(bind) else "site")
    remote = "" if known else _answer(remote, asks, "Bridge to, such as mqtts://user@broker.example (empty: none)", "")
    password = _password(_remote_user(remote), asks, from_stdin=password_stdin)
    folder = file.parent / SECRETS
    answers = FirstAnswers(
        name=name,
        data_dir=data_dir,
        bind=bind,
        user=user,
        password_file=f"{SECRETS}/users" if user else "",
        bridge=bridge,
        remote=remote,
        client_id=client_id or name,
        remote_password_file=f"{SECRETS}/{bridge}.password" if password else "",
        ca_file=ca_file or "",
        filters=filters or _topics(remote, asks),
        small=small,
        preset=_preset(known, bridge, client_id or name, filters) if known else "",
    )
    with _writing(file):
        if user or password:
            files.make_folder(folder)
        if user:
            _make_user(folder, user)
        if password:
            files.write(folder / f"{bridge}.password", password.encode() + b"\n", for_group_of_folder=True)
        files.write(file, write_first(answers).encode(), mode=FILE_MODE)
    return _told_what_to_fill_in(file, folder, user) if known else _checked(file, folder, user)


def _check_new(file: Path, *, force: bool) -> None:
    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already; take another name, or --force")


def _preset(known: str, bridge: str, client_id: str, filters: tuple[str, ...]) -> str:
    from supervisor.config.presets import preset

    return preset(known, bridge=bridge, client_id=client_id, filters=filters or ("#",))


def _lists_known(known: str, remote: str | None) -> bool:
    """Whether the known remotes were asked for, and are listed."""
    from supervisor.config.presets import PRESETS

    if known == "?":
        click.echo("\n".join(PRESETS))
    elif known not in PRESETS:
        raise click.BadParameter(f"there is no {known}; --for '?' lists them", param_hint="--for")
    elif remote is not None:
        raise click.UsageError("--for has an address of its own: write it into the file, without --remote")
    return known == "?"


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise files.unwritable(file, error) from error


def _examples() -> int:
    from supervisor.config.examples import examples

    for name, about in examples().items():
        click.echo(f"{name:<11} {shorten(about, LINE_MAX, placeholder=' ...')}")
    return 0


def _from_example(file: Path, name: str, data_dir: str) -> int:
    from supervisor.config.examples import example_text

    try:
        text = example_text(name, data_dir)
    except KeyError as error:
        raise click.BadParameter(f"there is no example {name}; --example '?' lists them", param_hint="--example") from error
    with _writing(file):
        files.write(file, text.encode(), mode=FILE_MODE)
    return _checked(file, file.parent / SECRETS, "")


def _answer(given: str | None, asks: bool, question: str, default: str) -> str:
    if given is not None:
        return given
    answer: str = click.prompt(question, default=default, show_default=bool(default)) if asks else default
    return answer.strip()


def _is_local(bind: str) -> bool:
    return bind.startswith(("127.", "[::1]", "localhost:", "unix:"))


def _remote_user(remote: str) -> str:
    from supervisor.config.addresses import parse_remote_address

    try:
        return parse_remote_address(remote).username or "" if remote else ""
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--remote") from error


def _password(remote_user: str, asks: bool, *, from_stdin: bool) -> str:
    password = ""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif remote_user and asks:
        question = f"Password of {remote_user} at the remote (empty: none)"
        password = click.prompt(question, default="", hide_input=True, show_default=False)
    if remote_user and not password:
        click.echo(f"{remote_user} has no password at the remote: --password-stdin reads one")
    return password


def _topics(remote: str, asks: bool) -> tuple[str, ...]:
    return tuple(_answer(None, asks and bool(remote), "Topics to send there, such as plant/# line/+/state", "#").split())


def _make_user(folder: Path, user: str) -> None:
    """Give ``user`` a password of the machine's making: its hash for the node, itself for whoever sets up the clients."""
    from actors.access.password_hashes import hash_password
    from wire.access.password_table import name_fault, with_password

    fault = name_fault(user)
    if fault is not None:
        raise click.BadParameter(fault, param_hint="--user")
    password = secrets.token_urlsafe(18)
    table = folder / "users"
    text = table.read_text(encoding="utf-8") if table.exists() else ""
    files.write(table, with_password(text, user, hash_password(password.encode())).encode(), for_group_of_folder=True)
    files.write(folder / f"{user}.password", password.encode() + b"\n")


def _told_what_to_fill_in(file: Path, folder: Path, user: str) -> int:
    """Say what there is now, and what the operator has to write into it or put beside it before it is checked."""
    from supervisor.config.presets import to_fill_in

    click.echo(f"{file}: written")
    if user:
        click.echo(f"  user {user}, whose password is in {folder / user}.password")
    click.echo(f"  fill in: {', '.join(to_fill_in(file.read_text(encoding='utf-8')))}")
    quoted = shlex.quote(os.fspath(file))
    click.echo(typed(f"  next: bascule check {quoted}, then bascule doctor {quoted}, then bascule run {quoted}"))
    return 0


def _checked(file: Path, folder: Path, user: str) -> int:
    """Say what there is now and what comes next; what does not hold is told as ``bascule check`` tells it."""
    from supervisor.config.loading import load

    click.echo(f"{file}: written")
    if user:
        click.echo(f"  user {user}, whose password is in {folder / user}.password")
    try:
        load(file)
    except ConfigError as error:
        click.echo("\n".join(error.problems), err=True)
        return error.exit_status
    quoted = shlex.quote(os.fspath(file))
    click.echo(typed(f"  next: bascule doctor {quoted}, then bascule run {quoted}"))
    return 0
