"""The kinds of value a configuration key can take: durations, sizes, numbers, words, names, topic filters, files, addresses.

One of the users of pydantic, with ``supervisor/config/keys.py`` and ``supervisor/config/loading.py``: it gives each kind its check
and its place in the JSON Schema. How a value is written is in ``supervisor/units.py``; which key takes which kind is the model's
business.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from supervisor.config.addresses import parse_remote_address
from supervisor.units import UNLIMITED, check_name, parse_address, parse_duration, parse_size, shown, write_duration, write_size
from wire.door.access_rules import pattern_fault, prefix_fault
from wire.mqtt.topics import filter_fault

SECONDS_MAX = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Duration:
    """A key that takes a duration; the model holds seconds. whole: MQTT carries whole seconds. unlimited: that word is infinity."""

    min_s: float = 0.0
    max_s: float = SECONDS_MAX
    whole: bool = False
    unlimited: bool = False

    def parse(self, value: object) -> float | None:
        if self.unlimited and value == UNLIMITED:
            return None
        seconds = parse_duration(value)
        if not self.min_s <= seconds <= self.max_s:
            raise ValueError(f"{shown(value)} is out of range; from {write_duration(self.min_s)} to {write_duration(self.max_s)}")
        if self.whole and not seconds.is_integer():
            raise ValueError(f"{shown(value)} is not in whole seconds, which is all that MQTT can carry; such as 1s")
        return seconds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, object]:
        return _amount_schema(r"\d+(\.\d+)?(ms|s|m|h|d)", self.unlimited, ["250ms", "60s", "2m", "7d"])


@dataclass(frozen=True, slots=True)
class Size:
    """A key that takes a size; the model holds bytes. unlimited: that word switches the limit off."""

    min_bytes: int = 1
    max_bytes: int = 1 << 60
    unlimited: bool = False

    def parse(self, value: object) -> int | None:
        if self.unlimited and value == UNLIMITED:
            return None
        size_bytes = parse_size(value)
        if not self.min_bytes <= size_bytes <= self.max_bytes:
            raise ValueError(f"{shown(value)} is out of range; from {write_size(self.min_bytes)} to {write_size(self.max_bytes)}")
        return size_bytes

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, object]:
        return _amount_schema(r"\d+(\.\d+)?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)", self.unlimited, ["64KiB", "64MiB", "50GiB"])


@dataclass(frozen=True, slots=True)
class Number:
    """A key that takes a number from ``least`` to ``most``. unlimited: that word switches the limit off."""

    least: float
    most: float
    whole: bool = True
    unlimited: bool = False

    def parse(self, value: object) -> float | None:
        if self.unlimited and value == UNLIMITED:
            return None
        kind = "whole number" if self.whole else "number"
        word = f", or {UNLIMITED}" if self.unlimited else ""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            raise ValueError(f"{shown(value)} is not a {kind}; from {self.least:g} to {self.most:,g}{word}, without quotes")
        if not self.least <= value <= self.most:
            raise ValueError(f"{value} is out of range; from {self.least:g} to {_plain(self.most)}{word}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, object]:
        number: dict[str, object] = {"type": "integer" if self.whole else "number", "minimum": self.least, "maximum": self.most}
        return {"anyOf": [number, {"const": UNLIMITED}]} if self.unlimited else number


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _amount_schema(pattern: str, unlimited: bool, examples: list[str]) -> dict[str, object]:
    return {"type": "string", "pattern": f"^({pattern}{f'|{UNLIMITED}' if unlimited else ''})$", "examples": examples}


def _text(value: object) -> object:
    if not isinstance(value, str):
        hint = f'; put it in quotes, "{value}"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
        hint = hint or ('; put it in quotes, "true" or "false", if text is meant' if isinstance(value, bool) else "")
        raise ValueError(f"{shown(value)} is not text{hint}")
    if "\0" in value or len(value.encode()) > 65535:
        raise ValueError("text must have no null character and at most 65535 bytes")
    return value


def _flag(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not true or false; write true or false, without quotes")
    return value


def _filled(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    return value


def _filter(value: str) -> str:
    if value.startswith("$share/"):
        raise ValueError(f"{shown(value)} is a shared subscription; a rule takes plain topic filters, such as plant/#")
    fault = filter_fault(value)
    if fault is not None:
        raise ValueError(f"{shown(value)} is not a topic filter ({fault}); write it such as plant/# or plant/+/state")
    return value


def _resolve(value: str, info: ValidationInfo) -> str:
    if "://" in value:
        raise ValueError(f"{shown(value)} is a URL; write a path, of a folder or file here or on a mounted share")
    folder = Path((info.context or {}).get("folder", "."))
    return os.path.normpath(folder.absolute() / os.path.expanduser(value))


def _readable(value: str) -> str:
    path = Path(value)
    if not os.path.exists(path):
        raise ValueError(f"there is no file {path}; relative paths count from the configuration file's folder")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{path} is not readable by this user")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    return value


def _folder(value: str) -> str:
    path = Path(value)
    nearest_existing = next(parent for parent in (path, *path.parents) if os.path.exists(parent))
    if not nearest_existing.is_dir():
        raise ValueError(f"{nearest_existing} is not a folder; give a folder that exists or can be made")
    return value


def _bind(value: str, info: ValidationInfo) -> str:
    if not value.startswith(UNIX):
        parse_address(value, port_min=0)
        return value
    path = _resolve(_filled(value.removeprefix(UNIX)), info)
    if len(os.fsencode(path)) > UNIX_PATH_MAX_BYTES:
        raise ValueError(f"{path} is too long for a Unix socket, which may have {UNIX_PATH_MAX_BYTES} bytes; take a shorter one")
    if not os.path.isdir(os.path.dirname(path)):
        raise ValueError(f"there is no folder {os.path.dirname(path)}; make it, with the rights that clients need")
    return UNIX + path


def _tcp_bind(value: str) -> str:
    parse_address(value, port_min=0)
    return value


def _network(value: str) -> str:
    try:
        network = ip_network(value)
    except ValueError as error:
        raise ValueError(f"{shown(value)} is no address and no network ({error}); such as 10.0.0.7 or 10.1.0.0/24") from None
    if not network.prefixlen:
        raise ValueError(f"{shown(value)} is everybody, and whoever is believed may be anybody; name the proxies")
    return str(network)


def _control_bind(value: str) -> str:
    if not value.startswith(TCP):
        raise ValueError(f"{shown(value)} is no address on the network; write it such as tcp://0.0.0.0:7000")
    host, _ = parse_address(value.removeprefix(TCP), port_min=0)
    try:
        ip_address(host)
    except ValueError:
        raise ValueError(
            f"{host} is a name; write an address of this machine, such as tcp://0.0.0.0:7000 for all of them"
        ) from None
    return value


def _mode(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch("0?[0-7]{3}", value):
        raise ValueError(f'{shown(value)} is not a file mode; write three octal digits in quotes, such as "0660"')
    return value


def _user(value: str) -> str:
    if not value or any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):  # a certificate's may have colons
        raise ValueError(f"{shown(value)} cannot be a user name; write one of the password file, or one that a certificate gives")
    return value


def _pattern(value: str) -> str:
    fault = pattern_fault(value)
    if fault is not None:
        raise ValueError(f"{shown(value)} is not a topic pattern ({fault}); write it such as plant/# or site/%u/+")
    return value


def _prefix(value: str) -> str:
    fault = prefix_fault(value)
    if fault is not None:
        raise ValueError(f"{shown(value)} is not the beginning of a topic ({fault}); write it such as replies/%c")
    return value


def _collector_url(value: str) -> str:
    example = "http://collector:4318"
    if "://" not in value:
        raise ValueError(f"{shown(value)} is not a URL; write it such as {example}")
    try:
        url = urlsplit(value)
    except ValueError:
        raise ValueError(f"{shown(value)} is not a URL; write it such as {example}") from None
    if url.scheme not in ("http", "https"):
        raise ValueError(f"{url.scheme} is not spoken, but OTLP over HTTP; write it such as {example}")
    if "@" in url.netloc:
        raise ValueError("a password in the URL is read by everyone who reads the status; write headers: {authorization: ...}")
    if url.query or url.fragment:
        raise ValueError(f"what follows {'?' if url.query else '#'} means nothing to a collector; remove it")
    try:
        parse_address(url.netloc if ":" in url.netloc.rpartition("]")[2] else f"{url.netloc}:1")
    except ValueError:
        raise ValueError(f"{shown(value)} names no host; write it such as {example}") from None
    return value


def _log_server(value: str) -> str:
    example = "nats://10.0.0.1:4222"
    if "@" in value:
        raise ValueError("who logs in does not belong into the address; write replication.user and password_file")
    try:
        url = urlsplit(value)
        if url.scheme not in ("nats", "tls") or url.path not in ("", "/") or url.query or url.fragment:
            raise ValueError(value)
        parse_address(url.netloc)
    except ValueError:
        raise ValueError(f"{shown(value)} is not the address of a NATS server; write it such as {example}") from None
    return value


def _stream_name(value: str) -> str:
    if not _STREAM_NAME.fullmatch(value):
        raise ValueError(f"{shown(value)} is not a name; 1 to 60 of A-Z a-z 0-9 _ -")
    return value


def _headers(value: object) -> object:
    """Names and values of HTTP headers; no sentence tells a value, which may be secret."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is not a mapping; such as {{authorization: Bearer TOKEN}}")
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} is not the name of a header; such as authorization")
        if not isinstance(text, str):
            raise ValueError(f"what {name} has is not text; put it in quotes")
        if not _HEADER_VALUE.fullmatch(text):
            raise ValueError(f"what {name} has cannot be sent: more than one line, a blank at an end, or no ASCII")
    if len({name.lower() for name in value}) < len(value):
        raise ValueError("a name stands there twice; the case of its letters makes no difference")
    return value


_STREAM_NAME = re.compile("[A-Za-z0-9_-]{1,60}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"([!-~]([ -~\t]*[!-~])?)?")

TCP = "tcp://"
UNIX = "unix:"
UNIX_PATH_MAX_BYTES = 107

Text = Annotated[str, BeforeValidator(_text)]
Name = Annotated[Text, AfterValidator(check_name), Field(pattern="^[A-Za-z0-9_-]{1,64}$")]
Flag = Annotated[bool, BeforeValidator(_flag)]
Filled = Annotated[Text, AfterValidator(_filled)]
Filter = Annotated[Text, AfterValidator(_filter)]
User = Annotated[Text, AfterValidator(_user)]
TopicPattern = Annotated[Text, AfterValidator(_pattern)]
TopicPrefix = Annotated[Text, AfterValidator(_prefix)]
File = Annotated[Filled, AfterValidator(_resolve), AfterValidator(_readable)]
Folder = Annotated[Filled, AfterValidator(_resolve), AfterValidator(_folder)]
Bind = Annotated[Text, AfterValidator(_bind)]
ControlBind = Annotated[Text, AfterValidator(_control_bind)]
CollectorUrl = Annotated[Text, AfterValidator(_collector_url), Field(pattern="^https?://")]
LogServer = Annotated[Text, AfterValidator(_log_server), Field(pattern="^(nats|tls)://")]
StreamName = Annotated[Text, AfterValidator(_stream_name), Field(pattern="^[A-Za-z0-9_-]{1,60}$")]
Headers = Annotated[dict[str, str], BeforeValidator(_headers)]
TcpBind = Annotated[Text, AfterValidator(_tcp_bind)]
Network = Annotated[Text, AfterValidator(_network)]
Mode = Annotated[str, BeforeValidator(_mode), Field(pattern="^0?[0-7]{3}$")]
Address = Annotated[Text, AfterValidator(lambda value: (parse_remote_address(value), value)[1])]
