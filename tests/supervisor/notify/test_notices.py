"""A trouble is told once when it has lasted, and once when it is over, whatever restarts; what waits is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisor.notify import notice_record
from supervisor.notify.events_seen import EventsSeen
from supervisor.notify.formats import FORMATS, details
from supervisor.notify.notices import Notice, Notices, test_notice
from supervisor.notify.outbox import GIVEN_UP_S, RETRY, WAITING_MAX, Outbox
from supervisor.notify.troubles import Trouble
from wire.clock_steps import CLOCK
from wire.config_settings import NoticeSettings
from wire.trouble_kinds import TroubleKind

test_notice.__test__ = False  # type: ignore[attr-defined]  # no test, though it is called so
RULE = NoticeSettings(name="r", when=("link_down",), for_s=10.0)


def trouble(about: str = "bridge cloud:0", **keys: Any) -> Trouble:
    return Trouble(kind=TroubleKind.LINK_DOWN, about=about, text="down", cure="plug it in", bridge="cloud", **keys)


def told(notices: Notices, now_s: float, *troubles: Trouble) -> list[tuple[str, str]]:
    return [(notice.state, notice.about) for notice in notices.look(RULE, troubles, int(now_s * 1000))]


def test_it_is_told_once_and_once_when_it_is_over() -> None:
    notices = Notices("edge")
    assert [told(notices, now_s, trouble()) for now_s in (0.0, 9.0, 10.0, 11.0, 500.0)] == [
        [],
        [],
        [("begins", "bridge cloud:0")],
        [],
        [],
    ]
    assert [told(notices, now_s) for now_s in (501.0, 502.0)] == [[("over", "bridge cloud:0")], []]


def test_one_that_did_not_last_is_not_told_and_nor_is_its_end() -> None:
    notices = Notices("edge")
    assert [told(notices, 0.0, trouble()), told(notices, 5.0), told(notices, 6.0, trouble()), told(notices, 15.0, trouble())] == [
        []
    ] * 4


def test_how_long_it_lasts_already_counts() -> None:
    assert told(Notices("edge"), 100.0, trouble(since_s=10.0)) == [("begins", "bridge cloud:0")]


@pytest.mark.parametrize("step_s", [365 * 86_400.0, -365 * 86_400.0])
def test_a_clock_that_is_set_tells_nothing_early_nothing_late_and_gives_nothing_up(
    monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    monkeypatch.setattr(CLOCK, "steps", [])
    begin_s = 2e9
    notices, outbox = Notices("edge"), Outbox(lambda: 0.5)
    assert told(notices, begin_s, trouble()) == []
    CLOCK.on_stepped(int((begin_s + 2) * 1000), int((begin_s + 2 + step_s) * 1000))
    assert told(notices, begin_s + 9 + step_s, trouble()) == []
    (notice,) = notices.look(RULE, [trouble()], int((begin_s + 10 + step_s) * 1000))
    assert notice.state == "begins"
    (over,) = notices.look(RULE, [], int((begin_s + 30 + step_s) * 1000))
    assert "It has lasted 30s" in details(over)

    outbox.put("r:webhook", test_notice("edge", "r", int(begin_s * 1000)))
    assert [name for name, _ in outbox.next(0.0, over.at_ms)] == ["r:webhook"]


def test_what_nobody_says_begins_nothing_and_ends_nothing() -> None:
    notices = Notices("edge")
    assert told(notices, 0.0, trouble(known=False)) == []
    assert told(notices, 20.0, trouble(since_s=10.0)) == [("begins", "bridge cloud:0")]
    assert told(notices, 21.0, trouble(known=False)) == []
    assert told(notices, 22.0) == [("over", "bridge cloud:0")]


def test_a_restart_tells_nothing_again_and_forgets_no_end(tmp_path: Path) -> None:
    before = Notices("edge")
    (notice,) = before.look(RULE, [trouble(since_s=60.0)], 100_000)
    topics = {"a/state": "{}", "b": ""}
    seen = EventsSeen(next=7, store="f/1")
    told_before = notice_record.Record(standing=before.standing, waiting=(("r:webhook", notice),), topics=topics, seen=seen)
    notice_record.write(tmp_path, told_before)

    record = notice_record.read(tmp_path)
    assert record == told_before
    after = Notices("edge", record.standing)
    assert told(after, 200.0, trouble()) == []
    (over,) = after.look(RULE, [], 300_000)
    assert (over.state, over.id) == ("over", notice.id)


def test_a_rule_that_is_gone_tells_no_end() -> None:
    notices = Notices("edge")
    assert told(notices, 0.0, trouble(since_s=60.0)) != []
    notices.keep_to(["other"])
    assert notices.standing == ()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"standing": [{}], "waiting": [], "event": 1}', '{"standing": [], "waiting": [["a"]]}']
)
def test_a_record_that_is_none_is_said_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / notice_record.NAME).write_text(text)
    with pytest.raises(ValueError, match=r"notices\.json is damaged"):
        notice_record.read(tmp_path)


# --- the outbox ---


def notice(number: int, at_ms: int = 0) -> Notice:
    return test_notice("edge", f"r{number}", at_ms)


def outbox() -> Outbox:
    return Outbox(lambda: 0.0)


def due(box: Outbox, now_s: float, now_ms: int = 0) -> list[tuple[str, str]]:
    return [(name, one.rule) for name, one in box.next(now_s, now_ms)]


def test_each_receiver_gets_one_at_a_time_in_order_and_one_that_is_away_keeps_nobody_waiting() -> None:
    box = outbox()
    for number in (1, 2):
        box.put("a", notice(number))
        box.put("b", notice(number))
    assert due(box, 0.0) == [("a", "r1"), ("b", "r1")]
    assert due(box, 0.0) == []
    box.on_failed("a", "refused", 0.0)
    box.on_sent("b")
    assert due(box, 0.0) == [("b", "r2")]
    assert due(box, RETRY.initial_s - 0.1) == []
    assert due(box, RETRY.initial_s) == [("a", "r1")]
    assert box.errors == {"a": "refused"}
    box.on_failed("a", "refused", 10.0)
    assert due(box, 10.0 + RETRY.initial_s) == []  # ever less often
    assert [(name, one.rule) for name, one in box.waiting] == [("a", "r1"), ("a", "r2"), ("b", "r2")]
    assert (box.counts.sent, box.counts.failed) == (1, 2)


def test_what_waits_is_bounded_and_the_newest_stay() -> None:
    box = outbox()
    for number in range(WAITING_MAX + 5):
        box.put("a", notice(number))
    assert len(box.waiting) == WAITING_MAX
    assert box.waiting[-1][1].rule == f"r{WAITING_MAX + 4}"
    assert box.counts.given_up == 5


def test_a_notice_that_is_being_sent_is_not_thrown_away() -> None:
    box = outbox()
    box.put("a", notice(0))
    assert due(box, 0.0) == [("a", "r0")]
    for number in range(1, WAITING_MAX + 1):
        box.put("a", notice(number))
    assert box.waiting[0][1].rule == "r0"
    box.on_sent("a")
    assert due(box, 0.0) == [("a", "r2")]


def test_what_is_too_old_is_given_up_once_it_was_tried_and_so_is_what_waits_for_nobody() -> None:
    """What nobody has tried yet may be old by another process's clock alone, as where that has seen a step first."""
    box, late_ms = outbox(), int(GIVEN_UP_S * 1000) + 1
    box.put("a", notice(0))
    box.put("b", notice(1, late_ms))
    assert due(box, 0.0, late_ms) == [("a", "r0"), ("b", "r1")]
    box.on_failed("a", "away", 0.0)
    assert due(box, 0.0, late_ms) == []
    assert box.counts.given_up == 1
    box.keep_to([])
    assert (box.waiting, box.counts.given_up) == ([], 2)


# --- their forms ---


def two() -> tuple[Notice, Notice]:
    notices = Notices("edge <1>")
    (begins,) = notices.look(RULE, [trouble(since_s=60.0)], 100_000)
    (over,) = notices.look(RULE, [], 300_000)
    return begins, over


def test_pagerduty_and_alertmanager_are_told_the_end_of_what_began() -> None:
    (begins, over) = (FORMATS["pagerduty"](one, "key") for one in two())
    assert (begins["event_action"], over["event_action"], begins["routing_key"]) == ("trigger", "resolve", "key")
    assert begins["dedup_key"] == over["dedup_key"]
    assert begins["payload"]["severity"] == "error"
    ((begins,), (over,)) = (FORMATS["alertmanager"](one, "") for one in two())
    assert begins["labels"] == over["labels"]
    assert begins["labels"]["alertname"] == "BasculeLinkDown"
    assert begins["startsAt"] == over["startsAt"] == "1970-01-01T00:00:40.000Z"
    assert over["endsAt"] == "1970-01-01T00:05:00.000Z" < begins["endsAt"]


def test_slack_takes_nothing_of_a_notice_for_a_link_and_teams_gets_a_card() -> None:
    begins, over = two()
    assert FORMATS["slack"](begins, "")["text"].startswith("*Trouble at edge &lt;1&gt;: bridge cloud:0: down*")
    (attachment,) = FORMATS["teams"](over, "")["attachments"]
    assert attachment["content"]["body"][0]["color"] == "good"
    assert "4m" in attachment["content"]["body"][1]["text"] or "260s" in attachment["content"]["body"][1]["text"]
