"""Subscriptions go on record with a session that lasts, and retained messages come with them."""

from __future__ import annotations

from collections.abc import Sequence

from storage.engine.engine import Write
from storage.store.lane import Effects
from storage.store.retained_messages import RetainedMessages
from storage.store.session_rows import Session, Sessions
from storage.store.session_subscriptions import SessionSubscriptions
from tests.storage.building import RecordingEngine, node
from tests.storage.lane_parts import Parts
from wire.frames.batch import RETAIN, Batch, from_rows
from wire.frames.local_sessions import Retained, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept


class Subscribing:
    """A session that lasts, with a queue, and two retained messages."""

    def __init__(self) -> None:
        engine = RecordingEngine()
        self.parts = Parts(engine, node())
        self.sessions = Sessions(engine)
        retained, write = RetainedMessages(engine, node().sessions), Write()
        rows = [(b"plant/a", 1 | RETAIN, b"lasts"), (b"plant/b", RETAIN, b"live")]
        retained.change(from_rows(rows, accepted_ms=1000).encode(), (), write)
        engine.commit(write, sync=True)
        self.queue = self.parts.session_queues.make("c")
        self.parts.commit()
        self.sessions.keep(Session("c", expiry_s=60, queue=self.queue))
        self.subscriptions = SessionSubscriptions(self.sessions, retained, self.parts.session_queues, self.parts.next_commit)

    def add(self, request: int, *, queue: str) -> Effects:
        filters = (("plant/#", 1, 7, True),)
        frame = SubscriptionsAdd(epoch=1, request=request, session="c", source=3, queue=queue, filters=filters)
        return self.subscriptions.add(frame, 2000)

    @property
    def session(self) -> Session:
        session = self.sessions.get("c")
        assert session is not None
        return session


def payloads(effects: Effects) -> list[bytes]:
    frames: Sequence[Retained] = [frame for _, frame in effects if isinstance(frame, Retained)]
    return sorted(payload for frame in frames for body in frame.bodies for payload in Batch.decode(body).rows_payloads())


def test_what_lasts_goes_into_the_queue_and_the_rest_is_sent_live_before_the_answer() -> None:
    client = Subscribing()

    effects = client.add(1, queue=client.queue)

    assert payloads(effects) == [b"live"]
    assert isinstance(effects[-1][1], SubscriptionsKept)
    assert client.session.subscriptions == {"plant/#": (1, 7)}
    assert client.parts.next_commit.needs_sync
    client.parts.commit()
    assert client.parts.lanes.all[client.queue].queue.depth == 1


def test_the_same_subscribe_from_a_store_that_died_brings_nothing_retained_again() -> None:
    client = Subscribing()
    client.add(1, queue=client.queue)

    effects = client.add(1, queue=client.queue)

    assert [type(frame) for _, frame in effects] == [SubscriptionsKept]


def test_a_session_that_ends_with_its_connection_has_all_sent_live_and_nothing_on_record() -> None:
    client = Subscribing()

    effects = client.add(1, queue="")

    assert payloads(effects) == [b"lasts", b"live"]
    assert client.session.subscriptions == {}
    assert not client.parts.next_commit.needs_sync


def test_what_is_unsubscribed_is_off_the_record() -> None:
    client = Subscribing()
    client.add(1, queue=client.queue)
    frame = SubscriptionsDrop(epoch=1, request=2, session="c", source=3, queue=client.queue, filters=("plant/#", "other"))

    ((peer, answer),) = client.subscriptions.drop(frame)

    assert client.session.subscriptions == {}
    assert (peer, answer) == ("listener", SubscriptionsKept(epoch=1, request=2, source=3))
