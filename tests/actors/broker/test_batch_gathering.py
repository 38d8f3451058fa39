"""The Listener's batches leave at once, and gather for a moment where commits follow each other closely."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.raw import connect_packet, publish_packet
from tests.fuzz.in_process import InProcessNode, Pipe
from tests.support.settings import node
from wire.frames.names import CLIENTS, STORE
from wire.frames.sending_link import BATCH_BYTES_MAX, OVERLAPPING_ROWS_MIN
from wire.frames.supervision import Stop

CONNACK = b"\x20\x02\x00\x00"
GATHER_S = 0.25  # longer than anything else takes here
LARGE = 60_000


class Site:
    """A node whose clock moves only where somebody waits."""

    def __init__(self, gather_s: float = GATHER_S) -> None:
        self.host = InProcessNode(persistence=replace(node().persistence, gather_s=gather_s))
        self.began_s = self.host.now_s
        self._packet_ids = 0

    def join(self, name: str) -> Pipe:
        pipe = self.host.connect()
        pipe.sent.append(connect_packet(name))
        self.host.settle()
        assert pipe.taken == CONNACK
        pipe.taken.clear()
        return pipe

    def publish(self, pipe: Pipe, payload: bytes = b"x", count: int = 1) -> bytes:
        """Have the client send that many messages of QoS 1 at once; what acknowledges them."""
        packet_ids = range(self._packet_ids + 1, self._packet_ids + 1 + count)
        self._packet_ids += count
        pipe.sent.append(b"".join(publish_packet("t", payload, packet_id) for packet_id in packet_ids))
        return b"".join(b"\x40\x02" + packet_id.to_bytes(2, "big") for packet_id in packet_ids)

    def begin_commit(self, pipe: Pipe) -> bytes:
        """A message is on its way to the store, which does not answer; what acknowledges it."""
        self.host.stopped.add(STORE)
        answer = self.publish(pipe)
        self.host.settle()
        return answer

    def end_commit(self) -> None:
        """The store answers, and the Listener has not heard of it."""
        self.host.stopped = {CLIENTS}
        self.host.settle()

    def hear(self) -> None:
        """The Listener hears of it, and goes on until nobody has anything to do."""
        self.host.stopped.clear()
        self.host.settle()

    @property
    def batches(self) -> list[int]:
        """How many messages were in each."""
        return [len(batch) for batch in self.host.published]

    @property
    def waited_s(self) -> float:
        return self.host.now_s - self.began_s


def test_a_lone_message_goes_at_once() -> None:
    site = Site()
    client = site.join("c")
    answer = site.publish(client)
    site.host.settle()
    assert (bytes(client.taken), site.batches, site.waited_s) == (answer, [1], 0.0)


def test_who_waits_for_each_acknowledgement_never_waits_for_others() -> None:
    """Also where several do so in turn, and after a time in which batches gathered."""
    site = Site()
    clients = [site.join(name) for name in ("a", "b", "c")]
    site.begin_commit(clients[0])
    site.publish(clients[1])
    site.host.settle()
    site.hear()
    waited_s = site.waited_s
    assert (site.batches, waited_s) == ([1, 1], GATHER_S)
    for count in range(30):
        client = clients[count % 3]
        client.taken.clear()
        answer = site.publish(client)
        site.host.settle()
        assert bytes(client.taken) == answer
    assert (site.batches, site.waited_s) == ([1] * 32, waited_s)


def test_what_came_during_a_commit_leaves_together_a_moment_after_the_last_batch() -> None:
    site = Site()
    first, second, third, late = (site.join(name) for name in "abcd")
    site.begin_commit(first)
    answers = {pipe: site.publish(pipe) for pipe in (second, third)}
    site.host.settle()
    site.host.now_s += GATHER_S / 2
    site.end_commit()
    answers[late] = site.publish(late)
    assert site.batches == [1]
    site.hear()
    assert (site.batches, site.waited_s) == ([1, 3], GATHER_S)
    assert all(bytes(pipe.taken) == answer for pipe, answer in answers.items())


def test_what_came_during_a_long_commit_waits_no_longer() -> None:
    site = Site()
    first, second = site.join("a"), site.join("b")
    site.begin_commit(first)
    site.publish(second)
    site.host.settle()
    site.host.now_s += GATHER_S
    site.hear()
    assert (site.batches, site.waited_s) == ([1, 1], GATHER_S)


def test_many_messages_do_not_wait() -> None:
    site = Site()
    first, second, third = (site.join(name) for name in "abc")
    site.begin_commit(first)
    site.publish(second)
    site.host.settle()
    site.end_commit()
    answer = site.publish(third, count=OVERLAPPING_ROWS_MIN - 1)
    site.hear()
    assert (site.batches, site.waited_s) == ([1, OVERLAPPING_ROWS_MIN], 0.0)
    assert bytes(third.taken) == answer


def test_a_full_batch_does_not_wait() -> None:
    site = Site()
    first, *others = (site.join(f"c{number}") for number in range(BATCH_BYTES_MAX // LARGE + 2))
    assert len(others) < OVERLAPPING_ROWS_MIN
    site.begin_commit(first)
    site.publish(others[0])
    site.host.settle()
    site.end_commit()
    answers = {pipe: site.publish(pipe, b"x" * LARGE) for pipe in others}
    site.hear()
    assert site.batches[:2] == [1, 1 + len(others)]
    assert site.waited_s < GATHER_S / 2, "clients were not heard for a moment, since they are many"
    assert all(bytes(pipe.taken).endswith(answer) for pipe, answer in answers.items())


def test_at_no_time_at_all_nothing_waits() -> None:
    site = Site(gather_s=0.0)
    first, second, third = (site.join(name) for name in "abc")
    site.begin_commit(first)
    site.publish(second)
    site.publish(third)
    site.host.settle()
    site.hear()
    assert (site.batches, site.waited_s) == ([1, 2], 0.0)


@pytest.mark.parametrize("gathers", [False, True], ids=["during the commit", "while it gathers"])
def test_a_node_that_stops_commits_what_gathers_and_ends(gathers: bool) -> None:
    site = Site()
    first, second = site.join("a"), site.join("b")
    site.begin_commit(first)
    answer = site.publish(second)
    site.host.settle()
    if gathers:
        site.end_commit()
    site.host._posts[CLIENTS].frames.append((CLIENTS, Stop()))
    site.hear()
    assert (site.batches, bytes(second.taken)) == ([1, 1], answer)
    assert second.closed
    for pipe in (first, second):
        pipe.ended = True
    site.host.settle()
    assert site.host._hosts[CLIENTS].ended
