"""Makes docs/design/rules.md: each promise with the rules that serve it; each rule with what checks it and what breaks it.

    python scripts/documents/rules.py           writes it
    python scripts/documents/rules.py --check   names what is wrong with the rules or the page, and ends with 1 if anything is

A rule is stated once, in a docstring, by a line ``room.what-holds [P2, alive]: sentence``; lines that go on are indented. The room
is the folder of its module. Code that keeps, judges or breaks it elsewhere names it. A planted bug is called
``room.what-holds/what-is-done``, or ``P7/what-is-done`` where it breaks a promise and no single rule.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("wire", "storage", "analysis", "actors", "supervisor")
PAGE = Path("docs/design/rules.md")
JUDGES = ("tests/simulation/", "tests/storage/replication/", "tests/support/")
PLANTED = ("tests/simulation/", "tests/storage/replication/")
OWN = ("scripts/documents/rules.py", "tests/test_rules.py")  # what stands there is an example

NO_RULES = ("mqtt.js-websocket", "store.damaged-1")  # names of other things that look like one

# Purposes of rules beside the promises.
PURPOSES = {
    "P1": "acknowledged only after the commit",
    "P2": "at least once, exactly once",
    "P3": "any process may die",
    "P4": "order",
    "P5": "memory has limits",
    "P6": "nothing is lost silently",
    "P7": "queues stay, and messages go where their rule said",
    "P8": "opening time",
    "MQTT": "what the specification asks for",
    "access": "nobody does, reads or holds up what he may not",
    "alive": "the node goes on serving whoever else fails, floods or is slow",
    "reports": "snapshots and reports say what was",
}

_NAME = r"[a-z][a-z0-9]*\.[a-z0-9]+(?:-[a-z0-9]+)+"
_STATED = re.compile(rf"^( *)({_NAME}) \[([^\]]*)\]: (.*)$")
_NUMBERED = re.compile(r"^ *[A-OQ-Z]\d{1,2}(?: {2,}\S|: )")
_MAY_STATE = re.compile(rf"{_NAME} \[|[A-OQ-Z]\d{{1,2}}(?: {{2,}}\S|: )")
_PROMISE = re.compile(r"(?<![\w-])P[1-8](?!\w)")
_REFERENCE = re.compile(rf"(?<![\w./#-])({_NAME})(?![\w-])")
_BUG = re.compile(rf"^({_NAME}|P[1-8])/[a-z0-9-]+$")


@dataclass(slots=True)
class Rule:
    """One rule: where it is stated, and where it is named."""

    name: str
    purposes: tuple[str, ...]
    sentence: str
    module: str
    line: int
    kept: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # modules of the product -> what in them
    judged: set[str] = field(default_factory=set)
    tests: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Tree:
    """The rules of the tree at ``root``, and what is wrong with them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wrong: list[str] = []
        self.rules: dict[str, Rule] = {}
        self.bugs: dict[str, list[tuple[str, str]]] = defaultdict(list)  # rule or promise -> (bug, what is done)
        self.promises: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in PURPOSES if name[0] == "P"}
        files = sorted(path for folder in (*PACKAGES, "tests", "scripts") for path in (root / folder).rglob("*.py"))
        texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files}
        for module, text in texts.items():
            self._stated_in(module, text)
        self._rooms = {name.partition(".")[0] for name in self.rules}
        for module, text in texts.items():
            if module not in OWN:
                self._named_in(module, text)
        pages = [path for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")] if path != root / PAGE]
        for path in sorted(pages):
            self._resolved(str(path.relative_to(root)), enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
        self._untested()

    # --- what is stated ---

    def _stated_in(self, module: str, text: str) -> None:
        if not _MAY_STATE.search(text):
            return  # hardly any file states one, and reading them all as programs takes seconds
        for first, docstring in _docstrings(text):
            lines = docstring.splitlines()
            for at, line in enumerate(lines):
                if _NUMBERED.match(line):
                    self._say(module, first + at, f"a rule has a name, not a number: {line.strip()[:60]}")
                if (found := _STATED.match(line)) is not None:
                    words = [found[4], *_indented(lines[at + 1 :], len(found[1]))]
                    purposes = tuple(word.strip() for word in found[3].split(","))
                    self._state(Rule(found[2], purposes, " ".join(" ".join(words).split()), module, first + at))

    def _state(self, rule: Rule) -> None:
        if (other := self.rules.get(rule.name)) is not None:
            self._say(rule.module, rule.line, f"{rule.name} is stated in {other.module}:{other.line} already")
            return
        unknown = [purpose for purpose in rule.purposes if purpose not in PURPOSES]
        if unknown:
            self._say(
                rule.module, rule.line, f"{rule.name} is for {unknown[0]!r}, which is neither a promise nor {', '.join(PURPOSES)}"
            )
        room = Path(rule.module).parent.name
        if rule.name.partition(".")[0] != room:
            self._say(rule.module, rule.line, f"{rule.name} is stated in the room {room!r}")
        self.rules[rule.name] = rule

    # --- what is named ---

    def _named_in(self, module: str, text: str) -> None:
        resolved = self._resolved(module, enumerate(text.splitlines(), 1))
        planted = module.startswith(PLANTED) and module.endswith("mutations.py")
        if not (resolved or planted or _PROMISE.search(text)):
            return
        tree = ast.parse(text, module)
        places = list(_places(tree))
        stated = {rule.line for rule in self.rules.values() if rule.module == module}
        if planted:
            for name, what, line in _bugs(tree):
                self._plant(module, line, name, what)
        for line, name in resolved:
            if line in stated and self.rules[name].module == module and self.rules[name].line == line:
                continue
            self._note(self.rules[name], module, _place(places, line), planted=planted)
        if module.startswith("tests/") and not planted:
            for line, words in enumerate(text.splitlines(), 1):
                for promise in _PROMISE.findall(words):
                    self.promises[promise][module].add(_place(places, line))

    def _note(self, rule: Rule, module: str, place: str, *, planted: bool) -> None:
        if module.startswith(PACKAGES):
            rule.kept[module].add(place)
        elif module.startswith(JUDGES) and not Path(module).name.startswith("test_"):
            if not planted:
                rule.judged.add(module)
        elif module.startswith("tests/"):
            rule.tests[module].add(place)

    def _resolved(self, file: str, lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        """(line, rule) of each reference; a name that is no rule's is told."""
        found = []
        for line, text in lines:
            for name in _REFERENCE.findall(text):
                if name in self.rules:
                    found.append((line, name))
                elif name.partition(".")[0] in self._rooms and name not in NO_RULES:
                    self._say(file, line, f"no rule is called {name}")
        return found

    def _plant(self, module: str, line: int, name: str, what: str) -> None:
        rule = name.partition("/")[0]
        if not _BUG.match(name) or (rule not in self.rules and rule not in PURPOSES):
            self._say(module, line, f"the planted bug {name!r} is not called after a rule that it breaks")
        else:
            self.bugs[rule].append((name, what))

    def _untested(self) -> None:
        for rule in self.rules.values():
            if not rule.tests and rule.name not in self.bugs:
                self._say(rule.module, rule.line, f"no test names {rule.name}, and no planted bug breaks it")

    def _say(self, file: str, line: int, text: str) -> None:
        self.wrong.append(f"{file}:{line}: {text}")

    # --- the page ---

    def page(self) -> str:
        """The text of docs/design/rules.md."""
        parts = [_HEAD, *(self._purpose(purpose) for purpose in PURPOSES)]
        rooms: dict[str, list[Rule]] = defaultdict(list)
        for rule in sorted(self.rules.values(), key=lambda rule: rule.name):
            rooms[rule.name.partition(".")[0]].append(rule)
        for room, rules in rooms.items():
            parts += [f"## Room: {room}\n", *(self._rule(rule) for rule in rules)]
        return "\n".join(parts)

    def _purpose(self, purpose: str) -> str:
        rules = sorted(rule.name for rule in self.rules.values() if purpose in rule.purposes)
        pages = sorted((self.root / PAGE).parent.glob(f"{purpose.lower()}-*.md"))  # a promise has one
        title = f"[{purpose}]({pages[0].name})" if pages else purpose
        lines = [f"### {title}: {PURPOSES[purpose]}\n"]
        lines += [f"- [{name}](#{name.replace('.', '')})" for name in rules] or ["- no rule of its own: it is tested as a whole"]
        if purpose in self.promises:
            whole = sorted(module for module in self.promises[purpose] if Path(module).name.startswith("test_"))
            lines += ["", "Tested as a whole: " + ", ".join(map(_code, whole)) + "."] if whole else []
        lines += (
            ["", "Planted bugs: " + ", ".join(_code(name) for name, _ in self.bugs[purpose]) + "."] if purpose in self.bugs else []
        )
        return "\n".join(lines) + "\n"

    def _rule(self, rule: Rule) -> str:
        lines = [f"### {rule.name}\n", f"{', '.join(rule.purposes)}: {_markdown(rule.sentence)}\n"]
        checked = {rule.module: set[str](), **{module: set[str]() for module in sorted(rule.kept)}}
        lines.append(f"- checked in {', '.join(map(_code, checked))}")
        if rule.judged:
            lines.append(f"- judged by {', '.join(map(_code, sorted(rule.judged)))}")
        for module, places in sorted(rule.tests.items()):
            named = ", ".join(_code(place) for place in sorted(places) if place)
            lines.append(f"- test {_code(module)}{': ' + named if named else ''}")
        lines += [f"- planted bug {_code(name)}: {what}" for name, what in self.bugs.get(rule.name, ())]
        return "\n".join(lines) + "\n"


_HEAD = """<!-- Made by scripts/documents/rules.py; change the program or its tests instead. -->

# The rules

A rule is what one part of the node holds to, so that a promise holds. It is stated once, beside the code that keeps it, and is
called by its room and what holds. Whatever checks, judges or breaks it says its name, so a name found anywhere leads here.
A planted bug breaks its rule on purpose, and the simulation has to notice: `python -m tests.simulation --mutation NAME`. One of the
room `replication` is noticed by a simulated cluster: `pytest tests/storage/replication/test_simulation.py`.

## What rules are for
"""


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    """(line on which it begins, docstring as it is written)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                yield first.lineno, first.value.value


def _indented(lines: Iterable[str], depth: int) -> Iterator[str]:
    """The lines that go on with what stands above them."""
    for line in lines:
        if not line.strip() or len(line) - len(line.lstrip()) <= depth:
            return
        yield line


def _places(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """(first line, last line, name) of tests and of what else has a name at the top of a module or a class."""
    for node in tree.body:
        for one in [*node.body, node] if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
                yield first, one.end_lineno or first, one.name


def _place(places: Iterable[tuple[int, int, str]], line: int) -> str:
    """The test, or the class, around ``line``; nothing where that is no name for a reader."""
    found = [name for first, last, name in places if first <= line <= last]
    return found[0] if found and (found[0].startswith("test_") or found[0][0].isupper()) else ""


def _bugs(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """(name, what is done, line) of each planted bug; a name with a part in braces stands for those that a loop makes."""
    loops = {node.target: node for node in ast.walk(tree) if isinstance(node, ast.For)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_mutation":
            words = node.args
        elif isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[2], ast.Tuple):
            words = node.elts
        else:
            continue
        name, what = words[0], words[1]
        if isinstance(name, ast.Constant) and isinstance(what, ast.Constant):
            yield str(name.value), str(what.value), node.lineno
        elif isinstance(name, ast.JoinedStr) and isinstance(what, ast.JoinedStr):
            loop = next(loop for loop in loops.values() if loop.lineno <= node.lineno <= (loop.end_lineno or 0))
            for values in ast.literal_eval(loop.iter):
                given = dict(zip((ast.unparse(one) for one in getattr(loop.target, "elts", [loop.target])), values, strict=True))
                yield _formatted(name, given), _formatted(what, given), node.lineno


def _formatted(text: ast.JoinedStr, given: dict[str, str]) -> str:
    parts = []
    for part in text.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            source = ast.unparse(part.value)
            parts.append(given[source.removesuffix(".upper()")].upper() if source.endswith(".upper()") else given[source])
    return "".join(parts)


def _code(text: str) -> str:
    return f"`{text}`"


def _markdown(text: str) -> str:
    """A docstring's sentence as Markdown; rules in it lead to theirs."""
    text = text.replace("``", "`").replace("*", "\\*")
    return _REFERENCE.sub(lambda found: f"[{found[1]}](#{found[1].replace('.', '')})", text)


def main(argv: list[str]) -> int:
    """Write the page, or say what is wrong; the exit status."""
    parser = argparse.ArgumentParser(prog="rules.py", description="The index of rules.")
    parser.add_argument("--check", action="store_true", help="write nothing, say what is wrong")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="the tree to read")
    arguments = parser.parse_args(argv)
    tree = Tree(arguments.root)
    page = arguments.root / PAGE
    if arguments.check:
        if not page.exists() or page.read_text(encoding="utf-8") != tree.page():
            tree.wrong.append(f"{PAGE} is out of date; run: python scripts/documents/rules.py")
    else:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(tree.page(), encoding="utf-8")
    print("".join(f"{text}\n" for text in tree.wrong), end="")
    return int(bool(tree.wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
