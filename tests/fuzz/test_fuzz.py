"""Valid traffic, changed at random: no client's bytes break an actor, cost the others anything, or stay in memory."""

from __future__ import annotations

import os
import resource
import select
import socket
from pathlib import Path
from random import Random

import pytest

from tests.broker.witness import Witness
from tests.conftest import Chances
from tests.fuzz.in_process import InProcessNode
from tests.fuzz.mutator import mutated, pieces
from tests.fuzz.recordings import RECORDINGS
from tests.fuzz.target import converse, fuzz_one, parse_in_pieces
from tests.support.node import Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until
from wire.frames.names import STORE

PARSED, SERVED, SENT = range(2_000), range(500), range(200)  # without --soak
GROWTH_MAX_BYTES = 64 * 1024 * 1024
WITNESSED_EVERY = 20
CONNECTIONS_MAX = 40


def rss_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def seconds() -> float:
    """Processor time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def test_traffic_that_was_not_changed_is_served_whole() -> None:
    """Else the fuzzer would change what is refused anyway."""
    outcomes = [converse([b"".join(recording)]) for recording in RECORDINGS]
    assert [len(outcome.messages) for outcome in outcomes] == [5, 5, 4, 50, 50, 0]
    assert not any(other[0] == 0xE0 for outcome in outcomes for other in outcome.others)


def test_the_parser_takes_the_same_from_the_same_bytes_in_any_pieces(chances: Chances) -> None:
    """Nothing but a violation is raised, and every turn takes something or waits for more."""
    count, start_s = 0, seconds()
    for seed in chances.seeds(PARSED):
        data = mutated(seed)
        try:
            parse_in_pieces(data, pieces(Random(seed), data))
        except BaseException as error:
            error.add_note(f"the bytes were {data.hex()}; again with: {chances.replay(seed)}")
            raise
        count += 1
    chances.say(f"parser: {count} mutations, {count / (seconds() - start_s):.0f} a second of processor time")


def test_no_bytes_break_an_actor_or_mean_something_else_in_other_pieces(chances: Chances) -> None:
    """The Listener, the Distributor and the store are the real ones; nothing is left of a connection when it is over."""
    for seed in range(200):
        fuzz_one(bytes((seed,)) + mutated(seed))
    before, count, start_s = rss_bytes(), 0, seconds()
    for seed in chances.seeds(SERVED):
        data = bytes((seed % 256,)) + mutated(seed)
        try:
            fuzz_one(data)
        except BaseException as error:
            error.add_note(f"the bytes were {data.hex()}; again with: {chances.replay(seed)}")
            raise
        count += 1
    growth = rss_bytes() - before
    chances.say(f"node in process: {count} mutations, {count / (seconds() - start_s):.0f} a second, {growth >> 20} MiB more")
    assert growth < GROWTH_MAX_BYTES


@pytest.mark.parametrize(
    ("level", "packet"),
    [(4, b"\x62\x02\0\x07"), (5, b"\x62\x02\0\x07"), (4, b"\x32\x05\0\x01t\0\x07"), (4, b"\x34\x05\0\x01t\0\x07")],
    ids=["pubrel", "pubrel-5", "publish", "publish-again"],
)
def test_while_the_store_hangs_a_flood_is_read_until_the_batch_is_full(level: int, packet: bytes) -> None:
    """Then it waits in its own buffers, however long; and once the store goes on, each packet gets its answer."""
    in_a_piece, times = (4_000, 40) if packet[0] == 0x62 else (20_000, 80)
    host = InProcessNode()
    pipe = host.connect()
    pipe.sent.append(RECORDINGS[3 if level == 4 else 4][0])
    host.settle()
    pipe.taken.clear()
    host.stopped.add(STORE)
    pipe.sent.extend([packet * in_a_piece] * times)
    for _ in range(250):
        host.pass_time(0.01)
    waiting = len(pipe.sent)
    assert waiting
    for _ in range(50):
        host.pass_time(0.01)
    assert len(pipe.sent) == waiting, "it does not read on for ever"

    host.stopped.clear()
    for _ in range(20 + in_a_piece * times // 500):
        host.pass_time(0.01)
    assert not pipe.sent
    answer_bytes = 5 if level == 5 else 4  # an identifier that nobody knows
    assert len(pipe.taken) == in_a_piece * times * answer_bytes


def test_a_node_serves_everyone_else_whatever_a_client_sends(chances: Chances, tmp_path: Path) -> None:
    """Over sockets, many connections at a time, some of which never read, and some of which are reset."""
    config = node_config(mode="in-memory", clients={"packet_max_bytes": "64KiB", "output_max_bytes": "128KiB"})
    count = 0
    with Node(config, tmp_path / "node") as node, Witness(node.port) as witness:
        witness.is_served()
        before = node.rss_bytes()
        open_ones: list[socket.socket] = []
        last = -1
        try:
            for seed in chances.seeds(SENT):
                last = seed
                open_ones.append(_send(node.port, seed))
                count += 1
                if len(open_ones) > CONNECTIONS_MAX:
                    _end(open_ones.pop(0), Random(seed))
                if count % WITNESSED_EVERY == 0:
                    witness.is_served()
            for sock in open_ones:
                sock.close()
            wait_until(lambda: node.status()["listener"]["clients"] == 2, 10.0, "only the witness is left")
            witness.is_served()
        except BaseException as error:
            error.add_note(f"the last was {chances.replay(last)}\n{node.output[-4000:]}")
            raise
        after = node.rss_bytes()
        growth = {name: (after[name] - size) >> 20 for name, size in before.items()}
        chances.say(f"node: {count} mutations, MiB more: {growth}")
        assert "Traceback" not in node.output, node.output[-4000:]
        assert not node.events("actor.failed")
        assert max(growth.values()) << 20 < GROWTH_MAX_BYTES, growth
        assert node.status()["listener"]["half_open"] == 0


def _send(port: int, seed: int) -> socket.socket:
    """A connection over which the traffic of ``seed`` went, as far as the node took it."""
    rng = Random(seed)
    data = mutated(seed)
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    try:
        for piece in pieces(rng, data)[:20]:
            sock.sendall(piece)
    except OSError:  # it was closed for what came before
        pass
    return sock


def _end(sock: socket.socket, rng: Random) -> None:
    """Read what there is, or not, and close or reset."""
    if rng.random() < 0.5 and select.select([sock], [], [], 0)[0]:
        try:
            sock.recv(1 << 16)
        except ConnectionResetError:
            pass
    if rng.random() < 0.3:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    sock.close()
