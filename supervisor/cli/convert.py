"""``bascule convert``: a configuration of Mosquitto or HiveMQ Edge becomes one of ours, and what is lost on the way is told."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from storage import files
from supervisor.terminal.typed_commands import typed
from wire.errors import ConfigError

IN_PART = 3  # some lines could not be taken
_FILE_MODE = 0o644  # nothing secret is in it
_UNPROVEN = ".new"


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("-o", "--output", metavar="CONFIG", type=click.Path(path_type=Path, dir_okay=False), help="Write to CONFIG.")
@click.option("--data-dir", default="data", show_default=True, help="The folder of the queues, relative to CONFIG.")
@click.option("--force", is_flag=True, help="Replace CONFIG, and files of secrets beside it, if they are there.")
def convert(file: Path, output: Path | None, data_dir: str, force: bool) -> int:
    """Make a configuration from one of Mosquitto or HiveMQ Edge.

    FILE is a mosquitto.conf, or a config.xml. Each line of the result says which line it came from. What could not be taken stands
    at its end and on standard error, with the reason; then the exit status is 3. The result passes bascule check. Passwords go into
    files of their own, in the folder secrets beside CONFIG; so where there are any, -o is needed. Run it on the machine of FILE, as
    a user who may read what FILE names.
    """
    from supervisor.convert.converted import convert as converted

    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} is there already; take another name, or --force")
    text, draft = converted(file, data_dir)
    for place, reason in draft.untaken:
        click.echo(f"{place}: {reason}", err=True)
    if output is None:
        if draft.files:
            raise click.UsageError(f"passwords go into files beside the configuration ({', '.join(draft.files)}): give -o CONFIG")
        click.echo(text, nl=False)
    else:
        _write(output, text, draft.files, force=force)
    if draft.untaken:
        click.echo(f"{file}: {len(draft.untaken)} not taken", err=True)
    return IN_PART if draft.untaken else 0


def _write(config: Path, text: str, secrets: dict[str, bytes], *, force: bool) -> None:
    """Write all of it, or nothing where that fails or does not hold: its folder may have a bridge of the same name, or be none to
    keep secrets in. What is there is replaced once the rest is written.
    """
    from supervisor.config.loading import load

    contents = {config.parent / name: content for name, content in secrets.items()}
    there = [path for path in contents if path.exists()]
    if there and not force:
        raise click.UsageError(f"{', '.join(map(str, there))}: there already; take another folder, or --force")
    folders = [folder for folder in (config.parent / "secrets", *config.parents) if secrets and not folder.exists()]
    try:
        with ExitStack() as undo:
            for folder in reversed(folders):
                undo.callback(files.remove_empty, folder)
            if secrets:
                files.make_folder(config.parent / "secrets")
            for path in (path for path in contents if path not in there):
                undo.callback(files.remove, path)
                files.write(path, contents[path], for_group_of_folder=True)
            with ExitStack() as replaced:  # each when this ends, and after the configuration
                for path in there:
                    secret = replaced.enter_context(files.replacing(path, for_group_of_folder=True))
                    secret.write(contents[path])
                    secret.flush()
                with files.replacing(config, mode=_FILE_MODE, suffix=_UNPROVEN) as file:
                    file.write(text.encode())
                    file.flush()
                    load(config.with_name(config.name + _UNPROVEN))
                undo.pop_all()  # the configuration names them from now on
    except ConfigError:
        click.echo(f"{config}: nothing is written, for the result would not hold there:", err=True)
        raise
    except OSError as error:
        raise files.unwritable(config, error) from error
    quoted = shlex.quote(str(config))
    told = typed(f"{config}: written\n  next: bascule doctor {quoted}, then bascule run {quoted}")
    click.echo(told, err=not sys.stdout.isatty())
