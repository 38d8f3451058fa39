"""The start of every command: the node that it is about, and a client of that node.

CONFIG, the file of a node on this machine, is the first argument of a command, or ``-c CONFIG`` anywhere. Without it, it is what
``BASCULE_CONFIG`` names, or ``/etc/bascule/bascule.yaml``, or ``bascule.yaml`` in this folder, which ``bascule init`` writes; not
one of another user, whose file could name commands. A node elsewhere is ``--node ADDRESS`` with ``--key FILE``. Arguments go
before the environment.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from storage import trusted_files
from supervisor.cli import completion
from supervisor.terminal.typed_commands import about, typed
from supervisor.units import parse_moment, write_time
from wire.errors import BasculeError, ConfigError
from wire.figure import to_map

if TYPE_CHECKING:
    from supervisor.control.client import ControlClient
    from supervisor.running_node import NodePlace
    from wire.config_settings import NodeSettings

Command = TypeVar("Command", bound=Callable[..., Any])
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

CONFIG_VARIABLE, NODE_VARIABLE, KEY_VARIABLE, SERVER_KEY_VARIABLE = (
    "BASCULE_CONFIG",
    "BASCULE_NODE",
    "BASCULE_KEY",
    "BASCULE_SERVER_KEY",
)
SYSTEM_CONFIG = Path("/etc/bascule/bascule.yaml")
FOLDER_CONFIG = Path("bascule.yaml")
SYSTEMD = Path("/run/systemd/system")  # it is there where systemd runs
_YAML = (".yaml", ".yml")
_CONFIG, _REMOTE = "bascule.config", "bascule.remote"  # in click's ``Context.meta``


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


class NoSuchBridge(BasculeError):
    """A bridge was asked for that the node has not."""

    exit_status = 1


class NotHere(BasculeError):
    """The command reads files of the node's machine, and the node is elsewhere."""

    exit_status = 2


def _keep_config(context: click.Context, _parameter: click.Parameter, config: Path | None) -> None:
    if config is not None:
        context.meta[_CONFIG] = config


class LocalPath(click.Path):
    """A path, or a ``file:`` URL; any other URL is refused, which would be a folder of that name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from storage.files import local_path

        try:
            return super().convert(local_path(os.fspath(value)), param, ctx)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType[int]):
    """A time, as milliseconds since the epoch."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_moment(value, time.time_ns() // 1_000_000)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def moments(since: str, until: str) -> Callable[[Command], Command]:
    """``--since TIME`` and ``--until TIME``, of which the one is told as ``since`` in the help, the other as ``until``; they are in
    that order.
    """

    def decorate(undecorated: Command) -> Command:
        @wraps(undecorated)
        def command(*others: Any, since: int | None, until: int | None, **given: Any) -> Any:
            if since is not None and until is not None and since >= until:
                raise click.UsageError(f"--since, {write_time(since)}, is not before --until, {write_time(until)}")
            return undecorated(*others, since=since, until=until, **given)

        words = f"{since}: so long ago, such as 24h, or a time, such as 14:00, yesterday 14:00 or 2026-03-01T06:00; UTC."
        with_until = click.option("--until", type=Moment(), metavar="TIME", help=f"{until}.")(command)
        return cast(Command, click.option("--since", type=Moment(), metavar="TIME", help=words)(with_until))

    return decorate


def _keep_remote(context: click.Context, parameter: click.Parameter, text: str | None) -> None:
    if text:
        context.meta.setdefault(_REMOTE, {})[parameter.name] = text


def config_option(command: Command) -> Command:
    """``-c CONFIG``: the file of the node, if it is not the first argument."""
    return click.option(
        "-c",
        "--config",
        metavar="CONFIG",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_keep_config,
        help="The node's file, in place of the first argument.",
    )(command)


REMOTE_OPTIONS = {
    "--server-key": ("KEY", f"That node's public key, or a file with it, if FILE has none [{SERVER_KEY_VARIABLE}]."),
    "--key": ("FILE", f"The key for it; bascule key make FILE makes one [{KEY_VARIABLE}]."),
    "--node": ("ADDRESS", f"Ask a node elsewhere, such as tcp://edge-1:7000 [{NODE_VARIABLE}]."),
}


def remote_options(command: Command) -> Command:
    """``--node``, ``--key`` and ``--server-key``: a node on another machine, and by which keys it is asked."""
    for name, (metavar, text) in REMOTE_OPTIONS.items():
        command = click.option(name, metavar=metavar, is_eager=True, expose_value=False, callback=_keep_remote, help=text)(command)
    return command


def about_node(**arguments: str) -> Callable[[Command], Command]:
    """The command is about a node, which it gets as ``node``, and behind CONFIG it takes ``arguments``: parameter and name.

    A name in brackets may be left out. CONFIG may be, too: then there are just as many arguments as must be given, or the first of
    them is no file, and has no name such as ``bascule.yaml``.
    """

    def take(context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> None:
        if context.resilient_parsing:
            _keep_for_completion(context, words)
            return
        config, words = _split(context, words, list(arguments.values()))
        for place, (name, shown) in enumerate(arguments.items()):
            context.params[name] = _checked(words[place], shown) if place < len(words) else None
        context.params["node"] = GivenNode(context, config)

    return _words(" ".join(("[CONFIG]", *arguments.values())), take, arguments)


def _words(
    metavar: str, take: Callable[[click.Context, click.Parameter, tuple[str, ...]], None], arguments: Iterable[str] = ()
) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        argument = click.argument(
            "words", nargs=-1, metavar=metavar, expose_value=False, callback=take, shell_complete=completion.words(arguments)
        )
        return argument(config_option(command))

    return decorate


def _keep_for_completion(context: click.Context, words: tuple[str, ...]) -> None:
    """Say which word comes next, and which node the ``words`` so far give. Nothing is wrong yet."""

    def config_of(words: Sequence[str]) -> Path | None:
        return Path(words[0]) if words and _CONFIG not in context.meta and is_config(words[0]) else None

    config = config_of(words)
    # Where the value of an option is completed, click has not parsed the words and leaves them in its arguments.
    context.meta[completion.NODE] = lambda: GivenNode(context, config_of(words or context.args))
    context.meta[completion.WORDS] = len(words) - (config is not None), not words and _CONFIG not in context.meta


def _split(context: click.Context, words: tuple[str, ...], names: list[str]) -> tuple[Path | None, tuple[str, ...]]:
    """CONFIG, if it is among ``words``, and the others; the names say how many there may be, and must be."""
    required = [name for name in names if not name.startswith("[")]
    config: Path | None = None
    if _CONFIG not in context.meta and words and _begins_with_config(words, names, len(required)):
        config, words = Path(words[0]), words[1:]
        if not names and not is_config(str(config)) and "/" not in str(config) and not config.is_dir():
            raise click.UsageError(f"there is no file {config}; CONFIG is the node's file, such as bascule.yaml", context)
    if len(words) < len(required):
        raise click.UsageError(f"Missing argument '{required[len(words)]}'; {_usage(context)}", context)
    if len(words) > len(names):
        raise click.UsageError(f"Got unexpected extra argument ({words[len(names)]})", context)
    return config, words


def _begins_with_config(words: tuple[str, ...], names: list[str], required: int) -> bool:
    """Whether the first of ``words`` is CONFIG, where those behind it have ``names`` and so many are ``required``."""
    if names and names[0].strip("[]") == "BRIDGE" and (words[0].endswith(_YAML) or "/" in words[0] or words[0] in (".", "..")):
        return True  # no bridge is called so
    return len(words) > required and (len(words) > len(names) or is_config(words[0]))


def is_config(word: str) -> bool:
    """Whether ``word`` is taken for the file of a node."""
    return word.endswith(_YAML) or Path(word).is_file()


def _usage(context: click.Context) -> str:
    """``write bascule queue peek [CONFIG] BRIDGE``."""
    pieces = [piece for piece in context.command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    return f"write {' '.join((context.command_path, *pieces))}"


def unreadable(config: Path) -> str:
    """Why ``config`` is no file that this user can read, and what to do; empty if it is one."""
    try:
        if config.is_dir():
            inside = next(iter(sorted(path.name for path in config.iterdir() if path.suffix in _YAML)), FOLDER_CONFIG.name)
            return f"{config} is a folder; give the node's file, such as {config / inside}"
        config.stat()
    except FileNotFoundError:
        return f"{config}: no such file; give the node's file, which bascule init {shlex.quote(str(config))} writes"
    except OSError as error:
        return f"{config}: {(error.strerror or str(error)).lower()}; give the command as the node's user, such as by sudo"
    return (
        "" if os.access(config, os.R_OK) else f"{config}: permission denied; give the command as the node's user, such as by sudo"
    )


@contextmanager
def _reading(config: Path) -> Iterator[None]:
    """A file that is not there is named with what to do, not by a line of it."""
    try:
        yield
    except ConfigError as error:
        if why := unreadable(config):
            raise ConfigError("the configuration cannot be read", problems=[f"bascule: {why}"]) from error
        raise


def _checked(word: str, name: str) -> str:
    """No name is anything but UTF-8 [MQTT-1.5.4-1]."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter("this is not UTF-8", param_hint=name.strip("[]")) from error
    return word


def _config_alone(context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> None:
    if context.resilient_parsing:
        _keep_for_completion(context, words)
        return
    config, _ = _split(context, words, [])
    found = GivenNode(context, config).config
    if why := unreadable(found):
        raise ConfigError("the configuration cannot be read", problems=[f"bascule: {why}"])
    context.params["config"] = found


CONFIG = _words("[CONFIG]", _config_alone)  # for what reads the file itself, and is done on the node's machine


class GivenNode:
    """The node that a command was given: one on this machine by its configuration, or one elsewhere by its address and a key."""

    def __init__(self, context: click.Context, config: Path | None) -> None:
        """config: the first argument, if it was one."""
        self._context = context
        self._typed = config or context.meta.get(_CONFIG)
        typed_remote = context.meta.get(_REMOTE, {})
        if self._typed is not None and typed_remote:
            raise click.UsageError("CONFIG is a node on this machine, --node and --key one elsewhere; give one of them", context)
        variables = {"node": NODE_VARIABLE, "key": KEY_VARIABLE, "server_key": SERVER_KEY_VARIABLE}
        found = {name: text for name, variable in variables.items() if (text := os.environ.get(variable))}
        self._remote: dict[str, str] = {} if self._typed is not None else {**found, **typed_remote}
        shown = {f"--{name.replace('_', '-')}": text for name, text in typed_remote.items()}
        about(shlex.join([str(self._typed)] if self._typed is not None else [word for pair in shown.items() for word in pair]))

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is asked over the network."""
        return bool(self._remote)

    @property
    def config(self) -> Path:
        """The file of the node on this machine.

        Raises:
            NotHere: the node is elsewhere.
        """
        if self._remote:
            what = f"bascule {self._context.info_name}" if self._context.info_name else "this"
            raise NotHere(f"{what} reads files of the node's machine: give it there, with CONFIG")
        if self._typed is not None:
            return self._typed
        if variable := os.environ.get(CONFIG_VARIABLE):
            return Path(variable)
        if SYSTEM_CONFIG.exists():
            return SYSTEM_CONFIG
        if FOLDER_CONFIG.is_file() and FOLDER_CONFIG.stat().st_uid == os.geteuid():
            return FOLDER_CONFIG
        none = f"{CONFIG_VARIABLE} is not set, and there is no {SYSTEM_CONFIG} and no {FOLDER_CONFIG} of yours here"
        raise click.UsageError(f"Missing argument 'CONFIG'; give the node's file, such as edge.yaml: {none}", self._context)

    @cached_property
    def place(self) -> NodePlace:
        """The place of the node on this machine. It goes on as it is while its file is edited, and so does who asks it.

        Raises:
            NotHere: the node is elsewhere.
            ConfigError: the file does not say.
        """
        return place_of(self.config)

    @cached_property
    def client(self) -> ControlClient:
        """Its client; closed when the command ends.

        Raises:
            NotRunning: it does not run.
            ConfigError: what was given does not say where it is, or the key is none.
        """
        client = self._remote_client() if self._remote else client_of(self.place, self._starting())
        self._context.call_on_close(client.close)
        return client

    def _starting(self) -> str:
        """The command that starts the node: a service's would belong to another user if it were run from a shell."""
        is_service = SYSTEMD.is_dir() and self.config == SYSTEM_CONFIG
        return "systemctl start bascule" if is_service else "bascule run CONFIG"

    def _remote_client(self) -> ControlClient:
        from supervisor.control.client import ControlClient
        from supervisor.control.key_files import public_key, read_key

        if "key" not in self._remote:
            raise click.UsageError("--node wants --key FILE: a node is asked over the network by a key only", self._context)
        path = Path(self._remote["key"])
        key = read_key(path)
        address, server = self._remote.get("node") or key.node, self._remote.get("server_key") or key.server
        if not key.secret:
            raise click.UsageError(f"{path} has no secret key; bascule key make FILE makes a pair", self._context)
        if path.stat().st_mode & 0o077:
            raise click.UsageError(f"others can read {path}, which is secret; chmod 600 it", self._context)
        if fault := trusted_files.fault(path):
            raise click.UsageError(f"{path} is not used: {fault}", self._context)
        if not address.startswith("tcp://"):
            raise click.UsageError(f"--node is an address such as tcp://edge-1:7000, not {address!r}", self._context)
        if not server:
            raise click.UsageError("--server-key is missing; bascule key show CONFIG shows it, where the node is", self._context)
        return ControlClient.remote(address, public=key.public, secret=key.secret, server=public_key(server))


def told(answer: Any, as_json: bool, words: str) -> int:
    """Say what the node has answered, to a program or in ``words``; the exit status."""
    print(json.dumps(to_map(answer)) if as_json else typed(words))
    return 0


def load(config: Path) -> NodeSettings:
    """The settings of the file ``config``, with its password and ACL files.

    Raises:
        ConfigError: it does not hold.
    """
    from supervisor.config.loading import load as load_file

    with _reading(config):
        return load_file(config)


def node_of(config: Path) -> NodePlace:
    """The place of the node of the file ``config``.

    Raises:
        ConfigError: the file does not say.
    """
    from supervisor.config.loading import locate

    with _reading(config):
        return locate(config)


def place_of(config: Path) -> NodePlace:
    """The place where the node of the file ``config`` runs, whatever the file says by now; where it would, if it does not.

    Raises:
        ConfigError: it does not run, and the file does not say.
    """
    from supervisor.config.node_place import place_of as find

    with _reading(config):
        return find(config)


def client_of(node: NodePlace, starting: str) -> ControlClient:
    """A client of ``node``, which is on this machine. starting: the command that starts it.

    Raises:
        NotRunning: it does not run.
    """
    from supervisor.control.client import ControlClient
    from supervisor.control.control_socket import NotRunning
    from supervisor.lock import running_pid

    if running_pid(Path(node.data_dir)) is None:
        raise NotRunning(f"node {node.name} does not run; {starting} starts it", data_dir=node.data_dir)
    return ControlClient.of_run_dir(node.run_dir)
