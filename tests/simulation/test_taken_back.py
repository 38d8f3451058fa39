"""The judge excuses one message for each release that a death took back, and nothing for a release that is missing on the disk."""

from __future__ import annotations

import pytest

from tests.simulation.taken_back import ReleasesTakenBack

SENDER = "publisher-0"


def on_record(*packet_ids: int) -> dict[str, set[int]]:
    return {SENDER: set(packet_ids)}


def ended_early(*packet_ids: int) -> ReleasesTakenBack:
    releases = ReleasesTakenBack()
    for packet_id in packet_ids:
        releases.completed(SENDER, packet_id, committed=False)
    return releases


def live_again(releases: ReleasesTakenBack, *packet_ids: int) -> None:
    releases.store_died()
    releases.store_opened(on_record(*packet_ids).__getitem__)


def test_one_message_is_swallowed_by_each_identifier_that_is_on_record_again() -> None:
    releases = ended_early(6, 7)
    live_again(releases, 6)

    for packet_id, payload in ((6, b"swallowed"), (7, b"lost otherwise"), (8, b"lost otherwise")):
        releases.acknowledged(SENDER, packet_id, payload, written=False)
    releases.completed(SENDER, 6, committed=True)
    releases.acknowledged(SENDER, 6, b"the one after it", written=False)

    assert releases.swallowed == {b"swallowed"}


def test_it_is_so_in_later_lives_too() -> None:
    releases = ended_early(6)
    live_again(releases, 6)
    live_again(releases, 6)

    releases.acknowledged(SENDER, 6, b"swallowed", written=False)

    assert releases.swallowed == {b"swallowed"}


def test_a_message_that_was_committed_is_not_excused() -> None:
    releases = ended_early(6)
    live_again(releases, 6)

    releases.acknowledged(SENDER, 6, b"taken", written=True)

    assert releases.swallowed == set()


@pytest.mark.parametrize("written", [{6}, set()])
def test_a_release_that_the_next_commit_has_not_is_not_excused(written: set[int]) -> None:
    """One that it has may be taken back with it, by the loss of power."""
    releases = ended_early(6)
    releases.wrote(on_record(*written).__getitem__)
    live_again(releases, 6)

    releases.acknowledged(SENDER, 6, b"swallowed", written=False)

    assert releases.swallowed == (set() if written else {b"swallowed"})


def test_an_identifier_that_has_a_message_since_is_that_ones() -> None:
    releases = ended_early(6)
    releases.acknowledged(SENDER, 6, b"the one after it", written=True)
    live_again(releases, 6)

    releases.acknowledged(SENDER, 6, b"the one after it", written=False)

    assert releases.swallowed == set()
