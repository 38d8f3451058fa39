"""The whole examination of one configuration and the machine it is to run on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from supervisor.config.loading import load
from supervisor.doctor.cluster import examine_cluster
from supervisor.doctor.findings import Finding, fail, ok, warn
from supervisor.doctor.machine import examine_machine
from supervisor.doctor.network import examine_listeners, examine_remotes
from supervisor.doctor.rules import examine_rules
from supervisor.doctor.running_node import ask
from supervisor.doctor.trust import examine_trust
from supervisor.doctor.unmet import circles
from supervisor.lock import running_pid
from supervisor.running_node import last_name
from wire.errors import ConfigError
from wire.settings import NodeSettings


def examine_owner(settings: NodeSettings) -> Iterator[Finding]:
    """Whether another node has used the data folder: bridges are known by name, and what waits for one goes where it leads now."""
    before = last_name(Path(settings.data_dir))
    if before and before != settings.name:
        found = f"{settings.data_dir} was last used by a node called {before}; what waits there goes to the bridges of this one"
        yield warn("data folder", found, "take another node.data_dir, unless it is that node under another name")


def examine(config: Path, *, remotes: bool = True) -> Iterator[Finding]:
    """What is found of the configuration ``config``, as it is found.

    remotes: connect to each remote, and to the servers of the log, too.
    """
    try:
        settings = load(config)
    except ConfigError as error:
        for problem in error.problems or (str(error),):
            yield fail("configuration", problem, "mend that line; bascule check CONFIG says the same")
        return
    bridges = ", ".join(bridge.name for bridge in settings.bridges) or "none"
    yield ok("configuration", f"{config}: node {settings.name}, bridges: {bridges}")
    pid, owner = running_pid(Path(settings.data_dir)), list(examine_owner(settings))
    runs = pid is not None and not owner
    yield ok("node", f"runs, pid {pid}" if runs else "does not run")
    yield from owner
    yield from examine_machine(settings, pid)
    yield from examine_trust(settings, time.time())
    yield from examine_rules(settings)
    for bridge in settings.bridges:
        for key, found in circles(settings, bridge):
            yield fail(f"bridge {bridge.name}", f"{'.'.join(map(str, key))} {found}", "bascule check CONFIG names the line")
    yield from examine_listeners(settings, pid)
    answers = list(ask(config)) if runs else []
    yield from answers
    if remotes:
        yield from examine_cluster(settings)
        yield from examine_remotes(settings, [answer.found for answer in answers])
