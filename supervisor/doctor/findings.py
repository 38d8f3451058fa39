"""Findings of the doctor: a verdict, its subject, the finding, and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OK: Literal["ok"] = "ok"
WARN: Literal["warn"] = "warn"
FAIL: Literal["fail"] = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """fail: the node does not do its work so, or will not keep its promise. warn: somebody should look. cure: what to do then."""

    verdict: Literal["ok", "warn", "fail"]
    about: str
    found: str
    cure: str = ""


def ok(about: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(OK, about, found)


def warn(about: str, found: str, cure: str) -> Finding:
    """Somebody should look."""
    return Finding(WARN, about, found, cure)


def fail(about: str, found: str, cure: str) -> Finding:
    """Something to mend."""
    return Finding(FAIL, about, found, cure)
