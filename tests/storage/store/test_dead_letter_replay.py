"""Which dead letters go back with one page."""

from __future__ import annotations

import pytest

from storage.queue.admission import AdmissionRoom
from storage.queue.chunk import Message
from storage.queue.dead_letters import DeadLetter
from storage.store.dead_letter_queues import choose_page

NAMES = ["bridge:cloud:0", "bridge:cloud:1"]


def letter(seq: int, *, topic: bytes = b"t", reason: str = "0x87") -> tuple[int, DeadLetter]:
    return seq, DeadLetter(seq, reason, 1000, NAMES[0], "edge@here", Message(seq, topic, b"p", 1, b"", b"", 900))


def rooms(messages: int | None = None) -> dict[str, list[AdmissionRoom]]:
    node = AdmissionRoom(messages=messages, size_bytes=None, overflow="reject")
    return {name: [node] for name in NAMES}


def test_a_page_is_so_many_letters_of_the_reason_that_is_asked_for() -> None:
    letters = [letter(1), letter(2, reason="0x97"), (3, None), letter(4), letter(5)]

    page = choose_page(letters, NAMES, rooms(), reason="0x87", count=2)

    assert [each.seq for back in page.chosen.values() for each in back] == [1, 4]
    assert (page.taken, page.skipped, page.damaged, page.full, page.following) == (2, 1, 1, False, 5)


def test_it_ends_at_the_one_for_which_there_is_no_room() -> None:
    page = choose_page([letter(1), letter(2), letter(3)], NAMES, rooms(2), reason=None, count=10)

    assert (page.taken, page.full, page.following) == (2, True, 3)


def test_each_topic_goes_to_one_lane() -> None:
    letters = [letter(seq, topic=b"t%d" % (seq % 5)) for seq in range(20)]

    page = choose_page(letters, NAMES, rooms(), reason=None, count=20)

    topics = [{each.message.topic for each in page.chosen[name]} for name in NAMES]
    assert all(topics)
    assert not topics[0] & topics[1]


def test_it_looks_at_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.dead_letter_queues.SCANNED_MESSAGES", 3)
    letters = [letter(seq, reason="other") for seq in range(5)]

    page = choose_page(letters, NAMES, rooms(), reason="0x87", count=10)

    assert (page.taken, page.skipped, page.following) == (0, 3, 3)


def test_no_letter_is_no_page() -> None:
    assert choose_page([], NAMES, rooms(), reason=None, count=10).following is None
