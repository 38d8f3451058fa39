"""P1-P4, P6 under random faults: processes killed and stopped, the remote killed, links cut, torn, stalled, abandoned, delayed.

One *run* is a node (file-native, ``sync: full``), three publishers (QoS 0, 1 and 2; each a topic, a session that it keeps, and the
resending that MQTT asks of it), and a Mosquitto with persistence. Their faults are drawn from one seed (``fault_plan``); how they
fall in time is the machine's. After the last fault everything is healed, and the bridge must drain by itself.

Then, with the words of ``tests/support/recorder.py``, which sits between the Connection and Mosquitto:

- *lost*: a QoS 1 or 2 message whose publisher was given its PUBACK or PUBREC, and that the remote never took. There are none.
- *duplicate*: a QoS 2 message that a conforming remote had to take as new twice, in one remote session by a PUBLISH after its
  PUBREL, or in any under a second packet identifier. There are none.
- *remote session loss*: a CONNACK without session present on a connection that was not the first. Mosquitto killed with SIGKILL
  falls back to its last save and may so lose a session, or the acknowledgements of its last second, which no bridge can know of:
  therefore what it acknowledged counts, not what it kept. A message that was released (PUBREL) before a session loss is sent again
  after it under ``on_session_loss: republish`` only. A message that was taken and not completed in the session that is the last one
  is a fault.
- *refused*: Mosquitto 2.0 counts the QoS 2 messages that it holds of an earlier connection against its receive maximum, though MQTT
  starts again with each connection [MQTT-4.9], and one that was killed holds what its last save has. So it may refuse a message
  with 0x97 that it had room for by its own word. Such a message must be taken all the same, earlier or later.
- *order*: the messages of a topic were taken in the order in which they were published, each counted at its first sending that
  was acknowledged. One that was refused may come behind those that were in flight with it.
- QoS 0 arrives at most once and in order, and the ledger accounts for the rest: it closes.
- *order* holds within each of both where a lane beside a backlog takes what is live, and a message is taken by one of them.
- *thinned*: where the rule of QoS 1 leaves messages out, no more are missing than the ledger says, and the last one is there.
- *brought*: a rule that comes as the first fault does brings what was retained before: the ledger says that each came in once.
- *again*: ``tests/faults/sent_again.py``.
- Messages from the remote meanwhile are judged in ``tests/faults/inward.py``.

If Mosquitto is not killed, a subscriber with a session there has to get every QoS 1 and 2 message too, in order. (It may get one
twice: 2.0.11 repeats QoS 2 messages to its own subscribers after a restart. It has no limits in these runs, since with limits it
reorders.)

A few seeds run always. ``--soak SECONDS`` runs as many as fit; ``--seed N`` begins with that one, and alone runs only it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.conftest import Chances
from tests.faults.fault_plan import Plan, plan_of
from tests.faults.inward import REMOTE_SUBSCRIPTIONS, SESSIONS, SHARED_AND_PLAIN, Inward, InwardTotals
from tests.faults.sent_again import SentAgain
from tests.faults.troubles import Done, Troubles, counted
from tests.support.arrivals import Arrivals
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.recorder import Recorder
from tests.support.subscriber import Subscriber
from tests.support.tape import Tape, Taps
from wire.config_settings import LIVE, URGENT
from wire.frames.names import LaneLabel
from wire.status.loss_reasons import THINNED

SEEDS = (4, 5, 9)  # in which each option is drawn
KILLS_MIN = 22  # of those seeds together
RATE_PER_S = 80.0
INWARD_RATE_PER_S = 15.0  # a remote that saves each change has no time for more
CLIENT_ID = "bridge-cloud"
URGENT_TOPIC, THINNED_TOPIC = "q2", "q1"
KEPT = {f"kept/{number}": 1 + number % 2 for number in range(90)}  # topics that are retained at the node before a rule is -> QoS
LEVELS = {"mqtt311": 4, "mqtt5": 5}
SAVE_PERIOD_S = 3  # between two saves of a remote that does not save each change
DRAIN_DEADLINE_S = 120.0


@dataclass(slots=True)
class Totals:
    """The counts of one run or of several."""

    done: Done = field(default_factory=Done)
    inward: InwardTotals = field(default_factory=InwardTotals)
    runs: int = 0
    messages: int = 0
    sessions_lost: int = 0
    refused: int = 0
    lost: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    ledgers_open: int = 0
    elapsed_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"random faults: {self.runs} runs in {self.elapsed_s:.0f} s, {self.done.kills} kills, {self.done.stops} stops, "
            f"{self.done.link_faults} link faults, {self.sessions_lost} remote sessions lost; {self.messages} messages, "
            f"{self.refused} refused, {self.lost} lost, {self.duplicates} QoS 2 duplicates, {self.out_of_order} out of order, "
            f"{self.ledgers_open} ledgers open; {self.inward}"
        )


def test_whatever_is_killed_nothing_acknowledged_is_lost_doubled_or_out_of_order(tmp_path: Path, chances: Chances) -> None:
    totals = Totals()
    try:
        for seed in chances.seeds(SEEDS):
            run(plan_of(seed), tmp_path / str(seed), totals, replay=chances.replay(seed))
    finally:
        chances.say(str(totals))
    assert totals.done.kills >= KILLS_MIN or totals.runs < len(SEEDS)


def run(plan: Plan, folder: Path, totals: Totals, *, replay: str) -> None:
    """Play ``plan`` and judge it."""
    with counted(totals, plan, replay), ExitStack() as stack:
        scene = Scene(plan, folder, stack, totals)
        scene.play()
        scene.heal()
        scene.judge()


class Scene:
    """The node, its partners and the links between them."""

    def __init__(self, plan: Plan, folder: Path, stack: ExitStack, totals: Totals) -> None:
        self._plan = plan
        self._folder = folder
        self._totals = totals
        self._lanes: dict[LaneLabel, Recorder] = {0: Recorder(CLIENT_ID)}
        for label, is_wanted in ((1, plan.shared), (URGENT, plan.urgent), (LIVE, plan.live_first)):
            if is_wanted:
                self._lanes[label] = Recorder(f"{CLIENT_ID}-{label}")
        tape = Tape()
        self._remote = stack.enter_context(_remote(plan, folder / "remote"))
        far = stack.enter_context(Proxy(self._remote.port, tap=Taps(*self._lanes.values(), tape)))
        self._far_port = far.port
        self._node = stack.enter_context(Node(_config(plan, far.port, brings=False), folder / "node"))
        near = stack.enter_context(Proxy(self._node.port))
        self._troubles = Troubles(plan.faults, self._node, self._remote, far, near, totals.done)
        stack.callback(self._troubles.wake)
        level = LEVELS[plan.protocol]
        self._subscriber = None if plan.remote_dies else stack.enter_context(Subscriber(self._remote.port, "#", version=level))
        self._crowd = [
            stack.enter_context(Publisher(near.port, f"q{qos}", qos=qos, version=level, window=20, rate_per_s=RATE_PER_S))
            for qos in (0, 1, 2)
        ]
        keeps = not plan.remote_dies
        self._inward = Inward(
            stack,
            self._node,
            self._remote,
            tape,
            totals.inward,
            remote_keeps=keeps,
            rate_per_s=INWARD_RATE_PER_S,
            shared=plan.shared,
        )

    def play(self) -> None:
        """Let everything befall them, while messages flow both ways."""
        for publisher in self._crowd:
            publisher.wait_acknowledged(1)
        if self._plan.brings:
            retain(self._node)
            self._node.configure(_config(self._plan, self._far_port))
            assert self._node.cli("reload", str(self._node.config_path)).returncode == 0
        self._troubles.play()

    def heal(self) -> None:
        """Every trouble has ended by now: wait until the bridge has drained by itself."""
        self._node.wait_ready()
        for publisher in self._crowd:
            publisher.finish(DRAIN_DEADLINE_S)
        self._inward.finish(DRAIN_DEADLINE_S)
        self._node.wait_actors_ready(deadline_s=DRAIN_DEADLINE_S)
        for lane in self._lanes:
            self._node.wait_lane("cloud", lane, depth=0, held=0, in_flight=0, deadline_s=DRAIN_DEADLINE_S)

    def judge(self) -> None:
        """Check all that is promised."""
        for publisher in self._crowd[1:]:
            self._judge_acknowledged(publisher)
        for recorder in self._lanes.values():
            self._judge_exchange(recorder)
        self._judge_qos_0()
        self._judge_subscriber()
        for lane in self._lanes:
            self._judge_ledger(lane)
        self._inward.judge(DRAIN_DEADLINE_S)
        if self._plan.brings:
            assert sum(self._node.lane("cloud", lane)["from_retained"] for lane in self._lanes) == len(KEPT)
            taken = {topic for topic in KEPT for recorder in self._lanes.values() if recorder.taken(topic)}
            assert taken == KEPT.keys(), f"brought, and not taken: {KEPT.keys() - taken}"
        if self._plan.again:
            again = SentAgain(self._node, self._lanes)
            again.resend()
            again.take_in(self._folder / "queue.jsonl")

    def _recorders_of(self, publisher: Publisher) -> list[Recorder]:
        """Those of the lanes which its topic takes."""
        if self._plan.urgent and publisher.topic == URGENT_TOPIC:
            return [self._lanes[URGENT]]
        return [recorder for label, recorder in self._lanes.items() if label != URGENT]

    def _is_thinned(self, publisher: Publisher) -> bool:
        return self._plan.thinning is not None and publisher.topic == THINNED_TOPIC

    def _judge_exchange(self, recorder: Recorder) -> None:
        totals, duplicates = self._totals, recorder.duplicates()
        totals.duplicates += len(duplicates)
        totals.sessions_lost += recorder.session - 1
        totals.refused += len(recorder.refused)
        assert not duplicates, f"{len(duplicates)} QoS 2 duplicates: {duplicates[:10]}"
        assert not recorder.faults, f"{len(recorder.faults)} faults of the exchange: {recorder.faults[:10]}"
        assert not recorder.unfinished(), f"QoS 2 exchanges never completed: {recorder.unfinished()[:10]}"
        if self._plan.on_session_loss == "assume-delivered":
            again = recorder.sent_again_after_release()
            assert not again, f"released before a session loss, and sent again: {again[:10]}"

    def _judge_acknowledged(self, publisher: Publisher) -> None:
        sent, recorders = publisher.sent, self._recorders_of(publisher)
        taken = [recorder.taken(publisher.topic) for recorder in recorders]
        arrivals = [Arrivals.of(payloads, sent) for payloads in taken]
        lost = Arrivals.of(chain(*taken), sent).missing
        refused = {payload for recorder in recorders for (topic, payload), _ in recorder.refused if topic == publisher.topic}
        late = [payload for each in arrivals for payload in each.out_of_order if payload not in refused]
        if self._is_thinned(publisher):  # whoever sends again what was left out once has it come behind what stood for it
            left_out = sum(self._node.lane("cloud", lane)["dropped"].get(why, 0) for lane in self._lanes for why in THINNED)
            assert len(lost) <= left_out, f"{len(lost)} never came, {left_out} were left out"
            assert sent[-1] not in lost, "the last one was left out"
            lost, late = [], []
        elif publisher.topic == URGENT_TOPIC:
            twice = set.intersection(*map(set, taken)) if len(taken) > 1 else set()
            self._totals.duplicates += len(twice)
            assert not twice, f"QoS 2, and taken by two lanes: {sorted(twice)[:10]}"
        self._totals.messages += len(sent)
        self._totals.lost += len(lost)
        self._totals.out_of_order += len(late)
        assert not any(each.unexpected for each in arrivals), "the remote took what nobody published"
        assert not lost, f"{publisher.topic}: {len(lost)} lost: {lost[:10]}"
        assert not late, f"{publisher.topic}: {len(late)} out of order: {late[:10]}"
        assert publisher.sessions_lost == 0, "the node forgot a session that it had acknowledged"

    def _judge_ledger(self, lane: LaneLabel) -> None:
        row = self._node.lane("cloud", lane)
        accounted = row["delivered"] + row["expired"] + sum(row["dropped"].values()) + row["dead_lettered"] + row["depth"]
        closes = row["ledger_closes"] is True and row["accepted"] == accounted
        self._totals.ledgers_open += not closes
        assert closes, f"the ledger is open: {row}"
        records = [record for publisher in self._crowd[1:] for record in self._lanes[lane].records(publisher.topic)]
        taken = len([record for record in records if record.taken_in])
        refused = sum(messages for reason, messages in row["dropped"].items() if reason.startswith("remote_"))
        assert row["delivered"] + refused + row["dead_lettered"] >= taken, f"the remote took {taken} QoS 1 and 2 messages: {row}"

    def _judge_qos_0(self) -> None:
        publisher = self._crowd[0]
        came = [recorder.sent_at_most_once("q0") for recorder in self._recorders_of(publisher)]
        assert not Arrivals.of(chain(*came), publisher.sent).duplicates, "a QoS 0 message was sent twice"
        for payloads in came:
            arrivals = Arrivals.of(payloads, publisher.sent)
            assert not arrivals.unexpected, "a QoS 0 message that nobody published"
            assert not arrivals.out_of_order, f"QoS 0 out of order: {arrivals.out_of_order[:10]}"

    def _judge_subscriber(self) -> None:
        if self._subscriber is not None:
            for publisher in self._crowd[1:]:
                wanted = publisher.sent[-1:] if self._is_thinned(publisher) else publisher.sent
                arrivals = self._subscriber.wait_for(publisher.topic, wanted, deadline_s=DRAIN_DEADLINE_S)
                in_order = not (self._plan.live_first or self._is_thinned(publisher))
                assert arrivals.are_complete() or not in_order, arrivals


def retain(node: Node) -> None:
    """Have the node retain something."""
    with MqttClient(node.port, "retains") as client:
        for topic, qos in KEPT.items():
            publish(client, topic, "kept", qos=qos, retain=True)
        client.disconnect()


def _remote(plan: Plan, folder: Path) -> Mosquitto:
    limit = None if plan.stock else 0
    lines = ["persistence true", f"persistence_location {folder}/", f"autosave_interval {SAVE_PERIOD_S}"] if plan.snapshots else []
    return Mosquitto(folder, persistence=not plan.snapshots, max_inflight_messages=limit, max_queued_messages=limit, lines=lines)


def _config(plan: Plan, remote_port: int, *, brings: bool = True) -> Config:
    """brings: the rule that brings what was retained is there."""
    rules: list[Config] = []
    if plan.urgent:
        rules.append({"filters": [URGENT_TOPIC], "priority": URGENT})
    if plan.thinning is not None:
        name, says = plan.thinning
        rules.append({"filters": [THINNED_TOPIC], name: says})
    if plan.brings and brings:
        rules.append({"filters": ["kept/#"], "retained": "send-once"})
    rules.append({"filters": ["#"], "excludes": ["kept/#"]} if plan.brings else {"filters": ["#"]})
    bridge = bridge_config(
        "cloud",
        remote_port,
        protocol=plan.protocol,
        remote={"stall_timeout": "1s", "keep_alive": "2s", "connect_timeout": "2s"},
        on_session_loss=plan.on_session_loss,
        remote_subscriptions=SHARED_AND_PLAIN if plan.shared else REMOTE_SUBSCRIPTIONS,
        local_subscriptions=[{**rule, "provenance": plan.provenance} for rule in rules],
        **({"backlog": "live-first"} if plan.live_first else {}),
        **({"lanes": 2} if plan.shared else {}),
        **({"retention": "1h"} if plan.again else {}),
        **({"link_state": {"local": False}} if plan.link_state else {}),
        **({} if plan.rate is None else {"rate": {"messages_per_s": plan.rate}}),
    )
    config = node_config(bridge, sessions=SESSIONS)
    config["supervision"] |= {"heartbeat_period": "100ms", "heartbeat_timeout": "1200ms"}
    return config
