"""``bascule report``: hands its arguments to the analysis, which knows them; nothing of it is imported before."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="SNAPSHOT...")
def report(arguments: tuple[str, ...]) -> int:
    """Report on snapshots with Spark: tables, Parquet and a page; ``bascule report --help`` has the options."""
    try:
        from storage.analysis.job import main
    except ImportError as error:
        from wire.errors import ConfigError

        raise ConfigError("the analysis is not installed: pip install 'bascule[analysis]'", missing=error.name) from error
    try:
        return main(arguments, prog="bascule report")
    except SystemExit as done:  # argparse: help, or wrong usage
        return done.code if isinstance(done.code, int) else 2
