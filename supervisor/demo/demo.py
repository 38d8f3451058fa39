"""``bascule demo``: two nodes, a link that is cut, processes that are killed, and an account of every message.

An *edge* node bridges to a *cloud* node, both of this installation, over a relay on loopback. While messages of each QoS flow, the
link is cut, the edge's bridge and store are killed (SIGKILL), the link is mended, and they are killed again. Everything
acknowledged must arrive. The cloud's subscriber is a live one, which counts by number what came over the bridge. With a folder to
keep them in, the edge makes snapshots, while the link is cut and at the end: ``bascule report`` is shown on them.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import NotRunning
from supervisor.demo.clients import Publisher, Subscriber, qos_of
from supervisor.demo.cut_link import Link
from supervisor.demo.demo_snapshots import keep_snapshot, wanted_empty
from supervisor.demo.held_port import held_port, port_of
from supervisor.launch import environment
from supervisor.terminal.typed_commands import typed
from supervisor.terminal.view import print_table, say, verdict
from wire.errors import BasculeError, Unavailable
from wire.frames.names import BRIDGE, STORE, child_name
from wire.status.node_status import Status

BRIDGE_NAME = "cloud"
LANE = child_name(BRIDGE, BRIDGE_NAME, 0)
PATIENCE_S = 60.0  # with each thing that is waited for: a machine that is busy otherwise takes its time
PUBLISHING_S = 8.0
_POLL_S = 0.02
_PROMISES = ("at most once", "at least once", "exactly once")

# At which part of all messages what happens; a name that is not cut, mend or snapshot is the edge's process to kill.
SCRIPT = (
    (0.15, "cut"),
    (0.25, LANE),
    (0.4, STORE),
    (0.5, "snapshot"),
    (0.55, "mend"),
    (0.65, LANE),
    (0.8, STORE),
)


@dataclass(frozen=True, slots=True)
class Account:
    """The fate of the messages of one QoS. lost: acknowledged to the publisher, and never arrived."""

    qos: int
    published: int
    acknowledged: int
    once: int
    duplicated: int
    lost: int

    @property
    def kept(self) -> bool:
        """Whether the promise of this QoS was kept; QoS 0 may lose, but not double."""
        all_acknowledged = self.qos == 0 or self.acknowledged == self.published
        return all_acknowledged and self.lost == 0 and (self.qos == 1 or self.duplicated == 0)


def account(qos: int, published: int, acknowledged: set[int], arrivals: Counter[int]) -> Account:
    """Compare by number; messages 0 ... ``published`` - 1 were published."""
    numbers = [number for number in range(published) if qos_of(number) == qos]
    return Account(
        qos=qos,
        published=len(numbers),
        acknowledged=sum(number in acknowledged for number in numbers),
        once=sum(arrivals[number] == 1 for number in numbers),
        duplicated=sum(arrivals[number] > 1 for number in numbers),
        lost=sum(number in acknowledged and not arrivals[number] for number in numbers),
    )


class DemoNode:
    """A node of the demo in ``folder``: ``bascule run`` in a process of its own."""

    def __init__(self, name: str, folder: Path, remote_port: int | None = None, **keys: Any) -> None:
        """remote_port: where its bridge leads, if it has one. keys: more of its configuration."""
        self.name = name
        self._held = held_port()
        self.port = port_of(self._held)
        self.log_path = folder / f"{name}.log"
        self.run_dir = folder / name / "run"
        self._config = folder / f"{name}.yaml"
        config = {
            "node": {"name": name, "data_dir": str(folder / name)},
            "listeners": [{"bind": f"127.0.0.1:{self.port}"}],
            "access": {"allow_anonymous": True},
            "limits": {"min_free_disk": "0B"},
            "bridges": [] if remote_port is None else [_bridge_to(remote_port)],
            **keys,
        }
        self._config.write_text(json.dumps(config))  # JSON is YAML

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Run it, without waiting."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "supervisor.cli", "run", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
            )

    def kill_whole(self) -> None:
        """SIGKILL to its supervisor, with which all its processes die at once."""
        self._process.kill()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._held.close()

    def status(self) -> Status | None:
        """The node's status; None while it does not answer. Raises: Unavailable, if it has ended."""
        if self._process.poll() is not None:
            raise Unavailable(f"the {self.name} node has ended", exit_status=self._process.returncode)
        try:
            with ControlClient.of_run_dir(self.run_dir, timeout_s=2.0) as node:
                return node.status()
        except NotRunning:
            return None

    def is_ready(self) -> bool:
        """Whether all its actors work."""
        status = self.status()
        return status is not None and status.ready

    def kill(self, process: str) -> None:
        """SIGKILL to ``process``, as soon as it works."""

        def pid_of() -> int | None:
            status = self.status()
            rows = () if status is None else status.processes
            return next((row.pid for row in rows if row.name == process and row.state == "ready"), None)

        pid = wait(pid_of, f"the edge's {process}")
        os.kill(pid, signal.SIGKILL)
        say(f"  killed {process} (pid {pid})")


def run_demo(messages: int, keep: Path | None = None) -> int:
    """Run the demo and print its account; 0 if every promise was kept. keep: an empty or a new folder for snapshots of the edge.

    Raises:
        Unavailable: ``keep`` is not empty.
    """
    if keep is not None:
        wanted_empty(keep)
    return in_folder(lambda folder: _run(folder, messages, keep))


def in_folder(run: Callable[[Path], bool]) -> int:
    """``run`` a demo in a folder of its own, which stays if it did not go well; 0 if it did."""
    previous = signal.signal(signal.SIGTERM, _interrupted)
    folder = Path(tempfile.mkdtemp(prefix="bascule-demo-"))
    good = False
    try:
        good = run(folder)
    except BasculeError as error:
        say(f"the demo failed: {error}")
    except KeyboardInterrupt:
        say("interrupted")
    finally:
        signal.signal(signal.SIGTERM, previous)
        if good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"the nodes' logs and data are kept in {folder}")
    return 0 if good else 1


def _run(folder: Path, messages: int, keep: Path | None) -> bool:
    started_s = time.monotonic()
    with ExitStack() as stack:
        cloud = stack.enter_context(DemoNode("cloud", folder))
        link = stack.enter_context(Link(cloud.port))
        edge = stack.enter_context(DemoNode("edge", folder, link.port))
        for node in (cloud, edge):
            wait(node.is_ready, f"readiness of the {node.name} node")
        say(f"two nodes are ready after {time.monotonic() - started_s:.1f} s: edge (port {edge.port}), cloud (port {cloud.port})")
        subscriber = stack.enter_context(Subscriber(cloud.port))
        publisher = stack.enter_context(Publisher(edge.port, messages=messages, rate_per_s=messages / PUBLISHING_S))
        say(f"publishing {messages} messages at the edge, QoS 0, 1 and 2 in turn, over {PUBLISHING_S:.0f} s")
        _play(edge, link, publisher, messages, keep)
        status = settle(edge, publisher, subscriber, messages)
        accounts = [account(qos, publisher.published, publisher.acknowledged, subscriber.arrivals) for qos in (0, 1, 2)]
        if keep is not None:
            keep_snapshot(edge.run_dir, keep, PATIENCE_S)
    if keep is not None:
        say(typed(f"snapshots of the edge are in {keep}; for a report: bascule report {shlex.quote(str(keep))}"))
    return print_account(accounts, status, time.monotonic() - started_s)


def _play(edge: DemoNode, link: Link, publisher: Publisher, messages: int, keep: Path | None) -> None:
    for part, act in SCRIPT:
        wait(lambda part=part: publisher.failure or publisher.published >= part * messages, "the publisher")  # type: ignore[misc]
        if publisher.failure:
            raise Unavailable("the publisher failed", error=str(publisher.failure))
        if act == "cut":
            link.cut()
            say("  cut the link")
        elif act == "mend":
            link.mend()
            say("  mended the link")
        elif act == "snapshot":
            if keep is not None:
                keep_snapshot(edge.run_dir, keep, PATIENCE_S)
        else:
            edge.kill(act)


def settle(edge: DemoNode, publisher: Publisher, subscriber: Subscriber, messages: int) -> Status:
    """Wait until all is published, acknowledged and through, or until patience ends: the last status of ``edge``."""
    last: list[Status] = []

    def settled() -> bool:
        status = edge.status()
        if status is None:
            return False
        last[:] = [status]
        all_sent = publisher.published == messages and not publisher.is_alive()
        arrived = publisher.acknowledged <= subscriber.arrivals.keys()
        return all_sent and arrived and bool(status.bridges) and status.bridges[0].depth == 0

    try:
        wait(settled, "the last message")
    except Unavailable as error:
        say(f"  {error}: this is how far it came")
    if not last:
        raise Unavailable("the edge node does not answer")
    return last[0]


def print_account(accounts: list[Account], status: Status, took_s: float) -> bool:
    """Print what became of every message, and the status of the node that has the queue; whether every promise was kept."""
    rows = [
        (
            f"{entry.qos} ({_PROMISES[entry.qos]})",
            str(entry.published),
            str(entry.acknowledged) if entry.qos else "-",
            str(entry.once),
            str(entry.duplicated),
            str(entry.lost) if entry.qos else "-",
            verdict(entry.kept, "kept" if entry.kept else "BROKEN"),
        )
        for entry in accounts
    ]
    columns = ("QoS", ">published", ">acknowledged", ">delivered once", ">duplicated", ">lost", "promise")
    print_table("Every message, by number", columns, rows)
    print_table(
        f"The processes of {status.node}",
        ("process", ">restarts", "state"),
        [(row.name, str(row.restarts), row.state) for row in status.processes],
    )
    lane = status.bridges[0]
    counts = ("accepted", "delivered", "depth", "expired", "dead_lettered", "redelivered")
    figures = ", ".join(f"{name.replace('_', '-')} {getattr(lane, name)}" for name in counts)
    closes = bool(lane.ledger_closes)
    figures += f", dropped {sum(lane.dropped.values())}"
    say(f"\nThe bridge's ledger: {figures}: {'it closes' if closes else 'IT DOES NOT CLOSE'}")
    missing = sum(entry.published - entry.once - entry.duplicated for entry in accounts if not entry.qos)
    say(f"Nobody acknowledges QoS 0: {missing} messages were on their way while a process died, and did not arrive.")
    say("What was on its way counts as dropped in the ledger, though some of it may have arrived.")
    good = closes and all(entry.kept for entry in accounts)
    say(f"{'Nothing that was acknowledged was lost' if good else 'A promise was broken'}; {took_s:.0f} s.")
    if good:
        say(f"\nNext: {typed('bascule init')} writes a configuration of your own, and says how to run it.")
    return good


def _bridge_to(port: int) -> dict[str, Any]:
    return {
        "name": BRIDGE_NAME,
        "remote": {"addresses": [f"127.0.0.1:{port}"], "protocol": "mqtt311", "client_id": "demo-edge", "clean_start": False},
        "backoff": {"initial": "200ms", "max": "1s"},
        "retention": "1h",  # what was settled is in the snapshots
        "local_subscriptions": [{"filters": ["demo/#"]}],
    }


def wait(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of ``condition``. Raises: Unavailable, when ``PATIENCE_S`` have passed."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise Unavailable(f"no sign of {what} within {PATIENCE_S:.0f} s")
        time.sleep(_POLL_S)
    return value


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
