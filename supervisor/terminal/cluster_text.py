"""A node's cluster in words: its leader, this node's part, and the log. Pure."""

from __future__ import annotations

from supervisor.terminal.message_text import printable
from wire.status.replication_figures import ReplicationFigures

SILENT_S = 60.0  # a member that has said nothing for longer is told of


def leader(figures: ReplicationFigures) -> str:
    """The leader, as far as the node knows; ``figures`` are ``replication`` of its status."""
    if not figures.leader:
        return "nobody leads, as far as this node knows"
    at = f" at {printable(figures.leader_address)}" if figures.leader_address else ""
    return f"{figures.leader} leads{at}"


def own_part(figures: ReplicationFigures) -> str:
    """How far the node is, or for how long it leads."""
    if figures.role == "leader":
        left_s = figures.lease_left_s
        return "it leads" + ("" if left_s is None else f", its lease for another {max(0.0, left_s):.1f} s")
    if figures.behind is None or figures.silent_s is None:
        return "not level yet: its store is not open"
    count = figures.behind
    behind = f"{count} {'message' if count == 1 else 'messages'} behind" if count else "level with the log"
    return f"{behind}, last heard of a leader {ago(figures.silent_s)}"


def log_state(figures: ReplicationFigures) -> str:
    """Whether the log can be used, and else why and what follows."""
    why = printable(figures.error) if figures.error else "it was not reached yet"
    if figures.log == "ready":
        return "ready"
    follows = "nothing is acknowledged until it is back" if figures.role == "leader" else "it is tried again"
    return f"away: {why}; {follows}"


def base(figures: ReplicationFigures) -> str:
    """Why the node waits for the leader's store, if it does."""
    why = figures.needs_base
    return f"it begins with the leader's store, and waits for that: {why}" if why else ""


def members(figures: ReplicationFigures) -> str:
    """All members in a line; of those that lag or are silent how they are."""
    told = []
    for name, row in figures.members.items():
        notes = [row.role] if row.role != "standby" else []
        if row.needs_base:
            notes.append("waits for the leader's store")
        elif row.role == "standby":
            notes.append(f"{row.behind} behind" if row.behind else "level")
        if row.silent_s > SILENT_S:
            notes.append(f"silent for {lasting(row.silent_s)}")
        told.append(f"{name} ({', '.join(notes)})")
    return ", ".join(told) or "none has spoken yet"


def ago(seconds: float) -> str:
    """How long ago, in a few characters."""
    return f"{lasting(seconds)} ago"


def lasting(seconds: float) -> str:
    """How long, in its largest unit."""
    units = ((86_400, "d"), (3600, "h"), (60, "min"))
    return next((f"{int(seconds // unit_s)} {unit}" for unit_s, unit in units if seconds >= unit_s), f"{seconds:.1f} s")
