"""Troubles that stand, and the notices of their beginning and end. Pure.

A trouble is told once when it has lasted as long as its rule says, and once when it is over if its beginning was told. What stands
is on record (``notice_record.py``), so that a restart tells nothing again and forgets no end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from supervisor.notify.troubles import Trouble
from wire.clock_steps import elapsed_ms
from wire.config_settings import NoticeSettings


class NoticeState(StrEnum):
    """Of a notice. TEST: nothing is the matter; somebody tries whether it arrives."""

    BEGINS = "begins"
    OVER = "over"
    HAPPENED = "happened"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice, as it is told. id: that of the trouble, the same at its end.

    since_ms, at_ms: Unix time of the trouble's beginning, and of this notice.
    """

    node: str
    rule: str
    id: str
    kind: str
    state: str
    about: str
    bridge: str
    text: str
    cure: str
    since_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A trouble that stands. told: whether somebody was told."""

    rule: str
    kind: str
    about: str
    bridge: str
    text: str
    cure: str
    since_ms: int
    told: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Which one it is."""
        return self.rule, self.kind, self.about


class Notices:
    """All troubles that stand at the node called ``node``, from one look to the next."""

    def __init__(self, node: str, standing: Iterable[Standing] = ()) -> None:
        """standing: those on record."""
        self._node = node
        self._standing = {each.key: each for each in standing}

    @property
    def standing(self) -> tuple[Standing, ...]:
        """Those that somebody was told of, or will be."""
        return tuple(self._standing.values())

    def look(self, rule: NoticeSettings, found: Iterable[Trouble], now_ms: int) -> Iterator[Notice]:
        """Take the troubles that are ``found`` for ``rule`` now; the notices that follow."""
        here: set[tuple[str, str, str]] = set()
        for trouble in found:
            key = rule.name, str(trouble.kind), trouble.about
            here.add(key)
            standing = self._standing.get(key)
            if not trouble.known:
                continue
            if standing is None:
                standing = self._standing[key] = _began(rule, trouble, now_ms)
            if not standing.told:
                self._standing[key] = standing = replace(standing, text=trouble.text, cure=trouble.cure)
                if elapsed_ms(standing.since_ms, now_ms) >= rule.for_s * 1000:
                    self._standing[key] = replace(standing, told=True)
                    yield self._notice(standing, NoticeState.BEGINS, now_ms)
        for key in [key for key in self._standing if key[0] == rule.name and key not in here]:
            standing = self._standing.pop(key)
            if standing.told:
                yield self._notice(standing, NoticeState.OVER, now_ms)

    def happened(self, rule: NoticeSettings, trouble: Trouble, now_ms: int) -> Notice:
        """The notice of a single event."""
        at_ms = now_ms if trouble.at_ms is None else trouble.at_ms
        return self._notice(replace(_began(rule, trouble, at_ms), since_ms=at_ms), NoticeState.HAPPENED, at_ms)

    def keep_to(self, rules: Iterable[str]) -> None:
        """Forget what stands by rules that are not among ``rules``; nobody is told of an end."""
        wanted = set(rules)
        self._standing = {key: each for key, each in self._standing.items() if key[0] in wanted}

    def _notice(self, standing: Standing, state: NoticeState, at_ms: int) -> Notice:
        facts = {name: value for name, value in asdict(standing).items() if name != "told"}
        number = f"/{at_ms}" if state is NoticeState.HAPPENED else f"/{standing.since_ms}"
        identity = f"{self._node}/{standing.rule}/{standing.kind}/{standing.about}{number}"
        return Notice(node=self._node, id=identity, state=str(state), at_ms=at_ms, **facts)


def test_notice(node: str, rule: str, now_ms: int) -> Notice:
    """A notice that tells nothing but that it has arrived."""
    identity, text = f"{node}/{rule}/test/{now_ms}", "this is a test: notices of this rule arrive here"
    return Notice(
        node=node,
        rule=rule,
        id=identity,
        kind="test",
        state=str(NoticeState.TEST),
        about="node",
        bridge="",
        text=text,
        cure="",
        since_ms=now_ms,
        at_ms=now_ms,
    )


def _began(rule: NoticeSettings, trouble: Trouble, now_ms: int) -> Standing:
    return Standing(
        rule=rule.name,
        kind=str(trouble.kind),
        about=trouble.about,
        bridge=trouble.bridge,
        text=trouble.text,
        cure=trouble.cure,
        since_ms=now_ms - int(trouble.since_s * 1000),
    )
