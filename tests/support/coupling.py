"""How much the parts of the tree hold of each other, counted from their source.

A *collaborator* is what a constructor is handed that can do something: a parameter whose type names a class of ours with methods of
its own, or a callable that returns nothing, since that is there for what it changes elsewhere. Values are none: frozen dataclasses,
records, named tuples, enumerations, exceptions, classes without methods, callables that answer a question.

A field is *foreign* to a module that assigns it, or an item of it, on anything but ``self``, and in which no class has a field of
that name: some other module owns the class. Fields of what is not ours do not count.

An *arrow* of a room is an import by one of its modules from another one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_VALUES = {"BaseModel", "Enum", "Exception", "Flag", "IntEnum", "IntFlag", "NamedTuple", "StrEnum", "TypedDict"}
_Parsed = dict[str, tuple[ast.AST, ...]]  # by module, all nodes of its tree


def _classes(nodes: tuple[ast.AST, ...]) -> Iterator[ast.ClassDef]:
    return (node for node in nodes if isinstance(node, ast.ClassDef))


def _is_value(of: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in of.bases}
    decorators = [ast.unparse(decorator) for decorator in of.decorator_list]
    if bases & _VALUES or any(name.endswith("Error") for name in bases):
        return True
    if any("frozen=True" in decorator or decorator.startswith("record") for decorator in decorators):
        return True
    return not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__" for node in of.body)


def collaborators(parsed: _Parsed) -> dict[str, list[str]]:
    """The names of the collaborators of each constructor that has any, by ``module:Class``."""
    acting = {of.name for nodes in parsed.values() for of in _classes(nodes) if not _is_value(of)}
    found: dict[str, list[str]] = {}
    for module, nodes in parsed.items():
        for of in _classes(nodes):
            for made in (node for node in of.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"):
                every = [*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs]
                if taken := [each.arg for each in every if each.annotation is not None and _acts(each.annotation, acting)]:
                    found[f"{module}:{of.name}"] = taken
    return found


def _acts(annotation: ast.expr, acting: set[str]) -> bool:
    text = ast.unparse(annotation).strip("'\"")
    if text.startswith("Callable["):
        return ", None]" in text
    return bool(set(re.findall(r"[A-Za-z_]\w*", text)) & acting)


def foreign_fields(parsed: _Parsed) -> dict[str, set[str]]:
    """The foreign fields that each module assigns, if any."""
    fields = {module: set(_fields(nodes)) for module, nodes in parsed.items()}
    ours = set().union(*fields.values())
    found = {module: {name for name in _assigned(nodes) if name in ours - fields[module]} for module, nodes in parsed.items()}
    return {module: names for module, names in found.items() if names}


def _fields(nodes: tuple[ast.AST, ...]) -> Iterator[str]:
    for of in _classes(nodes):
        for node in ast.walk(of):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
                yield node.attr
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
                yield from (str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant))


def _assigned(nodes: tuple[ast.AST, ...]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node
        else:
            continue
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in ("self", "cls"):
            yield target.attr
