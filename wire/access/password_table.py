"""The password file: one line a user, ``name:argon2id-hash``. Its format, and how it is changed. Pure.

Empty lines and lines that begin with ``#`` are comments. Lines that Mosquitto has made may stay: its argon2id hashes are the same,
and its older ones (``$7$``, PBKDF2) are verified, but never made. Both is done in ``actors/access/password_hashes.py``.
"""

from __future__ import annotations

import re
from hashlib import blake2b

NAME_BYTES_MAX = 65_535
MEMORY_MAX_KIB = 1 << 20
PASSES_MAX = 100
ITERATIONS_MAX = 500_000  # about a second of work
PBKDF2 = "$7$"  # how a hash begins that Mosquitto has made by PBKDF2 with SHA-512: iterations, salt and digest follow
_ARGON2ID = re.compile(r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{16,}")
_PBKDF2 = re.compile(r"\$7\$([1-9]\d{0,8})\$([A-Za-z0-9+/]{16}|[A-Za-z0-9+/]{86}==)\$[A-Za-z0-9+/]{86}==")
_REMEDY = "make it with: bascule user add FILE USER"

Fault = tuple[int, str]  # line from 1, what is wrong and what would be right


def name_fault(name: str) -> str | None:
    """The fault of ``name`` as a user name; None if it has none."""
    if not name:
        return "the user name is empty"
    if ":" in name:
        return "a user name cannot have a colon in it"
    if name.startswith("#"):
        return "a user name cannot begin with #, which begins a comment"
    if not name.isprintable() or name != name.strip():
        return "a user name cannot have control characters in it, nor blanks at its ends"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"a user name has at most {NAME_BYTES_MAX} bytes"
    return None


class PasswordTable:
    """User names and the hashes of their passwords."""

    def __init__(self, hashes: dict[str, str]) -> None:
        self._hashes = hashes
        self._names = sorted(hashes)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def users(self) -> list[str]:
        """Their names, sorted."""
        return self._names

    def hash_of(self, user: str) -> str | None:
        """The hash of that user's password; None if there is no such user."""
        return self._hashes.get(user)

    def decoy(self, user: str, key: bytes) -> str | None:
        """A hash that costs a user who does not exist what it costs one who does; None if there are no users.

        It is always the same for one name, whatever the parameters of the hashes are, so time does not tell who exists.
        """
        if not self._names:
            return None
        number = int.from_bytes(blake2b(user.encode(), key=key, digest_size=8).digest(), "big")
        return self._hashes[self._names[number % len(self._names)]]


def parse_passwords(text: str) -> tuple[PasswordTable, list[Fault]]:
    """The users in ``text``, and what is wrong with its lines; with a fault the table is not to be used."""
    hashes: dict[str, str] = {}
    lines: dict[str, int] = {}
    faults: list[Fault] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r \t")
        if not line or line.startswith("#"):
            continue
        name, colon, stored = line.partition(":")
        fault = line_fault(name, colon, stored)
        if fault is None and name in lines:
            fault = f"the user {name} stands in line {lines[name]} already; keep one"
        if fault is not None:
            faults.append((number, fault))
            continue
        lines[name] = number
        hashes[name] = stored
    return PasswordTable(hashes), faults


def line_fault(name: str, colon: str, stored: str) -> str | None:
    """The fault of a line that is ``name``, a ``colon`` and what is ``stored``; None if it has none."""
    if not colon:
        return f"not a line of the form name:argon2id-hash; {_REMEDY}"
    fault = name_fault(name)
    if fault is not None:
        return fault
    if (iterated := _PBKDF2.fullmatch(stored)) is not None:
        many = int(iterated[1]) > ITERATIONS_MAX
        return f"the hash of {name} has more than {ITERATIONS_MAX} iterations; {_REMEDY}" if many else None
    match = _ARGON2ID.fullmatch(stored)
    if match is None:
        return f"what follows the user name is not an argon2id hash, nor one of Mosquitto's by PBKDF2; {_REMEDY}"
    memory_kib, passes, threads = (int(number) for number in match.groups())
    if not (8 * threads <= memory_kib <= MEMORY_MAX_KIB and 1 <= passes <= PASSES_MAX and 1 <= threads <= 64):
        return f"the hash of {name} has parameters out of range (m={memory_kib}, t={passes}, p={threads}); {_REMEDY}"
    return None


def with_password(text: str, name: str, stored: str) -> str:
    """``text`` with the hash ``stored`` for ``name``, in the line it has or in a new last one; all else stays as it is."""
    line = f"{name}:{stored}"
    lines = _lines(text)
    for index, old in enumerate(lines):
        if old.partition(":")[0] == name:
            lines[index] = line
            break
    else:
        lines.append(line)
    return "\n".join(lines) + "\n"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def without_user(text: str, name: str) -> str | None:
    """``text`` without the line of ``name``; None if it has none."""
    lines = _lines(text)
    kept = [line for line in lines if line.partition(":")[0] != name]
    if len(kept) == len(lines):
        return None
    return "".join(f"{line}\n" for line in kept)
