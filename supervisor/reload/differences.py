"""In what two settings of a node differ, key by key, and how a running node takes each. Pure, and knows no key but those that say
what a list's item is called.

Bridges are told apart by their names and listeners by where they listen, so their place in the file means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from supervisor.config.setting_annotations import Setting, settings_of
from wire.config_settings import BridgeSettings, ListenerSettings, NodeSettings
from wire.setting_kinds import Effect

_LISTS = ("bridges", "listeners")
_INCLUDE = "include"  # it says where keys stand, and none of what they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key that differs, without the places in lists. effect: how it is taken, at least. item: the bridge or listener.

    before, after: its values; None where an item, or all of what may be left out, was not there or is not any more.
    """

    key: str
    effect: Effect
    item: str
    before: Any
    after: Any


def differences(before: NodeSettings, after: NodeSettings) -> Iterator[Difference]:
    """Every key that differs, in the order of the settings."""
    for one in settings_of(NodeSettings):
        if one.key != _INCLUDE:
            yield from _compare(one, one.key, Effect.NODE_RESTART, "", getattr(before, one.field), getattr(after, one.field))


def item_name(item: BridgeSettings | ListenerSettings) -> str:
    """The name of an item of a list."""
    return item.name if isinstance(item, BridgeSettings) else item.bind


def _compare(one: Setting, key: str, effect: Effect, item: str, before: Any, after: Any) -> Iterator[Difference]:
    """effect: how a change is taken where the setting does not say."""
    if before == after:
        return
    effect = one.effect or effect
    if key in _LISTS:
        yield from _compare_items(one, effect, before, after)
    elif one.section is not None and not one.many and None not in (before, after):
        yield from _compare_below(one, key, effect, item, before, after)
    else:
        yield Difference(key=key, effect=effect, item=item, before=before, after=after)


def _compare_below(one: Setting, key: str, effect: Effect, item: str, before: Any, after: Any) -> Iterator[Difference]:
    for inner in one.below():
        values = getattr(before, inner.field), getattr(after, inner.field)
        yield from _compare(inner, f"{key}.{inner.key}", effect, item, *values)


def _compare_items(one: Setting, effect: Effect, before: tuple[Any, ...], after: tuple[Any, ...]) -> Iterator[Difference]:
    """Items by name. Several listeners at any free port are called alike, and are compared in their order."""
    old, new = _by_name(before), _by_name(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in old or name not in new:
            yield Difference(key=one.key, effect=Effect.LIVE, item=name[0], before=old.get(name), after=new.get(name))
        else:
            yield from _compare_below(one, one.key, effect, name[0], old[name], new[name])
    order = [name[0] for name in old if name in new], [name[0] for name in new if name in old]
    if order[0] != order[1]:
        yield Difference(key=one.key, effect=Effect.LIVE, item="", before=order[0], after=order[1])


def _by_name(items: tuple[Any, ...]) -> dict[tuple[str, int], Any]:
    found: dict[tuple[str, int], Any] = {}
    for item in items:
        name, count = item_name(item), 0
        while (name, count) in found:
            count += 1
        found[name, count] = item
    return found
