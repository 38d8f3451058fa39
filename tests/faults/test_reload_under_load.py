"""P1-P4, P6 and P7 while the configuration changes again and again under load: nothing that is acknowledged goes another way.

One *run* is a node with three bridges to one Mosquitto, and publishers of QoS 1 and 2. ``still`` is never changed. ``cloud`` has
other rules, in any order, other limits, lanes, credentials and addresses from one moment to the next; ``extra`` comes and goes, and
so do a second listener, limits of clients, access lists and the level of the log. The changes and their times are drawn from one
seed.

In the end

- each message of ``cloud`` came, of QoS 2 once, in the order in which it was published, and under the topic that a rule said which
  held between its publishing and its acknowledgement;
- what ``extra`` took came, of QoS 2 once, also what waited while the bridge was not configured;
- ``still`` has the connection that it had, and nothing of it was missing, doubled or late;
- the clients have the connections that they had.

With *kills*, a process dies by SIGKILL right after every third order or so, while the change is on its way to the others: the
store, the clients' process, a bridge's, or the supervisor and all with it. Then connections do not stay, and QoS 1 may come twice.

One seed of each with few changes runs always; ``--soak SECONDS`` runs as many as fit, with a hundred changes each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from tests.conftest import Chances
from tests.support.arrivals import Arrivals
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import accepts, free_port
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

SEEDS = (3,)
CHANGES, CHANGES_IN_A_SOAK = 14, 100
RATE_PER_S = 60.0
DRAIN_DEADLINE_S = 120.0
KILLED_SHARE = 0.35  # of the reloads

# Filters and templates of destinations, the first that matches counts. All of them have every topic of the bridge.
RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "one": (("cloud/#", "up/{#}"),),
    "other": (("cloud/#", "over/{#}"),),
    "by level": (("cloud/1/#", "first/{#}"), ("cloud/#", "up/{#}")),
    "in another order": (("cloud/#", "up/{#}"), ("cloud/1/#", "first/{#}")),
    "by level, edited": (("cloud/1/#", "second/{#}"), ("cloud/#", "up/{#}")),
}


@dataclass(slots=True)
class Wanted:
    """The present configuration."""

    rules: str = "one"
    lanes: int = 1
    max_messages: int | None = None
    user: str = "ada"
    spare: bool = False  # a second address
    extra: bool = True
    listener: bool = False  # a second one
    connections_max: int = 1000
    acl: bool = False
    debug: bool = False
    in_flight: int = 20


@dataclass(slots=True)
class Held:
    """Rules that held for the messages of one publisher from the one ``since`` on, up to the one ``until``; of both, perhaps."""

    rules: str
    since: int
    until: int | None = None


@dataclass(slots=True)
class Totals:
    """The counts of one run or of several."""

    runs: int = 0
    reloads: int = 0
    kills: int = 0
    messages: int = 0
    hows: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        hows = ", ".join(f"{count} {how}" for how, count in sorted(self.hows.items()))
        return f"reload under load: {self.runs} runs, {self.reloads} reloads ({hows}), {self.kills} kills, {self.messages} messages"


@pytest.mark.parametrize("kills", [False, True], ids=["nothing-dies", "processes-die"])
def test_whatever_changes_while_messages_flow_none_is_lost_doubled_or_sent_elsewhere(
    tmp_path: Path, chances: Chances, soak: bool, kills: bool
) -> None:
    totals = Totals()
    try:
        for seed in chances.seeds(SEEDS):
            with ExitStack() as stack:
                scene = Scene(Random(seed), tmp_path / str(seed), stack, totals, kills=kills)
                scene.play(CHANGES_IN_A_SOAK if soak else CHANGES)
                scene.judge()
            totals.runs += 1
    finally:
        chances.say(str(totals))


class Scene:
    """The node, its remote and its clients."""

    def __init__(self, rng: Random, folder: Path, stack: ExitStack, totals: Totals, *, kills: bool) -> None:
        self._rng = rng
        self._kills = kills
        self._totals = totals
        self._wanted = Wanted()
        self._second_port, self._dead_port = free_port(), free_port()
        self._password = folder / "password"
        folder.mkdir(parents=True, exist_ok=True)
        self._password.write_text("secret")
        self._password.chmod(0o600)
        self._remote = stack.enter_context(Mosquitto(folder / "remote", max_inflight_messages=0, max_queued_messages=0))
        self._subscriber = stack.enter_context(Subscriber(self._remote.port, "#"))
        self._node = stack.enter_context(Node(self._config(folder), folder / "node"))
        self._folder = folder
        port = self._node.port
        self._cloud = [stack.enter_context(_publisher(port, f"cloud/{qos}", qos)) for qos in (1, 2)]
        self._still = [stack.enter_context(_publisher(port, f"still/{qos}", qos)) for qos in (1, 2)]
        self._extra = [stack.enter_context(_publisher(port, f"extra/{qos}", qos)) for qos in (1, 2)]
        self._held: dict[Publisher, list[Held]] = {publisher: [Held("one", 0)] for publisher in self._cloud}
        self._changes: list[Callable[[], None]] = [
            self._other_rules,
            self._other_rules,
            self._other_rules,
            self._other_lanes,
            self._other_lanes,
            self._other_limits,
            self._other_credentials,
            self._other_addresses,
            self._extra_or_not,
            self._extra_or_not,
            self._listener_or_not,
            self._other_access,
            self._other_level,
        ]

    @property
    def _publishers(self) -> list[Publisher]:
        return [*self._cloud, *self._still, *self._extra]

    # --- the course ---

    def play(self, changes: int) -> None:
        """Change the configuration so often, while messages flow."""
        for publisher in self._publishers:
            publisher.wait_acknowledged(1)
        for _ in range(changes):
            for change in self._rng.sample(self._changes, self._rng.choice((1, 1, 2, 3))):
                change()
            self._reload(settle=self._rng.random() < 0.8)
            if self._rng.random() < 0.7:
                self._rng.choice(self._publishers).wait_acknowledged(self._rng.choice((1, 20, 60)))
        self._wanted.extra, self._wanted.max_messages, self._wanted.spare = True, None, False
        self._reload(settle=True)

    def _reload(self, *, settle: bool) -> None:
        """settle: wait until all processes go by it."""
        wanted = self._wanted
        self._node.configure(self._config(self._folder))
        since = {publisher: publisher.acknowledged for publisher in self._cloud}
        with ControlClient.of_run_dir(self._node.data_dir / "run") as client:
            answer = client.reload(yes=True)
        assert answer.refused is None, answer
        self._totals.reloads += 1
        for change in answer.changes:
            self._totals.hows[change.how] = self._totals.hows.get(change.how, 0) + 1
        for publisher, held in self._held.items():
            held.append(Held(wanted.rules, since[publisher]))
        if self._kills and self._rng.random() < KILLED_SHARE:
            self._kill()
        if settle:
            self._settle()

    def _kill(self) -> None:
        """One process dies while the others are being told."""
        self._totals.kills += 1
        with suppress(ProcessLookupError):  # the change has just ended it
            self._kill_one()

    def _kill_one(self) -> None:
        match self._rng.choice(("store", "clients", "cloud", "still", "supervisor")):
            case "supervisor":
                self._node.kill_supervisor()
                self._node.start()
            case "cloud" | "still" as bridge:
                self._node.kill("bridge", bridge=bridge)
            case process:
                self._node.kill(process)

    def _settle(self) -> None:
        """Until only what is configured now holds."""

        def is_done() -> bool:
            return not self._node.status()["configuration"]["pending"]

        wait_until(is_done, 30.0, lambda: f"{self._node.status()['configuration']}\n{self._node.output[-4000:]}", period_s=0.02)
        for publisher, held in self._held.items():
            for before in held[:-1]:
                before.until = len(publisher.sent) if before.until is None else before.until
        if self._kills:
            self._node.wait_actors_ready()
        assert accepts(self._second_port) == self._wanted.listener

    # --- changes ---

    def _other_rules(self) -> None:
        self._wanted.rules = self._rng.choice(list(RULES))

    def _other_lanes(self) -> None:
        self._wanted.lanes = self._rng.choice((1, 2, 3))

    def _other_limits(self) -> None:
        self._wanted.max_messages = self._rng.choice((None, 50, 1000))
        self._wanted.connections_max = self._rng.choice((100, 1000))
        self._wanted.in_flight = self._rng.choice((5, 20, 100))

    def _other_credentials(self) -> None:
        self._wanted.user = self._rng.choice(("ada", "bob"))
        self._password.write_text(self._rng.choice(("secret", "another")))

    def _other_addresses(self) -> None:
        self._wanted.spare = not self._wanted.spare

    def _extra_or_not(self) -> None:
        self._wanted.extra = not self._wanted.extra

    def _listener_or_not(self) -> None:
        self._wanted.listener = not self._wanted.listener

    def _other_access(self) -> None:
        self._wanted.acl = not self._wanted.acl

    def _other_level(self) -> None:
        self._wanted.debug = not self._wanted.debug

    def _config(self, folder: Path) -> Config:
        wanted, port = self._wanted, self._remote.port
        rules = [{"filters": [one], "destination": destination} for one, destination in RULES[wanted.rules]]
        addresses = [f"127.0.0.1:{port}", *([f"127.0.0.1:{self._dead_port}"] if wanted.spare else [])]
        remote: dict[str, Any] = {
            "addresses": addresses,
            "username": wanted.user,
            "password_file": str(self._password),
            "receive_maximum": wanted.in_flight,
        }
        limits: dict[str, Any] = {} if wanted.max_messages is None else {"limits": {"max_messages": wanted.max_messages}}
        cloud = bridge_config("cloud", port, remote=remote, lanes=wanted.lanes, local_subscriptions=rules, **limits)
        still = bridge_config("still", port, local_subscriptions=[{"filters": ["still/#"]}])
        extra = bridge_config("extra", port, local_subscriptions=[{"filters": ["extra/#"]}])
        acl: dict[str, Any] = {"acl": [{"topics": ["#"]}]} if wanted.acl else {}
        config = node_config(
            *([cloud, still, extra] if wanted.extra else [still, cloud]),
            access={"allow_anonymous": True, **acl},
            log={"level": "debug" if wanted.debug else "info"},
            clients={"connections_max": wanted.connections_max},
        )
        if hasattr(self, "_node"):
            binds = [self._node.port, *([self._second_port] if wanted.listener else [])]
            config["listeners"] = [{"bind": f"127.0.0.1:{bind}"} for bind in binds]
        return config

    # --- the end ---

    def judge(self) -> None:
        """Let everything arrive, and check all that is promised."""
        for publisher in self._publishers:
            publisher.finish(DRAIN_DEADLINE_S)
            self._totals.messages += len(publisher.sent)
        self._drain()
        came: dict[str, list[tuple[str, str]]] = {}  # the topic at the site -> what came of it, and under which topic
        for packet in self._subscriber.packets:
            topic = "/".join(packet.topic.split("/")[-2:])
            came.setdefault(topic, []).append((packet.payload.decode(), packet.topic))
        for publisher in self._publishers:
            self._judge(publisher, came.get(publisher.topic, []))
            assert publisher.sessions_lost == 0, f"{publisher.topic}: the session did not stay"
            assert self._kills or publisher.reconnects == 0, f"{publisher.topic}: the client did not stay"
        assert self._kills or self._remote.log.count(" as bridge-still ") == 1, (
            "the connection of a bridge that was not changed did not stay"
        )
        for bridge in ("cloud", "still", "extra"):
            self._judge_ledger(bridge)

    def _drain(self) -> None:
        """Until every queue is empty, and Mosquitto has passed on what it got."""

        def rows() -> list[dict[str, Any]]:
            return list(self._node.status()["bridges"])

        def is_empty() -> bool:
            return all(row["depth"] == 0 and row["in_flight"] == 0 for row in rows())

        wait_until(
            is_empty, DRAIN_DEADLINE_S, lambda: f"empty queues; they are {rows()}\n{self._node.output[-3000:]}", period_s=0.1
        )
        for publisher in (*self._cloud, *self._still):
            wanted = set(publisher.sent)

            def has_come(publisher: Publisher = publisher, wanted: set[str] = wanted) -> bool:
                return wanted <= {p.payload.decode() for p in self._subscriber.packets if p.topic.endswith(publisher.topic)}

            wait_until(has_come, DRAIN_DEADLINE_S, lambda topic=publisher.topic: f"arrival of {topic}", period_s=0.1)  # type: ignore[misc]

    def _judge(self, publisher: Publisher, came: list[tuple[str, str]]) -> None:
        what = publisher.topic
        arrivals = Arrivals.of((payload for payload, _ in came), publisher.sent)
        assert not arrivals.unexpected, f"{what}: what nobody published: {arrivals.unexpected[:5]}"
        assert not arrivals.out_of_order, f"{what}: out of order: {arrivals.out_of_order[:10]}"
        if publisher not in self._extra:
            assert not arrivals.missing, f"{what}: lost: {arrivals.missing[:10]}"
        if publisher.qos == 2 or (publisher in self._still and not self._kills):
            assert not arrivals.duplicates, f"{what}: doubled: {arrivals.duplicates[:10]}"
        if publisher in self._cloud:
            for payload, topic in came:
                number = int(payload)
                said = {
                    _destination(held.rules, publisher.topic)
                    for held in self._held[publisher]
                    if held.since <= number and (held.until is None or number < held.until)
                }
                assert topic in said, f"{what}: message {number} came under {topic}; its rules said {sorted(said)}"

    def _judge_ledger(self, bridge: str) -> None:
        rows = [row for row in self._node.status()["bridges"] if row["name"] == bridge]
        for row in rows:
            accounted = row["delivered"] + row["expired"] + sum(row["dropped"].values()) + row["dead_lettered"] + row["depth"]
            assert row["ledger_closes"] is True, row
            assert row["accepted"] == accounted == row["delivered"], row


def _publisher(port: int, topic: str, qos: int) -> Publisher:
    return Publisher(port, topic, qos=qos, window=20, rate_per_s=RATE_PER_S)


def _destination(rules: str, topic: str) -> str:
    """The destination that the first of ``rules`` that matches gives ``topic``."""
    for topic_filter, destination in RULES[rules]:
        if topic.startswith(topic_filter.rstrip("#").rstrip("/")):
            return destination.replace("{#}", topic)
    raise AssertionError(f"no rule has {topic}")
