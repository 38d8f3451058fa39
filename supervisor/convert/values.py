"""Values of another configuration as ours has them: what a setting is declared to be says how it is read and bounded. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import MISSING
from pathlib import Path

from supervisor.config.setting_annotations import Setting, each_setting
from supervisor.config.yaml_file import Key
from supervisor.convert.draft import Draft, Line, literally
from supervisor.convert.options import TLS_1_3, Fate, Option
from supervisor.units import UNLIMITED
from wire.setting_kinds import Duration, Number, SettingForm, Size

SETTINGS = dict(each_setting())
_EXCHANGES = {"RSA": "", **{f"{way}_{by}": f"{way}-{by}-" for way in ("ECDHE", "DHE") for by in ("RSA", "ECDSA", "DSS")}}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def take(draft: Draft, base: Key, line: Line, option: Option, folder: Path) -> None:
    """Put what ``line`` says at its key below ``base``, or note why there is none. Relative paths count from ``folder``.

    References in its value stay what they are: ``literally`` makes them text.
    """
    if option.fate is not Fate.KEY:
        draft.leave(line, option)
        return
    setting = SETTINGS[option.key]
    key = (*base, *option.key.rpartition("[].")[2].removeprefix("access." if "access" in base else "").split("."))
    try:
        value, note = read(setting, option, line.value, folder)
    except ValueError as error:
        draft.refuse(line, str(error))
        return
    if value is not None:
        draft.put(key, [*(draft.get(*key) or ()), value] if setting.many else value, line, note)


def read(setting: Setting, option: Option, text: str, folder: Path) -> tuple[object, str]:
    """``text`` as the file has it, and what was changed; None if it says nothing that needs to be written.

    Raises:
        ValueError: it is no such value.
    """
    if setting.amount is not None:
        return _amount(setting, option, text)
    if setting.item is bool:
        return None if text == option.default else flag(text), ""
    if not text:
        raise ValueError("no value")
    if setting.written in (SettingForm.FILE, SettingForm.FOLDER):
        text = os.path.normpath(os.path.join(literally(str(folder.absolute())), text))
    return text, ""


def flag(text: str) -> bool:
    """True or false, as Mosquitto and XML have it.

    Raises:
        ValueError: it is neither.
    """
    word = text.lower().partition(" ")[0]
    if word not in _FLAGS:
        raise ValueError(f"{text or 'nothing'} is neither true nor false")
    return _FLAGS[word]


def number(text: str) -> int:
    """A whole number, as C reads one.

    Raises:
        ValueError: it is none.
    """
    word = text.lower().partition(" ")[0]
    if not re.fullmatch(r"[-+]?(0x[0-9a-f]+|\d{1,18})", word, re.ASCII):
        raise ValueError(f"{text or 'nothing'} is not a number")
    return int(word, 16) if "x" in word else int(word)


def cipher_name(standard: str) -> str:
    """The name that OpenSSL has for a cipher of TLS 1.2 or before; Java has that of its specification.

    [RFC 5246, A.5] calls ECDHE-RSA-AES128-GCM-SHA256 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.

    Raises:
        ValueError: it is none that can be chosen.
    """
    exchange, found, cipher = standard.removeprefix("TLS_").partition("_WITH_")
    if standard.startswith("TLS_") and not found:
        raise ValueError(TLS_1_3)
    if not found or exchange not in _EXCHANGES:
        raise ValueError("not a cipher that certificates are used with")
    cipher = re.sub("(AES|CAMELLIA)_", r"\1", cipher).replace("_CBC", "").replace("CCM_8", "CCM8")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305").replace("_", "-")
    return f"{_EXCHANGES[exchange]}{cipher}"


def name_like(text: str) -> str:
    """A name of a bridge that is as near to ``text`` as can be."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:64].strip("-") or "bridge"


def _amount(setting: Setting, option: Option, text: str) -> tuple[object, str]:
    """Seconds, bytes or a count, within the bounds of the setting."""
    amount = number(text)
    if str(amount) == option.default:
        return None, ""
    match setting.amount:
        case Duration(min_s=least, max_s=most) | Size(min_bytes=least, max_bytes=most) | Number(least=least, most=most):
            bounded = int(min(max(amount, least), most))
    if amount <= 0 and option.zero:
        return (setting.as_written(int(most)) if setting.never is MISSING else UNLIMITED), "no limit there"
    if amount == setting.never:
        return UNLIMITED, ""
    return setting.as_written(bounded), "" if bounded == amount else f"{amount} there"
