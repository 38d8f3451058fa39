"""In what two settings of a node differ, field by field. Pure, and knows no field but those that say what a list's item is called.

Bridges are told apart by their names and listeners by where they listen, so their place in the file means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from wire.settings import BridgeSettings, ListenerSettings, NodeSettings

_LISTS = ("bridges", "listeners")
_NOT_THE_OPERATORS = ("number", "files")  # what the node notes beside the configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that differs. field: its path, without what the items of lists are called. item: that of the bridge or listener.

    before, after: its values; None where an item, or all of what may be left out, was not there or is not any more.
    """

    field: str
    item: str
    before: Any
    after: Any


def differences(before: NodeSettings, after: NodeSettings) -> Iterator[Difference]:
    """Every field that differs, in the order of the settings."""
    for field in fields(NodeSettings):
        if field.name not in _NOT_THE_OPERATORS:
            yield from _compare(field.name, "", getattr(before, field.name), getattr(after, field.name))


def item_name(item: BridgeSettings | ListenerSettings) -> str:
    """What an item of a list is called."""
    return item.name if isinstance(item, BridgeSettings) else item.bind


def _compare(path: str, item: str, before: Any, after: Any) -> Iterator[Difference]:
    if before == after:
        return
    if path in _LISTS:
        yield from _compare_items(path, before, after)
    elif is_dataclass(before) and type(before) is type(after):
        for field in fields(before):
            yield from _compare(f"{path}.{field.name}", item, getattr(before, field.name), getattr(after, field.name))
    else:
        yield Difference(field=path, item=item, before=before, after=after)


def _compare_items(path: str, before: tuple[Any, ...], after: tuple[Any, ...]) -> Iterator[Difference]:
    """Items by name. Several listeners at any free port are called alike, and are compared in their order."""
    old, new = _by_name(before), _by_name(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in old or name not in new:
            yield Difference(field=path, item=name[0], before=old.get(name), after=new.get(name))
            continue
        for field in fields(old[name]):
            yield from _compare(f"{path}.{field.name}", name[0], getattr(old[name], field.name), getattr(new[name], field.name))
    order = [name[0] for name in old if name in new], [name[0] for name in new if name in old]
    if order[0] != order[1]:
        yield Difference(field=path, item="", before=order[0], after=order[1])


def _by_name(items: tuple[Any, ...]) -> dict[tuple[str, int], Any]:
    found: dict[tuple[str, int], Any] = {}
    for item in items:
        name, count = item_name(item), 0
        while (name, count) in found:
            count += 1
        found[name, count] = item
    return found
