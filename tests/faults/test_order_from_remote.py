"""P4 for what comes from a remote over a flapping link: it is taken in, and delivered, in the order in which the remote sent it.

One *run* is a node (file-native, ``sync: full``), a Mosquitto that lives, publishers of QoS 1 and 2 on the same topics there, and
those who listen at the node (``tests/faults/inward.py``). The link between them is cut, torn, abandoned, stalled and delayed, while
processes of the node and the whole node are killed and start again, all drawn from one seed; each fault waits until something has
passed since the last one. Seeds 2, 3, 6, 7, ... have a remote with Mosquitto's own in-flight limits, with which it may reorder by
itself: that is counted, and told apart by the recorded packets.

A few seeds run always. ``--soak SECONDS`` runs as many as fit; ``--seed N`` begins with that one, and alone runs only it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import Chances
from tests.faults.fault_plan import Plan, flapping_plan_of
from tests.faults.inward import REMOTE_SUBSCRIPTIONS, SESSIONS, Inward, InwardTotals
from tests.faults.troubles import Done, Troubles, counted
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.tape import Tape

SEEDS = (2, 5)
LINK_FAULTS_MIN = 16  # of those seeds together
CONNECTIONS_MIN = 12
TAKEN_MIN = 500
RATE_PER_S = 50.0
DRAIN_DEADLINE_S = 120.0
STOCK_IN_FLIGHT = 20


@dataclass(slots=True)
class Totals:
    """The counts of one run or of several."""

    done: Done = field(default_factory=Done)
    inward: InwardTotals = field(default_factory=InwardTotals)
    runs: int = 0
    elapsed_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"order from the remote: {self.runs} runs in {self.elapsed_s:.0f} s, {self.done.kills} kills, {self.done.stops} stops, "
            f"{self.done.link_faults} link faults; {self.inward}"
        )


def test_what_the_remote_sends_over_a_flapping_link_is_taken_in_in_its_order(tmp_path: Path, chances: Chances) -> None:
    totals = Totals()
    try:
        for seed in chances.seeds(SEEDS):
            run(flapping_plan_of(seed), tmp_path / str(seed), totals, replay=chances.replay(seed))
    finally:
        chances.say(str(totals))
    if totals.runs >= len(SEEDS):
        assert totals.done.link_faults >= LINK_FAULTS_MIN
        assert totals.inward.connections >= CONNECTIONS_MIN
        assert totals.inward.taken >= TAKEN_MIN


def run(plan: Plan, folder: Path, totals: Totals, *, replay: str) -> None:
    """Play ``plan`` and judge it."""
    with counted(totals, plan, replay), ExitStack() as stack:
        tape = Tape()
        limit = None if plan.stock else 0
        remote = stack.enter_context(Mosquitto(folder / "remote", max_inflight_messages=limit, max_queued_messages=0))
        far = stack.enter_context(Proxy(remote.port, tap=tape))
        node = stack.enter_context(Node(_config(plan, far.port), folder / "node"))
        near = stack.enter_context(Proxy(node.port))
        troubles = Troubles(plan.faults, node, remote, far, near, totals.done, flow=lambda: tape.count)
        stack.callback(troubles.wake)
        inward = Inward(stack, node, remote, tape, totals.inward, remote_keeps=True, rate_per_s=RATE_PER_S)
        troubles.play()
        node.wait_ready()
        inward.finish(DRAIN_DEADLINE_S)
        node.wait_actors_ready(deadline_s=DRAIN_DEADLINE_S)
        inward.judge(DRAIN_DEADLINE_S)


def _config(plan: Plan, remote_port: int) -> Config:
    remote: Config = {"stall_timeout": "1s", "keep_alive": "2s", "connect_timeout": "2s"}
    if plan.stock:
        remote["receive_maximum"] = STOCK_IN_FLIGHT  # at MQTT 5 it is Mosquitto's limit for this client, as it is its own at 3.1.1
    bridge = bridge_config(
        "cloud",
        remote_port,
        protocol=plan.protocol,
        remote=remote,
        local_subscriptions=[],
        remote_subscriptions=REMOTE_SUBSCRIPTIONS,
        backoff={"initial": "20ms", "max": "100ms", "stable": "1s"},
    )
    config = node_config(bridge, sessions=SESSIONS)
    config["supervision"] |= {"heartbeat_period": "100ms", "heartbeat_timeout": "1200ms"}
    return config
