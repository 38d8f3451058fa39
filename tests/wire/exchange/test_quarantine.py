"""Suspects, and SenderHalf with them, against a remote that closes the connection on some messages, or on all for a while."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.outbound_model import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Sent,
    ack,
    hand_out,
    lane_opened,
    outbound_flow,
    parse,
)
from wire.exchange.quarantine import (
    BARREN,
    FIRST,
    HURRIED_MAX,
    LEARNT,
    PROOFS,
    QUARANTINED_MAX,
    RELEASED,
    Quarantine,
    QuarantinedMessage,
)
from wire.exchange.quarantine_class import CONVICTED, MessageClass
from wire.exchange.refusal_policy import CLOSED
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.exchange.sender import SenderHalf
from wire.frames.batch import RETAIN, from_rows
from wire.status.outcomes import REDELIVERED

EDGE = "edge@here"
# Closings until a message is convicted that others can pass: in bursts, first and alone, and behind another.
CLOSINGS = BARREN + FIRST + PROOFS


@dataclass
class Scene:
    """A flow and a remote that closes its connection when ``closes_on`` says so of a packet that comes."""

    flow: SenderHalf
    closes_on: Callable[[int, Sent], bool]  # the number of the connection, and the packet
    by_remote: bool = True
    topic: str = "%d/t"
    qos: list[int] = field(default_factory=list)
    connections: int = 0
    closings: int = 0
    order: list[int] = field(default_factory=list)  # sequences, as the remote accepted them
    released: list[int] = field(default_factory=list)  # packet identifiers, as PUBRELs came
    received: set[int] = field(default_factory=set)
    outcome: dict[int, str] = field(default_factory=dict)
    number: int = 0
    learnt: RemoteLimits = NO_LIMITS

    def offer(self, *qos: int) -> None:
        """Hand out a message of each QoS; its payload is its sequence."""
        first = len(self.qos)
        self.qos += qos
        topics = (self.topic.replace("%d", str(first + at)).encode() for at in range(len(qos)))
        rows = ((topic, level, b"%d" % (first + at)) for at, (topic, level) in enumerate(zip(topics, qos, strict=True)))
        self.flow.hand_out(hand_out(first, from_rows(rows)))

    def run(self, closings_max: int = 100) -> None:
        """Connect again and again until nothing is left to do, or the remote has closed so often."""
        stop = self.closings + closings_max
        while self.closings < stop and self._connection():
            pass

    def _connection(self) -> bool:
        """One connection; whether the remote has closed it."""
        flow = self.flow
        self.connections += 1
        flow.on_connected(session=EDGE, session_present=True, level=4, learnt=self.learnt)
        while sent := parse(flow.pump(1 << 20, 0.0), 4):
            for packet in sent:
                if self.closes_on(self.connections, packet):
                    self.closings += 1
                    flow.on_disconnected(by_remote=self.by_remote)
                    self.learnt = flow.publishing.learnt
                    self._commit()
                    return True
                flow.on_received(self._answer(packet))
            self._commit()
        flow.on_disconnected()
        self.learnt = flow.publishing.learnt
        return False

    def _answer(self, packet: Sent) -> bytes:
        if packet.kind == PINGREQ:
            self.flow.closed_on.hears_pingresp()
            return b""
        if packet.kind == PUBREL:
            self.released.append(packet.packet_id)
            self.received.discard(packet.packet_id)
            return ack(PUBCOMP, packet.packet_id)
        if packet.packet_id not in self.received:
            self.order.append(int(packet.payload))
        if packet.qos == 0:
            return b""
        if packet.qos == 2:
            self.received.add(packet.packet_id)
        return ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id)

    def _commit(self) -> None:
        self.number += 1
        facts = self.flow.record.facts(self.number)
        for outcome, ranges in facts.settled if facts is not None else ():
            for start, stop in ranges if outcome != REDELIVERED else ():
                for seq in range(start, stop):
                    assert seq not in self.outcome, f"{seq} was settled twice"
                    self.outcome[seq] = outcome
        self.flow.record.on_committed(self.number)


def scene(closes_on: Callable[[int, Sent], bool], *, action: str = "dead-letter") -> Scene:
    flow = outbound_flow(codes=((CLOSED, action),))
    flow.open(lane_opened(session=EDGE))
    return Scene(flow, closes_on)


def on(*seqs: int) -> Callable[[int, Sent], bool]:
    """Closes on the PUBLISHes of those."""
    return lambda _, packet: packet.kind == PUBLISH and int(packet.payload) in seqs


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("at", [0, 3, 9])
def test_a_message_on_which_the_remote_always_closes_is_given_up_and_all_others_arrive_in_order(qos: int, at: int) -> None:
    """exchange.given-up-only-when-proven"""
    bridge = scene(on(at))
    bridge.offer(*[qos] * 10)
    bridge.run()
    if at == 9:  # nothing else is left to show that the remote takes others
        assert set(bridge.outcome) == set(range(9))
        bridge.offer(qos, qos)
        bridge.run()
    assert {seq for seq, outcome in bridge.outcome.items() if outcome == "dead:connection_closed"} == {at}
    assert bridge.order == [seq for seq in range(len(bridge.qos)) if seq != at]
    [blamed] = bridge.flow.closed_on.take_given_up()
    assert (blamed.seq, blamed.topic, blamed.packet_bytes) == (at, f"{at}/t", 2 + 2 + 3 + 2 + 1)
    assert bridge.flow.closed_on.take_given_up() == []
    assert bridge.flow.quarantined == []
    if at == 0:
        closings = CLOSINGS + (qos == 2)  # and tried at QoS 1
        assert bridge.closings == closings
        assert (blamed.closed, blamed.proofs) == (closings - BARREN, PROOFS)


def test_the_identifier_of_a_qos_2_message_that_was_given_up_is_released_behind_the_next_pubrec() -> None:
    """exchange.abandoned-identifier-released: the remote may hold it, and would take a later message with the same one for a
    repeat [MQTT-4.3.3-10]. The message is settled before.
    """
    bridge = scene(on(0))
    bridge.offer(2, 1, 1, 1)
    bridge.run()
    assert bridge.outcome == {0: "dead:connection_closed"} | dict.fromkeys((1, 2, 3), "delivered")
    assert bridge.released == []
    bridge.offer(2)
    bridge.run()
    assert sorted(bridge.released) == [1, 5]
    assert bridge.order == [1, 2, 3, 4]


def test_the_identifier_of_a_message_that_may_leave_at_qos_2_again_is_not_released() -> None:
    """exchange.abandoned-identifier-released: it was tried at QoS 1, and the remote that may hold it takes others meanwhile."""
    bridge = scene(lambda connection, packet: connection <= BARREN + FIRST + 2 and on(0)(connection, packet))
    bridge.offer(2, 2, 2)
    bridge.run()
    assert bridge.outcome == dict.fromkeys(range(3), "delivered")
    assert sorted(bridge.released) == [1, 2, 3], "each once, behind its PUBREC"


def test_each_of_several_in_a_row_is_given_up() -> None:
    bridge = scene(on(*range(6)))
    bridge.offer(*[1, 2] * 20)
    bridge.run(1000)
    assert {seq for seq, outcome in bridge.outcome.items() if outcome.startswith("dead:")} == set(range(6))
    assert bridge.order == list(range(6, 40))


def test_no_message_is_given_up_while_the_remote_closes_on_every_one() -> None:
    """exchange.given-up-only-when-proven: it is sick. All arrive once it is well again."""
    bridge = scene(lambda connection, _: connection <= 60)
    bridge.offer(*[1] * 20)
    bridge.run(60)
    assert bridge.closings == 60
    assert bridge.outcome == {}
    assert bridge.flow.quarantined[0].seq == 0
    assert len(bridge.flow.quarantined) == 20, "another was tried in its place"
    bridge.run()
    assert bridge.outcome == dict.fromkeys(range(20), "delivered")
    assert bridge.flow.quarantined == []


@pytest.mark.parametrize("action", ["dead-letter", "retry"])
@pytest.mark.parametrize("flags", [(1,), (2,), (2 | RETAIN,), (1,) * 20])
def test_a_remote_that_closes_on_every_message_is_soon_tried_as_any_that_fails(flags: tuple[int, ...], action: str) -> None:
    """Once all are suspected another connection shows nothing new."""
    bridge = scene(lambda *_: True, action=action)
    bridge.offer(*flags)
    hurries = []
    for _ in range(60):
        bridge.run(1)
        hurries.append(bridge.flow.closed_on.hurries)
    assert hurries == [True] * HURRIED_MAX + [False] * (60 - HURRIED_MAX)
    assert bridge.flow.quarantined


def test_the_only_message_of_a_lane_is_tried_for_ever_and_shown() -> None:
    bridge = scene(on(0))
    bridge.offer(1)
    bridge.run(50)
    assert bridge.outcome == {}
    [blamed] = bridge.flow.quarantined
    assert (blamed.seq, blamed.closed, blamed.proofs) == (0, 50 - BARREN, 0)


def test_where_policy_is_to_retry_nothing_passes_it_and_it_is_shown() -> None:
    bridge = scene(on(3), action="retry")
    bridge.offer(*[1] * 10)
    bridge.run(50)
    assert bridge.order == [0, 1, 2]
    assert [blamed.seq for blamed in bridge.flow.quarantined] == [3]


def test_a_connection_that_the_network_has_ended_says_nothing() -> None:
    bridge = scene(on(0))
    bridge.by_remote = False
    bridge.offer(*[1] * 10)
    bridge.run(50)
    assert bridge.outcome == {}
    assert bridge.flow.quarantined == []


def ends(*connections: int, at: int, poison: Collection[int] = ()) -> Callable[[int, Sent], bool]:
    """The link ends as ``at`` leaves, on those; the remote closes on each of ``poison``, always."""
    closes = on(*poison)
    return lambda connection, packet: closes(connection, packet) or (connection in connections and on(at)(connection, packet))


@pytest.mark.parametrize(
    ("closes_on", "order"),
    [
        (lambda connection, packet: connection <= BARREN or ends(BARREN + 1, at=1)(connection, packet), range(10)),
        (ends(BARREN + FIRST + 1, at=1, poison=[0]), range(1, 10)),
        (ends(CLOSINGS + 1, at=4, poison=[0]), range(1, 10)),
    ],
    ids=["behind-what-was-accepted", "beside-one-that-is-set-aside", "like-one-that-was-given-up"],
)
def test_nothing_passes_a_message_at_which_the_link_has_ended_once(
    closes_on: Callable[[int, Sent], bool], order: Iterable[int]
) -> None:
    """exchange.given-up-only-when-proven: once is what any link may do while another message is looked for."""
    bridge = scene(closes_on)
    for bridge.topic, messages in (("a b/%d", 1), ("%d/t", 3), ("a b/%d", 1), ("%d/t", 5)):
        bridge.offer(*[1] * messages)
    bridge.run()
    assert bridge.order == list(order)


def after_completing(*connections: int, seqs: int = 1) -> Callable[[int, Sent], bool]:
    """Completes the messages of the first PUBRELs and closes before its PUBCOMPs are there, and closes on each repeat: aedes."""
    completed: set[int] = set()

    def closes_on(connection: int, packet: Sent) -> bool:
        if packet.kind != PUBREL:
            return False
        repeated = packet.packet_id in completed
        if connection in connections and len(completed) < seqs:
            completed.add(packet.packet_id)
        return repeated or packet.packet_id in completed

    return closes_on


@pytest.mark.parametrize(("seqs", "others"), [(1, 2), (3, 0), (2, 8)])
def test_messages_on_whose_pubrel_the_remote_closes_are_delivered_and_the_queue_moves(seqs: int, others: int) -> None:
    """exchange.closed-on-release-has-it: it closed each connection, for ever."""
    bridge = scene(after_completing(*range(1, 100), seqs=seqs))
    bridge.offer(*[2] * (seqs + others), 1)
    bridge.run()
    bridge.offer(1, 2)
    bridge.run()
    assert bridge.outcome == dict.fromkeys(range(seqs + others + 3), "delivered")
    assert bridge.order == list(range(seqs + others + 3))
    assert bridge.flow.counts.released_unanswered == seqs
    assert len(bridge.released) == others + 1, "each other has its PUBREL"


@pytest.mark.parametrize("by_remote", [True, False])
def test_a_remote_that_answers_nothing_proves_nothing_of_what_was_released(by_remote: bool) -> None:
    """exchange.closed-on-release-has-it: it closes for a SUBSCRIBE, perhaps, or on everything; or it is the network that does."""
    bridge = scene(lambda _, packet: packet.kind == PUBREL or (by_remote and packet.kind == PINGREQ))
    bridge.by_remote = by_remote
    bridge.offer(*[2] * 3)
    bridge.run(50)
    assert bridge.outcome == {}
    assert bridge.flow.quarantined == []


def test_closings_on_a_pubrel_count_only_in_a_row() -> None:
    bridge = scene(lambda connection, packet: packet.kind == PUBREL and connection != 1 + BARREN + RELEASED)
    bridge.offer(2)
    bridge.run(BARREN + RELEASED)
    assert bridge.outcome == {}
    bridge.run()
    assert bridge.outcome == {0: "delivered"}
    assert (bridge.flow.counts.released_unanswered, len(bridge.released)) == (0, 1)


def test_qos_0_on_which_the_remote_closes_is_gone_and_the_message_beside_it_is_not_blamed() -> None:
    """exchange.given-up-only-when-proven"""
    bridge = scene(on(0, 2, 4, 6, 8))
    bridge.offer(*[0, 1] * 5)
    bridge.run()
    assert bridge.outcome == dict.fromkeys(range(1, 10, 2), "delivered")
    assert bridge.order == [1, 3, 5, 7, 9]


def test_a_search_ends_when_what_was_in_flight_has_arrived() -> None:
    """Then messages leave in bursts again."""
    bridge = scene(lambda connection, _: connection <= 3)
    bridge.offer(*[1] * 10)
    bridge.run()
    flow = bridge.flow
    flow.on_connected(session=EDGE, session_present=True, level=4)
    bridge.offer(*[1] * 10)
    assert len(parse(flow.pump(1 << 20, 0.0), 4)) == 10


# --- what they have in common ---


def qos_2(_: int, packet: Sent) -> bool:
    """Closes on QoS 2, as Mosquitto with max_qos 1 does."""
    return packet.kind == PUBLISH and packet.qos == 2


def with_retain(_: int, packet: Sent) -> bool:
    """Closes on RETAIN, as Mosquitto with retain_available false does."""
    return packet.kind == PUBLISH and bool(packet.flags & 1)


@pytest.mark.parametrize("action", ["dead-letter", "retry"])
@pytest.mark.parametrize(
    ("closes_on", "flags", "learnt"),
    [
        (qos_2, (1, 1, 2), RemoteLimits(maximum_qos=1)),
        (qos_2, (2,), RemoteLimits(maximum_qos=1)),
        (with_retain, (1, 1, 1 | RETAIN), RemoteLimits(retain_available=False)),
        (with_retain, (2 | RETAIN, 1), RemoteLimits(retain_available=False)),
        (lambda *at: qos_2(*at) or with_retain(*at), (1, 2 | RETAIN), RemoteLimits(maximum_qos=1, retain_available=False)),
    ],
    ids=["qos-2", "qos-2-only", "retain", "retain-of-both", "both"],
)
def test_what_the_remote_does_not_take_is_learnt_and_everything_arrives(
    closes_on: Callable[[int, Sent], bool], flags: tuple[int, ...], learnt: RemoteLimits, action: str
) -> None:
    """exchange.lowered-before-given-up"""
    bridge = scene(closes_on, action=action)
    bridge.offer(*flags * 10)
    bridge.run()
    assert bridge.outcome == dict.fromkeys(range(10 * len(flags)), "delivered")
    assert bridge.learnt == learnt
    assert bridge.closings <= BARREN + FIRST + LEARNT + 2, "a few for all, not a few for each"
    closings = bridge.closings
    bridge.offer(*flags * 10)
    bridge.run()
    assert bridge.closings == closings


def test_what_the_remote_takes_after_all_refutes_that_it_does_not() -> None:
    """exchange.lowered-before-given-up: it was sick, and took one at QoS 1 as it became well."""
    bridge = scene(lambda connection, packet: connection <= BARREN + FIRST and packet.kind == PUBLISH)
    bridge.offer(*[2] * 10)
    bridge.run()
    assert bridge.outcome == dict.fromkeys(range(10), "delivered")
    assert (bridge.learnt, bridge.flow.counts.qos_lowered) == (NO_LIMITS, 1)
    bridge.offer(*[2] * 10)
    bridge.run()
    assert bridge.flow.counts.qos_lowered == 1


def test_a_lone_message_now_and_then_teaches_as_well() -> None:
    """exchange.lowered-before-given-up: nothing else is there to show that the remote takes others."""
    bridge = scene(qos_2)
    for _ in range(LEARNT):
        assert bridge.learnt == NO_LIMITS
        bridge.offer(2)
        bridge.run()
    assert bridge.learnt == RemoteLimits(maximum_qos=1)
    assert bridge.order == list(range(LEARNT))


def test_what_is_learnt_at_one_address_is_not_held_against_another() -> None:
    bridge = scene(qos_2)
    bridge.offer(*[2] * 2)
    bridge.run()
    bridge.flow.on_connected(session="edge@there", session_present=False, level=4)
    bridge.flow.record.facts(99)
    bridge.flow.record.on_committed(99)
    bridge.offer(2, 2)
    assert [packet.qos for packet in parse(bridge.flow.pump(1 << 20, 0.0), 4)] == [2, 2], "all at once, as they are"


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("%d/a b", "white space in the topic"),
        ("/%d", "a leading slash in the topic"),
        ("$x/%d", "a topic that begins with $x, a leading $ in the topic"),
        ("%d//b", "an empty level in the topic"),
        ("%d/1/2/3/4/5/6/7", "8 levels or more"),
        ("%d" + "x" * 200, "201 bytes of topic or more"),
        ("%d/\u00e4", "a character beyond ASCII in the topic"),
    ],
)
def test_the_shape_of_topics_on_which_the_remote_closes_is_learnt(topic: str, says: str) -> None:
    """exchange.class-covers-convicted-only"""
    bridge = scene(
        lambda _, packet: packet.kind == PUBLISH and packet.topic == topic.replace("%d", packet.payload.decode()).encode()
    )
    for flags in ((1,), (1, 1, 1)) * CONVICTED:
        bridge.topic = topic if len(flags) == 1 else "%d/t"
        bridge.offer(*flags)
    for bridge.topic in (topic, "%d/t"):
        bridge.offer(*[1] * 10)
    bridge.run(1000)
    assert [one.says for one in bridge.learnt.refused] == [says]
    dead = {seq for seq, outcome in bridge.outcome.items() if outcome == "dead:connection_closed"}
    assert dead == {0, 4, 8, *range(12, 22)}
    assert len(bridge.outcome) == len(bridge.qos)
    assert bridge.closings <= BARREN + FIRST + PROOFS + 2 * CONVICTED
    assert bridge.flow.counts.closed_on == len(dead)


@pytest.mark.parametrize("limits", [RemoteLimits(0), RemoteLimits(packet_max_bytes=3)])
def test_a_suspect_that_is_settled_otherwise_is_none_any_more(limits: RemoteLimits) -> None:
    """exchange.given-up-only-when-proven: as at another address, where the remote says more."""
    bridge = scene(on(0))
    bridge.offer(1, 1)
    bridge.run(BARREN + 1)
    assert [blamed.seq for blamed in bridge.flow.quarantined] == [0]
    bridge.flow.on_connected(session=EDGE, session_present=True, level=5, limits=limits)
    bridge.flow.pump(1 << 20, 0.0)
    assert bridge.flow.quarantined == []
    bridge.flow.on_disconnected(by_remote=True)
    assert bridge.flow.quarantined == []


def test_a_suspect_that_is_refused_by_reason_code_is_none_any_more_and_shows_nothing_of_others() -> None:
    suspects = Quarantine(sets_aside=True)
    suspects.active = True
    suspects.found[7] = QuarantinedMessage(MessageClass.of("t", 9), [], closed=FIRST)
    suspects.on_connected(EDGE)
    suspects.on_answered(7, 8, accepted=False)
    assert (suspects.found, suspects.accepted_another) == ({}, False)


def test_suspects_have_a_limit() -> None:
    suspects = Quarantine(sets_aside=False)
    suspects.on_closed(by_remote=True, unanswered=True, answers=False, sent_stop=1000)
    suspects.on_closed(by_remote=True, unanswered=True, answers=False, sent_stop=1000)
    for seq in range(QUARANTINED_MAX + 5):
        suspects.on_connected(EDGE)
        suspects.on_left(seq, 1, 0, of=MessageClass.of("t", 9))
        suspects.on_closed(by_remote=True, unanswered=True, answers=False, sent_stop=1000)
    assert len(suspects.found) == QUARANTINED_MAX


@given(
    qos=st.lists(st.integers(0, 2), min_size=1, max_size=30),
    poison=st.sets(st.integers(0, 29)),
    sick=st.lists(st.booleans(), max_size=60),
    by_remote=st.booleans(),
)
def test_only_what_the_remote_closes_on_is_given_up_and_all_else_arrives(
    qos: list[int], poison: set[int], sick: list[bool], by_remote: bool
) -> None:
    """exchange.given-up-only-when-proven: whatever else closes connections meanwhile. At last a good message comes, so that there
    is another.
    """
    closes = on(*poison)
    bridge = scene(lambda connection, packet: (connection <= len(sick) and sick[connection - 1]) or closes(connection, packet))
    bridge.by_remote = by_remote
    bridge.offer(*qos)
    bridge.run(60)
    bridge.by_remote = True
    for _ in range(40):
        bridge.offer(1)
        poison.discard(len(bridge.qos) - 1)
        closes = on(*poison)
        bridge.run(2000)
    wanted = {seq for seq, level in enumerate(bridge.qos) if level}
    bad = poison & wanted
    assert {seq: outcome for seq, outcome in bridge.outcome.items() if outcome != "delivered"} == dict.fromkeys(
        bad, "dead:connection_closed"
    )
    assert set(bridge.outcome) == wanted
    assert sorted(seq for seq in bridge.order if bridge.qos[seq]) == sorted(wanted - bad)
