"""Sessions of local clients: who takes over, what an end leaves, and ends by an operator's order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.broker.client_commands import ClientAdmin
from tests.actors.session_desk import LEFT, Door
from wire.frames.intake import SessionGone
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import QueueAnswer, SessionCommand

WELCOMED, REFUSED_311, REFUSED_5 = b"\x20\x02\x00\x00", b"\x20\x02\x00\x03", 0x88


def test_a_newer_client_takes_such_a_session_over_without_the_store(door: Door) -> None:
    """broker.one-link-per-client"""
    older = door.come()
    newer = door.come()
    assert older.closed
    assert newer.flow is not None
    assert door.said() == WELCOMED * 2
    assert door.host.asked == []


def test_a_recorded_session_is_ended_by_the_store_and_by_nobody_else(door: Door) -> None:
    client = door.come(name="kept")
    assert client.flow is None
    assert [asked.clean for asked in door.host.asked] == [True]
    door.answer()
    assert door.said() == WELCOMED
    door.host.close_client(client, "gone")
    assert door.come(name="kept").flow is not None, "it has ended"


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_a_session_is_on_record_until_its_end_is_committed(door: Door, expiry_s: int) -> None:
    client = door.come(level=5, expiry_s=60)
    door.answer(queue="session:2:c")
    client.expiry_s = expiry_s  # as DISCONNECT may change it
    door.host.close_client(client, "disconnect")
    door.commit_ends()
    assert (door.come().flow is not None) == (expiry_s == 0)


def test_an_expired_session_is_in_nobody_s_way(door: Door) -> None:
    door.sessions.on_gone(SessionGone(session="kept", queue="session:1:kept"))
    assert door.come(name="kept").flow is not None


def end(request: int) -> SessionCommand:
    return SessionCommand(request=request, verb="end", arguments={"client_id": "c"}, asker=SUPERVISOR)


def end_answered(request: int, *, ordered: bool) -> QueueAnswer:
    result = {"ordered": True} if ordered else {}
    return QueueAnswer(request=request, error="unavailable", message="the disk refuses", result=result)


def test_who_was_sent_away_may_come_again_though_the_disk_refuses(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """broker.looked-up-after-commits: the store tells of the end of what it has; of a session that ends with its connection it
    has nothing.
    """
    admin = ClientAdmin(door.host, door.sessions)
    monkeypatch.setattr(admin, "_row", lambda client: SimpleNamespace(client_id=client.session, lasting=bool(client.queue)))
    client = door.come()
    admin.command(end(1))
    assert client.closed
    admin.on_answered(end_answered(1, ordered=True))

    again = door.come()

    assert again.flow is not None
    assert not again.closed


def test_an_identifier_is_held_until_every_end_of_it_is_through(tmp_path: Path) -> None:
    """broker.looked-up-after-commits"""
    door = Door(tmp_path, "c", will=LEFT)
    admin = ClientAdmin(door.host, door.sessions)
    admin.command(end(1))
    admin.on_answered(end_answered(1, ordered=True))
    door.come(clean=False, level=5, expiry_s=60)
    admin.command(end(2))
    admin.on_answered(end_answered(2, ordered=False))
    assert door.host.asked == []

    gone = SessionGone(session="c", queue="session:1:c")
    admin.on_gone(gone.session)
    door.sessions.on_gone(gone)
    assert door.host.wills == ["c"]
    assert [asked.session for asked in door.host.asked] == ["c"]
    door.close()
