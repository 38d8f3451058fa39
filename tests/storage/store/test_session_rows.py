"""Only changes of a session are written; written ones are there in the next life."""

from __future__ import annotations

import msgpack
import pytest

from storage.engine.engine import Engine, Write
from storage.engine.keys import PARTS, PARTS_END, part_key, session_key
from storage.store.session_rows import RECEIVED, ROW_VERSION, Session, Sessions, filter_part
from tests.storage.building import RecordingEngine
from wire.errors import ConfigError

LONG = "x" * 65_000
WILL = (b"site/gone", 1, b"bye", b"", 30)


def written(engine: Engine, sessions: Sessions) -> list[tuple[str, bytes]]:
    """Commit what has changed: the operations and their keys."""
    write = Write()
    sessions.write_rows(write)
    engine.commit(write, sync=True)
    return [(operation, key) for operation, _, key, _ in write.ops]


def part(kind: bytes) -> bytes:
    return part_key("c", kind)


def filled(engine: Engine) -> tuple[Sessions, Session]:
    """A session with something in each kind of row, which are written."""
    sessions, session = Sessions(engine), Session("c", expiry_s=60, queue="session:1:c", owner="user ada")
    sessions.keep(session)
    session.request = (1, 9)
    for topic_filter in ("a/#", LONG):
        sessions.subscribe(session, topic_filter, 1, 7)
    sessions.put_will(session, WILL)
    sessions.receive("c", [3, 5])
    written(engine, sessions)
    return sessions, session


def test_what_was_written_is_there_in_the_next_life(engine: Engine) -> None:
    _, session = filled(engine)

    (again,) = Sessions(engine)

    assert again == session
    assert (again.will, again.received) == (WILL, {3, 5})
    assert again.subscriptions == {"a/#": (1, 7), LONG: (1, 7)}
    assert again.request == (1, 9)


def test_only_the_row_of_what_has_changed_is_written(engine: Engine) -> None:
    """store.session-written-as-it-changes"""
    sessions, session = filled(engine)

    sessions.subscribe(session, "a/#", 2, 7)
    assert written(engine, sessions) == [("put", part(filter_part("a/#")))]
    sessions.unsubscribe(session, ["a/#", "unknown"])
    assert written(engine, sessions) == [("delete", part(filter_part("a/#")))]
    sessions.receive("c", [7])
    sessions.release("c", [3])
    assert written(engine, sessions) == [("put", part(RECEIVED))]
    sessions.release("c", [5, 7, 9])
    assert written(engine, sessions) == [("delete", part(RECEIVED))]
    sessions.keep(session)
    assert written(engine, sessions) == [("put", session_key("c"))]
    sessions.put_will(session, WILL)
    assert written(engine, sessions) == [], "it has that one"


def test_a_session_that_ends_leaves_nothing(engine: Engine) -> None:
    sessions, _ = filled(engine)

    sessions.forget("c")
    written(engine, sessions)

    assert not list(Sessions(engine))
    assert not list(engine.scan("meta", PARTS, PARTS_END))


def test_a_session_of_the_same_name_that_begins_in_the_commit_of_the_other_has_its_own_rows(engine: Engine) -> None:
    sessions, _ = filled(engine)

    sessions.forget("c")
    new = Session("c", expiry_s=60, queue="session:2:c")
    sessions.keep(new)
    sessions.subscribe(new, "a/#", 0, 0)
    written(engine, sessions)

    (again,) = Sessions(engine)
    assert (again.queue, again.subscriptions, again.will, again.received) == ("session:2:c", {"a/#": (0, 0)}, None, set())


def test_what_ends_with_its_connection_has_no_row_of_any_kind(engine: Engine) -> None:
    sessions, session = Sessions(engine), Session("c")
    sessions.keep(session)
    sessions.subscribe(session, "a", 1, 0)
    sessions.receive("c", [1])
    written(engine, sessions)
    assert sessions.get("c") is None
    assert not list(engine.scan("meta", b"S", PARTS_END))


@pytest.mark.parametrize(
    "row",
    [
        (part(filter_part("a/#")), b"\xc1"),
        (part(filter_part("a/#")), msgpack.packb((ROW_VERSION, "a/#", 1))),
        (part(b"w"), msgpack.packb((ROW_VERSION, b"topic"))),
        (part(RECEIVED), msgpack.packb((ROW_VERSION, b"odd"))),
        (part(RECEIVED), msgpack.packb((ROW_VERSION, 7))),
        (part_key("nobody", RECEIVED), msgpack.packb((ROW_VERSION, b"\1\0"))),
    ],
    ids=["no row", "subscription", "will", "column", "type", "nobody's"],
)
def test_a_row_that_is_damaged_is_left_out_named_and_removed(row: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture) -> None:
    """Everything else of its session is there."""
    engine = RecordingEngine()
    filled(engine)
    write = Write()
    write.put("meta", *row)
    engine.commit(write, sync=True)

    sessions = Sessions(engine)

    assert sessions.damaged == 1
    assert [record.message for record in caplog.records] == ["session.row_damaged"]
    assert caplog.records[0].client_id in ("c", "")  # type: ignore[attr-defined]
    (session,) = sessions
    assert LONG in session.subscriptions
    assert written(engine, sessions) == [("delete", row[0])]
    assert Sessions(engine).damaged == 0


def test_a_row_of_a_newer_build_is_no_damage() -> None:
    engine = RecordingEngine()
    filled(engine)
    write = Write()
    write.put("meta", part(RECEIVED), msgpack.packb((ROW_VERSION + 1, b"")))
    engine.commit(write, sync=True)
    with pytest.raises(ConfigError):
        Sessions(engine)
