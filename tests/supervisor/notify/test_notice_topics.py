"""Notices on topics: an event each, and a retained state as long as a trouble stands, over restarts of the process that tells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supervisor.notify.notice_topics import OVER_MAX, NoticeTopics
from supervisor.notify.notices import Notice, Notices
from supervisor.notify.troubles import Trouble
from tests.support.present import present
from wire.config_settings import NoticeSettings
from wire.trouble_kinds import TroubleKind

RULE = NoticeSettings(name="links", when=("link_down",), for_s=0.0, topic="notices/{node}")
SILENT = replace(RULE, name="silent", topic=None)
STATE = "notices/edge/state/link_down/bridge/cloud/0"


def notices(of: Notices, *about: str, at_ms: int = 1_000, rule: NoticeSettings = RULE) -> list[Notice]:
    troubles = [Trouble(kind=TroubleKind.LINK_DOWN, about=each, text="down") for each in about]
    return list(of.look(rule, troubles, at_ms))


def test_a_trouble_is_an_event_at_its_beginning_and_its_end_and_retained_in_between() -> None:
    standing, topics = Notices("edge"), NoticeTopics("edge", [RULE, SILENT], {}, ())
    assert topics.news() is None

    for notice in (*notices(standing, "bridge cloud:0"), *notices(standing, "bridge other:0", rule=SILENT)):
        topics.tell(notice)
    begins = present(topics.news())
    assert topics.news() is None
    for notice in notices(standing, at_ms=9_000):
        topics.tell(notice)
    over = present(topics.news())

    assert json.loads(begins.states[STATE])["state"] == "begins"
    assert list(begins.states) == [STATE]
    assert over.states == {STATE: b""}
    events = [(topic, json.loads(payload)["state"]) for topic, payload in (*begins.events, *over.events)]
    assert events == [("notices/edge/events", "begins"), ("notices/edge/events", "over")]


def test_an_earlier_life_is_remembered_and_what_is_over_since_is_emptied() -> None:
    standing, before = Notices("edge"), NoticeTopics("edge", [RULE], {}, ())
    for notice in notices(standing, "bridge cloud:0", "bridge gone:0"):
        before.tell(notice)
    notices(standing, "bridge cloud:0")  # its process died before it told that the other one is over

    after = NoticeTopics("edge", [RULE], before.states, standing.standing)
    assert present(after.news()).states == {
        STATE: before.states[STATE].encode(),
        "notices/edge/state/link_down/bridge/gone/0": b"",
    }
    moved = NoticeTopics("edge", [replace(RULE, topic="elsewhere")], before.states, standing.standing)
    assert set(present(moved.news()).states.values()) == {b""}


def test_what_is_over_is_forgotten_once_there_is_much_of_it() -> None:
    standing, topics = Notices("edge"), NoticeTopics("edge", [RULE], {}, ())
    for number in range(OVER_MAX + 50):
        for notice in (*notices(standing, f"bridge b{number}:0"), *notices(standing)):
            topics.tell(notice)

    assert len(topics.states) == OVER_MAX
    assert "notices/edge/state/link_down/bridge/b149/0" in topics.states


@pytest.mark.parametrize(
    ("about", "levels"),
    [("bridge cloud:urgent", "bridge/cloud/urgent"), ("node", "node"), ("/etc/tls/a+b #1.pem", "etc/tls/a_b/_1.pem")],
)
def test_every_trouble_has_a_topic_that_may_be_published(about: str, levels: str) -> None:
    topics = NoticeTopics("edge", [RULE], {}, ())
    for notice in notices(Notices("edge"), about):
        topics.tell(notice)

    assert list(topics.states) == [f"notices/edge/state/link_down/{levels}"]
