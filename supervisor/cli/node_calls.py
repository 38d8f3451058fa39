"""What every command of the command line starts with: the configuration it is given, and a question to the node of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from supervisor.config.loading import NodePlace
    from wire.settings import NodeSettings

CONFIG = click.argument("config", type=click.Path(path_type=Path))
CALL_TIMEOUT_S = 5.0


def load(config: Path) -> NodeSettings:
    """The settings of the file ``config``, with its password and ACL files.

    Raises:
        ConfigError: it does not hold.
    """
    from supervisor.config.loading import load as load_file

    return load_file(config)


def node_of(config: Path) -> NodePlace:
    """Where the node of the file ``config`` is. It goes on as it is while the file is wrong elsewhere, and so does who asks it.

    Raises:
        ConfigError: the file does not say.
    """
    from supervisor.config.loading import locate

    return locate(config)


def call_node(node: NodePlace, command: str, arguments: dict[str, str] | None = None, *, timeout_s: float = CALL_TIMEOUT_S) -> Any:
    """Have ``node`` carry out ``command``, and return its result.

    Raises:
        NotRunning: it does not run.
        ControlError: it refused.
    """
    from supervisor.control.client import call
    from supervisor.control.control_socket import NotRunning
    from supervisor.lock import running_pid

    if running_pid(Path(node.data_dir)) is None:
        raise NotRunning(f"node {node.name} does not run", data_dir=node.data_dir)
    return call(Path(node.run_dir), command, arguments, timeout_s=timeout_s)
