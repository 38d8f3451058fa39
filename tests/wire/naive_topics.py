"""Topic matching as section 4.7 reads, level by level, and topics and filters that hit each other often."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

LEVELS = st.sampled_from(("a", "b", "", "$s"))
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(st.one_of(LEVELS, st.just("+")), max_size=3), st.sampled_from(("a", "b", "+", "#", "")))
    .map(lambda parts: "/".join([*parts[0], parts[1]]))
    .filter(bool)
)


def naive(topic_filter: Sequence[str], topic: Sequence[str], first: bool = True) -> bool:
    """Section 4.7 read aloud, level by level."""
    if not topic_filter:
        return not topic
    head = topic_filter[0]
    if first and topic and topic[0].startswith("$") and head in ("+", "#"):
        return False
    if head == "#":
        return True
    return bool(topic) and head in ("+", topic[0]) and naive(topic_filter[1:], topic[1:], False)


def naive_match(topic_filter: str, topic: str) -> bool:
    return naive(topic_filter.split("/"), topic.split("/"))
