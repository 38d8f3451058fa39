"""SenderHalf between a model remote broker and a model store: links cut, sessions lost, processes killed, at any packet."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.wire.outbound_model import PUBLISH, PUBREC, PUBREL, RemoteModel, Sent, StoreModel, outbound_flow, parse
from wire.exchange.lane_record import Facts
from wire.exchange.remote_limits import RemoteLimits


class Exchange(RuleBasedStateMachine):
    """Rules are what the world may do; the models judge every packet."""

    @initialize(
        head=st.sampled_from([0, 3, 64_990, 129_998]),
        level=st.sampled_from([4, 5]),
        receive_maximum=st.sampled_from([1, 2, 5, 40]),
        qos2_maximum=st.sampled_from([1, 3, 20]),
        republish=st.booleans(),
    )
    def begin(self, head: int, level: int, receive_maximum: int, qos2_maximum: int, republish: bool) -> None:
        self.level = level
        self.flow = outbound_flow(receive_maximum=receive_maximum, qos2_maximum=qos2_maximum, republish=republish)
        self.remote = RemoteModel(level=level, receive_maximum=receive_maximum, qos2_maximum=qos2_maximum)
        self.store = StoreModel(head=head, republish=republish)
        self.exempt: set[int] = set()  # unsettled when a session was lost: nobody can promise exactly once
        self.sent_here: set[int] = set()  # in the remote session that is live now
        self.lowered: set[int] = set()  # left below their QoS
        # and PUBRELed, so that after a crash they may come once more (exchange.abandoned-identifier-released)
        self.given_up: set[int] = set()
        self.maximum_qos = 2
        self.crashed = False  # in the remote session that is live now: nobody knows what left at which QoS
        self.connected = False
        self.to_remote: deque[Sent] = deque()
        self.to_us = b""
        self.commits: deque[tuple[int, Facts]] = deque()
        self.number = 0
        self.now_s = 0.0
        self.reopen()

    # --- the parts ---

    def reopen(self) -> None:
        self.flow.open(self.store.open())
        self.crashed = True
        self.exempt |= self.given_up - self.store.settled.keys()
        on_record = {seq % 65_000 + 1 for seq in self.store.released}
        self.remote.never_heard([packet_id for packet_id in self.remote.pubrecs if packet_id not in on_record])
        self.commits.clear()
        self.number = 0
        self.connected = False
        self.to_remote.clear()
        self.to_us = b""

    def cut(self) -> None:
        self.flow.on_disconnected()
        self.remote.never_heard(packet.packet_id for packet in parse(self.to_us, self.level) if packet.kind == PUBREC)
        self.connected = False
        self.to_remote.clear()
        self.to_us = b""

    def connect(self) -> None:
        present = self.remote.connect()
        if not self.flow.knows("edge@here", present):
            self.remote.forget_session()  # a clean start
            present = self.remote.connect()
        if not present:
            unsettled = [seq for seq in self.store.rows if self.store.settled.get(seq) is None]
            self.exempt.update(unsettled)
            self.sent_here.clear()
            self.crashed = False
        self.resumed = present
        self.remote.maximum_qos = 2 if self.crashed else self.maximum_qos
        self.flow.on_connected(
            session="edge@here",
            session_present=present,
            level=self.level,
            receive_maximum=self.remote.receive_maximum,
            limits=RemoteLimits(self.remote.maximum_qos, packet_max_bytes=self.remote.packet_max if self.level == 5 else None),
        )
        self.connected = True

    def pump(self, bytes_max: int) -> None:
        hold = self.flow.refusals.hold
        refused_with, until_s = hold.reason_code, hold.until_s
        packets = parse(self.flow.pump(bytes_max, self.now_s, int(self.now_s * 1000)), self.level)
        seqs = [int(packet.payload) for packet in packets if packet.kind == PUBLISH]
        assert seqs == sorted(seqs), "exchange.publish-in-order"
        if packets:
            assert self.store.session, "exchange.session-on-record-first: something left before the session was on record"
        if refused_with and (until_s is None or self.now_s < until_s):
            assert not seqs, "exchange.hold-back-no-publish: PUBLISHed while held back"
            assert until_s is not None or hold.until_s is None or hold.until_s <= self.now_s + 8.0, "exchange.hold-back-no-publish"
        for packet in packets:
            if packet.kind == PUBREL:
                named = {seq for seq in self.store.rows if seq % 65_000 + 1 == packet.packet_id}
                completed = packet.packet_id in self.remote.said_again and named & self.store.settled.keys()
                if not named & self.store.released.keys() and not completed:
                    given_up = named & self.store.large if self.level == 5 else set()
                    # exchange.abandoned-identifier-released
                    lowered = named & self.lowered if self.remote.maximum_qos == 2 else set()
                    assert given_up or lowered, "exchange.release-after-record: PUBREL before the commit"
                    self.given_up |= given_up
            if packet.kind == PUBLISH and packet.qos:
                seq = int(packet.payload)
                assert seq not in self.store.released, "exchange.no-publish-after-pubrec: PUBLISH of something released"
                if packet.qos < self.store.rows[seq]:
                    self.exempt.add(seq)
                    self.lowered.add(seq)
                if packet.dup:
                    assert seq < self.store.handed_stop
                    assert self.resumed, "DUP on a new session"
                elif self.resumed:
                    assert seq not in self.sent_here, "exchange.dup-on-repeats: sent again without DUP"
                self.sent_here.add(seq)
        self.to_remote.extend(packets)

    def process(self, count: int) -> None:
        for _ in range(min(count, len(self.to_remote))):
            packet = self.to_remote.popleft()
            self.to_us += self.remote.take(packet)
            if packet.kind == PUBLISH and int(packet.payload) in self.remote.retried:
                self.sent_here.discard(int(packet.payload))  # that exchange has ended: DUP or not, both are right

    def hear(self, size: int) -> None:
        consumed = self.flow.on_received(self.to_us[:size])
        self.to_us = self.to_us[consumed:]

    def hand_out(self, size: int) -> None:
        frame = self.store.hand_out(size)
        if frame is not None:
            self.flow.hand_out(frame)

    def settle(self) -> None:
        facts = self.flow.record.facts(self.number + 1)
        if facts is not None:
            self.number += 1
            self.commits.append((self.number, facts))

    def commit(self, count: int) -> None:
        for _ in range(min(count, len(self.commits))):
            number, facts = self.commits.popleft()
            self.store.commit(facts)
            self.flow.record.on_committed(number)

    # --- the rules ---

    @rule(
        qos=st.lists(st.sampled_from([0, 1, 1, 2, 2, 2]), min_size=1, max_size=12),
        handed=st.integers(0, 12),
        large=st.sampled_from([False, False, True]),
        expiry_s=st.sampled_from([None, None, 1, 5]),
    )
    def messages_come(self, qos: list[int], handed: int, large: bool, expiry_s: int | None) -> None:
        self.store.append(qos, large=large, expires_s=None if expiry_s is None else int(self.now_s) + expiry_s)
        self.hand_out(handed)

    @rule(short_of_a_round=st.integers(0, 5), handed=st.integers(0, 12))
    def packet_identifiers_come_round(self, short_of_a_round: int, handed: int) -> None:
        """A long run of QoS 0 messages that are gone; behind it the identifiers are those of before."""
        self.store.tail += 65_000 - short_of_a_round
        self.store.append([1, 2, 2])
        self.hand_out(handed)

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(reason_codes=st.lists(st.sampled_from([0x97, 0x97, 0x91, 0x87, 0x99, 0x10, 0x00]), min_size=1, max_size=5))
    def the_remote_will_say(self, reason_codes: list[int]) -> None:
        self.remote.refusing.extend(reason_codes)

    @rule(size=st.integers(1, 12))
    def the_store_hands_out(self, size: int) -> None:
        self.hand_out(size)

    @precondition(lambda self: not self.connected)
    @rule(
        recorded=st.sampled_from([True, True, True, False]),
        packet_max=st.sampled_from([1 << 20, 1 << 20, 40]),
        maximum_qos=st.sampled_from([2, 2, 1]),
    )
    def the_connection_comes_up(self, recorded: bool, packet_max: int, maximum_qos: int) -> None:
        self.remote.packet_max = packet_max if self.level == 5 else 1 << 20
        self.maximum_qos = maximum_qos if self.level == 5 else 2
        self.connect()
        if recorded:
            self.settle()
            self.commit(100)

    @precondition(lambda self: self.connected)
    @rule(bytes_max=st.sampled_from([1, 60, 100_000]))
    def a_burst_leaves(self, bytes_max: int) -> None:
        self.pump(bytes_max)

    @precondition(lambda self: self.connected)
    @rule(read=st.integers(0, 20), size=st.integers(0, 90), committed=st.booleans())
    def the_exchange_goes_on(self, read: int, size: int, committed: bool) -> None:
        self.pump(100_000)
        self.process(read)
        self.hear(size)
        if committed:
            self.settle()
            self.commit(100)

    @precondition(lambda self: self.connected)
    @rule(count=st.integers(1, 20))
    def the_remote_reads(self, count: int) -> None:
        self.process(count)

    @precondition(lambda self: self.connected)
    @rule(size=st.integers(1, 60))
    def answers_arrive(self, size: int) -> None:
        self.hear(size)

    @precondition(lambda self: self.connected)
    @rule()
    def the_remote_says_pubrec_again(self) -> None:
        self.to_us += self.remote.say_again()

    @rule()
    def facts_leave(self) -> None:
        self.settle()

    @rule(count=st.integers(1, 3))
    def the_store_commits(self, count: int) -> None:
        self.commit(count)

    @precondition(lambda self: self.connected)
    @rule(read=st.integers(0, 20), session_lost=st.sampled_from([False, False, False, True]))
    def the_link_is_cut(self, read: int, session_lost: bool) -> None:
        self.process(read)  # what arrived is dealt with, its answers never arrive
        self.cut()
        if session_lost:
            self.remote.forget_session()

    @precondition(lambda self: self.connected and self.flow.on_record)
    @rule(handed=st.integers(1, 12), read=st.integers(1, 20), maximum_qos=st.sampled_from([2, 1]))
    def the_answers_are_lost_and_the_session_resumed(self, handed: int, read: int, maximum_qos: int) -> None:
        self.hand_out(handed)
        self.pump(100_000)
        self.process(read)
        self.cut()
        self.maximum_qos = maximum_qos if self.level == 5 else 2
        self.connect()

    @precondition(lambda self: not self.connected)
    @rule()
    def the_remote_loses_its_session(self) -> None:
        self.remote.forget_session()

    @rule(read=st.integers(0, 20), committed=st.integers(0, 3))
    def the_connection_process_dies(self, read: int, committed: int) -> None:
        self.process(read)
        self.commit(committed)
        self.reopen()

    def teardown(self) -> None:
        """Let everything run to its end, then count."""
        if not hasattr(self, "flow"):
            return
        if not self.connected:
            self.connect()
        for _ in range(2_000):
            if not self.work_left():
                break
            self.hand_out(100)
            self.settle()
            self.commit(100)
            self.pump(100_000)
            self.process(1_000)
            self.hear(len(self.to_us))
            self.now_s += 1.0
        assert not self.work_left(), "it came to a stop"
        assert self.flow.in_flight.messages == 0
        assert self.flow.owed == (None,) * 4
        self.abandoned = {seq % 65_000 + 1: seq for seq in sorted(self.lowered | self.store.large, reverse=True)}
        assert self.remote.received_ids <= self.abandoned.keys(), "an identifier is held for ever"
        counts = Counter(self.remote.published)
        for seq, qos in self.store.rows.items():
            if qos:
                self.judge(seq, qos, counts[seq])
        first_at = {seq: at for at, seq in reversed(list(enumerate(self.remote.published)))}
        others = self.remote.refused.keys() | (self.store.large if self.level == 5 else set())  # a crash forgets what was given up
        in_order = sorted(seq for seq in first_at if self.store.rows[seq] and seq not in others)
        assert [first_at[seq] for seq in in_order] == sorted(first_at[seq] for seq in in_order), "order of first arrival"

    def judge(self, seq: int, qos: int, count: int) -> None:
        """The fate of one QoS 1 or 2 message that the remote forwarded ``count`` times."""
        outcome = self.store.settled[seq]
        once = qos == 2 and seq not in self.exempt
        if outcome == "delivered":
            # a crash, or the end of a connection, forgets the PUBREL (exchange.abandoned-identifier-released)
            held = qos == 2 and self.abandoned.get(seq % 65_000 + 1, seq) < seq
            assert count >= 1 or held, f"{seq} is lost"
            assert count == 1 or not once, f"{seq} came {count} times"
        elif outcome == "expired":
            assert self.store.expires_s[seq] <= self.now_s
            assert count == 0, f"{seq} has expired after it was sent"
        elif outcome == "dead:packet_too_large":
            assert seq in self.store.large
            assert self.level == 5
            assert count <= 1 or not once
        else:
            assert outcome in {f"dead:remote_0x{code:02x}" for code in self.remote.refused[seq] & {0x87, 0x99}}, (
                "exchange.refusal-ends-exchange"
            )
            assert count == 0 or not once, f"{seq} was given up and came all the same"

    def work_left(self) -> bool:
        return bool(
            self.commits
            or self.to_remote
            or self.to_us
            or any(qos and self.store.settled.get(seq) is None for seq, qos in self.store.rows.items())
        )


Exchange.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestExchange = pytest.mark.filterwarnings("default")(Exchange.TestCase)
