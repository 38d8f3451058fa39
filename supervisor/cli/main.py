"""The command line: what a user types, by task. Each command is a few lines over the package that does the work.

``bascule run`` starts within the blink that its users wait for, so a command is imported when it is asked for, and itself imports
only then what is heavier than click. Exit statuses: 0 done, 1 refused by the node, or not ready, 2 wrong usage, 3 converted in
part, 65 damaged data, 69 the node does not run, 70 a bug or too many crashes, 74 a file, or what it printed to, failed, 75 busy
(another node runs there), 77 the node is another user's, 78 wrong configuration, 130 interrupted, 141 its reader has gone.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from importlib import import_module

import click

from supervisor.cli.node_calls import REMOTE_OPTIONS, config_option, remote_options
from supervisor.terminal.failures import complain, printing, refused
from supervisor.tree import signals
from supervisor.version import VERSION
from wire.errors import BasculeError

TASKS: dict[str, tuple[str, ...]] = {  # the commands, each in the module of its name, or behind a colon
    "Begin": ("init", "convert", "check", "demo"),
    "Run": ("run", "run:stop", "reload"),
    "Look": ("status", "doctor", "events", "trace", "trace:topics", "status:metrics"),
    "Change": ("bridge", "queue", "session"),
    "Keep safe": ("snapshot", "backup", "backup:restore"),
    "Access": ("user", "token", "key"),
    "Fleet": ("cluster", "notify", "report", "export"),
}


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    return printing(lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    try:
        status = cli.main(args=argv, prog_name="bascule", standalone_mode=False)
    except BasculeError as error:
        return refused(error)
    except click.exceptions.NoArgsIsHelpError as error:
        complain(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        complain(_one_line(error))
        return error.exit_code
    except click.Abort:
        return 130
    return status if isinstance(status, int) else 0


def _one_line(error: click.ClickException) -> str:
    """``bascule queue peek: no such option '--daed'; ...``: what is wrong, and what to do."""
    text, context = error.format_message().rstrip(".").replace(". (Did", " (did"), getattr(error, "ctx", None)
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    if context is None:
        return f"bascule: {text}"
    if isinstance(error, click.NoSuchOption) and error.option_name in REMOTE_OPTIONS:
        return f"{context.command_path}: {error.option_name} stands before the command: bascule {error.option_name} ..."
    more = "" if ";" in text or "id you mean" in text else f"; {context.command_path} --help says what it takes"
    return f"{context.command_path}: {text}{more}"


def first_sentence(command: click.Command) -> str:
    """What ``command`` does, which its help begins with."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


class _Commands(UserDict[str, click.Command]):
    """The commands by name. Only those that are asked for are imported: one runs, and a shell waits for the names alone."""

    def __init__(self) -> None:
        super().__init__()
        self._places = {place.rpartition(":")[2]: place.partition(":")[0] for places in TASKS.values() for place in places}

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"supervisor.cli.{self._places[name]}"), name)
        return command

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _ByTask(click.Group):
    """The commands, a line each, below the task that they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's hook
        """Write the commands by task, and their names in one column."""
        widest = max(map(len, self.commands))
        for task, places in TASKS.items():
            with formatter.section(task):
                names = [place.rpartition(":")[2] for place in places]
                formatter.write_dl([(f"{name:{widest}}", first_sentence(self.commands[name])) for name in names])


def _version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    print(f"bascule {VERSION}")
    context.exit()


@click.group(cls=_ByTask, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@config_option
@remote_options
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """A durable store-and-forward bridge between MQTT brokers.

    CONFIG is the configuration file of a node on this machine. Without it, it is what the environment has in BASCULE_CONFIG, or
    /etc/bascule/bascule.yaml, or your bascule.yaml in this folder. Commands that only ask a node may ask one elsewhere, by --node
    and --key.
    """
    if context.invoked_subcommand != "run":  # a node takes what came when it can
        signals.unblock()
