"""A notice in words, as JSON, and in the forms of some services. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from supervisor.notify.notices import Notice, NoticeState
from supervisor.units import write_duration
from wire.clock_steps import elapsed_ms

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_MS = 1000
_STANDS_MS = 30 * 86_400 * _MS  # Alertmanager takes an alert as over by itself, if nothing says how long it stands
_HAPPENED_MS = 300 * _MS
_HEADS = {NoticeState.BEGINS: "Trouble", NoticeState.OVER: "Over", NoticeState.HAPPENED: "Event", NoticeState.TEST: "Test"}


def title(notice: Notice) -> str:
    """One line: ``Trouble at edge-1: bridge cloud:0: the link is down: connection refused``."""
    return f"{_HEADS[NoticeState(notice.state)]} at {notice.node}: {notice.about}: {notice.text}"


def details(notice: Notice) -> str:
    """What there is to know besides, in a line or two."""
    if notice.state == NoticeState.OVER:
        lasted_s = max(1.0, float(elapsed_ms(notice.since_ms, notice.at_ms) // _MS))
        return f"It has lasted {write_duration(lasted_s)}, since {_time(notice.since_ms)}."
    since = f"Since {_time(notice.since_ms)}."
    return f"{since} What to do: {notice.cure}." if notice.cure else since


def as_json(notice: Notice) -> dict[str, Any]:
    """All of it, with times as UTC text beside the numbers."""
    return {**asdict(notice), "since": _time(notice.since_ms), "at": _time(notice.at_ms)}


def _slack(notice: Notice, _key: str) -> Any:
    return {"text": f"*{_escaped(title(notice))}*\n{_escaped(details(notice))}"}


def _escaped(text: str) -> str:
    """As Slack wants it; nothing in it becomes a link or calls a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(notice: Notice, _key: str) -> Any:
    color = {NoticeState.BEGINS: "attention", NoticeState.OVER: "good"}.get(NoticeState(notice.state), "default")
    blocks = [
        {"type": "TextBlock", "text": title(notice), "weight": "bolder", "color": color, "wrap": True},
        {"type": "TextBlock", "text": details(notice), "wrap": True},
    ]
    schema = "http://adaptivecards.io/schemas/adaptive-card.json"
    card = {"$schema": schema, "type": "AdaptiveCard", "version": "1.4", "body": blocks}
    return {"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}]}


def _pagerduty(notice: Notice, key: str) -> Any:
    action = "resolve" if notice.state == NoticeState.OVER else "trigger"
    payload = {
        "summary": title(notice)[:1024],
        "source": notice.node,
        "severity": "error" if notice.state == NoticeState.BEGINS else "info",
        "timestamp": _time(notice.at_ms),
        "component": notice.about,
        "class": notice.kind,
        "custom_details": as_json(notice),
    }
    return {"routing_key": key, "event_action": action, "dedup_key": notice.id[-255:], "payload": payload}


def _alertmanager(notice: Notice, _key: str) -> Any:
    ends_ms = {
        NoticeState.BEGINS: notice.since_ms + _STANDS_MS,
        NoticeState.OVER: notice.at_ms,
    }.get(NoticeState(notice.state), notice.at_ms + _HAPPENED_MS)
    name = "".join(word.title() for word in notice.kind.split("_"))
    labels = {"alertname": f"Bascule{name}", "node": notice.node, "about": notice.about, "rule": notice.rule}
    if notice.bridge:
        labels["bridge"] = notice.bridge
    annotations = {"summary": title(notice), "description": details(notice)}
    times = {"startsAt": _time(notice.since_ms), "endsAt": _time(ends_ms)}
    return [{"labels": labels, "annotations": annotations, **times}]


FORMATS: dict[str, Callable[[Notice, str], Any]] = {
    "json": lambda notice, _key: as_json(notice),
    "slack": _slack,
    "teams": _teams,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
}


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / _MS, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
