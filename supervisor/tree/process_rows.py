"""The rows of actors and processes in the status, with what each process has taken of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable

from supervisor.machine_usage import Usage
from supervisor.tree.running_children import Child, RunningChildren
from wire.figure import of_values
from wire.frames.names import SUPERVISOR, actors_of
from wire.status.node_status import ActorMailbox, ActorRow, ProcessRow
from wire.status.states import ChildState

UsageOf = Callable[[int | None], Usage]


def actor_states(children: RunningChildren) -> dict[str, str]:
    """The state of each actor of ``children``; of a child that says nothing, that."""
    known = [(child, children.state_of(child)) for child in children]
    return {
        actor: state if state is ChildState.SILENT else child.state_of(actor)
        for child, state in known
        for actor in actors_of(child.name)
    }


def actor_rows(children: RunningChildren) -> tuple[ActorRow, ...]:
    """The actors of ``children``."""
    states = actor_states(children)
    return tuple(_actor_row(child, actor, states[actor], children) for child in children for actor in actors_of(child.name))


def _actor_row(child: Child, actor: str, state: str, children: RunningChildren) -> ActorRow:
    age_s = children.silent_s(child.process)
    return ActorRow(
        name=actor,
        pid=None if child.life is None else child.life.pid,
        state=state,
        restarts=child.restart_count,
        heartbeat_age_s=None if age_s is None else round(age_s, 3),
        last_cause=child.cause,
        mailbox=None if child.traffic is None else of_values(ActorMailbox, child.traffic),
    )


def process_rows(children: RunningChildren, supervisor: str, usage_of: UsageOf, *, isolated: bool) -> tuple[ProcessRow, ...]:
    """All processes, the ``children``'s last; ``supervisor``: the state of our own. isolated: the node keeps a template."""
    rows = [_process_row(SUPERVISOR, os.getpid(), supervisor, usage_of)]
    template = children.template_pid
    if template is not None or isolated:
        rows.append(_process_row("template", template, ChildState.RESTARTING if template is None else ChildState.READY, usage_of))
    shared: dict[str, list[Child]] = {}
    for child in children:
        shared.setdefault(children.process_of(child.name), []).append(child)
    return (*rows, *(_row_of(process, of, children, usage_of) for process, of in shared.items()))


def _row_of(process: str, of: list[Child], children: RunningChildren, usage_of: UsageOf) -> ProcessRow:
    """The row of a process, which is as the first of its children is that is not ready, or else has a cause to tell."""
    known = [(children.state_of(child), child.cause) for child in of]
    told = [each for each in known if each[0] is not ChildState.READY] or [each for each in known if each[1]] or known
    state, cause = told[0]
    if state is ChildState.SILENT:
        cause = f"it has said nothing for {children.silent_s(process) or 0.0:.0f} s: it hangs, or its disk does"
    actors = tuple(actor for child in of for actor in actors_of(child.name))
    restarts = max(child.restart_count for child in of)
    return _process_row(process, children.pid_of(process), state, usage_of, actors, restarts, cause)


def _process_row(
    name: str,
    pid: int | None,
    state: str,
    usage_of: UsageOf,
    actors: tuple[str, ...] = (),
    restarts: int = 0,
    cause: str = "",
) -> ProcessRow:
    taken = usage_of(pid)
    return ProcessRow(
        name=name,
        pid=pid,
        actors=actors,
        state=state,
        pss_bytes=taken.pss_bytes,
        cpu_s=taken.cpu_s,
        restarts=restarts,
        last_cause=cause,
    )
