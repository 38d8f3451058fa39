"""Messages that a purge has left are told with the reason, also where no session is on record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from supervisor.terminal.message_text import kept_lines
from wire.status.answers import KeptLane


def kept(**changes: Any) -> KeptLane:
    return replace(KeptLane(lane=0, messages=2, reason="may_have_been_sent", remote="h:1", link_up_ms=0), **changes)


def test_what_stays_is_told_with_the_link_that_it_may_have_gone_over() -> None:
    assert kept_lines([]) == []
    first, second, third, last = kept_lines([kept(), kept(lane=1, link_up_ms=None), kept(lane=2, link_up_ms=None, remote="")])
    assert first == "  lane 0: 2 stay and may have been sent; the link to h:1 came up last at 1970-01-01 00:00:00Z"
    assert second == "  lane 1: 2 stay and may have been sent; the link to h:1 came up in an earlier life of the store"
    assert third.endswith("no session is on record, but a loss of power may have taken that record (persistence.sync: os)")
    assert last == "  --in-flight removes them too, and ends the remote's session"
