"""The count of all topic filters stays what it would be if it were counted anew, in any order of events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from actors.broker.filter_bytes import LEVEL_BYTES, FilterBytes, size_bytes
from tests.supervisor.settings import node_settings
from wire.config_settings import NodeSettings

FILTERS = ["a", "a/b", "é/#"]
SESSIONS = {"one": "ada", "two": "ada", "three": "bob"}


def limited(folder: Path, *, client: int = 1 << 20, all_clients: int = 1 << 20) -> NodeSettings:
    plain = node_settings(folder)
    sessions = replace(plain.sessions, filters_max_bytes=all_clients, user_share_percent=50)
    return replace(plain, clients=replace(plain.clients, subscriptions_max_bytes=client), sessions=sessions)


def test_a_filter_counts_for_its_text_and_for_each_of_its_levels() -> None:
    assert [size_bytes(one) for one in FILTERS] == [1 + LEVEL_BYTES, 3 + 2 * LEVEL_BYTES, 4 + 2 * LEVEL_BYTES]


def test_a_limit_is_reached_and_not_exceeded(tmp_path: Path) -> None:
    """broker.filters-bounded"""
    filters = FilterBytes()
    size = size_bytes("a/b")
    filters.has("one", "ada", ["a/b"])
    assert filters.refusal("one", "ada", "a/b", limited(tmp_path, client=2 * size)) == ""
    assert filters.refusal("one", "ada", "a/b", limited(tmp_path, client=2 * size - 1)) == "subscriptions_max_bytes"
    assert filters.refusal("two", "bob", "a/b", limited(tmp_path, all_clients=2 * size - 1)) == "filters_max_bytes"
    assert filters.refusal("two", "bob", "a/b", limited(tmp_path, all_clients=2 * size)) == ""
    assert filters.refusal("two", "ada", "a/b", limited(tmp_path, all_clients=3 * size)) == "user_share_percent"


@given(
    st.lists(st.tuples(st.sampled_from(["toggle", "has", "ends", "only"]), st.sampled_from([*SESSIONS]), st.sampled_from(FILTERS)))
)
def test_in_any_order_of_events_the_sum_is_that_of_what_is_there(steps: list[tuple[str, str, str]]) -> None:
    filters, model = FilterBytes(), {session: set[str]() for session in SESSIONS}
    for step, session, topic_filter in steps:
        kept, owner = model[session], SESSIONS[session]
        if step == "toggle" and topic_filter in kept:
            filters.drop(session, owner, topic_filter)
            kept.discard(topic_filter)
        elif step == "toggle":
            filters.add(session, owner, topic_filter)
            kept.add(topic_filter)
        elif step == "has":
            filters.has(session, owner, FILTERS)
            kept.update(FILTERS)
        elif step == "ends":
            filters.has(session)
            kept.clear()
        else:
            filters.only([session])
            model |= {other: set() for other in SESSIONS if other != session}
    assert filters.shares.total == sum(size_bytes(one) for kept in model.values() for one in kept)
    for session in SESSIONS:
        filters.has(session)
    assert filters.shares.total == 0
