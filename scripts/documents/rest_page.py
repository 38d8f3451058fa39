"""Makes docs/reference/rest.md of the OpenAPI document that a node gives away at /openapi.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from supervisor.http.app import make_app
from supervisor.http.http_counts import HttpCounts
from wire.config_settings import HttpSettings

_INTRODUCTION = """
# REST API

What the [commands](commands.md) do, over HTTP. [The HTTP interface](../guides/http.md) says how to switch it on. Each
node has the same as an OpenAPI document at `/openapi.json`.

Send `Authorization: Bearer TOKEN` where the node has tokens, and `X-Bascule: 1` with everything but GET. Roles: `view`
sees how the node is, and no message; `operate` sees messages too, and does what can be undone; `admin` does all.

An answer with a status of 400 or more is an error: `{"error":{"kind":"unknown_bridge","message":"..."}}`. Programs go by
`kind`.

| status | what it means |
|---|---|
"""
_STATUSES = (400, 401, 403, 404, 409, 429, 503)
_MORE = (
    ("413", "The request is too large."),
    ("421", "The node is asked by a name that is not its own; see `http.hosts`."),
    ("501", "The node does not know the command."),
)


def rest_page() -> str:
    """The page, but for its first line."""
    app = make_app(Path(), HttpSettings(), HttpCounts())
    return _INTRODUCTION + "".join(_page(app.openapi()))


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    operations = [
        (method.upper(), path, operation) for path, methods in document["paths"].items() for method, operation in methods.items()
    ]
    answers = next(operation["responses"] for _, path, operation in operations if path.startswith("/api/v1"))
    said = [(str(status), answers[str(status)]["description"]) for status in _STATUSES]
    yield from (f"| {status} | {text} |\n" for status, text in sorted([*said, *_MORE]))
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in operations):
        yield f"\n## {tag.capitalize()}\n"
        for method, path, operation in operations:
            if operation["tags"][0] == tag:
                yield from _operation(document, method, path, operation)


def _operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"\n### `{method} {path.replace(':path', '')}`\n\n{operation['summary']}. {operation.get('description', '')}".rstrip()
        + "\n"
    )
    rows = [
        (parameter["name"], parameter["in"], _kind(document, parameter["schema"]), parameter.get("description", ""))
        for parameter in operation.get("parameters", ())
    ]
    body = operation.get("requestBody")
    if body is not None:
        schema = _resolved(document, body["content"]["application/json"]["schema"])
        rows += [(name, "body", kind, text) for name, kind, text in _fields(document, schema)]
    if rows:
        yield "\n| argument | where | takes | what it is for |\n|---|---|---|---|\n"
        yield from (f"| `{name}` | {where} | {kind} | {text} |\n" for name, where, kind, text in rows)
    for status, answer in operation["responses"].items():
        if status.startswith("2") and "application/json" in answer.get("content", ()):
            schema = _resolved(document, answer["content"]["application/json"]["schema"])
            fields = list(_fields(document, schema))
            if fields:
                yield f"\nAnswers {status}: {_line(schema.get('description', ''))}\n\n| field | is | what it is |\n|---|---|---|\n"
                yield from (f"| `{name}` | {kind} | {text} |\n" for name, kind, text in fields)


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        example = f" Such as `{json.dumps(field['examples'][0])}`." if field.get("examples") else ""
        yield name, _kind(document, field), f"{field.get('description', '')}{example}".strip()


def _kind(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The kind of a value, in a few words."""
    if "$ref" in schema:
        return _line(_resolved(document, schema).get("description", "")).rstrip(".").lower() or "an object"
    if "anyOf" in schema:
        return " or ".join(_kind(document, each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"a list: {_kind(document, schema['items'])}"
    least, most = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    limits = f" {least} to {most}" if None not in (least, most) else f" from {least}" if least is not None else ""
    default = f", `{schema['default']}` if left out" if schema.get("default") is not None else ""
    return f"{_WORDS.get(kind, kind)}{limits}{default}"


_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "null": "null",
}


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    resolved: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return resolved


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
