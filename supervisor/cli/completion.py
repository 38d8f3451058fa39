"""Names that a shell completes: those that the running node knows, or a file has.

One question is asked at most, and an answer waited for no longer than ``ANSWER_S``. A node that does not run, or does not answer,
knows no names, and says nothing. Some names are those of strangers, such as client identifiers, and shells type them as they are:
so only names are offered that are one harmless word in every shell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from click.shell_completion import CompletionItem

from wire.errors import BasculeError

if TYPE_CHECKING:
    from supervisor.control.client import ControlClient
    from supervisor.running_node import NodePlace

ANSWER_S = 1.0
SESSIONS_MAX = 100  # are offered
WORDS = "bascule.words"  # in click's ``Context.meta``: what stands before the word that is completed
NODE = "bascule.node"  # and the node that they give

Completing = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_HARMLESS = re.compile(r"[A-Za-z0-9_.@/+,:-]+")
_FILES = ("file", "path")


class CompletionNode(Protocol):
    """The node that the words before give."""

    @property
    def client(self) -> ControlClient: ...
    @property
    def place(self) -> NodePlace: ...
    @property
    def config(self) -> Path: ...


def _bridges(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    status = _asked(node, "status")
    yield from (row["name"] for row in status["bridges"])
    yield from (row["queue"].split(":")[1] for row in status["unserved"])


def _lanes(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    yield from (str(row["lane"]) for row in _asked(node, "status")["bridges"])


def _members(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    yield from (_asked(node, "status")["replication"] or {}).get("members", {})


def _reasons(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    for row in _asked(node, "status")["bridges"]:
        yield from (row["dead_letters"] or {}).get("reasons", {})


def _sessions(node: CompletionNode, incomplete: str) -> Iterator[str]:
    wanted = {"like": f"{incomplete}*", "count": str(SESSIONS_MAX)}
    yield from (row["client_id"] for row in _asked(node, "session.list", wanted)["sessions"])


def _snapshots(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    from storage.snapshots.snapshot_folder import SnapshotFolder

    yield from (path.name for path, _ in SnapshotFolder.of_data_dir(node.place.data_dir).manifests())


def _keys(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    from supervisor.config.loading import load
    from supervisor.control.key_files import key_names

    control = load(node.config).control
    yield from () if control is None else key_names(Path(control.allowed_keys))


def _notify_rules(node: CompletionNode, _incomplete: str) -> Iterator[str]:
    from supervisor.config.loading import load

    yield from (rule.name for rule in load(node.config).notify)


NAMES: Mapping[str, Callable[[CompletionNode, str], Iterable[str]]] = {  # by the parameter that takes one
    "bridge": _bridges,
    "client_id": _sessions,
    "key_name": _keys,
    "lane": _lanes,
    "like": _sessions,
    "member": _members,
    "notify_rule": _notify_rules,
    "reason": _reasons,
    "snapshot": _snapshots,
}


def names(kind: str) -> Completing:
    """Completion of an option that takes a name of that ``kind``, one of ``NAMES``."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _offered(lambda: NAMES[kind](context.meta[NODE](), incomplete), incomplete)

    return complete


def words(arguments: Iterable[str]) -> Completing:
    """Completion of CONFIG and what follows it: ``arguments``, by their parameters' names."""
    kinds = list(arguments)

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        place, may_be_config = context.meta[WORDS]
        kind = kinds[place] if place < len(kinds) else ""
        found = [CompletionItem(incomplete, type="file")] if may_be_config or kind in _FILES else []
        if kind in NAMES:
            found += _offered(lambda: NAMES[kind](context.meta[NODE](), incomplete), incomplete)
        return found

    return complete


def entries(read: Callable[[Path], Iterable[str]]) -> Completing:
    """Completion of a name in the file FILE of the command, as ``read`` finds them."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        file = context.params.get("file")
        return [] if file is None else _offered(lambda: read(file), incomplete)

    return complete


def of(choices: Callable[[], Iterable[str]]) -> Completing:
    """Completion of one of ``choices``."""
    return lambda _context, _parameter, incomplete: _offered(choices, incomplete)


def _offered(find: Callable[[], Iterable[str]], incomplete: str) -> list[CompletionItem]:
    """What is found that begins with ``incomplete``; nothing if it cannot be found."""
    try:
        found = sorted({name for name in find() if name.startswith(incomplete) and _HARMLESS.fullmatch(name)})
    except (BasculeError, click.ClickException, OSError, KeyError, ValueError):
        return []
    if "bash" in os.environ.get("_BASCULE_COMPLETE", ""):
        found = [name for name in found if ":" not in name]  # it breaks words there
    return [CompletionItem(name) for name in found]


def _asked(node: CompletionNode, command: str, arguments: dict[str, str] | None = None) -> dict[str, Any]:
    with node.client as client:
        answer: dict[str, Any] = client.call(command, arguments, timeout_s=ANSWER_S)
        return answer
