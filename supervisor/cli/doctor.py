"""``bascule doctor``: what is wrong with a node and where it runs, and what cures it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import click

from supervisor.cli.node_calls import CONFIG


@click.command()
@CONFIG
@click.option("--offline", is_flag=True, help="Connect to no remote, and no server of the log.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each finding.")
def doctor(config: Path, offline: bool, as_json: bool) -> int:
    """Examine a node and its machine; print faults and their cures.

    One verdict and one cure a line; the exit status is 1 if something is to be mended. A running node is asked for its status. It
    connects to each remote with the bridge's own credentials, under a client identifier of its own, and to the servers of a
    replicated node's log. It changes nothing.
    """
    from supervisor.doctor.examination import examine
    from supervisor.terminal.typed_commands import typed
    from supervisor.terminal.view import say_finding

    verdicts = []
    for finding in examine(config, remotes=not offline):
        verdicts.append(finding.verdict)
        if as_json:
            click.echo(json.dumps(asdict(replace(finding, cure=typed(finding.cure)))))
        else:
            say_finding(finding.verdict, finding.about, finding.found, finding.cure)
    failed, warned = verdicts.count("fail"), verdicts.count("warn")
    if not as_json:
        click.echo(f"{len(verdicts)} looked at: {failed} to mend, {warned} to look at")
    return 1 if failed else 0
