"""Limits of a remote that an operator should know, from a lane's row of ``bascule status``. Pure."""

from __future__ import annotations

from wire.status.bridges import BridgeLane


def lacking(row: BridgeLane) -> list[tuple[str, str]]:
    """In words, with the key of the configuration that says it for good.

    That is all that was learnt by what it did, and what it said itself where that has cost durability: messages that
    left at QoS 0, or without RETAIN.
    """
    counts, found = row.exchange, []
    costs = {} if counts is None else {"QoS above 0": counts.qos_lowered, "RETAIN": counts.retain_stripped}
    for one in () if row.link is None else row.link.lacks:
        if one.learnt:
            found.append((f"remote was seen to take no {one.what}", one.key))
        elif cost := costs.get(one.what):
            found.append((f"remote takes no {one.what}, messages that left without: {cost}", one.key))
    return found
