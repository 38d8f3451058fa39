"""Reports of the members of a cluster about themselves, and how much of the log they still need.

replication.trimmed-when-kept [P3]: the log keeps what a member that is waited for has not on its disk yet, and what the leader has
    not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgpack

from storage import files
from storage.replication.log import Log
from wire.errors import ConfigError, StorageDamaged
from wire.frozen_records import named_record
from wire.status.replication_figures import MemberFigures

ID_NAME = "member"


@named_record
class MemberReport:
    """node: which data folder it is, whatever it is called. sequence, synced: up to where it has the log, and has it on disk.

    at_ms: when it said so, by its own clock. wants: whether it is to lead. needs_base: whether the log has not all that it lacks.
    base, base_sequence: which store it offers to those, and where that stands.
    """

    node: str
    role: str
    sequence: int
    synced: int
    number: int
    term: int
    at_ms: int
    address: str = ""
    wants: bool = False
    needs_base: bool = False
    base: str = ""
    base_sequence: int = 0

    def encode(self) -> bytes:
        packed: bytes = msgpack.packb(asdict(self))
        return packed


def read_reports(told: Mapping[str, bytes]) -> dict[str, MemberReport]:
    """The reports, by member; one that cannot be read is left out: a later version may say more."""
    found: dict[str, MemberReport] = {}
    for member, packed in told.items():
        try:
            fields: dict[str, Any] = msgpack.unpackb(packed)
            found[member] = MemberReport(
                **{name: value for name, value in fields.items() if name in MemberReport.__dataclass_fields__}
            )
        except (ValueError, TypeError, AttributeError, msgpack.UnpackException):
            continue
    return found


def exchange_reports(shared: Log, member: str, own: MemberReport) -> dict[str, MemberReport]:
    """Say ``own`` as ``member``; what each member says, this one included.

    Raises:
        ConfigError: another node goes by that name. It has said so first, so this one is the newcomer, and says nothing.
        LogAway: the log cannot be used for now.
    """
    members = read_reports(shared.reports())
    said = members.get(member)
    if said is not None and said.node != own.node:
        raise ConfigError(
            "another node of the cluster goes by this one's name: give this one a replication.member of its own, or, if it takes"
            " the other one's place, have the leader remove that: bascule cluster remove CONFIG MEMBER",
            member=member,
            other=said.node,
        )
    shared.report(member, own.encode())
    return members | {member: own}


def member_rows(members: Mapping[str, MemberReport], last: int, now_ms: int) -> dict[str, MemberFigures]:
    """The members, as ``status`` shows them. ``last``: the number of the newest message that is known of."""
    return {
        member: MemberFigures(
            role=report.role,
            sequence=report.sequence,
            synced=report.synced,
            behind=max(0, last - report.sequence),
            term=report.term,
            at_ms=report.at_ms,
            silent_s=round(max(0, now_ms - report.at_ms) / 1000, 3),
            address=report.address,
            needs_base=report.needs_base,
        )
        for member, report in sorted(members.items())
    }


def keep_from(reports: Iterable[MemberReport], *, synced: int, now_ms: int, max_age_s: float | None, waits: bool) -> int:
    """The first message that the log has to keep; ``synced`` is what the leader has on its own disk.

    waits: whether members are waited for at all; the log may have grown too large for that. A member that has said nothing for
    ``max_age_s`` is not, nor is what it offered.
    """
    needed = [synced]
    for report in reports:
        gone = max_age_s is not None and now_ms - report.at_ms > max_age_s * 1000
        if gone or not waits:
            continue
        if report.base_sequence:
            needed.append(report.base_sequence)  # who begins with that goes on from there
        if not report.needs_base:
            needed.append(report.synced)
    return min(needed) + 1


def member_id(data_dir: Path) -> str:
    """By what this data folder is known in its cluster, whatever the member is called.

    Raises:
        StorageDamaged: the file that says so is damaged.
        OSError: it cannot be read or made.
    """
    path = data_dir / ID_NAME
    if not path.exists():
        files.write(path, os.urandom(8).hex().encode())
    text = path.read_text("ascii", "replace").strip()
    if len(text) != 16:
        raise StorageDamaged(
            "the file that names this member is damaged; remove it, and the member counts as a new one", path=str(path)
        )
    return text
