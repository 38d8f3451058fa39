"""A process's side of the world, and its actors' mailboxes: frames, sockets, timers, messages of threads, and the end of each
turn."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pykka._envelope import Envelope

from actors.process.mailbox import READ, BadFrame, Mailbox, SocketsReady, TimerDue, TurnEnded
from actors.process.post import FRAMES_PER_TURN_MAX, JOINED_BYTES_MAX, Post, socket_path
from actors.process.request_sockets import RequestConnections, ipc_endpoint
from tests.support.waiting import PATIENCE_S
from wire.frames.frame import Frame
from wire.frames.lanes import HandOut
from wire.frames.supervision import PeerUp, Stop


class Box(Mailbox):
    """The mailbox of an actor whose process has no other, and that process's own side of it."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self.post = Post(run_dir, name)
        super().__init__(self.post, name)


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[tuple[Box, Box]]:
    one, two = Box(tmp_path, "one"), Box(tmp_path, "two:b:0")
    yield one, two
    one.post.close()
    two.post.close()


def turn(box: Box) -> list[Any]:
    """Messages up to the end of a turn."""
    messages: list[Any] = []
    while not messages or not isinstance(messages[-1], TurnEnded):
        to, message = box.post.next()
        assert to == ("" if isinstance(message, TurnEnded) else box.name)
        messages.append(message)
    return messages[:-1]


def turns_until(box: Box, wanted: Any) -> list[Any]:
    messages: list[Any] = []
    while wanted not in messages:
        messages += turn(box)
    return messages


def test_frames_arrive_in_order_and_a_turn_ends_when_they_are_drained(boxes: tuple[Box, Box]) -> None:
    one, two = boxes
    sent = [PeerUp(name="x", epoch=number) for number in range(200)]
    for frame in sent:
        one.send("two:b:0", frame)
    assert turns_until(two, sent[-1]) == sent


@pytest.mark.parametrize(
    "bodies",
    [(b"",), (b"\0+", b""), (bytes(JOINED_BYTES_MAX),), (bytes(JOINED_BYTES_MAX + 1),)],
    ids=["empty", "two", "joined", "long"],
)
def test_a_frame_arrives_whole_however_many_parts_it_has(boxes: tuple[Box, Box], bodies: tuple[bytes, ...]) -> None:
    one, two = boxes
    frame = HandOut(queue="q", epoch=1, first_seq=2, count=3, size_bytes=4, offsets=b"\0\n", bodies=bodies)
    one.send("two:b:0", frame)
    one.send("two:b:0", Stop())
    assert turns_until(two, Stop()) == [frame, Stop()]


def test_frames_and_turns_are_counted(boxes: tuple[Box, Box]) -> None:
    one, two = boxes
    for number in range(FRAMES_PER_TURN_MAX + 1):
        one.send("two:b:0", PeerUp(name="x", epoch=number))
    one.send("two:b:0", Stop())
    turns_until(two, Stop())
    assert one.traffic() == (FRAMES_PER_TURN_MAX + 2, 0, 0)
    assert two.traffic()[1] == FRAMES_PER_TURN_MAX + 2
    assert two.traffic()[2] >= 2


def test_a_turn_takes_a_bounded_number_of_frames(boxes: tuple[Box, Box]) -> None:
    one, two = boxes
    for number in range(10 * FRAMES_PER_TURN_MAX):
        one.send("two:b:0", PeerUp(name="x", epoch=number))
    received = 0
    while received < 10 * FRAMES_PER_TURN_MAX:
        messages = turn(two)
        assert len(messages) <= FRAMES_PER_TURN_MAX
        received += len(messages)


def test_frames_wait_for_a_peer_that_starts_later(tmp_path: Path) -> None:
    one = Box(tmp_path, "one")
    one.send("late", Stop())
    late = Box(tmp_path, "late")
    assert turns_until(late, Stop()) == [Stop()]
    one.post.close()
    late.post.close()


def test_a_frame_of_an_unknown_kind_is_reported_and_nothing_stops(boxes: tuple[Box, Box]) -> None:
    one, two = boxes
    one.post.send_parts("two:b:0", [b"\x93\x63\x01\x00"])
    one.send("two:b:0", Stop())
    messages = turns_until(two, Stop())
    assert isinstance(messages[0], BadFrame)


def test_a_ready_socket_is_reported_under_its_token_until_it_is_read(boxes: tuple[Box, Box]) -> None:
    one, _ = boxes
    ours, theirs = socket.socketpair()
    one.watch(ours.fileno(), READ, "pair")
    theirs.send(b"x")
    assert turn(one) == [SocketsReady([("pair", READ)])]
    assert turn(one) == [SocketsReady([("pair", READ)])]
    one.forget(ours.fileno())
    one.set_timer("quiet", time.monotonic())
    assert [type(message) for message in turn(one)] == [TimerDue]
    ours.close()
    theirs.close()


def test_a_group_of_sockets_can_be_silenced_and_heard_again(boxes: tuple[Box, Box]) -> None:
    one, _ = boxes
    pairs = [socket.socketpair() for _ in range(3)]
    group = one.group()
    for number, (ours, theirs) in enumerate(pairs):
        group.watch(ours.fileno(), READ, number)
        theirs.send(b"x")
    group.hear(False)
    one.set_timer("quiet", time.monotonic())
    assert [type(message) for message in turn(one)] == [TimerDue]
    group.hear(True)
    (message,) = turn(one)
    assert sorted(message.ready) == [(0, READ), (1, READ), (2, READ)]
    for pair in pairs:
        group.forget(pair[0].fileno())
        pair[0].close()
        pair[1].close()


def test_timers_fire_in_order_and_a_moved_one_fires_once(boxes: tuple[Box, Box]) -> None:
    one, _ = boxes
    now_s = time.monotonic()
    one.set_timer("b", now_s + 0.02)
    one.set_timer("a", now_s + 0.01)
    one.set_timer("gone", now_s)
    one.cancel_timer("gone")
    one.set_timer("b", now_s + 0.03)
    fired: list[str] = []
    while len(fired) < 2:
        fired += [message.name for message in turn(one)]
    assert fired == ["a", "b"]
    assert time.monotonic() >= now_s + 0.03


def test_work_waits_while_the_machine_allows_no_more_threads(boxes: tuple[Box, Box], monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = boxes
    allowed, begin = iter((False, False, False, True, True)), threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if not next(allowed):
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    for word in ("first", "second"):
        one.in_thread("work", partial(one.put, Envelope(word)))

    done: list[Any] = []
    while len(done) < 2:
        done += turn(one)
    assert sorted(done) == ["first", "second"]


def test_a_message_told_by_another_thread_wakes_the_actor(boxes: tuple[Box, Box]) -> None:
    one, _ = boxes
    one.set_timer("never", time.monotonic() + 3600)
    thread = threading.Thread(target=lambda: one.put(Envelope("told")))
    thread.start()
    assert turn(one) == ["told"]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_request_at_the_router_is_answered_to_its_asker(boxes: tuple[Box, Box], tmp_path: Path) -> None:
    one, _ = boxes
    router = one.router(tmp_path / "control.ipc")
    assert (tmp_path / "control.ipc").stat().st_mode & 0o777 == 0o600
    answers: list[bytes] = []
    connections = RequestConnections(ipc_endpoint(tmp_path / "control.ipc"))
    asker = threading.Thread(target=lambda: answers.append(connections.ask(b"question", 10.0)))
    asker.start()
    requests: list[tuple[list[bytes], bytes]] = []
    while not requests:
        turn(one)
        requests = router.requests()
    (whom, payload) = requests[0]
    assert payload == b"question"
    router.answer(whom, b"answer")
    asker.join(PATIENCE_S)
    assert answers == [b"answer"]
    connections.close()


def test_a_socket_file_in_a_folder_with_a_very_long_name_can_be_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 20) / ("name-" * 20)
    folder.mkdir(parents=True)
    assert len(ipc_endpoint(socket_path(folder, "one"))) < 108
    one, two = Box(folder, "one"), Box(folder, "two")
    one.send("two", Stop())
    assert turns_until(two, Stop()) == [Stop()]
    one.post.close()
    two.post.close()


def test_what_is_heard_again_is_looked_at_in_the_same_turn(boxes: tuple[Box, Box]) -> None:
    """Though the turn began with a look at all sockets, which found the frame."""
    one, two = boxes
    here, there = socket.socketpair()
    with here, there:
        group = two.group()
        group.watch(here.fileno(), READ, "here")
        group.hear(False)
        there.send(b"x")
        one.send("two:b:0", Stop())
        while (message := two.post.next()[1]) != Stop():
            assert isinstance(message, TurnEnded)
        group.hear(True)
        two.poll_again()
        assert turn(two) == [SocketsReady([("here", READ)])]
        group.forget(here.fileno())


# --- several actors in one process ---


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[tuple[Box, Post, Mailbox, Mailbox]]:
    """Somebody outside; a process, and its two actors."""
    outside, post = Box(tmp_path, "store"), Post(tmp_path, "bridge:b:0")
    names = "forwarder:b:0", "connection:b:0"
    post.local.update(names)
    yield outside, post, Mailbox(post, names[0]), Mailbox(post, names[1])
    outside.post.close()
    post.close()


def addressed(post: Post, count: int) -> list[tuple[str, Any]]:
    """The next ``count`` messages, without the ends of turns."""
    found: list[tuple[str, Any]] = []
    while len(found) < count:
        to, message = post.next()
        if not isinstance(message, TurnEnded):
            found.append((to, message))
    return found


def test_frames_reach_the_process_of_an_actor_and_say_for_whom_they_are(lane: tuple[Box, Post, Mailbox, Mailbox]) -> None:
    outside, post, _, _ = lane
    for number, to in enumerate(("connection:b:0", "forwarder:b:0", "bridge:b:0", "connection:b:0")):
        outside.send(to, PeerUp(name="x", epoch=number))
    outside.post.send_parts("forwarder:b:0", [b"\xc1"])
    *frames, (to, bad) = addressed(post, 5)
    assert [(to, frame.epoch) for to, frame in frames] == [
        ("connection:b:0", 0),
        ("forwarder:b:0", 1),
        ("bridge:b:0", 2),
        ("connection:b:0", 3),
    ]
    assert to == "forwarder:b:0"
    assert isinstance(bad, BadFrame)


def test_a_frame_to_an_actor_of_the_same_process_is_handed_over_as_it_is(lane: tuple[Box, Post, Mailbox, Mailbox]) -> None:
    """Also one that cannot be encoded at all."""

    class Unencodable(Frame):
        KIND = -1

    _, post, forwarder, connection = lane
    frames = Unencodable(), Stop(), Unencodable()
    forwarder.send("connection:b:0", frames[0])
    connection.send("forwarder:b:0", frames[1])
    forwarder.send("connection:b:0", frames[2])
    assert list(post.handed_over) == [("connection:b:0", frames[0]), ("forwarder:b:0", frames[1]), ("connection:b:0", frames[2])]
    assert all(one is other for (_, one), other in zip(post.handed_over, frames, strict=True))
    assert post.traffic()[0] == 0


def test_two_actors_of_a_process_may_call_timers_and_sockets_alike(lane: tuple[Box, Post, Mailbox, Mailbox]) -> None:
    _, post, forwarder, connection = lane
    pairs = socket.socketpair(), socket.socketpair()
    now_s = time.monotonic()
    for number, (box, (ours, theirs)) in enumerate(zip((forwarder, connection), pairs, strict=True)):
        box.watch(ours.fileno(), READ, "socket")
        theirs.send(b"x")
        box.set_timer("retry", now_s + 0.001 * number)
    forwarder.set_timer("gone", now_s)
    connection.cancel_timer("gone")  # not its own

    found: list[tuple[str, Any]] = []
    while len({(to, type(message), getattr(message, "name", "")) for to, message in found}) < 5:
        found += addressed(post, 1)
    timers = [(to, message.name) for to, message in found if isinstance(message, TimerDue)]
    assert sorted(timers) == [("connection:b:0", "retry"), ("forwarder:b:0", "gone"), ("forwarder:b:0", "retry")]
    ready = {(to, *message.ready) for to, message in found if isinstance(message, SocketsReady)}
    assert ready == {("forwarder:b:0", ("socket", READ)), ("connection:b:0", ("socket", READ))}
    for box, (ours, theirs) in zip((forwarder, connection), pairs, strict=True):
        box.forget(ours.fileno())
        ours.close()
        theirs.close()


def test_what_a_thread_tells_goes_to_its_own_actor(lane: tuple[Box, Post, Mailbox, Mailbox]) -> None:
    _, post, forwarder, connection = lane
    connection.put(Envelope("c"))
    forwarder.put(Envelope("f"))
    assert addressed(post, 2) == [("connection:b:0", "c"), ("forwarder:b:0", "f")]
