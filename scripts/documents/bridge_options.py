"""The page of docs/reference that says what becomes of every option of other brokers' bridges.

Those of Mosquitto and HiveMQ Edge are of the tables that ``bascule convert`` goes by, the others of ``other_bridges.txt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from supervisor.convert.options import (
    ACCESS_OPTIONS,
    BRIDGE_OPTIONS,
    HIVEMQ_EDGE_OPTIONS,
    LISTENER_OPTIONS,
    NODE_OPTIONS,
    Fate,
    Option,
)

OTHERS = Path(__file__).with_name("other_bridges.txt")
_HEAD = """
# Options of other bridges

Every option of the bridges of Mosquitto 2.1, HiveMQ Edge, NanoMQ, FlashMQ, EMQX, VerneMQ and thin-edge.io: the key that does the
same here, or why there is none. *Needs none* asks for what is so anyway, or for something that there is not.
`bascule convert` takes a file of [Mosquitto or HiveMQ Edge](../guides/from-mosquitto.md) and goes by the same tables.
"""
_TableOf = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], str]


def bridge_options(table_of: _TableOf) -> str:
    """The page, below the line that says that it is made."""
    parts = [
        ("Mosquitto: `connection`", BRIDGE_OPTIONS),
        ("Mosquitto: listeners", LISTENER_OPTIONS),
        ("Mosquitto: access", ACCESS_OPTIONS),
        ("Mosquitto: the broker", NODE_OPTIONS),
        ("HiveMQ Edge: `mqtt-bridge`", HIVEMQ_EDGE_OPTIONS),
    ]
    text = _HEAD
    for title, options in parts:
        text += f"\n## {title}\n\n{table_of(('option', 'key', ''), [_row(option) for option in options])}"
    for title, rows in _others():
        text += f"\n## {title}\n\n{table_of(('option', 'key', ''), rows)}"
    return text


def _row(option: Option) -> tuple[str, str, str]:
    fate = "" if option.fate is Fate.KEY else f"{option.fate}: "
    return f"`{option.name}`", f"`{option.key}`" if option.key else "", f"{fate}{option.says}"


def _others() -> Iterable[tuple[str, list[tuple[str, ...]]]]:
    """The products of ``other_bridges.txt``, each with its rows."""
    title, rows = "", list[tuple[str, ...]]()
    for line in OTHERS.read_text().splitlines():
        if line.startswith("["):
            if title:
                yield title, rows
            title, rows = line.strip("[]"), []
        elif line and not line.startswith("#"):
            names, key, says = (part.strip() for part in line.split("|"))
            rows.append((", ".join(f"`{name}`" for name in names.split(", ")), f"`{key}`" if key else "", says))
    yield title, rows
