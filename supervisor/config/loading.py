"""Loads a node's configuration: one file in, ``wire.config_settings.NodeSettings`` out, or every problem of the file at once.

Each problem reads ``file:line:column: key: what is wrong and what would be right``. This module joins YAML's places
(``supervisor/config/yaml_file.py``) with the model (``supervisor/config/section_model.py``) and checks what spans the file.
``python -m supervisor.config.loading --schema FILE`` writes the JSON Schema for editors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

from actors.access.password_file import read_passwords
from actors.access.token_file import read_tokens
from storage import trusted_files
from supervisor.config.include import IncludeInstead, read_with_included
from supervisor.config.named_files import TRUSTED_KEYS, named_by
from supervisor.config.section_model import Section, section_type, several
from supervisor.config.substitution import Substitution
from supervisor.config.yaml_file import Key, Problem, YamlDocument, read_document
from supervisor.inconsistent_settings import Inconsistent
from supervisor.running_node import NodePlace, run_dir_of
from supervisor.units import nearest, parse_address, shown
from wire.config_settings import UNIX, AccessSettings, AclRuleSettings, NodeItself, NodeSettings
from wire.errors import ConfigError

_NODE: TypeAdapter[Any] = TypeAdapter(section_type(NodeSettings))
_NODE_ALONE: TypeAdapter[Any] = TypeAdapter(create_model("NodeAlone", __base__=Section, node=(section_type(NodeItself), ...)))
_RULES = Field(description="Rules, in order.")
_ACL_FILE: TypeAdapter[Any] = TypeAdapter(
    create_model("AclFile", __base__=Section, acl=(several(section_type(AclRuleSettings)), _RULES))
)
NOT_AVAILABLE = "not available in this version"

# Keys that a later version will know, by path without list indices: refused with that reason, never ignored.
NOT_YET = {
    "listeners.persistence": "persistence is set for the whole node",
    "bridges.persistence": "persistence is set for the whole node",
}

_EXAMPLES = {
    "node": "{name: edge-1, data_dir: data}",
    "node.name": "edge-1",
    "node.data_dir": "data",
    "listeners": '[{bind: "127.0.0.1:1883"}]',
    "listeners.bind": '"127.0.0.1:1883"',
    "listeners.tls.cert_file": "server.pem",
    "listeners.tls.key_file": "server.key",
    "http.tls.cert_file": "server.pem",
    "http.tls.key_file": "server.key",
    "listeners.proxy_protocol.from": "[10.0.0.7]",
    "access": "{allow_anonymous: true}",
    "access.allow_anonymous": "true",
    "access.acl.topics": '["site/%u/#"]',
    "listeners.access.acl.topics": '["site/%u/#"]',
    "acl": '[{users: [operator], topics: ["#"]}]',
    "acl.topics": '["site/%u/#"]',
    "bridges.name": "cloud",
    "control.bind": "tcp://0.0.0.0:7000",
    "control.allowed_keys": "keys",
    "replication.servers": '["nats://10.0.0.1:4222"]',
    "replication.stream": "edge-1",
    "replication.member": "a",
    "bridges.remote.authentication.method": "CUSTOM-JWT",
    "bridges.classes.name": "bulk",
    "bridges.remote.will.topic": "site/edge-1/state",
    "bridges.remote.birth.topic": "site/edge-1/state",
    "bridges.local_subscriptions.only.one_per": "10s",
    "notify.when": "[link_down]",
    "notify.email.server": '"smtp.example:587"',
    "notify.email.from": "edge-1@example.com",
    "notify.email.to": "[ops@example.com]",
    "bridges.remote.proxy.url": "http://proxy.example:3128",
    "telemetry.otlp": '{endpoint: "http://collector:4318"}',
    "telemetry.otlp.endpoint": "http://collector:4318",
    "bridges.remote": '{addresses: ["broker.example:1883"], client_id: edge-1}',
    "bridges.remote.addresses": '["broker.example:1883"]',
    "bridges.local_subscriptions.filters": '["plant/#"]',
    "bridges.remote_subscriptions.filters": '["cmd/edge-1/#"]',
}
# Keys of people who come from other brokers, and how they are written here.
_ADDRESSES = 'write addresses: ["broker.example:8883"], or as a URL, ["mqtts://user@broker.example"]'
_BIND = 'write bind: "127.0.0.1:1883"'
_HINTS = {
    **{f"bridges.remote.{key}": _ADDRESSES for key in ("address", "host", "hostname", "port", "server", "uri", "url")},
    **{f"listeners.{key}": _BIND for key in ("address", "host", "port")},
    "telemetry.otlp.url": "write endpoint",
    "telemetry.otlp.protocol": "it is http/protobuf; remove it",
    "telemetry.endpoint": "write otlp: {endpoint: http://collector:4318}",
    "replication.password": "write password_file: FILE; its first line is the password",
    "replication.token": "write token_file: FILE; its first line is the token",
    "replication.name": "write member",
    "bridges.address": f"in remote, {_ADDRESSES}",
    "bridges.remote.password": "write password_file: FILE; its first line is the password",
    "bridges.remote.user": "write username",
    "bridges.remote.clientid": "write client_id",
    "bridges.remote.proxy.password": "write password_file: FILE; its first line is the password",
    "bridges.remote.keepalive": "write keep_alive",
    "bridges.remote.ssl": "write transport: tls; tls: is for its files, such as {ca_file: ca.pem}",
    "bridges.topics": 'write local_subscriptions: [{filters: ["plant/#"]}], and remote_subscriptions for the other way',
    "bridges.topic": 'write local_subscriptions: [{filters: ["plant/#"]}], and remote_subscriptions for the other way',
}
_TLS = {"bridges.remote.tls": "transport: tls, or an address such as mqtts://broker.example,", "listeners.tls": "protocol: tls"}


def load(path: Path | str, instead: IncludeInstead | None = None) -> NodeSettings:
    """The settings in the file ``path``, whose password and ACL files are read, too; relative paths count from its folder.

    instead: what is taken for a file that it includes.

    Raises:
        ConfigError: the file cannot be read, or is wrong; ``problems`` names each error in the order of the file.
    """
    path = Path(path)
    document = read_with_included(path, Substitution(path.parent, os.environ), instead)
    settings, problems = _validate(_NODE, document, path)
    problems += _whole_file(document)
    if problems or settings is None:
        raise ConfigError("the configuration is refused", problems=_lines(path, problems))
    return _with_files(settings)


def as_lines(path: Path, found: Iterable[tuple[Key, str]]) -> list[str]:
    """``found``, of keys of the file ``path``, which holds, as lines with their places, in the order of the file."""
    document = read_with_included(path, Substitution(path.parent, os.environ))
    return _lines(path, [Problem(replace(document.place(key), written=""), key, message) for key, message in found])


def locate(path: Path | str) -> NodePlace:
    """The place of the node of the file ``path``.

    Nothing but ``node`` has to hold: who asks a node that runs is not held up by what is wrong with the rest.

    Raises:
        ConfigError: the file cannot be read, or its ``node`` is wrong; ``problems`` names each error in the order of the file.
    """
    path = Path(path)
    document = read_document(path, substitution=Substitution(path.parent, os.environ))
    if "node" not in document.data and "include" in document.data:
        document = read_with_included(path, Substitution(path.parent, os.environ))
    problems = [problem for problem in document.problems if problem.key[:1] == ("node",)]
    values = {"node": document.data["node"]} if "node" in document.data else {}
    node = YamlDocument(values, document.keys, document.values, problems)
    found, problems = _validate(_NODE_ALONE, node, path)
    if problems or found is None:
        raise ConfigError("the configuration is refused", problems=_lines(path, problems))
    return NodePlace(found.node.name, found.node.data_dir, run_dir_of(found.node.data_dir))


def load_acl(path: Path | str) -> tuple[AclRuleSettings, ...]:
    """The rules in the ACL file ``path``.

    Raises:
        ConfigError: the file cannot be read, or is wrong; ``problems`` names each error in the order of the file.
    """
    path = Path(path)
    document = read_document(path, f"write acl: {_EXAMPLES['acl']}")
    acl, problems = _validate(_ACL_FILE, document, path)
    if problems or acl is None:
        raise ConfigError("the ACL file is refused", problems=_lines(path, problems))
    rules: tuple[AclRuleSettings, ...] = acl.acl
    return rules


def _validate(kind: TypeAdapter[Any], document: YamlDocument, path: Path) -> tuple[Any, list[Problem]]:
    problems = list(document.problems)
    try:
        return kind.validate_python(document.data, context={"folder": path.parent}), problems
    except ValidationError as error:  # it has the values in it, and goes no further
        found = error.errors(include_url=False)
    for details in found:
        problems += _problems(details, document, kind)
    return None, problems


def _with_files(settings: NodeSettings) -> NodeSettings:
    """``settings`` with the rules of their ACL files; the other files are only looked at.

    Raises:
        ConfigError: others can change a file of secrets or authorities, or a file is wrong; ``problems`` are those of all of them.
    """
    own = [listener.access for listener in settings.listeners if listener.access is not None]
    owner = trusted_files.owner_of(settings.node.data_dir)
    if faults := [fault for path in named_by(settings, TRUSTED_KEYS) if (fault := trusted_files.fault(path, owner))]:
        raise ConfigError("others can change files of secrets", problems=list(dict.fromkeys(faults)))
    reads: list[tuple[Callable[[str], Any], str | None]] = []
    for access in (settings.access, *own):
        reads += (read_passwords, access.password_file), (load_acl, access.acl_file)
    reads.append((read_tokens, None if settings.http is None else settings.http.tokens_file))
    problems: list[str] = []
    content: dict[str | None, Any] = {}
    for read, path in dict.fromkeys(reads):
        try:
            content[path] = None if path is None else read(path)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError("the access files are refused", problems=list(dict.fromkeys(problems)))

    def whole(access: AccessSettings) -> AccessSettings:
        return access if access.acl_file is None else replace(access, acl=content[access.acl_file])

    listeners = tuple(
        listener if listener.access is None else replace(listener, access=whole(listener.access)) for listener in settings.listeners
    )
    return replace(settings, access=whole(settings.access), listeners=listeners)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file, for editors."""
    schema = _NODE.json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Bascule configuration"}


def schema_text() -> str:
    """The JSON Schema as the text of its file."""
    return json.dumps(json_schema(), indent=2) + "\n"


# --- problems ---------------------------------------------------------------------------------------------------------------


def _lines(path: Path, problems: list[Problem]) -> list[str]:
    """The problems in the order of the file, the first of each key only: what follows a wrong value is noise."""
    first: dict[Key, Problem] = {}
    for problem in problems:
        first.setdefault(problem.key, problem)
    in_order = sorted(
        first.values(),
        key=lambda each: (each.place.file not in (None, path), str(each.place.file), each.place.line, each.place.column),
    )
    return [problem.line(path) for problem in in_order]


def _problems(details: ErrorDetails, document: YamlDocument, kind: TypeAdapter[Any]) -> list[Problem]:
    """One of pydantic's errors, in words for the operator."""
    key: Key = details["loc"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, Inconsistent):
        return [Problem(document.place((*key, *below)), (*key, *below), message) for below, message in cause.problems]
    if details["type"] == "too_short" and details["input"]:
        return []  # pydantic does not count items that are wrong; each of them is told
    message = _message(details, key, kind)
    return [Problem(document.place(key, of_key=details["type"] == "extra_forbidden"), key, message)]


def _message(details: ErrorDetails, key: Key, kind: TypeAdapter[Any]) -> str:
    context = details.get("ctx", {})
    value = details["input"]
    path = _path(key)
    match details["type"]:
        case "value_error":
            return str(context["error"])
        case "missing":
            return f"is missing; write {key[-1]}: {_EXAMPLES[path]}"
        case "extra_forbidden" if path in NOT_YET:
            return f"{NOT_AVAILABLE}: {NOT_YET[path]}; remove it"
        case "extra_forbidden" if path in _HINTS:
            return f"unknown key; {_HINTS[path]}"
        case "extra_forbidden":
            known = sorted(_fields(key[:-1], kind))
            return f"unknown key{nearest(str(key[-1]), known)}; known here: {', '.join(known)}"
        case "literal_error":
            choices = [choice.strip("'") for choice in str(context["expected"]).replace(" or ", ", ").split(", ")]
            return f"{shown(value)} is not one of {', '.join(choices)}{nearest(str(value), choices)}"
        case "tuple_type":
            return f"{shown(value)} is not a list; write [...], or lines that begin with a dash"
        case "too_short":
            return f"must have at least one; such as {_EXAMPLES[path]}"
        case "model_type" if path in _TLS and isinstance(value, bool):
            return (
                f"{shown(value)} is not a mapping; {_TLS[path]} switches TLS on, tls: is for its files, such as {{ca_file: ca.pem}}"
            )
        case "model_type" | "dict_type":
            return f"{shown(value)} is not a mapping; write {{key: value}}, or indented lines key: value"
        case "string_pattern_mismatch":
            return f"{shown(value)} does not match {context['pattern']}"
        case _:
            return details["msg"]


def _path(key: Key) -> str:
    """``key`` without list positions: ``bridges.remote.addresses``."""
    return ".".join(part for part in key if isinstance(part, str))


def _fields(key: Key, kind: TypeAdapter[Any]) -> set[str]:
    """The keys that the part of ``kind`` at ``key`` knows."""
    schema = kind.json_schema()
    at: dict[str, Any] = schema
    for part in key:
        at = at["items"] if isinstance(part, int) else at["properties"][part]
        at = next((option for option in at.get("anyOf", []) if "$ref" in option or "items" in option), at)
        if "$ref" in at:
            at = schema["$defs"][at["$ref"].rpartition("/")[2]]
    return set(at["properties"])


def _whole_file(document: YamlDocument) -> list[Problem]:
    """Values that must differ between list items. It reads the plain values, so it speaks even when others of them are wrong."""
    found: list[tuple[Key, str]] = []
    binds: dict[tuple[str, int], str] = {}
    for index, listener in _mappings(document.data.get("listeners")):
        bind = listener.get("bind")
        try:
            unix = isinstance(bind, str) and bind.startswith(UNIX)
            address = (os.path.normpath(str(bind).removeprefix(UNIX)), 0) if unix else parse_address(bind, port_min=1)
        except ValueError:
            continue  # wrong, which is told elsewhere; or port 0, which is never the same
        key: Key = ("listeners", index, "bind")
        taken = next((binds[other] for other in binds if _both_want(address, other)), None)
        if taken is not None:
            found.append((key, f"{shown(listener['bind'])} is bound already by {taken}; each listener needs its own"))
        binds.setdefault(address, f"listeners[{index}]")
    for section, prefix in (("http", ""), ("control", "tcp://")):
        one = document.data.get(section)
        try:
            address = parse_address(str(one.get("bind")).removeprefix(prefix), port_min=1) if isinstance(one, dict) else ("", 0)
        except ValueError:
            continue
        if address[1] and (taken := next((binds[other] for other in binds if _both_want(address, other)), None)) is not None:
            found.append(((section, "bind"), f"{address[1]} is the port of {taken} already; take another"))
        binds.setdefault(address, section)
    names: dict[object, int] = {}
    for index, bridge in _mappings(document.data.get("bridges")):
        name = bridge.get("name")
        if isinstance(name, str) and names.setdefault(name, index) != index:
            found.append(
                (
                    ("bridges", index, "name"),
                    f"{shown(name)} is taken by bridges[{names[name]}]; each bridge needs a name of its own",
                )
            )
        for direction in ("local_subscriptions", "remote_subscriptions"):
            found += _rule_names(bridge.get(direction), ("bridges", index, direction))
    return [Problem(document.place(key), key, message) for key, message in found]


def _both_want(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether two listeners cannot be bound together: an address that stands for all takes the port of every other."""
    hosts = one[0].lower(), other[0].lower()
    if one[1] != other[1]:
        return False
    return hosts[0] == hosts[1] or (
        one[1] != 0 and ("::" in hosts or ("0.0.0.0" in hosts and not any(":" in host for host in hosts)))
    )


def _rule_names(rules: object, key: Key) -> list[tuple[Key, str]]:
    found: list[tuple[Key, str]] = []
    names: set[str] = set()
    for index, rule in _mappings(rules):
        name = rule.get("name")
        if not isinstance(name, str):
            continue
        if name in names:
            found.append(
                ((*key, index, "name"), f"{shown(name)} is the name of an earlier rule; each rule of a bridge needs its own")
            )
        names.add(name)
    return found


def _mappings(value: object) -> list[tuple[int, dict[str, object]]]:
    return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)] if isinstance(value, tuple) else []


def main(argv: list[str] | None = None) -> int:
    """Write the JSON Schema to a file, or to standard output."""
    parser = argparse.ArgumentParser(
        prog="python -m supervisor.config.loading", description="Write the JSON Schema of the configuration."
    )
    parser.add_argument("--schema", metavar="FILE", required=True, help="where to write it; - is standard output")
    target = parser.parse_args(argv).schema
    if target == "-":
        sys.stdout.write(schema_text())
    else:
        Path(target).write_text(schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
