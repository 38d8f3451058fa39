"""The tokens file of the HTTP interface: one line a token, ``name:role:sha256``. Its format, and how it is changed. Pure.

A token has 256 random bits, so no hash needs to be slow: nobody finds a token by trying, and the hash does not lead back to it.
Empty lines and lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from wire.access.roles import ROLES, Role

PREFIX = "bascule_"  # so that those who look for secrets in files know one
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_HASH = re.compile(r"[0-9a-f]{64}")
_REMEDY = "make it with: bascule token add FILE NAME"

Fault = tuple[int, str]  # line from 1, what is wrong and what would be right


@dataclass(frozen=True, slots=True)
class Token:
    """The holder and role of a token; not the token itself."""

    name: str
    role: Role
    digest: str


def digest_of(token: str) -> str:
    """The digest in the file for ``token``."""
    return sha256(token.encode(errors="surrogatepass")).hexdigest()


def name_fault(name: str) -> str | None:
    """The fault of ``name`` as the name of a token; None if it has none."""
    return None if _NAME.fullmatch(name) else "a name has 1 to 64 letters, digits and . _ @ -"


class TokenTable:
    """The tokens of one file."""

    def __init__(self, tokens: dict[str, Token]) -> None:
        self._by_digest = tokens

    def __len__(self) -> int:
        return len(self._by_digest)

    def __iter__(self) -> Iterator[Token]:
        return iter(self._by_digest.values())

    def find(self, token: str) -> Token | None:
        """The holder of ``token``; None if it is nobody's. Only hashes are compared, so time tells nothing of a token."""
        return self._by_digest.get(digest_of(token))


def parse_tokens(text: str) -> tuple[TokenTable, list[Fault]]:
    """The tokens in ``text``, and what is wrong with its lines; with a fault the table is not to be used."""
    tokens: dict[str, Token] = {}
    lines: dict[str, int] = {}
    faults: list[Fault] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r \t")
        if not line or line.startswith("#"):
            continue
        found = _parse_line(line)
        if not isinstance(found, Token):
            faults.append((number, found))
        elif found.name in lines:
            faults.append((number, f"the token {found.name} stands in line {lines[found.name]} already; keep one"))
        else:
            lines[found.name] = number
            tokens[found.digest] = found
    return TokenTable(tokens), faults


def _parse_line(line: str) -> Token | str:
    """The token in ``line``, or what is wrong with it."""
    name, role, digest = (*line.split(":"), "", "")[:3]
    if line.count(":") != 2 or not _HASH.fullmatch(digest):
        return f"not a line of the form name:role:sha256; {_REMEDY}"
    fault = name_fault(name)
    if fault is not None:
        return fault
    known = next((each for each in ROLES if each == role), None)
    if known is None:
        return f"the role of {name} is not known; write one of {', '.join(ROLES)}"
    return Token(name, known, digest)


def with_token(text: str, token: Token) -> str:
    """``text`` with a line for ``token``, whose name it does not have yet; all else stays as it is."""
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{token.name}:{token.role}:{token.digest}\n"


def without_token(text: str, name: str) -> str | None:
    """``text`` without the line of the token ``name``; None if it has none."""
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if line.partition(":")[0] != name]
    return None if len(kept) == len(lines) else "".join(kept)
