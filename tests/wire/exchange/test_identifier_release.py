"""PUBRELs until PUBCOMP, before anything is PUBLISHed."""

from __future__ import annotations

import pytest

from wire.exchange.identifier_release import IdentifierRelease
from wire.exchange.packet_identifiers import PUBACK, PUBCOMP, PUBREC, PUBREL


def packet(kind: int, packet_id: int, *reason: int) -> bytes:
    body = packet_id.to_bytes(2, "big") + bytes(reason)
    return bytes((kind, len(body))) + body


def test_each_identifier_is_released_in_its_order_and_all_have_to_be_completed() -> None:
    """exchange.left-identifiers-released, exchange.pubrels-in-pubrec-order"""
    release = IdentifierRelease(((70_000, 70_002), (3, 4)), level=5, unexpected=lambda: None)

    assert release.pump() == packet(PUBREL, 5_001) + packet(PUBREL, 5_002) + packet(PUBREL, 4)
    assert release.pump() == b"", "once on a connection"
    assert release.owed == 5_001
    answers = packet(PUBCOMP, 5_002, 0x92) + packet(PUBCOMP, 5_001)
    assert release.on_received(answers, 0) == len(answers)
    assert (release.owed, release.done) == (4, False)
    assert release.on_received(packet(PUBCOMP, 4), 0) == 4
    assert release.done


def test_it_takes_whole_acknowledgements_and_leaves_all_else_and_all_behind_its_end_to_others() -> None:
    release = IdentifierRelease(((0, 2),), level=4, unexpected=lambda: None)
    first, second, publish = packet(PUBCOMP, 1), packet(PUBCOMP, 2), b"\x30\x03\x00\x01t"

    assert release.on_received(first + publish + second, 0) == len(first)
    assert release.on_received(second[:3], 0) == 0
    assert release.on_received(second + first, 0) == len(second)


@pytest.mark.parametrize("level", [4, 5])
def test_a_pubrec_that_comes_unasked_is_answered_once_if_its_identifier_is_to_be_released(level: int) -> None:
    """exchange.unexpected-changes-nothing. Under another identifier a message may go again, which a PUBREL would make a new one."""
    unexpected: list[int] = []
    release = IdentifierRelease(((0, 1),), level=level, unexpected=lambda: unexpected.append(1))
    release.pump()

    release.on_received(packet(PUBREC, 1) + packet(PUBREC, 9), 0)

    assert release.pump() == packet(PUBREL, 1)
    release.on_received(packet(PUBREC, 9) + packet(PUBREC, 1), 0)
    assert (release.done, len(unexpected)) == (True, 4), "it says nothing else, and nothing is lost by it"


@pytest.mark.parametrize("level", [4, 5])
def test_a_puback_says_that_the_message_had_qos_1(level: int) -> None:
    unexpected: list[int] = []
    release = IdentifierRelease(((0, 2),), level=level, unexpected=lambda: unexpected.append(1))
    release.pump()
    release.on_received(packet(PUBACK, 7) + packet(PUBACK, 1), 0)
    assert (release.owed, release.done, len(unexpected)) == (2, False, 2)
