"""Losses by a change of the configuration: messages that would go, be left to nobody or come twice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.reload.differences import Difference
from wire.config_settings import BridgeSettings, LimitSettings, NodeSettings
from wire.setting_kinds import Effect

Waiting = Mapping[str, tuple[int, int]]  # bridge -> messages and bytes in its queues

_EXPIRES = "what has waited longer is dropped as expired"
_GIVES_WAY = "the oldest of what waits give way"
IN_MEMORY = "everything that waits is lost: the queues are in memory"
_LEAVES_SESSION = (
    "the session at the former remote is left: what is in flight may arrive twice, or not at all, as on_session_loss says, "
    "and what waits there does not come"
)
_HISTORY = "what was kept longer, or is more than that, is removed"
_REMOVES = {  # what a smaller value removes, whatever waits
    "persistence.events.max": "older events are removed",
    "persistence.events.max_age": "older events are removed",
    "history.keep": "older minutes of the history are removed",
    "history.max_bytes": "older minutes of the history are removed",
    "snapshots.keep": "older snapshots are removed",
    "snapshots.max_bytes": "older snapshots are removed",
    "snapshots.keep_in_target": "older copies of snapshots are removed",
    "bridges.dead_letter.max_messages": "older dead letters are removed",
    "bridges.dead_letter.max_bytes": "older dead letters are removed",
    "bridges.dead_letter.max_age": "older dead letters are removed",
    "bridges.retention": _HISTORY,
    "bridges.retention_max_bytes": _HISTORY,
}
_DROPS_OLDEST = "drop-oldest"


def loss_by(difference: Difference, before: NodeSettings, after: NodeSettings, waiting: Waiting | None) -> str:
    """The loss by ``difference``, in words; empty where nothing is lost. waiting: None where nobody knows."""
    key = difference.key
    if key in _REMOVES:
        return _REMOVES[key] if _is_less(difference.before, difference.after) else ""
    if key == "bridges":
        return _of_removed(difference, waiting)
    if key.startswith("bridges."):
        return _of_bridge(difference, before.bridge(difference.item), after.bridge(difference.item), waiting)
    if key.startswith("limits."):
        return _of_limits(difference, after.limits, _all(waiting))
    if key.startswith("sessions."):
        return _of_sessions(difference, after)
    return ""


def _of_removed(difference: Difference, waiting: Waiting | None) -> str:
    if not difference.item or difference.before is None:
        return ""
    messages = None if waiting is None else waiting.get(difference.item, (0, 0))[0]
    if messages == 0:
        return ""
    count = "" if messages is None else f" ({messages} message{'s' if messages > 1 else ''})"
    return f"what waits in its queue stays{count}, and nobody sends it until the bridge is back, or it is purged"


def _of_bridge(difference: Difference, before: BridgeSettings, after: BridgeSettings, waiting: Waiting | None) -> str:
    own = None if waiting is None else waiting.get(before.name, (0, 0))
    if difference.key.startswith("bridges.limits."):
        return _of_limits(difference, after.limits, own)
    if difference.key == "bridges.classes":
        return _of_classes(before, after, own)
    if own is not None and not own[0] and not before.remote_subscriptions:
        return ""  # nothing is in flight, and nothing waits there
    return _LEAVES_SESSION if _leaves_session(difference, before) else ""


def _of_classes(before: BridgeSettings, after: BridgeSettings, waiting: tuple[int, int] | None) -> str:
    """How many messages wait in each class is not told apart: what is too many for the bridge may be so for the class."""
    for lane in after.lane_labels:
        (_, old), (_, new) = before.limits_of(lane), after.limits_of(lane)
        for key in ("max_messages", "max_bytes", "overflow"):
            values = getattr(old, key), getattr(new, key)
            if values[0] != values[1]:
                less = Difference(key=key, effect=Effect.LIVE, item="", before=values[0], after=values[1])
                if loss := _of_limits(less, new, waiting):
                    return loss
    return ""


def _leaves_session(difference: Difference, before: BridgeSettings) -> bool:
    if before.remote.clean_start:
        return False
    match difference.key:
        case "bridges.remote.client_id":
            return True
        case "bridges.remote.addresses":
            return not set(difference.before) <= set(difference.after)
        case "bridges.remote.clean_start":
            return True
        case "bridges.remote.session_expiry":
            return not difference.after
    return False


def _of_limits(difference: Difference, after: LimitSettings, waiting: tuple[int, int] | None) -> str:
    if waiting is not None and not waiting[0]:
        return ""
    name, less = difference.key.rpartition(".")[2], _is_less(difference.before, difference.after)
    drops = after.overflow == _DROPS_OLDEST
    match name:
        case "max_age":
            return _EXPIRES if less else ""
        case "max_messages":
            return _GIVES_WAY if less and drops and (waiting is None or waiting[0] > difference.after) else ""
        case "max_bytes":
            return _GIVES_WAY if less and drops and (waiting is None or waiting[1] > difference.after) else ""
        case "overflow":
            return _GIVES_WAY + " once there is no room" if drops else ""
    return ""


def _of_sessions(difference: Difference, after: NodeSettings) -> str:
    drops = after.sessions.overflow == _DROPS_OLDEST
    match difference.key:
        case "sessions.queue_max_messages" | "sessions.queue_max_bytes":
            return _GIVES_WAY if drops and _is_less(difference.before, difference.after) else ""
        case "sessions.overflow":
            return _GIVES_WAY + " once there is no room" if drops else ""
    return ""


def _is_less(before: Any, after: Any) -> bool:
    """Whether a limit has become smaller; None is unlimited."""
    return after is not None and (before is None or after < before)


def _all(waiting: Waiting | None) -> tuple[int, int] | None:
    if waiting is None:
        return None
    return sum(messages for messages, _ in waiting.values()), sum(size for _, size in waiting.values())
