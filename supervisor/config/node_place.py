"""The place at which the node of a configuration file is asked: where it runs, if it does, else where the file says."""

from __future__ import annotations

from pathlib import Path

from supervisor.lock import running_pid
from supervisor.running_node import NodePlace, last_name, running_from
from wire.errors import ConfigError, Unavailable


class AnotherNode(Unavailable):
    """The node of a file does not run, and in its data folder another one does."""

    exit_status = 69


def place_of(config: Path | str) -> NodePlace:
    """The node that runs from the file ``config``, though the file was edited; of several, the one that the file means.

    Raises:
        ConfigError: none does, and the file does not say.
        AnotherNode: none does, and in the data folder that the file names another node runs.
    """
    running = running_from(Path(config))
    if len(running) == 1:
        return running[0]
    from supervisor.config.loading import locate  # with the validation library, which takes longer than most commands

    try:
        written = locate(config)
    except ConfigError:
        if not running:
            raise
        return running[0]
    if not running:
        _refuse_another(config, written)
    return running[0] if running and written.data_dir not in {place.data_dir for place in running} else written


def _refuse_another(config: Path | str, written: NodePlace) -> None:
    pid, name = running_pid(Path(written.data_dir)), last_name(Path(written.data_dir))
    if pid is not None and name not in ("", written.name):
        what = f"node {written.name} of {config} does not run: its data folder is in use by node {name}; ask that by its own file"
        raise AnotherNode(what, data_dir=written.data_dir, pid=pid)
