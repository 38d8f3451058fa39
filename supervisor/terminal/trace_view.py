"""A message that was followed, and what flows by topic, as lines for people. Pure."""

from __future__ import annotations

from typing import Any

from supervisor.terminal.message_text import printable
from wire.status.answers import Topics, TracedStep

_WIDTH = 80
_ACTOR = 18


def head_line(step: TracedStep) -> str:
    """The message in a line."""
    details = step.details
    if step.step == "denied":
        return f"{printable(details['topic'])}, not taken"
    if step.step != "taken":
        return "a message, whose first step was not told"
    retain = ", to be retained" if details["retain"] else ""
    return f"{printable(details['topic'])}, QoS {details['qos']}, {details['bytes']} bytes{retain}"


def step_line(step: TracedStep) -> str:
    """One step; where it was routed to takes a line for each bridge."""
    head = f"{step.after_ms:>10.1f} ms  {step.actor:<{_ACTOR}} "
    words = _words(step.step, step.queue, step.details)
    pad = "\n" + " " * (len(head) if len(head) < _WIDTH // 2 else 34)
    return head + pad.join(words)


def _words(step: str, queue: str, details: dict[str, Any]) -> list[str]:
    match step:
        case "taken":
            if "client_id" not in details:
                return ["taken from the remote"]
            user = f", user {printable(details['user'])}" if details["user"] else ""
            return [f"taken from {printable(details['client_id'])} ({details['address']}{user})"]
        case "denied":
            return [f"refused to {printable(details['client_id'])} ({details['address']}): {details['why']}"]
        case "routed":
            return _routed(details)
        case "committed":
            return [f"committed, as number {details['commit']}, in {details['took_ms']:.1f} ms"]
        case "refused":
            return [f"refused: {details['why']}" if "why" in details else f"refused by {', '.join(details['queues'])}"]
        case "acknowledged":
            return [f"acknowledged to its publisher: {details['packet']}"]
        case "handed_out":
            return [f"handed out from {queue}, sequence {details['seq']}"]
        case "waits":
            reason = f": {printable(details['reason'])}" if details["reason"] else ""
            return [f"waits, the link is {details['link']}{reason}"]
        case "sent":
            told = f", QoS {details['qos']}, packet identifier {details['packet_id']}" if "packet_id" in details else ", QoS 0"
            return [f"sent to {details['remote'] or 'the remote'}{told}"]
        case "received":
            return ["PUBREC came: the remote has it"]
        case "answered":
            return [f"{details['packet']} came"]
        case "settled":
            return [f"has left {queue}: {details['outcome']}"]
    return [step]


def _routed(details: dict[str, Any]) -> list[str]:
    words = []
    for lane in details["lanes"]:
        rule = f" by rule {printable(lane['rule'])}" if lane.get("rule") else ""
        words.append(f"goes to {lane['queue']}{rule}")
    words += [f"not to {one['bridge']}: {one['why']}" for one in details["not_to"]]
    if details["sessions_count"]:
        more = details["sessions_count"] - len(details["sessions"])
        names = ", ".join(printable(name) for name in details["sessions"]) + (f" and {more} more" if more else "")
        words.append(f"goes to the sessions of {names}")
    if details["live"]:
        words.append("goes to clients that are connected")
    if details["retained"]:
        words.append("is retained")
    return words or ["goes nowhere: no bridge and no client wants it"]


def topic_lines(counted: Topics, width: int) -> list[str]:
    """Messages by topic, the busiest first. width: of the terminal; a longer topic is cut off."""
    since = f"{counted.since_s:.0f} s"
    if not counted.topics:
        return [f"nothing was published in {since}"]
    lines = [f"{'PER S':>10}{'MESSAGES':>12}{'BYTES':>14}  TOPIC (in {since})"]
    for row in counted.topics:
        topic = printable(row.topic)
        shown = topic if len(topic) <= width - 38 else topic[: max(0, width - 41)] + "..."
        lines.append(f"{row.rate:>10.1f}{row.messages:>12}{row.bytes:>14}  {shown}")
    if counted.others:
        lines.append(f"{'':>10}{counted.others:>12}{'':>14}  of other topics")
    return lines
