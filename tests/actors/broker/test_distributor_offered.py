"""What the Distributor has dealt to a shared subscription goes there once, though the store has refused it or never had it
(routing.refused-row-dealt-once).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.process.local_messages import Deliver, SessionDown
from tests.actors.broker.test_distributor import EPOCH, QUEUE, REMOTE, Node, live, queued, up
from wire.frames.batch import OFFERED, REFUSABLE
from wire.frames.intake import SessionGone
from wire.frames.names import LISTENER

SHARED = "$share/g/a"
KEPT = ("lasting", QUEUE, ((SHARED, 1, 0),))


@pytest.fixture
def site(tmp_path: Path) -> Node:
    return Node(tmp_path)


def lasting(site: Node) -> None:
    """A member that gets QoS 1 and 2 through ``QUEUE`` is connected."""
    site.frames(up("lasting", 2, (SHARED, 1), queue=QUEUE))


def passing(site: Node, *sources: int) -> None:
    """Members that get everything live are connected."""
    site.frames(*[up(f"live-{source}", source, (SHARED, 1)) for source in sources])


def gone(site: Node, source: int) -> None:
    site.frames(SessionDown(session=f"live-{source}", source=source, ended=True))


def dealt(site: Node) -> tuple[list[bytes], list[bytes]]:
    """What went live to anybody, and what was to go into ``QUEUE``."""
    sent = site.take()
    payloads = next((frame.batch.rows_payloads() for _, frame in sent if isinstance(frame, Deliver)), [])
    went = [payloads[row] for rows in live(sent).values() for row, _ in rows]
    return went, [payload for _, _, payload in queued(sent).get(QUEUE, [])]


def rows(*payloads: bytes, flags: int = 1, again: bool = False) -> list[tuple[bytes, int, bytes]]:
    return [(b"a", flags | (OFFERED if again else 0), payload) for payload in payloads]


@pytest.mark.parametrize("sender", [LISTENER, REMOTE])
@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("offers", [1, 2, 3, 4])
def test_what_was_refused_comes_once_however_often_it_is_offered(site: Node, offers: int, members: int, sender: str) -> None:
    """routing.refused-row-dealt-once: also where the same publisher's equal messages were taken before. The store takes what is
    offered last.
    """
    site.start(KEPT)
    lasting(site)
    passing(site, *range(3, 3 + members))
    payloads = [b"%d" % (row // 2) for row in range(12)]
    for _ in range(2):
        had: list[bytes] = []
        waits: list[bytes] = []
        for offer in range(offers):
            others = rows(*[b"another's"] * (offer % 2))
            published = [*rows(*payloads, again=offer > 0), *others]
            site.publish(*published, sources=[7] * len(payloads) + [8] * len(others), sender=sender)
            went, waits = dealt(site)
            had += went
        assert sorted(payload for payload in had + waits if payload.isdigit()) == payloads


def test_equal_messages_of_others_are_told_apart(site: Node) -> None:
    """routing.refused-row-dealt-once"""
    site.start(KEPT)
    lasting(site)
    passing(site, 3)
    site.publish(*rows(b"x", b"x"), sources=[7, 8])
    (first, second) = dealt(site)
    assert (first, second) == ([b"x"], [b"x"])
    site.publish(*rows(b"x", b"x", again=True), sources=[7, 8])
    assert sum(map(len, dealt(site))) == 1
    site.publish(*rows(b"x", again=True), sources=[7])
    site.publish(*rows(b"x", again=True), sources=[8])
    (seven, eight) = [sent for sent in site.take() if not isinstance(sent[1], Deliver)]
    assert sum(map(len, (queued([seven]), queued([eight])))) < 2, "the group has had one of them live, or both"


def test_who_comes_and_goes_meanwhile_changes_nothing(site: Node) -> None:
    """routing.refused-row-dealt-once"""
    site.start(KEPT)
    passing(site, 3)
    site.publish(*rows(b"live"))
    assert dealt(site) == ([b"live"], [])
    gone(site, 3)
    lasting(site)
    site.publish(*rows(b"live", again=True))
    assert dealt(site) == ([], []), "a member has had it, whoever is there now"

    site.publish(*rows(b"kept"))
    assert dealt(site) == ([], [b"kept"])
    passing(site, 4)
    for _ in range(4):
        site.publish(*rows(b"kept", again=True))
        assert dealt(site) == ([], [b"kept"]), "nobody has had it; it was dealt while all were of one kind"


def test_what_was_to_go_through_a_queue_that_is_gone_goes_to_who_is_there_once(site: Node) -> None:
    """routing.refused-row-dealt-once"""
    site.start(KEPT)
    lasting(site)
    passing(site, 3)
    site.publish(*rows(b"0", b"1"))
    (went,), (waits,) = dealt(site)
    site.frames(SessionDown(session="lasting", source=2, ended=True), SessionGone(session="lasting", queue=QUEUE))
    site.publish(*rows(b"0", b"1", again=True))
    assert dealt(site) == ([waits], [])
    assert waits != went
    site.publish(*rows(b"0", b"1", again=True))
    assert dealt(site) == ([], [])


def test_a_new_distributor_deals_it_twice_rather_than_not_at_all(site: Node) -> None:
    """routing.refused-row-dealt-once"""
    site.start(KEPT)
    lasting(site)
    passing(site, 3)
    site.publish(*rows(b"0", b"1", b"2", again=True))
    assert dealt(site) == ([], [b"0", b"1", b"2"])
    site.publish(*rows(b"3", again=True), *rows(b"4", flags=0, again=True), *rows(b"5"))
    went, waits = dealt(site)
    assert sorted(went + waits) == [b"3", b"5"], "at QoS 0 a member has had it"
    assert b"3" in waits


def test_a_will_is_dealt_once_though_its_connection_can_be_told_nothing(site: Node) -> None:
    """routing.refused-row-dealt-once"""
    site.start(KEPT)
    lasting(site)
    passing(site, 3)
    had: list[bytes] = []
    for number in range(8):
        payload = b"%d" % number
        site.publish(*rows(payload, flags=1 | REFUSABLE), wills=(("dead", 0, 0, 0),))
        went, _ = dealt(site)
        site.publish(*rows(payload, flags=1 | REFUSABLE, again=True), wills=(("dead", 0, EPOCH, 1),))
        again, waits = dealt(site)
        had += went + again + waits
    assert had == [b"%d" % number for number in range(8)]


@pytest.mark.parametrize("sender", [LISTENER, REMOTE])
@pytest.mark.parametrize("refusable", [0, REFUSABLE])
def test_a_batch_that_is_sent_again_is_dealt_as_the_first_time(site: Node, sender: str, refusable: int) -> None:
    """The store has died with it, and the Listener delivers what is live of each batch once."""
    site.start(KEPT)
    lasting(site)
    passing(site, 3, 4)
    batches = {number: [b"%d.%d" % (number, row) for row in range(7)] for number in range(1, 6)}
    had: dict[int, list[bytes]] = {}
    for number, payloads in batches.items():
        site.publish(*rows(*payloads, flags=1 | refusable), sender=sender)
        had[number], _ = dealt(site)
        for again in range(max(1, number - 1), number + 1):  # all that may be on the way
            site.publish(*rows(*batches[again], flags=1 | refusable), sender=sender, number=again)
            _, waits = dealt(site)
            assert sorted(had[again] + waits) == batches[again]
