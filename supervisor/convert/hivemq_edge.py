"""HiveMQ Edge's ``config.xml``: its bridges, and the TCP and WebSocket listeners before them.

The file is read by expat, which fetches nothing; entities of its own, which can be made to grow without end, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from supervisor.config.yaml_file import Key
from supervisor.convert.draft import Draft, Line, literally
from supervisor.convert.options import HIVEMQ_EDGE_OPTIONS, Fate, Option
from supervisor.convert.values import cipher_name, name_like, take
from wire.errors import ConfigError
from wire.mqtt.topics import filter_fault
from wire.routing.hop_count import HIVEMQ_NAME

OPTIONS = {option.name: option for option in HIVEMQ_EDGE_OPTIONS}
_RULES = {
    "forwarded-topics/forwarded-topic": "local_subscriptions",
    "remote-subscriptions/remote-subscription": "remote_subscriptions",
}
_DONE = (
    *(
        "id",
        "remote-broker/host",
        "remote-broker/port",
        "remote-broker/tls/enabled",
        "remote-broker/websocket/enabled",
    ),
    *("remote-broker/authentication/mqtt-simple-authentication/password", "remote-broker/websocket/server-path"),
    *("remote-broker/tls/protocols/protocol", "remote-broker/tls/cipher-suites/cipher-suite"),
)
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_ELSEWHERE = {
    "admin-api": Option("", says="the page and the REST API are as http says", fate=Fate.NEVER),
    "anonymous-usage-statistics": Option("", says="nothing is told to anybody", fate=Fate.NEEDLESS),
    "protocol-adapters": Option("", says="let what speaks to the devices publish by MQTT", fate=Fate.NEVER),
}
_NOT_HERE = Option("", says="it is not about bridges", fate=Fate.NEVER)
_LISTENERS = {"tcp-listener": "tcp", "websocket-listener": "ws"}
_VARIABLE = re.compile(r"\$\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(slots=True)
class HivemqElement:
    """An element: its name, the line it begins in, its text, what is in it."""

    name: str
    number: int
    text: str = ""
    below: list[HivemqElement] = field(default_factory=list)

    def leaves(self, path: str = "") -> list[tuple[str, HivemqElement]]:
        """The elements in it that have none themselves, each with its path."""
        return [
            leaf for one in self.below for leaf in (one.leaves(f"{path}{one.name}/") if one.below else [(f"{path}{one.name}", one)])
        ]

    def all(self, path: str) -> list[HivemqElement]:
        """The elements at ``path`` below it."""
        name, _, rest = path.partition("/")
        found = [one for one in self.below if one.name == name]
        return [deeper for one in found for deeper in one.all(rest)] if rest else found


def from_hivemq_edge(path: Path, text: str, draft: Draft) -> None:
    """Put into ``draft`` what ``text``, of the file ``path``, says about bridges and listeners.

    Raises:
        ConfigError: it is no XML.
    """
    root = _parsed(path, text)
    _listeners(draft, root, path)
    draft.put(("access", "allow_anonymous"), True, "HiveMQ Edge's default: it asks its MQTT clients for no password")
    for bridge in root.all("mqtt-bridges/mqtt-bridge"):
        _bridge(draft, bridge, path)
    for one in root.below:
        if one.name not in ("mqtt-bridges", "mqtt-listeners", "config-version"):
            draft.leave(Line(path.name, one.number, one.name), _ELSEWHERE.get(one.name, _NOT_HERE))


def _parsed(path: Path, document: str) -> HivemqElement:
    parser = expat.ParserCreate()
    top = HivemqElement("", 0)
    open_now = [top]

    def begin(name: str, _: dict[str, str]) -> None:
        element = HivemqElement(name, parser.CurrentLineNumber)
        open_now[-1].below.append(element)
        open_now.append(element)

    def text(piece: str) -> None:
        open_now[-1].text += piece

    def refuse(*_: object) -> None:
        raise ConfigError("it cannot be converted", problems=[f"{path}:{parser.CurrentLineNumber}: entities are not read"])

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: open_now.pop()
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(document, True)
    except expat.ExpatError as error:
        words = f"not XML: {expat.ErrorString(error.code)}"
        raise ConfigError("it cannot be converted", problems=[f"{path}:{error.lineno}: {words}"]) from error
    return top.below[0]


def _line(path: Path, name: str, element: HivemqElement) -> Line:
    return Line(path.name, element.number, name, " ".join(element.text.split()))


def _listeners(draft: Draft, root: HivemqElement, path: Path) -> None:
    for part in (one for group in root.all("mqtt-listeners") for one in group.below):
        said = {one.name: one.text.strip() for one in part.below}
        line = _line(path, part.name, part)
        if part.name not in _LISTENERS or "port" not in said:
            draft.refuse(line, "listeners with TLS have their keys in JKS: write listeners[].tls with PEM files")
            continue
        key: Key = ("listeners", draft.count("listeners"))
        draft.put((*key, "bind"), f"{said.get('bind-address') or '0.0.0.0'}:{said['port']}", line)
        if part.name == "websocket-listener":
            draft.put((*key, "protocol"), "ws", line)
            draft.put((*key, "websocket_path"), "/" + said.get("path", "mqtt").lstrip("/"), line)
    if not draft.count("listeners"):
        draft.put(("listeners", 0, "bind"), "127.0.0.1:1883", "no listener could be taken")


def _bridge(draft: Draft, bridge: HivemqElement, path: Path) -> None:
    lines = {name: _line(path, name, one) for name, one in bridge.leaves()}  # of what stands there once
    head = lines.get("id", _line(path, "mqtt-bridge", bridge))
    host = lines.get("remote-broker/host")
    if host is None or not any(bridge.all(rules) for rules in _RULES):
        draft.refuse(head, "it has no host, or no topics, so nothing crosses")
        return
    base: Key = ("bridges", draft.count("bridges"))
    remote: Key = (*base, "remote")
    draft.put((*base, "name"), name_like(head.value), head)
    port = lines.get("remote-broker/port")
    draft.put((*remote, "addresses"), [_filled(f"{host.value}:{port.value if port else 1883}")], host)
    draft.put((*remote, "client_id"), _filled(head.value), "HiveMQ Edge's default: the id")
    _transport(draft, remote, lines)
    draft.put((*base, "loop_prevention", "hop_property"), HIVEMQ_NAME, "the property that HiveMQ Edge counts in")
    for name, element in bridge.leaves():
        if not name.startswith(tuple(_RULES)) and name not in _DONE:
            _leaf(draft, base, path, name, element)
    _encryption(draft, (*remote, "tls"), [_line(path, name, one) for name, one in bridge.leaves()])
    password = lines.get("remote-broker/authentication/mqtt-simple-authentication/password")
    if password is not None:
        _password(draft, remote, password, name_like(head.value))
    for rules, key in _RULES.items():
        for rule in bridge.all(rules):
            _rule(draft, (*base, key, draft.count(*base, key)), rules, rule, path)


def _leaf(draft: Draft, base: Key, path: Path, name: str, element: HivemqElement) -> None:
    line = _line(path, name, element)
    option = OPTIONS.get(name)
    if option is None:
        draft.refuse(line, "it is not known")
    else:
        take(draft, base, Line(line.file, line.number, name, _filled(line.value)), option, path.parent)


def _filled(text: str) -> str:
    """``text`` with variables as we write them; nothing else in it is a reference."""
    return _VARIABLE.sub(r"${\1}", literally(text))


def _transport(draft: Draft, remote: Key, lines: dict[str, Line]) -> None:
    tls, web = (lines.get(f"remote-broker/{which}/enabled") for which in ("tls", "websocket"))
    secure, over = (one is not None and one.value == "true" for one in (tls, web))
    if secure or over:
        word = {(True, False): "tls", (False, True): "ws", (True, True): "wss"}[secure, over]
        draft.put((*remote, "transport"), word, (tls if secure else web) or "")
    if over and (server_path := lines.get("remote-broker/websocket/server-path")) is not None:
        draft.put((*remote, "websocket_path"), "/" + server_path.value.lstrip("/"), server_path)


def _encryption(draft: Draft, tls: Key, lines: Sequence[Line]) -> None:
    """Say which TLS is spoken, by which ciphers."""
    versions = [line for line in lines if line.name == "remote-broker/tls/protocols/protocol"]
    for line in versions:
        if line.value not in _VERSIONS:
            draft.refuse(line, "TLS 1.2 is the oldest that is spoken")
    if versions and all(line.value == "TLSv1.3" for line in versions):
        draft.put((*tls, "min_version"), "tls1.3", versions[0])
    elif kept := [line for line in versions if line.value == "TLSv1.2"]:
        draft.put((*tls, "min_version"), "tls1.2", kept[0])
    ciphers: list[str] = []
    for line in lines:
        if line.name == "remote-broker/tls/cipher-suites/cipher-suite":
            try:
                ciphers.append(cipher_name(line.value))
            except ValueError as error:
                draft.refuse(line, str(error))
            else:
                draft.put((*tls, "ciphers"), ":".join(ciphers), line)


def _password(draft: Draft, remote: Key, line: Line, bridge: str) -> None:
    filled = _filled(line.value)
    if (variable := _VARIABLE.fullmatch(literally(line.value))) is not None:
        draft.put((*remote, "password_env"), variable[1], line)
        return
    if filled != literally(line.value):
        draft.refuse(line, f"write what {filled} stands for into a file, and its name into password_file")
        return
    draft.add_file(f"secrets/{bridge}.password", f"{line.value}\n")
    draft.put((*remote, "password_file"), f"secrets/{bridge}.password", line)


def _rule(draft: Draft, key: Key, rules: str, rule: HivemqElement, path: Path) -> None:
    line = _line(path, rules, rule)
    values: dict[str, object] = {"filters": [], "excludes": [], "preserve_retain": False}
    for name, element in rule.leaves():
        text = element.text.strip()
        option = OPTIONS.get(f"{rules}/{name}")
        match name:
            case "filters/mqtt-topic-filter" | "excludes/mqtt-topic-filter" if filter_fault(text) is None:
                values[name.partition("/")[0]] = [*values[name.partition("/")[0]], literally(text)]  # type: ignore[misc]
            case "destination":
                values["destination"] = text
            case "max-qos" if text in ("0", "1", "2"):
                values["max_qos"] = int(text)
            case "preserve-retain" if text in ("true", "false"):
                values["preserve_retain"] = text == "true"
            case "custom-user-properties/user-property/key" | "custom-user-properties/user-property/value":
                pass
            case _ if option is not None and option.fate is not Fate.KEY:
                draft.leave(_line(path, f"{rules}/{name}", element), option)
            case _:
                draft.refuse(_line(path, f"{rules}/{name}", element), "it is not known, or has no such value")
    if properties := {
        literally(one.all("key")[0].text.strip()): literally(one.all("value")[0].text.strip())
        for one in rule.all("custom-user-properties/user-property")
        if one.all("key") and one.all("value")
    }:
        values["user_properties"] = properties
    draft.put(key, {name: value for name, value in values.items() if value != []}, line)
