"""Queue commands put to a ``Store``, and what it answers."""

from __future__ import annotations

from itertools import count
from typing import Any

from storage.store.store import Store
from wire.frames.supervision import QueueAnswer, QueueCommand

_NUMBERS = count(1)


def ask(store: Store, verb: str, *, now_s: float = 100.0, **arguments: Any) -> QueueAnswer:
    number = next(_NUMBERS)
    store.receive(QueueCommand(request=number, verb=verb, arguments=arguments))
    (answer,) = [frame for peer, frame in store.commit(now_s, 5000) if isinstance(frame, QueueAnswer) and peer == "supervisor"]
    assert answer.request == number
    return answer


def command(store: Store, verb: str, *, now_s: float = 100.0, **arguments: Any) -> dict[str, Any]:
    """The result of a command that is carried out."""
    answer = ask(store, verb, now_s=now_s, **arguments)
    assert not answer.error, (answer.error, answer.message)
    return answer.result


def refused(store: Store, verb: str, *, now_s: float = 100.0, **arguments: Any) -> tuple[str, str]:
    """The kind and the message of a command that is refused."""
    answer = ask(store, verb, now_s=now_s, **arguments)
    assert answer.error, answer.result
    return answer.error, answer.message


def listed(store: Store) -> dict[str, Any]:
    return command(store, "list")


def dead(store: Store, bridge: str = "cloud") -> list[dict[str, Any]]:
    """Every dead letter of ``bridge``."""
    rows: list[dict[str, Any]] = []
    position: int | None = 0
    while position is not None:
        page = command(store, "peek", bridge=bridge, dead=True, **{"from": position})
        rows += page["messages"]
        position = page["next"]
    return rows
