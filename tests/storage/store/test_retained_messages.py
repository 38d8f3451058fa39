"""Owners of retained messages: each has a share of what the node keeps, whoever dies meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.engine.engine import Engine, Write
from storage.engine.keys import retained_key
from storage.store.retained_messages import MAKE_ROOM_MS, RetainedMessages
from tests.storage.building import RecordingEngine
from tests.support.settings import node
from wire.config_settings import SessionSettings, SettingsNow
from wire.frames.batch import RETAIN, Batch, from_rows
from wire.mqtt.properties import Properties, encode_properties
from wire.routing.retained_topics import pack_owned


def settings(**changed: int) -> SettingsNow:
    own: dict[str, int] = {"retained_max_messages": 8, "retained_max_bytes": 1000} | changed
    return SettingsNow(node(sessions=replace(SessionSettings(), **own)))  # type: ignore[arg-type]


GREEDY, HONEST = "user greedy", "address 10.0.0.1"


@pytest.fixture
def engine() -> Engine:
    return RecordingEngine()


def publish(kept: RetainedMessages, engine: Engine, *rows: tuple[str, bytes, str]) -> int:
    """Retain these messages, (topic, payload, owner), by one batch; how many were refused."""
    batch = from_rows([(topic.encode(), 1 | RETAIN, payload) for topic, payload, _ in rows], accepted_ms=1000)
    return change(kept, engine, batch, [owner for *_, owner in rows])


def change(kept: RetainedMessages, engine: Engine, batch: Batch, owners: list[str]) -> int:
    before, write = kept.refused, Write()
    kept.change(pack_owned(batch, owners), write)
    engine.commit(write, sync=True)
    return kept.refused - before


def kept_topics(kept: RetainedMessages) -> set[str]:
    return {topic for topic in "abcdefghijklmnop" if kept.message(topic.encode(), 1000) is not None}


def test_one_owner_has_half_of_all_messages_and_the_others_the_rest(engine: Engine) -> None:
    """store.shared-out. A refused message changes nothing; one that is cleared, or that another takes over, gives its
    place."""
    kept = RetainedMessages(engine, settings())
    assert publish(kept, engine, *((topic, b"x", GREEDY) for topic in "abcdef")) == 2
    assert kept_topics(kept) == set("abcd")
    assert publish(kept, engine, ("a", b"y", GREEDY)) == 0, "it has that one"
    assert publish(kept, engine, *((topic, b"x", HONEST) for topic in "ghij")) == 0
    assert publish(kept, engine, ("k", b"x", "another")) == 1, "there is no room for anybody"

    assert publish(kept, engine, ("g", b"mine", GREEDY)) == 1, "a message of another is another one"
    assert kept.message(b"g", 1000).payloads == b"x"  # type: ignore[union-attr]
    assert publish(kept, engine, ("j", b"", HONEST), ("a", b"z", HONEST)) == 0
    assert publish(kept, engine, ("e", b"x", GREEDY), ("f", b"x", GREEDY)) == 1, "and one place of its own it has back"
    assert kept.figures().messages == 8


def test_bytes_are_shared_out_as_well(engine: Engine) -> None:
    kept = RetainedMessages(engine, settings())
    assert publish(kept, engine, ("a", b"x" * 300, GREEDY), ("b", b"x" * 300, GREEDY)) == 1
    assert publish(kept, engine, ("a", b"x" * 500, GREEDY)) == 1, "nor may one grow beyond it"
    assert publish(kept, engine, ("c", b"x" * 300, HONEST)) == 0
    assert publish(kept, engine, ("a", b"x", GREEDY), ("b", b"x" * 300, GREEDY)) == 0


def test_a_restart_knows_whose_they_are(engine: Engine) -> None:
    kept = RetainedMessages(engine, settings())
    publish(kept, engine, *((topic, b"x", GREEDY) for topic in "abcd"), ("e", b"x", HONEST))
    figures = kept.figures()
    kept = RetainedMessages(engine, settings())
    assert kept.figures() == replace(figures, refused=0)
    assert publish(kept, engine, ("f", b"x", GREEDY), ("g", b"x", HONEST)) == 1
    assert kept_topics(kept) == set("abcdeg")


def test_what_has_expired_counts_for_nobody(engine: Engine) -> None:
    kept = RetainedMessages(engine, settings())
    batch = from_rows([(topic.encode(), RETAIN, b"x") for topic in "abcd"], accepted_ms=1000)
    batch.properties = dict.fromkeys(range(4), encode_properties(Properties(message_expiry_interval=1)))
    assert change(kept, engine, batch, [GREEDY] * 4) == 0
    late = from_rows([(b"e", RETAIN, b"x")], accepted_ms=1000 + 2 * MAKE_ROOM_MS)
    assert change(kept, engine, late, [GREEDY]) == 0
    assert len(kept) == 1


def test_limits_that_were_lowered_take_nothing_and_let_each_replace_its_own(engine: Engine) -> None:
    kept = RetainedMessages(engine, settings())
    publish(kept, engine, *((topic, b"xx", owner) for topic, owner in zip("abcdef", [GREEDY, HONEST] * 3, strict=True)))
    kept = RetainedMessages(engine, settings(retained_max_messages=2, retained_max_bytes=50))
    assert publish(kept, engine, ("a", b"yy", GREEDY)) == 0
    assert publish(kept, engine, ("a", b"more", GREEDY), ("g", b"y", HONEST), ("c", b"y", HONEST)) == 3
    assert len(kept) == 6


def test_a_row_that_says_no_owner_is_damaged(engine: Engine) -> None:
    write = Write()
    write.put("meta", retained_key(b"a"), from_rows([(b"a", RETAIN, b"x")]).encode())
    engine.commit(write, sync=True)
    kept = RetainedMessages(engine, settings())
    assert len(kept) == 0
