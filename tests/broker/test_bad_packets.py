"""A client that breaks the specification is told why, where its version can say it, and closed; everyone else is served."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.broker.bad_packets import CASES, PACKET_MAX_BYTES, RECEIVE_MAXIMUM, Case, connect, packet
from tests.broker.raw import PINGREQ, PINGRESP, dial, read_exactly, read_to_end
from tests.broker.witness import Witness
from tests.support.node import Node, node_config
from tests.support.waiting import wait_until

GROWTH_MAX_BYTES = 32 * 1024 * 1024


class Broker:
    """One node for the whole table, and who is to be served meanwhile."""

    def __init__(self, node: Node, witness: Witness) -> None:
        self.node = node
        self.witness = witness
        witness.is_served()
        self.rss_before = node.rss_bytes()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The traces that all of it left behind are looked at when it ends."""
    config = node_config(mode="in-memory", clients={"packet_max_bytes": f"{PACKET_MAX_BYTES}B", "receive_maximum": RECEIVE_MAXIMUM})
    with Node(config, tmp_path_factory.mktemp("bad") / "node") as node, Witness(node.port) as witness:
        broker = Broker(node, witness)
        yield broker
        witness.is_served()
        assert "Traceback" not in node.output, node.output[-4000:]
        assert not node.events("actor.failed")
        wait_until(lambda: node.status()["listener"]["clients"] == 2, 10.0, "only the witness is left")
        for name, rss_bytes in node.rss_bytes().items():
            assert rss_bytes - broker.rss_before[name] < GROWTH_MAX_BYTES, f"{name} grew to {rss_bytes}"


def greet(sock: socket.socket, level: int) -> None:
    """An accepted CONNECT."""
    sock.sendall(connect(level))
    head = read_exactly(sock, 2)
    assert head[0] == 0x20
    assert read_exactly(sock, head[1])[1] == 0


@pytest.mark.parametrize("case", CASES, ids=[f"{case.name}, {case.level}".replace(" ", "-") for case in CASES])
def test_who_sends_what_is_not_allowed_is_told_why_and_closed(broker: Broker, case: Case) -> None:
    with dial(broker.node.port) as sock:
        if case.greeted:
            greet(sock, case.level)
        sock.sendall(case.data)
        assert read_to_end(sock).hex(" ") == case.answer.hex(" "), case.clause
    broker.witness.is_served()


def test_every_class_of_the_specifications_has_a_case() -> None:
    """Every packet type at both levels, and every failure code that a server has for a client's bytes.

    A level that nobody speaks is answered as 3.1.1 answers it, which every client reads.
    """
    for level in (4, 5):
        types = {case.data[0] >> 4 for case in CASES if case.level == level and case.greeted}
        assert types == set(range(16)), level
    told = {case.answer[2] for case in CASES if case.answer[:1] == b"\xe0"}
    assert told == {0x81, 0x82, 0x93, 0x94, 0x95, 0x97}
    assert {case.answer[3] for case in CASES if case.answer[:2] == b"\x20\x03"} == {0x81, 0x82, 0x8C, 0x97}
    assert {case.answer[3] for case in CASES if case.answer[:2] == b"\x20\x02"} == {1, 2}


VALID = {
    level: [
        connect(level, 0xEE, payload=f"000178 {'00' if level == 5 else ''} 000177 000178 000175 000170"),
        packet(0x34, f"000161 0001 {p} 78"),
        packet(0x62, "0001"),
        packet(0x40, "0007"),
        packet(0x82, f"0002 {p} 000161 00 000162 01"),
        packet(0xA2, f"0003 {p} 000161"),
        PINGREQ,
        packet(0xE0, "00 00" if level == 5 else ""),
    ]
    for level, p in ((4, ""), (5, "00"))
}


@pytest.mark.parametrize("level", [4, 5])
def test_a_packet_that_is_cut_short_by_a_close_is_nobodys_loss_but_the_clients(broker: Broker, level: int) -> None:
    """After each byte of each packet: what was whole counts, the rest does not, and nothing is said about it."""
    for number, whole in enumerate(VALID[level]):
        for cut in range(1, len(whole)):
            with dial(broker.node.port) as sock:
                if number:
                    greet(sock, level)
                sock.sendall(whole[:cut])
                sock.shutdown(socket.SHUT_WR)
                assert read_to_end(sock) == b"", (whole.hex(" "), cut)
        broker.witness.is_served()


@pytest.mark.parametrize("level", [4, 5])
def test_what_is_whole_in_front_of_a_wrong_packet_counts(broker: Broker, level: int) -> None:
    before = broker.node.status()["listener"]["published"]
    with dial(broker.node.port) as sock:
        greet(sock, level)
        good = packet(0x32, f"000161 0001 {'00' if level == 5 else ''} 78")
        sock.sendall(PINGREQ + good + b"\x00\x00" + good)
        answer = read_to_end(sock)
    assert answer == PINGRESP + (b"\xe0\x01\x81" if level == 5 else b"")
    wait_until(lambda: broker.node.status()["listener"]["published"] == before + 1, 10.0, "the first message")
