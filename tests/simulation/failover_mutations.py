"""Planted bugs in going to another address of a remote, and back."""

from __future__ import annotations

from typing import Any

from storage.store.session_rows import Sessions
from wire.exchange.failback import Failback
from wire.exchange.former_sessions import LeftSessions
from wire.exchange.lane_sender import LaneSender


def _at_once(original: Any) -> Any:
    def leaves(self: Failback, now_s: float, *, unfinished: bool) -> bool:
        left: bool = original(self, now_s, unfinished=False)
        return left

    return leaves


def _nothing(original: Any) -> Any:
    def none(*arguments: Any) -> tuple[()]:
        return ()

    return none


def _only_the_one_in_use(original: Any) -> Any:
    def forget_unknown(self: Sessions, queue: Any) -> None:
        left, queue.sent.left = queue.sent.left, ()
        original(self, queue)
        queue.sent.left = left

    return forget_unknown


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "exchange.failback-when-finished/left-unfinished",
        "a lane goes back to the first address with exchanges open",
        ((Failback, "leaves", _at_once),),
    ),
    ("exchange.left-session-resumed/ended", "a session at another address is not kept", ((LeftSessions, "leave", _nothing),)),
    (
        "exchange.left-session-on-record/identifiers-forgotten",
        "what came at another address is forgotten",
        ((Sessions, "forget_unknown", _only_the_one_in_use),),
    ),
    (
        "exchange.left-identifiers-released/still-held",
        "a remote that was left is not asked to release",
        ((LaneSender, "settled_since", _nothing),),
    ),
)
