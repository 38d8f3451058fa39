"""Wills that wait, for their delay or for room: published once, and taken back by a CONNACK alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.session_openings import UNANSWERED_S
from tests.actors.session_desk import LEFT, WILL, Door, FakeHost, local_parts
from wire.frames.intake import SessionGone, SessionsKnown

LEFT_AT_ONCE = (b"site/gone", 1, b"bye", b"", 0)


@pytest.mark.parametrize(("due_ms", "wait_s"), [(20_000, 20), (36_000_000, 30)], ids=["usual", "set-back"])
def test_a_will_that_is_left_waits_no_longer_than_its_delay(due_ms: int, wait_s: int, tmp_path: Path) -> None:
    """Also when the clock was set back by hours since its client went: the record has when it is due."""
    host: Any = FakeHost()
    parts = local_parts(host, tmp_path)
    will = (b"site/gone", 1, b"bye", b"", 30)

    parts.sessions.known(
        SessionsKnown(epoch=1, store=1, sessions=(("c", "session:1:c", (), will, due_ms, None, "", ""),), last=True)
    )

    parts.wills.publish_due(wait_s - 1.0)
    assert not host.wills
    parts.wills.publish_due(float(wait_s))
    assert host.wills == ["c"]


@pytest.mark.parametrize("how", ["refused", "unanswered", "gone", "not asked"])
def test_a_will_is_taken_back_by_a_connack_and_by_nothing_less(how: str, tmp_path: Path) -> None:
    """broker.will-unless-taken-back: it would be on record for ever, and keep its session from ending."""
    door = Door(tmp_path, "c", will=LEFT)
    if how == "not asked":
        door.host.busy_sessions.add("c")
    client = door.come(clean=False, level=5, expiry_s=60)
    match how:
        case "refused":
            door.answer(refused="user")
        case "unanswered":
            door.wait(UNANSWERED_S)
        case _:
            door.host.close_client(client, "gone")
    assert client.closed

    door.parts.wills.publish_due(19.0)
    assert door.host.wills == []
    door.parts.wills.publish_due(20.0)
    assert door.host.wills == ["c"]
    door.close()


def test_a_will_that_was_taken_back_is_published_no_more(tmp_path: Path) -> None:
    """broker.will-unless-taken-back"""
    door = Door(tmp_path, "c", will=LEFT)
    client = door.come(clean=False, level=5, expiry_s=60)
    door.answer(queue="session:1:c", present=True)
    door.host.close_client(client, "gone")
    door.parts.wills.publish_due(1e6)
    assert door.host.wills == []
    door.close()


def test_no_will_is_published_before_all_are_known_and_each_store_tells_all(tmp_path: Path) -> None:
    """broker.looked-up-after-commits"""
    host: Any = FakeHost()
    parts = local_parts(host, tmp_path)
    session = ("c", "session:1:c", (), LEFT_AT_ONCE, 0, None, "", "")
    first = SessionsKnown(epoch=1, store=1, sessions=(session,), last=False)

    def housekeeping() -> None:
        parts.wills.publish_due(5.0)

    parts.sessions.known(first)
    housekeeping()
    assert host.wills == []

    parts.sessions.store_is_new()
    parts.sessions.known(first)
    parts.sessions.known(SessionsKnown(epoch=1, store=2, sessions=(), last=True))
    housekeeping()
    assert host.wills == ["c"]


def test_wills_for_which_the_batch_has_no_room_wait_for_the_next_one(tmp_path: Path) -> None:
    """As many may be due at once as clients were connected."""
    door = Door(tmp_path, "left", "expired", will=LEFT)
    leaves = door.come(name="leaves", clean=False, level=5, expiry_s=60, will=WILL)
    door.answer(queue="session:2:leaves")
    door.host.full = True

    door.host.close_client(leaves, "gone")
    door.sessions.on_gone(SessionGone(session="expired", queue="session:1:expired"))
    door.parts.wills.publish_due(30.0)
    comes = door.come(name="left", level=5, expiry_s=60)
    assert (door.host.wills, door.host.asked) == ([], [])
    assert not comes.closed

    door.host.full = False
    door.parts.wills.publish_due(30.0)
    door.turn()
    assert sorted(door.host.wills) == ["expired", "leaves", "left"]
    assert [asked.session for asked in door.host.asked] == ["left"], "what is on record of it is out first"
    door.close()
