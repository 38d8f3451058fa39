"""Where the node of a configuration file is to be asked: where it runs, if it does, else where the file says."""

from __future__ import annotations

from pathlib import Path

from supervisor.running_node import NodePlace, running_from
from wire.errors import ConfigError


def place_of(config: Path | str) -> NodePlace:
    """The node that runs from the file ``config``, though the file was edited; of several, the one that the file means.

    Raises:
        ConfigError: none does, and the file does not say.
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
    return running[0] if running and written.data_dir not in {place.data_dir for place in running} else written
