"""The output of ``bascule cluster show`` on a terminal."""

from __future__ import annotations

from supervisor.terminal.cluster_text import ago, base, leader, log_state, own_part
from supervisor.terminal.message_text import printable
from supervisor.terminal.view import print_table, say
from wire.status.replication_figures import ReplicationFigures

_COLUMNS = ("member", "role", ">behind", ">term", ">spoke", "address", "")


def print_cluster(node: str, figures: ReplicationFigures) -> None:
    """Print how the cluster is, by ``figures``, which are ``replication`` of the status of ``node``."""
    term = f", term {figures.term}" if figures.term else ""
    say(f"cluster {figures.stream}: {leader(figures)}{term}")
    say(f"this node, {node}, is the member {figures.member}: {own_part(figures)}")
    if why := base(figures):
        say(f"  {why}")
    say(f"log: {log_state(figures)}")
    rows = [
        (
            name,
            row.role,
            str(row.behind),
            str(row.term),
            ago(row.silent_s),
            printable(row.address) or "-",
            "waits for the leader's store" if row.needs_base else "",
        )
        for name, row in figures.members.items()
    ]
    if rows:
        print_table("as each said last:", _COLUMNS, rows)
