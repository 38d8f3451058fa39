"""Subscriptions go on record with a session that lasts, and with them that retained messages are owed."""

from __future__ import annotations

from storage.engine.engine import Write
from storage.engine.keys import PASSES
from storage.store.lane import State
from storage.store.local_sessions import SessionSubscriptions
from storage.store.retained_messages import RetainedMessages
from storage.store.retained_pieces import RetainedPieces
from storage.store.session_rows import Session, Sessions
from tests.storage.building import RecordingEngine, node
from tests.storage.lane_parts import Parts
from wire.config_settings import SettingsNow
from wire.frames.batch import RETAIN, from_rows
from wire.frames.frame import Effects
from wire.frames.subscriptions import SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.routing.retained_topics import pack_owned


class Subscribing:
    """A session that lasts, with a queue, and two retained messages."""

    def __init__(self) -> None:
        engine = RecordingEngine()
        self.parts = Parts(engine, node())
        self.sessions = Sessions(engine)
        retained, write = RetainedMessages(engine, SettingsNow(node())), Write()
        rows = [(b"plant/a", 1 | RETAIN, b"lasts"), (b"plant/b", RETAIN, b"live")]
        retained.change(pack_owned(from_rows(rows, accepted_ms=1000), [""] * len(rows)), write)
        engine.commit(write, sync=True)
        self.queue = self.parts.session_queues.make("c")
        self.parts.commit()
        self.sessions.keep(Session("c", expiry_s=60, queue=self.queue))
        queues, commit = self.parts.session_queues, self.parts.next_commit
        self.pieces = RetainedPieces(engine, SettingsNow(node()), self.sessions, queues, commit)
        self.subscriptions = SessionSubscriptions(self.sessions, self.pieces, commit)

    def add(self, request: int, *, queue: str) -> Effects:
        filters = (("plant/#", 1, 7, True),)
        frame = SubscriptionsAdd(epoch=1, request=request, session="c", source=3, queue=queue, filters=filters)
        return self.subscriptions.add(frame)

    @property
    def session(self) -> Session:
        session = self.sessions.get("c")
        assert session is not None
        return session


def test_they_go_on_record_with_what_is_owed_for_them() -> None:
    client = Subscribing()

    effects = client.add(1, queue=client.queue)

    assert effects == [("listener", SubscriptionsKept(epoch=1, request=1, source=3))]
    assert client.session.subscriptions == {"plant/#": (1, 7)}
    assert client.parts.next_commit.needs_sync
    assert list(client.pieces.queues) == [client.queue]


def test_the_same_subscribe_from_a_store_that_died_brings_nothing_retained_again() -> None:
    client = Subscribing()
    client.add(1, queue=client.queue)
    client.pieces.end_all(client.queue)

    assert [type(frame) for _, frame in client.add(1, queue=client.queue)] == [SubscriptionsKept]

    assert not client.pieces.queues


def test_what_is_unsubscribed_is_off_the_record() -> None:
    client = Subscribing()
    client.add(1, queue=client.queue)
    frame = SubscriptionsDrop(epoch=1, request=2, session="c", source=3, queue=client.queue, filters=("plant/#", "other"))

    ((peer, answer),) = client.subscriptions.drop(frame)

    assert client.session.subscriptions == {}
    assert (peer, answer) == ("listener", SubscriptionsKept(epoch=1, request=2, source=3))


def test_a_queue_whose_row_is_damaged_is_owed_nothing_by_what_is_unsubscribed() -> None:
    """Else the row of it would stay for ever, and what goes on where it stood would look for the subscription."""
    client = Subscribing()
    client.add(1, queue=client.queue)
    client.parts.commit()
    client.parts.lanes.all[client.queue].state = State.UNREADABLE

    client.subscriptions.drop(
        SubscriptionsDrop(epoch=1, request=2, session="c", source=3, queue=client.queue, filters=("plant/#",))
    )
    client.parts.commit()

    assert not client.pieces.queues
    assert list(client.parts.engine.scan("meta", PASSES, b"H")) == []
