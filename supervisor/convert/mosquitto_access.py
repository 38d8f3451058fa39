"""Mosquitto's password and ACL files. Pure: lines in, lines or rules out, and what of them could not be taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from supervisor.convert.draft import Line
from wire.access.access_rules import pattern_fault
from wire.access.password_table import line_fault

_ACTIONS = {"read": "subscribe", "write": "publish", "readwrite": "both", "deny": "both"}

Refused = tuple[Line, str]
Rule = tuple[Line, dict[str, object]]


def passwords(lines: Sequence[Line]) -> tuple[str, list[Refused]]:
    """The lines of a password file that let their users in here, too, and the others. A line is a user's name and a hash."""
    kept: dict[str, str] = {}
    refused: list[Refused] = []
    for line in lines:
        fault = line_fault(line.name, ":" if line.value else "", line.value)
        if line.value.startswith("$6$"):
            fault = f"one round of SHA-512 ($6$) is no password hash; make it anew with: bascule user add FILE {line.name}"
        if fault is None and line.name in kept:
            fault = "the user stands there already"
        if fault is None:
            kept[line.name] = line.value
        else:
            refused.append((line, fault))
    return "".join(f"{name}:{stored}\n" for name, stored in kept.items()), refused


def rules(lines: Sequence[Line]) -> tuple[list[Rule], list[Refused]]:
    """The rules that the lines of an ACL file are, in the order in which Mosquitto asks them, and the lines that are none.

    It asks those of the client's user first, or those before any user if it has none, and then the patterns; of each, those that
    deny come first.
    """
    found: list[tuple[tuple[bool, bool], Line, dict[str, object]]] = []
    refused: list[Refused] = []
    user = ""
    for line in lines:
        if line.name == "user" and line.value:
            user = line.value
            continue
        if line.name not in ("topic", "pattern"):
            refused.append((line, "not a line that Mosquitto knows: user, topic or pattern"))
            continue
        first, _, rest = line.value.partition(" ")
        action, topic = (first, rest.strip()) if first in _ACTIONS and rest.strip() else ("readwrite", line.value)
        is_pattern = line.name == "pattern"
        topic = "%".join(_escaped(topic)) if is_pattern else topic.replace("%", "%%")
        if (fault := pattern_fault(topic)) is not None:
            refused.append((line, fault))
            continue
        rule: dict[str, object] = {"permission": "deny"} if action == "deny" else {}
        if not is_pattern:
            rule |= {"users": [user]} if user else {"anonymous": True}
        rule |= {} if _ACTIONS[action] == "both" else {"action": _ACTIONS[action]}
        found.append(((is_pattern, action != "deny"), line, rule | {"topics": [topic]}))
    return [(line, rule) for _, line, rule in sorted(found, key=lambda each: each[0])], refused


def _escaped(topic: str) -> Iterator[str]:
    """The pieces between the percent signs of ``topic``, where only %u and %c stand for names."""
    first, *others = topic.split("%")
    yield first
    for piece in others:
        yield piece if piece[:1] in ("u", "c") else f"%{piece}"
