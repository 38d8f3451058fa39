"""Where the node of a configuration file is to be asked: where it runs, if it does, else where the file says."""

from __future__ import annotations

from pathlib import Path

from supervisor.config.loading import NodePlace, locate
from supervisor.running_node import running_from
from wire.errors import ConfigError


def place_of(config: Path | str) -> NodePlace:
    """The node that runs from the file ``config``, though the file was edited; of several, the one that the file means.

    Raises:
        ConfigError: none does, and the file does not say.
    """
    running = [NodePlace(found.name, found.data_dir, found.run_dir) for found in running_from(Path(config))]
    try:
        written = locate(config)
    except ConfigError:
        if not running:
            raise
        return running[0]
    return running[0] if running and written.data_dir not in {place.data_dir for place in running} else written
