"""A checkpoint becomes a store that goes on: no exchange holds, nothing is lost of what waits, and the ledger closes."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.engine.engine import RocksEngine
from storage.queue.ledger import LedgerRow
from storage.store.restored_rows import Restored, restart_exchanges
from storage.store.session_rows import Session
from storage.store.store import Store
from tests.storage.building import QUEUE, append_frame, batch, node, settle_frame
from tests.storage.commanding import command
from tests.support.stores import open_store
from wire.exchange.former_sessions import LeftSession
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.lanes import Credit, LaneOpen, LaneOpened
from wire.frames.names import connection_name, remote_client_id, remote_session_name
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S

EPOCH, MANY = 7 << 20, 1 << 40
SESSION = f"{remote_client_id('cloud', 0)}@127.0.0.1:1"


def store_with_an_exchange(path: Path) -> Store:
    """Four QoS 2 messages, of which the first is settled, the second released, the third sent; and a session of a client."""
    store = open_store(RocksEngine(path), node(), 1)
    for frame in (
        append_frame(1, {QUEUE: (batch([b"a", b"b", b"c", b"d"], 2), None)}),
        LaneOpen(queue=QUEUE, epoch=EPOCH),
        Credit(queue=QUEUE, epoch=EPOCH, messages=3, size_bytes=MANY),
    ):
        store.receive(frame)
        store.commit(100.0, 5000)
    store.receive(settle_frame(1, EPOCH, ("delivered", ((0, 1),)), released=((1, 2),), session=SESSION, generation=3))
    remote = remote_session_name(connection_name("cloud", 0), SESSION, 3)
    in_it, publisher = Session(remote, expiry_s=SESSION_NEVER_EXPIRES_S), Session("publisher", expiry_s=60)
    for session, received in ((in_it, [9]), (publisher, [4, 5])):
        store.sessions.rows.keep(session)
        store.sessions.rows.receive(session.name, received)
    store.sessions.rows.subscribe(in_it, "cmd/#", 2, 0)
    store.commit(100.0, 5000, at_once=True)
    return store


def restored(path: Path) -> Restored:
    engine = RocksEngine(path)
    done = restart_exchanges(engine, wall_ms=9000, snapshot="edge-1", messages=3)
    engine.close()
    return done


def test_no_exchange_of_before_the_checkpoint_holds_after_a_restore(tmp_path: Path) -> None:
    """store.restored-begins-anew"""
    store = store_with_an_exchange(tmp_path / "store")
    former = store.checkpoint(str(tmp_path / "copy"), 100.0, 5000).identity
    store.close()

    assert restored(tmp_path / "copy") == Restored(queues=1, sessions=2, damaged=())

    store = open_store(RocksEngine(tmp_path / "copy"), node(), 2)
    store.receive(LaneOpen(queue=QUEUE, epoch=EPOCH + (1 << 20)))
    (opened,) = [frame for _, frame in store.commit(100.0, 9000, at_once=True) if isinstance(frame, LaneOpened)]
    every = ((1, 1 + PACKET_IDS),)
    assert (opened.session, opened.generation, opened.released) == ("", 4, ())
    assert opened.left == (LeftSession(SESSION, 3, 4, (), every),), "its session may hold every packet identifier"
    assert (opened.head, opened.tail, opened.dup_below) == (1, 4, 4), "all that waits may have been sent"
    assert [session.received for session in store.sessions.rows] == [set(), set()], "and nothing that comes is a repeat"
    assert [sorted(session.subscriptions) for session in store.sessions.rows] == [["cmd/#"], []]
    row = store.status(9000).queues[QUEUE]
    assert (row.depth, row.delivered, row.ledger_closes) == (3, 1, True)
    assert command(store, "purge", bridge="cloud")["purged"] == 0, "so nothing of it was certainly never sent"
    events = command(store, "events")["events"]
    (event,) = [event for event in events if event["kind"] == "node.restored"]
    assert (event["reason"], event["count"], event["details"]) == ("edge-1", 3, {"of_store": former})
    assert store.identity != former, "it is another store from here on"
    store.close()


def test_a_restore_that_is_done_twice_is_as_one(tmp_path: Path) -> None:
    store_with_an_exchange(tmp_path / "store").close()
    restored(tmp_path / "store")
    restored(tmp_path / "store")

    store = open_store(RocksEngine(tmp_path / "store"), node(), 2)
    sent = store.lanes.all[QUEUE].queue.sent
    assert [(left.session, left.generation) for left in sent.left] == [(SESSION, 3)]
    assert sent.session == ""
    store.close()


@pytest.mark.parametrize("used", [True, False], ids=["used before the checkpoint", "and after it alone"])
def test_a_client_is_made_to_let_go_only_where_it_takes_qos_2(tmp_path: Path, used: bool) -> None:
    store = open_store(RocksEngine(tmp_path / "store"), node(), 1)
    for name, qos in (("one", 1), ("two", 2)):
        queue = store.lanes.open(f"session:{70_000 + qos}:{name}").queue
        queue.changed = used  # else it has no row
        session = Session(name, expiry_s=60, queue=queue.name)
        store.sessions.rows.keep(session)
        store.sessions.rows.subscribe(session, "t", qos, 0)
    store.commit(100.0, 5000, at_once=True)
    store.close()
    restored(tmp_path / "store")

    engine = RocksEngine(tmp_path / "store")
    rows = {key: LedgerRow.decode(value, queue="") for key, value in engine.scan("meta", b"L", b"M")}
    assert sorted((row.session, len(row.left)) for row in rows.values() if row.left or row.session) == [("", 1), ("client", 0)]
    engine.close()
