"""What the node itself tells on topics: each state until it is known, each event once, whoever begins anew."""

from __future__ import annotations

from dataclasses import replace

from tests.support.settings import bridge, node
from wire.config_settings import LinkStateSettings, NoticeSettings, SettingsNow
from wire.frames.supervision import NodeTopics
from wire.routing.link_states import StandingLinks
from wire.routing.node_topics import EVENTS_MAX, KnownTopics, TopicsToTell, notice_topic

RULE = NoticeSettings(name="r", when=("link_down",), topic="notices/{node}")
DOWN = {"notices/state/link_down/bridge/cloud/0": b"{}"}


def settings(*, rules: tuple[NoticeSettings, ...] = (RULE,)) -> SettingsNow:
    cloud = replace(bridge("cloud", 1), link_state=LinkStateSettings(topic="links/{bridge}"))
    return SettingsNow(node(cloud, notify=rules))


def known_by(now: SettingsNow) -> KnownTopics:
    return KnownTopics(now, StandingLinks(now).states)


def told(listener: TopicsToTell) -> list[tuple[bytes, bytes, bool]]:
    found = []
    while (each := listener.take_next()) is not None:
        found.append(each)
    return found


def test_states_of_links_and_troubles_are_told_together_and_only_what_is_news() -> None:
    now, listener = settings(), TopicsToTell()
    links = StandingLinks(now)
    known = KnownTopics(now, links.states)
    listener.on_told(known.all())
    assert told(listener) == [(b"links/cloud", b"0", True)]
    assert known.news(serves=True) is None

    links.note("cloud", stands=True)
    known.on_notices(NodeTopics(states=DOWN, events=(("notices/events", b"1"),)))
    frame = known.news(serves=True)

    assert frame is not None
    listener.on_told(frame)
    assert told(listener) == [
        (b"links/cloud", b"1", True),
        (b"notices/state/link_down/bridge/cloud/0", b"{}", True),
        (b"notices/events", b"1", False),
    ]
    assert (known.news(serves=True), told(listener)) == (None, [])


def test_a_listener_that_begins_gets_all_states_again_and_no_event_twice() -> None:
    known = known_by(settings())
    known.on_notices(NodeTopics(states=DOWN, events=(("notices/events", b"1"),)))
    assert known.news(serves=True) is not None

    later = TopicsToTell()
    later.on_told(known.all())

    assert {topic for topic, _, _ in told(later)} == {b"links/cloud", *(topic.encode() for topic in DOWN)}


def test_events_wait_for_a_listener_and_the_oldest_give_way() -> None:
    known, listener = known_by(settings()), TopicsToTell()
    for number in range(EVENTS_MAX + 5):
        known.on_notices(NodeTopics(states={}, events=(("e", b"%d" % number),)))
        assert (frame := known.news(serves=False)) is None or frame.events == ()

    frame = known.news(serves=True)

    assert frame is not None
    listener.on_told(frame)
    events = [payload for _, payload, retained in told(listener) if not retained]
    assert (events[0], events[-1], len(events)) == (b"5", b"104", EVENTS_MAX)


def test_a_state_that_is_told_no_more_is_emptied_and_so_are_all_once_no_rule_has_a_topic() -> None:
    now = settings()
    known, listener = known_by(now), TopicsToTell()
    known.on_notices(NodeTopics(states={"a": b"1", "b": b"2"}))
    listener.on_told(known.all())
    told(listener)

    known.on_notices(NodeTopics(states={"b": b"2"}))
    listener.on_told(known.all())
    assert told(listener) == [(b"a", b"", True)]
    now.change(settings(rules=()).now)
    frame = known.news(serves=True)
    assert frame is not None
    listener.on_told(frame)
    assert told(listener) == [(b"b", b"", True)]


def test_a_topic_may_have_the_name_of_the_node() -> None:
    assert notice_topic(RULE, "edge-1") == "notices/edge-1"
    assert notice_topic(replace(RULE, topic=None), "edge-1") is None
