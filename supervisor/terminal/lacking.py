"""Limits of a remote that an operator should know, from a lane's row of ``bascule status``. Pure."""

from __future__ import annotations

from typing import Any


def lacking(row: dict[str, Any]) -> list[tuple[str, str]]:
    """In words, with the key of the configuration that says it for good.

    That is all that was learnt by what it did, and what it said itself where that has cost durability: messages that
    left at QoS 0, or without RETAIN.
    """
    counts = row.get("exchange", {})
    costs = {"QoS above 0": counts.get("qos_lowered"), "RETAIN": counts.get("retain_stripped")}
    found = []
    for one in row["link"].get("lacks", ()):
        if one["learnt"]:
            found.append((f"remote was seen to take no {one['what']}", one["key"]))
        elif cost := costs.get(one["what"]):
            found.append((f"remote takes no {one['what']}, messages that left without: {cost}", one["key"]))
    return found
