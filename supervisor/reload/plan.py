"""Changes of a configuration in a running node, and what each change costs. Pure.

reload.nothing-given-up-unasked [P7]: a change that removes what is kept, leaves it to nobody, or has it arrive twice, is
    ``destructive``, and is carried out only by who says yes to it.
reload.no-field-forgotten [P7]: every setting that differs is a change. It is taken as it says itself, or the section that it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from supervisor.reload.differences import Difference, differences
from supervisor.reload.losses import IN_MEMORY, Waiting, loss_by
from wire.config_settings import NodeSettings, RuleSettings
from wire.frames.names import HTTP, NOTIFY, STORE, TELEMETRY, bridge_of_child
from wire.setting_kinds import Effect
from wire.status.answers import ReloadChange

_UNTOLD = ("username", "client_id")  # values that no plan tells
_ONE_OF = {"bridges": "bridge", "listeners": "listener"}
_PLACEMENT = "supervision.placement"
_PROCESSES = {  # that start again, by section
    "http": HTTP,
    "telemetry": TELEMETRY,
    "notify": NOTIFY,
    "persistence": STORE,
    "supervision": STORE,
}
_RULES = ("local_subscriptions", "remote_subscriptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change. what: the key, in words. target: the bridge or process that starts again, or the bridge that it is about.

    act: what is done; loss: what is given up by it, empty where nothing is. detail: more of it, in words.
    """

    what: str
    act: Effect
    target: str = ""
    detail: str = ""
    loss: str = ""

    @property
    def how(self) -> Effect:
        """How it is carried out, and whether it gives something up."""
        return Effect.DESTRUCTIVE if self.loss and self.act != Effect.NODE_RESTART else self.act

    def told(self) -> ReloadChange:
        """The change in words."""
        detail = "; ".join(text for text in (self.detail, self.loss) if text)
        return ReloadChange(what=self.what, how=self.how, target=self.target, detail=detail)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a new configuration changes, in the order of the settings."""

    changes: tuple[Change, ...]

    def told(self) -> tuple[ReloadChange, ...]:
        """The changes in words."""
        return tuple(change.told() for change in self.changes)

    @property
    def reconnects(self) -> frozenset[str]:
        """The bridges whose processes start again."""
        return frozenset(change.target for change in self.changes if change.act == Effect.RECONNECT and change.target)

    @property
    def restarts(self) -> frozenset[str]:
        """The processes that start again, besides those of bridges."""
        return frozenset(change.target for change in self.changes if change.act == Effect.RESTART)

    @property
    def moves_all(self) -> bool:
        """Whether all of the node's actors are placed otherwise, so that they start again together."""
        return any(change.what == _PLACEMENT for change in self.changes)

    def of(self, how: Effect) -> list[Change]:
        """The changes that are taken so."""
        return [change for change in self.changes if change.how == how]

    def refusal(self, *, yes: bool) -> str | None:
        """Why it is not carried out as a whole; None if it is. yes: what is destructive is wanted.

        All or nothing: other keys are made with the node's name, its mode and its folder, and would not fit what stays.
        """
        if left := self.of(Effect.NODE_RESTART):
            return f"{_listed(left)} cannot change while the node runs: restart the node, or put it back; nothing was changed"
        if not yes and (lost := self.of(Effect.DESTRUCTIVE)):
            return f"{_listed(lost)} would give something up for good; nothing was changed; say yes to it if it is meant"
        return None


def plan(before: NodeSettings, after: NodeSettings, waiting: Waiting | None = None) -> Plan:
    """The changes from ``before`` to ``after``. waiting: the messages in the bridges' queues now; None: nobody knows."""
    changes: dict[tuple[str, str, Effect], Change] = {}
    for change in (*_of_fields(before, after, waiting), *_of_files(before, after), *_of_apart(before, after)):
        changes.setdefault((change.what, change.target, change.act), change)
    return Plan(tuple(changes.values()))


def _of_fields(before: NodeSettings, after: NodeSettings, waiting: Waiting | None) -> Iterator[Change]:
    for difference in differences(before, after):
        loss = loss_by(difference, before, after, waiting)
        if difference.key in _ONE_OF:
            yield _of_item(difference, loss)
            continue
        key, act = difference.key, difference.effect
        section, _, below = key.partition(".")
        what = f"{_ONE_OF[section]} {difference.item}: {below}" if section in _ONE_OF else key
        target = STORE if below.partition(".")[0] == "durability" else _target(act, section, difference.item)
        if key == "bridges.retention" and not (difference.before and difference.after):
            act, target = Effect.RESTART, STORE  # whether a history is kept is found out when a queue is opened
        if target == STORE and before.persistence.mode == "in-memory":
            loss = IN_MEMORY
        detail = _rules_changed(difference) if section in _ONE_OF and below in _RULES else _values(difference)
        if what == _PLACEMENT:
            detail = f"{detail}; all processes start again"
        yield Change(what=what, act=act, target=target, detail=detail, loss=loss)
        if key == "clients.packet_max_bytes":  # a remote is told of it when it is connected to
            for bridge in after.bridges:
                if bridge.remote_subscriptions and any(bridge.name == known.name for known in before.bridges):
                    yield Change(what=key, act=Effect.RECONNECT, target=bridge.name, detail=detail)


def _of_item(difference: Difference, loss: str) -> Change:
    """A bridge or listener that is new, or gone; or all of them in another order, which means nothing."""
    one, name = _ONE_OF[difference.key], difference.item
    if not name:
        return Change(what=f"{difference.key}: their order", act=Effect.LIVE)
    target = name if one == "bridge" else ""
    if difference.before is None:
        return Change(what=f"{one} {name}: added", act=Effect.LIVE, target=target)
    detail = "its clients are disconnected" if one == "listener" else ""
    return Change(what=f"{one} {name}: removed", act=Effect.LIVE, target=target, detail=detail, loss=loss)


def _of_apart(before: NodeSettings, after: NodeSettings) -> Iterator[Change]:
    """Lanes that had failed, and had processes of their own since: they try again as they are configured."""
    known = {bridge.name for bridge in after.bridges}
    for bridge in filter(known.__contains__, map(bridge_of_child, before.apart)):
        yield Change(
            what=f"bridge {bridge}: shares a process again", act=Effect.RECONNECT, target=bridge or "", detail="it had failed"
        )


def _of_files(before: NodeSettings, after: NodeSettings) -> Iterator[Change]:
    """Files that the configuration names, under the same name with another content."""
    known = dict(before.files)
    changed = {path for path, digest in after.files if known.get(path, digest) != digest}
    for bridge in after.bridges:
        tls = bridge.remote.tls
        wanted = bridge.remote.authentication
        secrets = (bridge.remote.password_file, wanted and wanted.data_file, tls.key_passphrase_file, tls.psk_file)
        for path in (*secrets, tls.ca_file, tls.crl_file, tls.cert_file, tls.key_file):
            if path in changed:
                what = f"bridge {bridge.name}: the content of {path}"
                yield Change(what=what, act=Effect.RECONNECT, target=bridge.name)
    if after.telemetry is not None:
        own = after.telemetry.otlp.tls
        for path in filter(changed.__contains__, (own.ca_file, own.cert_file, own.key_file)):
            yield Change(what=f"telemetry: the content of {path}", act=Effect.RESTART, target=TELEMETRY)
    for path in sorted(changed & (read_when_changed(after) - _acl_files(after))):
        yield Change(what=f"the content of {path}", act=Effect.LIVE, detail="it is read again whenever it changes")


def read_when_changed(settings: NodeSettings) -> frozenset[str]:
    """The files that the node looks at itself: what is in them holds, whether or not the configuration is read again."""
    return frozenset(_looked_at(settings)) | _acl_files(settings)


def _acl_files(settings: NodeSettings) -> frozenset[str]:
    """The files whose content is in the settings as well."""
    found = (settings.access, *(listener.access for listener in settings.listeners))
    return frozenset(access.acl_file for access in found if access is not None and access.acl_file is not None)


def _looked_at(settings: NodeSettings) -> Iterator[str]:
    for access in (settings.access, *(listener.access for listener in settings.listeners)):
        if access is not None and access.password_file is not None:
            yield access.password_file
    for tls in (settings.http.tls if settings.http is not None else None, *(listener.tls for listener in settings.listeners)):
        if tls is not None:
            yield from filter(None, (tls.cert_file, tls.key_file, tls.ca_file))
    if settings.http is not None and settings.http.tokens_file is not None:
        yield settings.http.tokens_file


def _target(act: Effect, section: str, item: str) -> str:
    if section == "bridges":
        return item
    return _PROCESSES.get(section, "") if act == Effect.RESTART else ""


def _values(difference: Difference) -> str:
    """Before and after, where they are short, and nobody's business to hide."""
    if difference.key.rpartition(".")[2] in _UNTOLD or not all(map(_is_short, (difference.before, difference.after))):
        return ""
    return f"{_value(difference.before)} -> {_value(difference.after)}"


def _is_short(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value in (None, "") else str(value)


def _rules_changed(difference: Difference) -> str:
    """Rules that came, went or were changed, by their names. One without a name is called by its filters: if it has others now, and
    some of before, it was changed."""
    before = {rule.name: rule for rule in difference.before}
    after = {rule.name: rule for rule in difference.after}
    for rule in [rule for name, rule in after.items() if name not in before and _is_unnamed(rule)]:
        others = (old for name, old in before.items() if name not in after and _is_unnamed(old))
        gone = (old for old in others if set(old.filters) & set(rule.filters))
        if (former := next(gone, None)) is not None:
            before = {rule.name if old is former else name: old for name, old in before.items()}
    changed = {name: (before[name], rule) for name, rule in after.items() if name in before and before[name] != rule}
    told = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [f"{old.name}{_other_filters(old.filters, rule.filters)}" for old, rule in changed.values()],
    }
    words = [f"{verb}: {', '.join(names)}" for verb, names in told.items() if names] or ["their order"]
    moved = [(name, before[name].priority, rule.priority) for name, rule in after.items() if name in before]
    words += [f"{name} is of class {new}, and was of {old}: what waits stays in its lane" for name, old, new in moved if old != new]
    return "; ".join(words)


def _is_unnamed(rule: RuleSettings) -> bool:
    return rule.name == ", ".join(rule.filters)


def _other_filters(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """`` (+ safety/#, - plant/#)``: the filters that a rule has got and lost."""
    signs = [f"+ {each}" for each in after if each not in before] + [f"- {each}" for each in before if each not in after]
    return f" ({', '.join(signs)})" if signs else ""


def _listed(changes: list[Change]) -> str:
    return ", ".join(change.what for change in changes)
