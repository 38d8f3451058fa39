"""How a value of each setting is written in the file: its check, its place in the JSON Schema, and the value that it stands for.

With ``supervisor/config/section_model.py`` and ``supervisor/config/loading.py`` it is one of the users of pydantic. How an
amount is read is in ``supervisor/units.py``; which setting is written how is in ``wire/config_settings.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import MISSING
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from actors.bridge import dial_hours
from supervisor.config.addresses import parse_remote_address
from supervisor.config.setting_annotations import Setting
from supervisor.inconsistent_settings import Inconsistent
from supervisor.units import (
    check_name,
    nearest,
    parse_address,
    parse_duration,
    parse_size,
    shown,
    write_duration,
    write_size,
)
from wire.access.access_rules import pattern_fault, prefix_fault
from wire.config_settings import DAY_S, TCP, UNIX, OnlySettings, RefusalSettings
from wire.exchange.refusal_policy import ACTIONS, DEFAULT_REASON, REASONS, RETRY, TOO_LARGE, code_of
from wire.mqtt.topics import filter_fault, parse_shared
from wire.setting_kinds import Duration, Number, SettingForm, Size


def type_of(one: Setting) -> Any:
    """The type by which pydantic reads a value, or an item, of a setting that has no others below it."""
    if one.amount is not None:
        parse, schema = _amount(one.amount, whole=one.held is int, word="" if one.never is MISSING else one.word)
        if one.never is MISSING:
            return Annotated[Any, PlainValidator(parse), WithJsonSchema(schema)]
        return Annotated[
            Any, PlainValidator(lambda value: one.never if value == one.word else parse(value)), WithJsonSchema(schema)
        ]
    if one.choices:
        words = dict(one.choices)
        return Annotated[Literal[tuple(words)], AfterValidator(lambda word: words[word])]
    if one.written is not None:
        return WRITTEN[one.written]
    return {str: Text, bool: Flag}.get(one.item, one.item)


def _amount(amount: Duration | Size | Number, *, whole: bool, word: str) -> tuple[Callable[[object], Any], dict[str, object]]:
    """How the amount is read, and its JSON Schema. word: it may be written so, too; empty: it may not."""
    match amount:
        case Duration():
            schema = _amount_schema(r"\d+(\.\d+)?(ms|s|m|h|d)", word, ["250ms", "60s", "2m", "7d"])
            return (lambda value: _duration(amount, value, whole=whole)), schema
        case Size():
            units = r"\d+(\.\d+)?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)"
            return (lambda value: _size(amount, value)), _amount_schema(units, word, ["64KiB", "64MiB", "50GiB"])
        case Number():
            number: dict[str, object] = {"type": "integer" if whole else "number", "minimum": amount.least, "maximum": amount.most}
            schema = {"anyOf": [number, {"const": word}]} if word else number
            return (lambda value: _number(amount, value, whole=whole, word=word)), schema


def _duration(amount: Duration, value: object, *, whole: bool) -> float:
    seconds = parse_duration(value)
    if not amount.min_s <= seconds <= amount.max_s:
        raise ValueError(f"{shown(value)} is out of range; from {write_duration(amount.min_s)} to {write_duration(amount.max_s)}")
    if whole and not seconds.is_integer():
        raise ValueError(f"{shown(value)} is not in whole seconds, which is all that can be told the other end; such as 1s")
    return int(seconds) if whole else seconds


def _size(amount: Size, value: object) -> int:
    size_bytes = parse_size(value)
    if not amount.min_bytes <= size_bytes <= amount.max_bytes:
        raise ValueError(f"{shown(value)} is out of range; from {write_size(amount.min_bytes)} to {write_size(amount.max_bytes)}")
    return size_bytes


def _number(amount: Number, value: object, *, whole: bool, word: str) -> float:
    or_word = f", or {word}" if word else ""
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "whole number" if whole else "number"
        raise ValueError(f"{shown(value)} is not a {kind}; from {amount.least:g} to {amount.most:,g}{or_word}, without quotes")
    if not amount.least <= value <= amount.most:
        raise ValueError(f"{value} is out of range; from {amount.least:g} to {_plain(amount.most)}{or_word}")
    return value if whole else float(value)


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _amount_schema(pattern: str, word: str, examples: list[str]) -> dict[str, object]:
    return {"type": "string", "pattern": f"^({pattern}{f'|{word}' if word else ''})$", "examples": examples}


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
    if (shared := parse_shared(value)) is not None:
        plain, group = shared.topic_filter or "plant/#", shared.share_name or "GROUP"
        raise ValueError(
            f"{shown(value)} is a shared subscription; in remote_subscriptions, write filters: [{plain}] and shared: {group}"
        )
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


def _address(value: str) -> str:
    try:
        return str(ip_address(value))
    except ValueError:
        raise ValueError(f"{shown(value)} is no address; write one of this machine, such as 10.0.0.7") from None


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


def _mode(value: object) -> int:
    if not isinstance(value, str) or not re.fullmatch("0?[0-7]{3}", value):
        raise ValueError(f'{shown(value)} is not a file mode; write three octal digits in quotes, such as "0660"')
    return int(value, 8)


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


def _secret_url(value: str) -> str:
    """A URL of which no sentence tells more than its scheme."""
    example = "https://hooks.example/services/T0/B0"
    try:
        url = urlsplit(value)
        netloc = url.netloc
        parse_address(netloc if ":" in netloc.rpartition("]")[2] else f"{netloc}:1")
    except ValueError:
        raise ValueError(f"this is no URL of a web service; write it such as {example}") from None
    if url.scheme not in ("http", "https"):
        raise ValueError(f"{shown(url.scheme)} is not spoken, but http and https; write it such as {example}")
    if "@" in netloc:
        raise ValueError("user and password do not belong into the URL; write headers: {authorization: ...}")
    return value


def _mail_server(value: str) -> str:
    if "://" in value:
        raise ValueError(f"{shown(value)} is a URL; write host and port, such as smtp.example:587")
    try:
        parse_address(value)
    except ValueError:
        raise ValueError(f"{shown(value)} names no host and port; write it such as smtp.example:587") from None
    return value


def _proxy_url(value: str) -> str:
    example = "http://proxy.example:3128 or socks5h://127.0.0.1:1080"
    scheme, _, place = value.partition("://")
    if scheme not in ("http", "socks5", "socks5h"):
        raise ValueError(f"{shown(value)} is no proxy that is spoken with; write it such as {example}")
    if "@" in place:
        raise ValueError("who the node is there stands beside it: username and password_file")
    try:
        parse_address(place.removesuffix("/"))
    except ValueError:
        raise ValueError(f"{shown(value)} names no host and port; write it such as {example}") from None
    return value.removesuffix("/")


def _log_server(value: str) -> str:
    example = "nats://10.0.0.1:4222"
    if "@" in value:
        raise ValueError("user and password do not belong into the address; write replication.user and password_file")
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


def _class_name(value: str) -> str:
    if not _CLASS_NAME.fullmatch(value):
        raise ValueError(f"{shown(value)} is not the name of a class; a small letter, and up to 31 more of a-z 0-9 _ -")
    return value


def _refusals(value: object) -> RefusalSettings:
    """The map of reasons to actions with the defaults of what it leaves out, each code under one key."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is not a mapping; such as {{{DEFAULT_REASON}: dead-letter, quota-exceeded: retry}}")
    problems: list[tuple[tuple[str | int, ...], str]] = []
    actions: dict[int, str] = {}
    for reason, action in value.items():
        if action not in ACTIONS:
            problems.append(((reason,), f"{shown(action)} is not one of {', '.join(ACTIONS)}{nearest(str(action), ACTIONS)}"))
        if reason == DEFAULT_REASON:
            continue
        try:
            code = code_of(reason)
        except ValueError as error:
            known = [DEFAULT_REASON, *REASONS]
            problems.append(((reason,), f"{error}{nearest(reason, known)}; known are {', '.join(known)}, and codes such as 0x99"))
            continue
        if code in actions:
            problems.append(((reason,), f"0x{code:02x} is given twice, by name and by code; keep one"))
        if code == TOO_LARGE and action == RETRY:
            problems.append(((reason,), "what is too large for the remote stays so; write dead-letter or drop"))
        actions[code] = action
    if problems:
        raise Inconsistent(problems)
    left_out = RefusalSettings()
    codes = {code: action for code, action in left_out.codes if code not in actions} | actions
    return RefusalSettings(default=value.get(DEFAULT_REASON, left_out.default), codes=tuple(codes.items()))


def _only(value: object) -> OnlySettings:
    """``all``, ``changed``, or a mapping with ``one_per``."""
    if value in ONLY_WORDS:
        return OnlySettings(changed=value == "changed")
    if not isinstance(value, dict):
        hint = nearest(str(value), ONLY_WORDS)
        raise ValueError(f"{shown(value)} is not one of {', '.join(ONLY_WORDS)}{hint}; or write {{one_per: 10s}}")
    if list(value) != ["one_per"]:
        raise Inconsistent(
            [((key,), "is not known here; write {one_per: 10s}") for key in value if key != "one_per"]
            or [((), "write {one_per: 10s}")]
        )
    try:
        return OnlySettings(one_per_s=_duration(_ONE_PER, value["one_per"], whole=False))
    except ValueError as error:
        raise Inconsistent([(("one_per",), str(error))]) from None


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


_CLASS_NAME = re.compile("[a-z][a-z0-9_-]{0,31}")
_STREAM_NAME = re.compile("[A-Za-z0-9_-]{1,60}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"([!-~]([ -~\t]*[!-~])?)?")

UNIX_PATH_MAX_BYTES = 107
ONLY_WORDS = ("all", "changed")
_ONE_PER = Duration(1, DAY_S)

Text = Annotated[str, BeforeValidator(_text)]
Flag = Annotated[bool, BeforeValidator(_flag)]
_Filled = Annotated[Text, AfterValidator(_filled)]
_Refusals = Annotated[
    Any,
    PlainValidator(_refusals),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {reason: {"enum": list(ACTIONS)} for reason in (DEFAULT_REASON, *REASONS)},
            "patternProperties": {"^0[xX][89a-fA-F][0-9a-fA-F]$": {"enum": list(ACTIONS)}},
            "additionalProperties": False,
        }
    ),
]

_Only = Annotated[
    Any,
    PlainValidator(_only),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(ONLY_WORDS)},
                {
                    "type": "object",
                    "properties": {"one_per": _amount(_ONE_PER, whole=False, word="")[1]},
                    "required": ["one_per"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def _pairs(value: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(value.items())


def _hours(text: str) -> str:
    try:
        dial_hours.parse(text)
    except ValueError as error:
        raise ValueError(f"{shown(text)} {error}") from error
    return text


def _time_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:  # one that is not found is a KeyError
        raise ValueError(f"{shown(text)} is no time zone that this machine knows, such as Europe/Berlin") from error
    return text


WRITTEN: dict[SettingForm, Any] = {
    SettingForm.NAME: Annotated[Text, AfterValidator(check_name), Field(pattern="^[A-Za-z0-9_-]{1,64}$")],
    SettingForm.CLASS: Annotated[Text, AfterValidator(_class_name), Field(pattern="^[a-z][a-z0-9_-]{0,31}$")],
    SettingForm.FILLED: _Filled,
    SettingForm.FILE: Annotated[_Filled, AfterValidator(_resolve), AfterValidator(_readable)],
    SettingForm.FOLDER: Annotated[_Filled, AfterValidator(_resolve), AfterValidator(_folder)],
    SettingForm.USER: Annotated[Text, AfterValidator(_user)],
    SettingForm.TOPIC_FILTER: Annotated[Text, AfterValidator(_filter)],
    SettingForm.TOPIC_PATTERN: Annotated[Text, AfterValidator(_pattern)],
    SettingForm.TOPIC_PREFIX: Annotated[Text, AfterValidator(_prefix)],
    SettingForm.URL_PATH: Annotated[Text, Field(pattern="^/")],
    SettingForm.BIND: Annotated[Text, AfterValidator(_bind)],
    SettingForm.TCP_BIND: Annotated[Text, AfterValidator(_tcp_bind)],
    SettingForm.CONTROL_BIND: Annotated[Text, AfterValidator(_control_bind)],
    SettingForm.ADDRESS: Annotated[Text, AfterValidator(_address)],
    SettingForm.NETWORK: Annotated[Text, AfterValidator(_network)],
    SettingForm.REMOTE: Annotated[Text, AfterValidator(parse_remote_address)],
    SettingForm.PROXY: Annotated[Text, AfterValidator(_proxy_url), Field(pattern="^(http|socks5h?)://")],
    SettingForm.COLLECTOR: Annotated[Text, AfterValidator(_collector_url), Field(pattern="^https?://")],
    SettingForm.SECRET_URL: Annotated[Text, AfterValidator(_secret_url), Field(pattern="^https?://")],
    SettingForm.MAIL_SERVER: Annotated[Text, AfterValidator(_mail_server)],
    SettingForm.LOG_SERVER: Annotated[Text, AfterValidator(_log_server), Field(pattern="^(nats|tls)://")],
    SettingForm.STREAM_NAME: Annotated[Text, AfterValidator(_stream_name), Field(pattern="^[A-Za-z0-9_-]{1,60}$")],
    SettingForm.FILE_MODE: Annotated[Any, PlainValidator(_mode), WithJsonSchema({"type": "string", "pattern": "^0?[0-7]{3}$"})],
    SettingForm.PROPERTIES: Annotated[dict[_Filled, Text], AfterValidator(_pairs)],
    SettingForm.HEADERS: Annotated[dict[str, str], BeforeValidator(_headers), AfterValidator(_pairs)],
    SettingForm.REFUSALS: _Refusals,
    SettingForm.HOURS: Annotated[Text, AfterValidator(_hours)],
    SettingForm.TIME_ZONE: Annotated[Text, AfterValidator(_time_zone)],
    SettingForm.ONLY: _Only,
}
