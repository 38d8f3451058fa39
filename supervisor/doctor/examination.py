"""The whole examination of one configuration and the machine it is to run on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from supervisor.config.loading import load
from supervisor.doctor.cluster import examine_cluster
from supervisor.doctor.findings import Finding, fail, ok
from supervisor.doctor.machine import examine_machine
from supervisor.doctor.network import examine_listeners, examine_remotes
from supervisor.doctor.rules import examine_circles, examine_rules
from supervisor.doctor.running_node import ask
from supervisor.doctor.trust import examine_files, examine_trust
from supervisor.lock import AnothersLock, running_pid
from supervisor.tree.store_ownership import is_anothers, judge
from wire.config_settings import NodeSettings
from wire.errors import ConfigError, StorageDamaged, StoreGone


def examine_owner(settings: NodeSettings) -> Iterator[Finding]:
    """Whether the store in the data folder is this node's."""
    if settings.persistence.mode == "in-memory":
        return
    try:
        known = judge(settings)
    except (StoreGone, StorageDamaged) as error:
        found, _, cure = error.message.partition(". ")
        yield fail("store", found, cure)
    except OSError as error:
        yield fail("store", f"{settings.node.data_dir}: {(error.strerror or str(error)).lower()}", "run doctor as the node's user")
    else:
        yield ok("store", str(known).rstrip(",") if known is not None else "none yet: the next start begins one")


def examine(config: Path, *, remotes: bool = True) -> Iterator[Finding]:
    """Findings about the configuration ``config``, as they are found.

    remotes: connect to each remote, and to the servers of the log, too.
    """
    try:
        settings = load(config)
    except ConfigError as error:
        for problem in error.problems or (str(error),):
            yield fail("configuration", problem, "mend that line; bascule check CONFIG says the same")
        return
    bridges = ", ".join(bridge.name for bridge in settings.bridges) or "none"
    yield ok("configuration", f"{config}: node {settings.node.name}, bridges: {bridges}")
    try:
        pid = running_pid(Path(settings.node.data_dir))
    except AnothersLock as error:
        found, _, cure = error.message.partition(": ")
        yield fail("node", found, cure)
        return
    runs = pid is not None and not is_anothers(settings)
    yield ok("node", f"runs, pid {pid}" if runs else "does not run")
    if not runs:
        yield from examine_owner(settings)
    yield from examine_machine(settings, pid)
    yield from examine_trust(settings, time.time())
    yield from examine_files(config, settings.node.data_dir)
    yield from examine_rules(settings)
    yield from examine_listeners(settings, pid)
    answers = list(ask(config, settings) if runs else examine_circles(settings))
    yield from answers
    if remotes:
        yield from examine_cluster(settings)
        yield from examine_remotes(settings, [answer.found for answer in answers])
