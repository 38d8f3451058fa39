"""The Distributor by its frames: what of a batch goes to which queue, what is delivered live and to whom, and when it is ready."""

from __future__ import annotations

from array import array
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest

from actors.broker import repeated_batches
from actors.broker.distributor import Distributor
from actors.process.local_messages import Deliver, PublishedAhead, PublishedMessages, SessionDown, SessionUp
from actors.process.mailbox import Mailbox, Reconfigured
from tests.supervisor.settings import node_settings
from tests.support.settings import bridge as plain_bridge
from tests.support.settings import node
from wire.config_settings import AclRuleSettings, ListenerSettings, NodeSettings, OnlySettings, PersistenceSettings, RuleSettings
from wire.durability import Durability
from wire.frames.batch import PASSED, RETAIN, Batch, from_rows, pack_column, unpack_column
from wire.frames.frame import Frame
from wire.frames.intake import Append, Publishes, SenderResumes, SessionGone, SessionsKnown, SessionsWanted
from wire.frames.names import LISTENER, QUEUE_STORE, RETAINED
from wire.frames.subscriptions import RetainedWanted, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.frames.supervision import AclChanged
from wire.routing.retained_topics import unpack_owned

EPOCH, LIFE = 5, 7  # of the Distributor and the Listener beside it, and of a Connection
QUEUE = "session:65537:offline"
REMOTE = "connection:cloud:0"
NO_LOCAL, AS_PUBLISHED = 0x04, 0x08


class RecordingMailbox:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.name = "distributor"
        self.sent: list[tuple[str, Frame]] = []

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append((peer, frame))


class Node:
    """A Distributor whose peers are the test."""

    def __init__(self, folder: Path, settings: NodeSettings | None = None) -> None:
        self.mailbox = RecordingMailbox()
        self.number = 0
        self.distributor = Distributor(cast(Mailbox, self.mailbox), settings or node_settings(folder), EPOCH)

    def take(self) -> list[tuple[str, Frame]]:
        sent, self.mailbox.sent = self.mailbox.sent, []
        return [(peer, frame) for peer, frame in sent if peer in (LISTENER, QUEUE_STORE)]

    def start(self, *sessions: tuple[str, str, tuple[tuple[str, int, int], ...]]) -> None:
        self.distributor.on_peer_up(QUEUE_STORE, 1)
        rows = tuple((*session, None, 0, None, "", "") for session in sessions)
        self.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=rows, last=True))
        self.take()

    def frames(self, *frames: Frame) -> None:
        for frame in frames:
            self.distributor.on_frame(frame)

    def announce(self, sender: str, epoch: int = LIFE) -> None:
        """The Connection has heard of this Distributor."""
        self.frames(SenderResumes(sender=sender, epoch=epoch, number=1))

    def publish(
        self,
        *rows: tuple[bytes, int, bytes],
        sources: list[int] | None = None,
        sender: str = LISTENER,
        number: int = 0,
        wills: tuple[tuple[str, int], ...] = (),
        listener: int = 0,
        epoch: int = LIFE,
        stray: bool = False,
        **more: Any,
    ) -> None:
        """number: of a batch that is sent again; 0: the next one. A Connection has announced itself, unless it is a ``stray``."""
        self.number += not number
        number = number or self.number
        column = pack_column(array("I", sources or [99] * len(rows)))
        batch = from_rows(rows, accepted_ms=1000)
        if sender == LISTENER:
            self.frames(
                PublishedMessages(sender=sender, epoch=EPOCH, number=number, batch=batch, sources=column, wills=wills, **more)
            )
            return
        if not stray:
            self.announce(sender, epoch)
        self.frames(
            Publishes(
                sender=sender,
                epoch=epoch,
                number=number,
                received={},
                released=more.get("released", {}),
                listener=listener,
                bodies=(batch.encode(),),
            )
        )


@pytest.fixture
def site(tmp_path: Path) -> Node:
    return Node(tmp_path)


def up(session: str, source: int, *filters: tuple[str, int] | tuple[str, int, int], queue: str = "") -> SessionUp:
    subscriptions = tuple((each[0], each[1], each[2] if len(each) == 3 else 0) for each in filters)
    return SessionUp(session=session, source=source, queue=queue, subscriptions=subscriptions)


def queued(sent: list[tuple[str, Frame]]) -> dict[str, list[tuple[bytes, int, bytes]]]:
    """Queue -> rows as (topic, flags, payload), in order."""
    ((_, append),) = [each for each in sent if isinstance(each[1], Append)]
    assert isinstance(append, Append)
    found: dict[str, list[tuple[bytes, int, bytes]]] = {}
    for (queue, count, _, qos0, rows), body in zip(append.parts, append.bodies, strict=True):
        batch = unpack_owned(body)[0] if queue == RETAINED else Batch.decode(body)
        assert len(batch) == count
        assert not rows or len(unpack_column("H", rows)) == count
        assert queue == RETAINED or not qos0
        payloads = batch.rows_payloads()
        found.setdefault(queue, []).extend(
            (batch.topics[index], batch.flags[row], payloads[row]) for row, index in enumerate(batch.topic_of)
        )
    return found


def live(sent: list[tuple[str, Frame]]) -> dict[int, list[tuple[int, tuple[int, bool, tuple[int, ...]]]]]:
    """Connection -> (row, grant), in order of the groups."""
    found: dict[int, list[tuple[int, tuple[int, bool, tuple[int, ...]]]]] = {}
    for peer, frame in sent:
        if isinstance(frame, Deliver):
            assert peer == LISTENER
            count = len(frame.batch)
            for (subscribers, rows), grant in zip(frame.groups, frame.grants, strict=True):
                for source in unpack_column("I", subscribers):
                    found.setdefault(source, []).extend((row, grant) for row in (unpack_column("H", rows) or range(count)))
    return found


def test_it_is_ready_once_it_knows_the_sessions_that_are_kept_and_tells_the_listener_of_them(site: Node) -> None:
    site.distributor.on_peer_up(QUEUE_STORE, 1)
    assert site.take() == [(QUEUE_STORE, SessionsWanted(epoch=EPOCH))]
    assert site.distributor.state == "starting"
    site.publish((b"a", 1, b"early"), sender=REMOTE)
    assert site.take() == [], "it would miss who is offline"

    first = SessionsKnown(epoch=EPOCH, store=1, sessions=(("other", "session:1:other", (), None, 0, None, "", ""),), last=False)
    site.frames(first)
    assert site.take() == [(LISTENER, first)]
    assert site.distributor.state == "starting"
    last = SessionsKnown(epoch=EPOCH, store=1, sessions=(("offline", QUEUE, (("a", 1, 0),), None, 0, None, "", ""),), last=True)
    site.frames(last)

    assert site.distributor.state == "ready"
    sent = site.take()
    assert queued(sent) == {QUEUE: [(b"a", 1, b"early")]}
    assert sent[-1] == (LISTENER, last)


def test_what_the_store_said_to_a_former_life_or_a_former_store_has_said_counts_no_more(site: Node) -> None:
    site.distributor.peers[QUEUE_STORE] = 2
    site.distributor.on_peer_up(QUEUE_STORE, 2)
    site.take()
    site.frames(SessionsKnown(epoch=EPOCH - 1, store=2, sessions=(), last=True))
    site.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=(), last=True))
    assert site.distributor.state == "starting"
    assert site.take() == []


def test_a_kept_session_gets_qos_1_and_2_through_its_queue_and_qos_0_live(site: Node) -> None:
    site.start(("offline", QUEUE, (("a/#", 1, 0),)))
    rows = ((b"a/1", 0, b"zero"), (b"a/1", 1, b"one"), (b"a/2", 2, b"two"), (b"b", 1, b"not wanted"))

    site.publish(*rows)
    sent = site.take()
    assert queued(sent) == {QUEUE: [(b"a/1", 1, b"one"), (b"a/2", 1, b"two")]}
    assert live(sent) == {}

    site.frames(up("offline", 3, ("a/#", 1), queue=QUEUE))
    site.publish(*rows)
    sent = site.take()
    assert queued(sent) == {QUEUE: [(b"a/1", 1, b"one"), (b"a/2", 1, b"two")]}
    assert live(sent) == {3: [(0, (0, False, ()))]}


def test_a_session_that_ends_with_its_connection_gets_everything_live_until_it_ends(site: Node) -> None:
    site.start()
    site.frames(up("live", 3, ("a", 2)))
    site.publish((b"a", 0, b"zero"), (b"a", 2, b"two"))
    sent = site.take()
    assert queued(sent) == {}
    assert live(sent) == {3: [(0, (2, False, ())), (1, (2, False, ()))]}

    site.frames(SessionDown(session="live", source=3, ended=True))
    site.publish((b"a", 0, b"zero"))
    assert live(site.take()) == {}


def test_subscriptions_are_routed_by_before_the_store_is_told_of_those_that_last(site: Node) -> None:
    site.start()
    site.frames(up("live", 3))
    for queue in ("", "session:1:live"):
        add = SubscriptionsAdd(epoch=EPOCH, request=1, session="live", source=3, queue=queue, filters=(("a", 1, 0, True),))
        site.frames(add)
        kept = SubscriptionsKept(epoch=EPOCH, request=1, source=3)
        assert site.take() == [(QUEUE_STORE, add) if queue else (LISTENER, kept)]
        site.publish((b"a", 1, b"x"))
        assert live(site.take()) == {3: [(0, (1, False, ()))]}

        drop = SubscriptionsDrop(epoch=EPOCH, request=2, session="live", source=3, queue=queue, filters=("a",))
        site.frames(drop)
        assert site.take() == [(QUEUE_STORE, drop) if queue else (LISTENER, replace(kept, request=2))]
        site.publish((b"a", 1, b"x"))
        assert live(site.take()) == {}


def test_what_is_wanted_of_retained_messages_goes_to_the_store_behind_what_was_routed_before(site: Node) -> None:
    site.start()
    site.publish((b"a", 1 | RETAIN, b"x"))
    wanted = RetainedWanted(epoch=EPOCH, request=1, messages=1, size_bytes=1, filters=(("a", b"", False),))
    site.frames(wanted)
    sent = [frame for _, frame in site.take()]
    assert isinstance(sent[-2], Append)
    assert sent[-1] == wanted


def test_rows_with_retain_go_to_the_store_and_to_subscribers_without_it_unless_as_published(site: Node) -> None:
    site.start(("offline", QUEUE, (("#", 2, 0),)), ("bridge", "session:65538:bridge", (("#", 2 | AS_PUBLISHED, 0),)))
    site.publish((b"a", 1 | RETAIN, b"kept"), (b"b", 1, b"passing"))
    found = queued(site.take())
    assert found[RETAINED] == [(b"a", 1 | RETAIN, b"kept")]
    assert found[QUEUE] == [(b"a", 1, b"kept"), (b"b", 1, b"passing")]
    assert found["session:65538:bridge"] == [(b"a", 1 | RETAIN, b"kept"), (b"b", 1, b"passing")]


def test_what_is_to_be_retained_says_whose_it_is(site: Node) -> None:
    """store.shared-out: of those who are connected, who have left since, and of a bridge; ordinary rows say nothing."""
    site.start()
    for source, owner in ((3, "user a"), (4, "user b"), (5, "user c")):
        site.frames(replace(up(f"c{source}", source), owner=owner))
    for source, published in ((4, True), (5, False)):
        site.frames(SessionDown(session=f"c{source}", source=source, ended=True, published=published))
    retained, passing = (b"a", 1 | RETAIN, b"x"), (b"a", 1, b"x")

    def owners(*rows: tuple[bytes, int, bytes], sources: list[int], sender: str = LISTENER) -> list[str]:
        site.publish(*rows, sources=sources, sender=sender)
        (append,) = [frame for _, frame in site.take() if isinstance(frame, Append)]
        (body,) = [body for part, body in zip(append.parts, append.bodies, strict=True) if part[0] == RETAINED]
        return unpack_owned(body)[1]

    assert owners(retained, passing, retained, retained, sources=[4, 3, 3, 5]) == ["user b", "user a", ""]
    assert owners(retained, retained, sources=[3, 3]) == ["user a"] * 2
    assert owners(retained, sources=[1], sender=REMOTE) == ["bridge cloud"]


def test_subscription_identifiers_travel_with_the_message(site: Node) -> None:
    site.start(("offline", QUEUE, (("a", 1, 5), ("#", 2, 300))))
    site.publish((b"a", 1, b"x"))
    ((_, append),) = site.take()
    assert isinstance(append, Append)
    assert Batch.decode(append.bodies[0]).properties == {0: b"\x0b\x05\x0b\xac\x02"}


def test_who_published_does_not_hear_itself_where_it_said_so(site: Node) -> None:
    site.start()
    site.frames(up("self", 3, ("a", 1 | NO_LOCAL)), up("other", 4, ("a", 1)))
    site.publish((b"a", 1, b"of 3"), (b"a", 1, b"of 4"), sources=[3, 4])
    found = {source: [row for row, _ in rows] for source, rows in live(site.take()).items()}
    assert found == {3: [1], 4: [0, 1]}


@pytest.mark.parametrize("queue", ["", QUEUE])
def test_who_published_does_not_hear_itself_when_it_has_come_back_and_its_messages_come_late(site: Node, queue: str) -> None:
    """[MQTT-3.8.3-3]: they waited in a batch."""
    site.start(("c", queue, (("a", 1 | NO_LOCAL, 0),))) if queue else site.start()
    site.frames(up("c", 3, ("a", 1 | NO_LOCAL), queue=queue))
    site.frames(SessionDown(session="c", source=3, ended=not queue))
    rows, sources = ((b"a", 1, b"of c"), (b"a", 1, b"of 4"), (b"a", 0, b"of c"), (b"a", 0, b"of 4")), [3, 4, 3, 4]
    if queue:
        site.publish(*rows, sources=sources)
        assert queued(site.take()) == {queue: [(b"a", 1, b"of 4")]}
    site.frames(up("c", 7, ("a", 1 | NO_LOCAL), queue=queue), up("other", 8, ("a", 1)))
    site.publish(*rows, sources=sources)
    sent = site.take()
    found = {source: [row for row, _ in one] for source, one in live(sent).items()}
    assert found == {7: [3] if queue else [1, 3], 8: [0, 1, 2, 3]}
    assert queued(sent) == ({queue: [(b"a", 1, b"of 4")]} if queue else {})


def test_connections_of_other_senders_are_nobodys_own(site: Node) -> None:
    site.start()
    site.frames(up("self", 3, ("a", 1 | NO_LOCAL)))
    site.publish((b"a", 1, b"from the remote"), sources=[3], sender=REMOTE)
    assert list(live(site.take())) == [3]


def test_each_message_goes_to_one_member_of_a_shared_subscription(site: Node) -> None:
    site.start(("offline", QUEUE, (("$share/g/a/#", 1, 0),)))
    site.frames(up("one", 3, ("$share/g/a/#", 1)), up("two", 4, ("$share/g/a/#", 1)))
    site.publish(*[(b"a/%d" % (row % 3), 1, b"x") for row in range(10)])
    found = {source: [row for row, _ in rows] for source, rows in live(site.take()).items()}
    assert sorted(row for rows in found.values() for row in rows) == list(range(10))
    assert {source: len(rows) for source, rows in found.items()} == {3: 5, 4: 5}

    site.frames(SessionDown(session="one", source=3, ended=True), SessionDown(session="two", source=4, ended=True))
    site.publish((b"a/0", 1, b"x"))
    assert list(queued(site.take())) == [QUEUE], "while nobody is connected, what can wait does"


def test_a_message_of_a_shared_subscription_goes_to_a_member_that_may_read_it_by_the_rules_of_now(tmp_path: Path) -> None:
    """Of who is offline, too, whose listener the store knows. Rules come from the settings, and later from the Listener."""

    def rule(user: str, topic: str) -> AclRuleSettings:
        return AclRuleSettings((topic,), users=(user,))

    plain = node_settings(tmp_path)
    acl = (rule("ada", "a/#"), rule("bob", "a/open"), rule("eve", "a/open"))
    access = replace(plain.access, acl=acl, acl_file="rules")
    outside = ListenerSettings(bind="h:1")
    inside = replace(outside, bind="h:2", access=replace(access, acl=(rule("eve", "#"),), acl_file=None))
    site = Node(tmp_path, replace(plain, access=access, listeners=(outside, inside)))
    site.distributor.on_peer_up(QUEUE_STORE, 1)
    sessions = tuple(
        (f"eve-{number}", f"session:{number}:eve", (("$share/g/#", 1, 0),), None, 0, "eve", bind, "")
        for number, bind in enumerate(["h:2", "h:1", "", "h:3"])
    )
    site.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=sessions, last=True))
    site.frames(replace(up("one", 3, ("$share/g/#", 1)), user="ada"), replace(up("two", 4, ("$share/g/#", 1)), user="bob"))
    site.take()
    batch = [(b"a/open" if row % 2 else b"a/secret", 1, b"x") for row in range(20)]

    def found() -> tuple[dict[int, list[int]], list[str]]:
        sent = site.take()
        return {source: [row for row, _ in rows] for source, rows in live(sent).items()}, sorted(queued(sent))

    site.publish(*batch)
    assert found() == ({3: sorted([*range(0, 20, 2), *range(1, 20, 4)]), 4: list(range(3, 20, 4))}, [])

    site.frames(AclChanged(path="rules", rules=tuple(astuple(one) for one in (rule("bob", "a/secret"),))))
    site.publish((b"a/secret", 1, b"x"), (b"a/secret", 0, b"x"))
    assert found() == ({4: [0, 1]}, [])
    site.publish(*[(b"a/open", 1, b"x")] * 5)
    assert found() == ({}, ["session:0:eve"])

    site.frames(AclChanged(path="rules", rules=()), AclChanged(path="unknown", rules=()))
    site.frames(SessionGone(session="eve-0", queue="session:0:eve"))
    site.publish(*[(b"a/open", 1, b"x")] * 4)
    assert found() == ({4: [0, 2], 3: [1, 3]}, []), "nobody may: the Listener leaves it out and counts it"


def test_a_shared_subscription_beside_an_ordinary_one_brings_a_second_copy_and_nothing_else(site: Node) -> None:
    """As many rows as the batch has need not be all of them; and each copy has the message's properties."""
    site.start(("offline", QUEUE, (("a", 1, 0), ("$share/g/a", 1, 0))))
    site.frames(up("live", 3, ("a", 1), ("$share/h/a", 1)))
    site.publish((b"a", 1, b"x"), (b"b", 1, b"for nobody"))
    sent = site.take()
    assert queued(sent) == {QUEUE: [(b"a", 1, b"x")] * 2}
    assert [row for row, _ in live(sent)[3]] == [0, 0]
    twice = replace(from_rows([(b"a", 1, b"x")], accepted_ms=1), properties={0: b"\x02\0\0\0\x07"}).select([0, 0])
    assert twice.properties == {0: b"\x02\0\0\0\x07", 1: b"\x02\0\0\0\x07"}


def test_what_passed_its_batch_is_not_delivered_live_again(site: Node) -> None:
    site.start()
    site.frames(up("live", 3, ("a", 1)))
    site.publish((b"a", PASSED, b"again"), (b"a", 1, b"new"))
    assert [row for row, _ in live(site.take())[3]] == [1]


def test_messages_that_passed_their_batch_take_one_turn_of_a_shared_subscription_and_not_two(site: Node) -> None:
    site.start()
    site.frames(up("one", 3, ("$share/g/a", 0)), up("two", 4, ("$share/g/a", 0)))
    counts = {3: 0, 4: 0}
    for _ in range(6):
        ahead = from_rows([(b"a", 0, b"x")], accepted_ms=1000)
        site.frames(PublishedAhead(sources=pack_column(array("I", [99])), batch=ahead))
        site.publish((b"a", PASSED, b"x"))
        for source, rows in live(site.take()).items():
            counts[source] += len(rows)
    assert counts == {3: 3, 4: 3}


def test_what_is_sent_again_goes_where_it_went_the_first_time(site: Node) -> None:
    """The store has died with it. A client that has subscribed since is sent later messages of QoS 0 already (P4)
    [MQTT-4.6.0-6]."""
    site.start(("offline", QUEUE, (("$share/g/b", 1, 0),)))
    site.frames(up("early", 3, ("a", 1)))
    first, second = ((b"a", 0, b"first"), (b"b", 1, b"dealt")), ((b"a", 1, b"second"), (b"b", 2, b"dealt too"))
    site.publish(*first)
    site.publish(*second)
    went = site.take()
    assert list(live(went)) == [3]
    site.frames(up("late", 4, ("a", 1), ("$share/g/b", 2)))

    site.publish(*first, number=site.number - 1)
    site.publish(*second, number=site.number)

    again = site.take()
    assert [frame for _, frame in again] == [frame for _, frame in went if isinstance(frame, Append)]
    site.publish(*second)
    assert sorted(live(site.take())) == [3, 4]


def test_what_came_to_too_much_is_routed_again(site: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_batches, "KEPT_BYTES_MAX", 10)
    site.start(("offline", QUEUE, (("a", 1, 0),)))
    site.publish((b"a", 1, b"x" * 20))
    site.take()
    site.frames(up("late", 4, ("a", 1)))

    site.publish((b"a", 1, b"x" * 20), number=site.number)

    sent = site.take()
    assert (list(queued(sent)), list(live(sent))) == ([QUEUE], [4])


def test_a_sender_that_starts_anew_counts_from_one_again(site: Node) -> None:
    site.start()
    site.frames(up("live", 3, ("a", 1)))
    site.publish((b"a", 1, b"x"), sender=REMOTE)
    site.take()
    body = from_rows(((b"a", 1, b"y"),), accepted_ms=1000).encode()

    site.announce(REMOTE, LIFE + 1)
    site.frames(Publishes(sender=REMOTE, epoch=LIFE + 1, number=1, received={}, released={}, bodies=(body,)))

    assert list(live(site.take())) == [3]


@pytest.mark.parametrize("known_late", [False, True])
def test_what_was_for_a_former_distributor_does_not_overtake_what_died_with_that(site: Node, known_late: bool) -> None:
    """It stayed with its sender until this one was there; to those who are live the one before it would come too late (P4)."""
    if not known_late:
        site.start(("offline", QUEUE, (("a", 1, 0),)))
    site.publish((b"a", 1, b"second"), sender=REMOTE, number=2, stray=True)
    site.publish((b"a", 1, b"first"), sender=REMOTE, number=1)
    site.publish((b"a", 1, b"second"), sender=REMOTE, number=2)
    if known_late:
        site.distributor.on_peer_up(QUEUE_STORE, 1)
        rows = (("offline", QUEUE, (("a", 1, 0),), None, 0, None, "", ""),)
        site.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=rows, last=True))
    sent = [frame for _, frame in site.take() if isinstance(frame, Append)]
    assert [(frame.number, frame.parts[0][0]) for frame in sent] == [(1, QUEUE), (2, QUEUE)]


@pytest.mark.parametrize(("qos", "again"), [(0, []), (1, [1])])
def test_what_a_remote_published_before_a_new_listener_came_is_not_delivered_at_qos_0(
    site: Node, qos: int, again: list[int]
) -> None:
    """Its clients may have had it of the former one, which nobody knows any more: at most once, whether it was published at QoS 0
    or they subscribe at QoS 0.
    """
    site.start()
    site.frames(up("live", 3, ("#", qos)))
    site.take()
    for listener, expected in ((EPOCH - 1, again), (EPOCH, [0, 1]), (0, [0, 1])):
        site.publish((b"a", 0, b"x"), (b"a", 1, b"y"), sender=REMOTE, listener=listener)
        assert [row for row, _ in live(site.take()).get(3, [])] == expected


def test_a_shared_subscription_is_dealt_again_what_a_remote_published_before_a_new_listener_came(site: Node) -> None:
    """The member that had it may be gone, or another: twice rather than not at all, but for what was published at QoS 0."""
    site.start()
    site.frames(up("live", 3, ("$share/g/#", 0)))
    site.take()
    site.publish((b"a", 0, b"x"), (b"a", 1, b"y"), sender=REMOTE, listener=EPOCH - 1)
    assert [row for row, _ in live(site.take())[3]] == [1]


@pytest.mark.parametrize("late", ["came late", "waited", "waited and its sender was found dead"])
def test_what_a_dead_sender_has_left_goes_nowhere(site: Node, late: str) -> None:
    """Clients may have had newer messages of the topic, or these, from its new life [MQTT-4.6.0-6]; it was never acknowledged."""
    rows = (b"a", 0, b"x"), (b"a", 1, b"y"), (b"a", 2, b"z")
    if late != "came late":
        site.publish(*rows, sender=REMOTE)
    if late == "waited":
        site.announce(REMOTE, LIFE + 1)
    else:
        site.distributor.peers[REMOTE] = LIFE + 1
    site.distributor.on_peer_up(QUEUE_STORE, 1)
    known = (("offline", QUEUE, (("#", 1, 0),), None, 0, None, "", ""),)
    site.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=known, last=True), up("live", 4, ("a", 1)))
    if late == "came late":
        site.publish(*rows, sender=REMOTE)
    assert [frame for _, frame in site.take() if isinstance(frame, Append | Deliver)] == []

    site.publish(*rows, sender=REMOTE, epoch=LIFE + 1)
    sent = site.take()
    assert {source: [row for row, _ in rows] for source, rows in live(sent).items()} == {4: [0, 1, 2]}
    assert queued(sent) == {QUEUE: [(b"a", 1, b"y"), (b"a", 1, b"z")]}


def test_what_waits_is_kept_once_however_often_it_is_sent_again(site: Node) -> None:
    """Each sender sends everything again every few seconds, and a disk that refuses may keep this life waiting for hours."""
    site.publish((b"a", 1, b"of a life before"), sender=REMOTE, epoch=LIFE - 1)
    for _ in range(3):
        for number in (11, 12):
            site.publish((b"a", 1, b"%d" % number), sender=REMOTE, number=number)
    assert len(site.distributor._held) == 2
    site.distributor.on_peer_up(QUEUE_STORE, 1)
    site.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=(), last=True))
    assert [frame.number for _, frame in site.take() if isinstance(frame, Append)] == [11, 12]
    assert not site.distributor._held


def test_sessions_that_a_new_store_does_not_have_get_nothing_from_then_on(site: Node) -> None:
    """The one before died before it had told that they ended, or had them in memory only."""
    share = (("$share/g/a", 1, 0),)
    queues = {name: f"session:{number}:{name}" for number, name in enumerate(("kept", "gone", "renewed", "here", "comes"))}
    site.start(*((name, queue, share if name in ("kept", "gone") else ()) for name, queue in queues.items()))
    site.frames(up("here", 3, queue=queues["here"]))

    site.distributor.peers[QUEUE_STORE] = 2
    site.distributor.on_peer_up(QUEUE_STORE, 2)
    assert site.take() == [(QUEUE_STORE, SessionsWanted(epoch=EPOCH))]
    site.frames(up("comes", 4, ("b", 1), queue=queues["comes"]))  # its client has come back meanwhile
    rows = (("kept", queues["kept"], share, None, 0, None, "", ""), ("renewed", "session:9:renewed", (), None, 0, None, "", ""))
    site.frames(SessionsKnown(epoch=EPOCH, store=1, sessions=(), last=True))  # late, from the former one
    site.frames(SessionsKnown(epoch=EPOCH, store=2, sessions=rows[:1], last=False))
    site.frames(SessionsKnown(epoch=EPOCH, store=2, sessions=rows[1:], last=True))

    site.publish((b"a", 1, b"1"), (b"a", 1, b"2"), (b"b", 1, b"3"))
    found = queued(site.take())
    assert found == {queues["kept"]: [(b"a", 1, b"1"), (b"a", 1, b"2")], queues["comes"]: [(b"b", 1, b"3")]}


def test_a_session_that_has_ended_gets_nothing_and_a_newer_one_of_its_name_is_left_alone(site: Node) -> None:
    site.start(("offline", QUEUE, (("a", 1, 0),)))
    site.frames(up("offline", 3, ("a", 1), queue="session:65540:offline"), SessionGone(session="offline", queue=QUEUE))
    site.publish((b"a", 1, b"x"))
    assert list(queued(site.take())) == ["session:65540:offline"]
    site.frames(SessionGone(session="offline", queue="session:65540:offline"))
    site.publish((b"a", 1, b"x"))
    assert queued(site.take()) == {}


def test_the_end_of_a_connection_that_was_taken_over_ends_nothing(site: Node) -> None:
    site.start()
    site.frames(up("c", 3, ("a", 1)), up("c", 4, ("a", 1)), SessionDown(session="c", source=3, ended=True))
    site.publish((b"a", 1, b"x"))
    assert list(live(site.take())) == [4]


def test_queues_that_get_the_same_share_one_body(site: Node) -> None:
    site.start(*((f"s{number}", f"session:{number}:s{number}", (("a", 1, 0),)) for number in range(3)))
    site.publish((b"a", 1, b"x"))
    ((_, append),) = site.take()
    assert isinstance(append, Append)
    assert len(append.parts) == 3
    assert len(set(append.bodies)) == 1


def test_what_comes_after_a_change_goes_by_the_new_rules_and_a_repeat_where_it_went(tmp_path: Path) -> None:
    """P7: each message goes by the rule of when it was routed, however often it is sent, and says how many lanes there were."""

    def settings(number: int, bridge: str, lanes: int) -> NodeSettings:
        rule = RuleSettings(
            name="all", filters=("a/#",), excludes=(), destination="{topic}", max_qos=2, preserve_retain=False, user_properties=()
        )
        return node(replace(plain_bridge(bridge, local_subscriptions=(rule,)), lanes=lanes), number=number)

    def went(site: Node) -> list[tuple[list[str], tuple[tuple[str, int], ...]]]:
        appends = [frame for _, frame in site.take() if isinstance(frame, Append)]
        return [([part[0] for part in append.parts], append.lanes) for append in appends]

    site = Node(tmp_path, settings(1, "old", 1))
    site.start()
    site.publish((b"a/1", 1, b"x"))
    assert went(site) == [(["bridge:old:0"], ())]

    site.distributor.take(Reconfigured(settings(2, "new", 2)))
    site.publish((b"a/1", 1, b"y"))
    site.publish((b"a/1", 1, b"x"), number=1)
    assert went(site) == [([f"bridge:new:{crc32(b'a/1') % 2}"], (("new", 2),)), (["bridge:old:0"], ())]


STRICT, WEAK = PersistenceSettings(), PersistenceSettings(acknowledge="fast", flush_period_s=5.0, sync="os")


def machines(*strict: str, number: int = 1, store: PersistenceSettings = WEAK) -> NodeSettings:
    """Bridges for alarms, if that is among those that are ``strict``, and for telemetry."""
    names = {"alarms": "alarm/#", "telemetry": "t/#"}
    rules = {
        name: RuleSettings(
            name="all", filters=(each,), excludes=(), destination="{topic}", max_qos=2, preserve_retain=False, user_properties=()
        )
        for name, each in names.items()
    }
    bridges = [
        plain_bridge(name, local_subscriptions=(rules[name],), durability=STRICT if name in strict else WEAK)
        for name in names
        if name in strict or name == "telemetry"
    ]
    return replace(node(*bridges, number=number), persistence=store)


def durabilities(site: Node) -> list[Durability]:
    return [Durability(*frame.durability) for _, frame in site.take() if isinstance(frame, Append)]


@pytest.mark.parametrize(
    ("topic", "more", "strict"),
    [
        (b"t/1", {}, False),
        (b"t/1", {"durability": Durability.of(WEAK)}, False),
        (b"t/1", {"durability": Durability.of(STRICT)}, True),
        (b"alarm/1", {"durability": Durability.of(WEAK)}, True),
        (b"t/1", {"sender": "connection:telemetry:0"}, False),
        (b"t/1", {"sender": "connection:alarms:0"}, True),
        (b"alarm/1", {"sender": "connection:telemetry:0"}, True),
        (b"t/1", {"refused": {"bridge:alarms:0": 1}}, True),
        (b"t/1", {"released": {"client": b"\1\0"}}, True),
        (b"t/1", {"released": {"client": b"\1\0"}, "sender": "connection:telemetry:0"}, True),
    ],
)
def test_a_batch_is_to_be_kept_as_the_strictest_wants_that_it_concerns(
    tmp_path: Path, topic: bytes, more: dict[str, Any], strict: bool
) -> None:
    """A forgotten release would swallow another message under its identifier, whatever bridge that is for."""
    site = Node(tmp_path, machines("alarms"))
    site.start()

    site.publish((topic, 1, b"x"), **more)

    assert durabilities(site) == [Durability.of(STRICT if strict else WEAK)]


def test_it_is_kept_by_the_settings_by_which_it_was_routed_however_often_it_is_sent(tmp_path: Path) -> None:
    """P1: it goes to the queue of a bridge that is removed, or of one that asks for less since."""
    site = Node(tmp_path, machines("alarms"))
    site.start()
    site.publish((b"alarm/1", 1, b"x"))
    site.distributor.take(Reconfigured(machines(number=2)))
    site.publish((b"alarm/1", 1, b"x"), number=1)
    site.publish((b"alarm/1", 1, b"y"))

    assert durabilities(site) == [Durability.of(STRICT), Durability.of(STRICT), Durability.of(WEAK)]


def test_what_all_want_alike_is_said_too_since_the_store_may_have_other_settings_already(tmp_path: Path) -> None:
    """P1: here the store is to want less from now on, and the bridge as much as before."""
    site = Node(tmp_path, machines("alarms", "telemetry", store=STRICT))
    site.start()

    site.publish((b"t/1", 1, b"x"))

    assert durabilities(site) == [Durability.of(STRICT)]


def test_a_batch_says_by_which_rules_it_was_routed_where_any_leaves_something_out(site: Node) -> None:
    """store.last-payload-stands"""
    rule = RuleSettings(name="r", filters=("#",), only=OnlySettings(changed=True))

    def told(rules: tuple[RuleSettings, ...], lanes: int = 1) -> int:
        site.distributor.route_by(node(plain_bridge(local_subscriptions=rules, lanes=lanes)))
        site.publish((b"a", 1, b"x"))
        (append,) = [frame for _, frame in site.take() if isinstance(frame, Append)]
        return append.rules

    ways = [(rule,), (replace(rule, filters=("a/#", "#")),), (replace(rule, only=OnlySettings()), rule)]
    checksums = [told(way) for way in ways] + [told(ways[0], lanes=2)]
    assert len({0, *checksums}) == len(checksums) + 1
    assert [told(way) for way in ways] == checksums[: len(ways)]
    assert told((replace(rule, only=OnlySettings()),)) == 0
