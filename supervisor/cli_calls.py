"""What every command of the command line starts with: the configuration it is given, and a question to the node of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from wire.settings import NodeSettings

CONFIG = click.argument("config", type=click.Path(path_type=Path))
CALL_TIMEOUT_S = 5.0


def load(config: Path, *, files: bool = False) -> NodeSettings:
    """The settings of the file ``config``; with ``files``, its password and ACL files are checked too.

    A node that runs goes on with the access that it has while such a file is wrong, so who asks it something is not held up.

    Raises:
        ConfigError: it does not hold.
    """
    from supervisor.config import load as load_file

    return load_file(config, files=files)


def call_node(
    settings: NodeSettings, command: str, arguments: dict[str, str] | None = None, *, timeout_s: float = CALL_TIMEOUT_S
) -> Any:
    """Have the node of ``settings`` carry out ``command``, and return its result.

    Raises:
        NotRunning: it does not run.
        ControlError: it refused.
    """
    from supervisor.control import NotRunning, call
    from supervisor.lock import running_pid

    if running_pid(Path(settings.data_dir)) is None:
        raise NotRunning(f"node {settings.name} does not run", data_dir=settings.data_dir)
    return call(Path(settings.run_dir), command, arguments, timeout_s=timeout_s)
