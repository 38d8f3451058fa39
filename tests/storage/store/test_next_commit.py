"""The next commit keeps what is wanted of it until that is done."""

from __future__ import annotations

from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog
from storage.store.next_commit import NextCommit
from tests.storage.building import RecordingEngine, node
from wire.config_settings import SettingsNow


def next_commit(flush_period_s: float) -> NextCommit:
    engine = RecordingEngine()
    settings = SettingsNow(node(flush_period_s=flush_period_s))
    return NextCommit(engine, Disk(engine, settings, tell=EventLog(engine, settings).disk), settings)


def test_what_was_wanted_is_wanted_until_it_is_committed() -> None:
    commit = next_commit(0.0)
    commit.promise()
    commit.at_once = True
    assert (commit.needs_sync, commit.awaited) == (True, True)

    commit.on_done(1.0, written=True)

    assert (commit.needs_sync, commit.awaited, commit.at_once) == (False, False, False)


def test_another_write_begins_when_one_was_written_and_not_before() -> None:
    commit = next_commit(0.0)
    write = commit.write

    commit.on_done(1.0, written=False)
    assert commit.write is write

    write.put("meta", b"key", b"value")
    commit.on_done(2.0, written=True)
    assert commit.write is not write
    assert not commit.write


def test_the_flush_period_begins_with_what_was_written() -> None:
    commit = next_commit(0.5)
    commit.on_done(10.0, written=True)
    commit.promise()
    commit.time.hurry()

    assert not commit.time.is_due(10.4)
    assert commit.time.wakes_at_s(waited_for=commit.awaited) == 10.5
    assert commit.time.is_due(10.5)
