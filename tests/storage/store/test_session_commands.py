"""Commands about local clients' sessions in the store: what they list and show, and that an end is whole or has not been."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from storage.engine.engine import Engine
from storage.store import session_commands
from storage.store.store import Store
from tests.storage.building import RecordingEngine, append_frame, batch, with_remote_session
from tests.storage.store.test_local_sessions import WILL, known, open_session, settings, subscribe, turn
from tests.support.present import present
from tests.support.stores import open_store
from wire.frames.frame import Effects
from wire.frames.intake import SessionClose, SessionGone
from wire.frames.names import DISTRIBUTOR, LISTENER
from wire.frames.supervision import QueueAnswer, SessionCommand
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.status.answers import ConnectedClient

_NUMBERS = count(1)
MINUTE_MS = 60_000


def live(client_id: str, **facts: Any) -> ConnectedClient:
    """The Listener's knowledge of a client that is connected."""
    row: dict[str, Any] = {
        "client_id": client_id,
        "user": None,
        "connected": True,
        "address": "10.0.0.7:4711",
        "level": 5,
        "keep_alive_s": 60.0,
        "since_ms": 500,
        "expiry_s": 0,
        "lasting": False,
        "subscriptions": 1,
        "depth": 3,
        "bytes": None,
        "in_flight": 2,
        "received": 0,
        "will": False,
    }
    return ConnectedClient(**row | facts)


def effects_of(store: Store, verb: str, *rows: ConnectedClient, until: str | None = None, **arguments: Any) -> Effects:
    command = SessionCommand(request=next(_NUMBERS), verb=verb, arguments=arguments, asker=LISTENER, live=rows, until=until)
    store.receive(command)
    return store.commit(100.0, 5000)


def ask(store: Store, verb: str, *rows: ConnectedClient, until: str | None = None, **arguments: Any) -> QueueAnswer:
    (answer,) = [frame for _, frame in effects_of(store, verb, *rows, until=until, **arguments) if isinstance(frame, QueueAnswer)]
    return answer


def result(store: Store, verb: str, *rows: ConnectedClient, until: str | None = None, **arguments: Any) -> dict[str, Any]:
    answer = ask(store, verb, *rows, until=until, **arguments)
    assert not answer.error, answer
    return answer.result


def away(session: str = "c", *, expiry_s: int = 60, keep_will: bool = False) -> SessionClose:
    return SessionClose(
        sender=LISTENER, epoch=1, session=session, source=1, wall_ms=MINUTE_MS, expiry_s=expiry_s, keep_will=keep_will
    )


def names(page: dict[str, Any]) -> list[str]:
    return [row["client_id"] for row in page["sessions"]]


def filled(store: Store, session: str = "c", messages: int = 2, *, number: int = 1, **more: object) -> str:
    """A session with a subscription and messages; its queue."""
    queue = open_session(store, session, **more).queue
    turn(store, subscribe(queue, session=session))
    payloads = [b"%d" % number for number in range(messages)]
    turn(store, append_frame(number, {queue: (batch(payloads, 1), None)}, received={session: [7]}))
    return queue


# --- ls, show ---


def test_a_session_that_lasts_says_how_it_stands(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store, "c", user="ada").queue
    turn(store, subscribe(queue), append_frame(1, {queue: (batch([b"a", b"b"], 1), None)}, received={"c": [7]}))
    turn(store, away())

    (row,) = result(store, "list")["sessions"]
    assert (row["user"], row["connected"], row["since_ms"], row["expires_ms"]) == ("ada", False, MINUTE_MS, 2 * MINUTE_MS)
    assert (row["subscriptions"], row["depth"], row["in_flight"], row["received"], row["lasting"]) == (1, 2, 0, 1, True)
    assert row["bytes"] > 0

    (row,) = result(store, "list", live("c", lasting=True, received=4))["sessions"]
    assert (row["connected"], row["address"], row["level"], row["in_flight"]) == (True, "10.0.0.7:4711", 5, 2)
    assert (row["depth"], row["since_ms"], row["expires_ms"], row["expiry_s"]) == (2, 500, None, 60), "its queue is the store's"

    shown = result(store, "show", client_id="c")
    assert shown["queue"] == queue
    assert shown["filters"] == [{"filter": "a/#", "qos": 1, "no_local": False, "retain_as_published": False, "identifier": None}]
    assert (shown["next"], shown["will"]) == (None, None)


def test_a_session_that_never_expires_has_no_end(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    open_session(store, expiry_s=SESSION_NEVER_EXPIRES_S)
    turn(store, away(expiry_s=SESSION_NEVER_EXPIRES_S))
    (row,) = result(store, "list")["sessions"]
    assert (row["expiry_s"], row["expires_ms"]) == (None, None)


def test_who_is_connected_and_what_is_kept_come_in_one_order_page_by_page(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages' bounds do not matter: the Listener's, the store's, and how many may be looked at."""
    monkeypatch.setattr(session_commands, "SCANNED_SESSIONS", 3)
    store = open_store(engine, settings(), 1)
    kept = ["a", "c", "d", "f", "g", "h", "m", "z"]
    connected = ["b", "c", "e", "f", "y"]
    for number, name in enumerate(kept, start=1):
        open_session(store, name, request=number)
    with_remote_session(store)

    def pages(live_per_page: int, **wanted: Any) -> list[str]:
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            known = sorted(name for name in connected if name > after)
            until = known[live_per_page - 1] if len(known) > live_per_page else None
            rows = [live(name) for name in known[:live_per_page]]
            page = result(store, "list", *rows, until=until, after=after, **wanted)
            found += names(page)
            assert page["next"] is None or page["next"] > after, "it goes on"
            after = page["next"]
        return found

    everyone = sorted({*kept, *connected})
    for live_per_page in (1, 2, 5):
        for most in (1, 2, 500):
            assert pages(live_per_page, count=most) == everyone
    assert pages(2, connected=True) == connected
    assert pages(2, connected=False) == [name for name in kept if name not in connected]
    assert pages(2, like="[a-e]") == ["a", "b", "c", "d", "e"]
    assert pages(2, user="ada") == []


def test_subscriptions_are_shown_in_pages(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_commands, "FILTERS_PER_PAGE", 2)
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    for number, topic_filter in enumerate("abc", start=1):
        turn(store, subscribe(queue, topic_filter, 0x0E, request=number))
    first = result(store, "show", client_id="c")
    last = result(store, "show", client_id="c", **{"from": first["next"]})
    assert [one["filter"] for one in first["filters"] + last["filters"]] == ["a", "b", "c"]
    assert (first["filters"][0]["qos"], first["filters"][0]["no_local"], first["filters"][0]["retain_as_published"]) == (
        2,
        True,
        True,
    )
    assert last["next"] is None


def test_a_live_session_has_what_the_listener_says(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    open_session(store, "live", expiry_s=0, will=WILL)
    (row,) = result(store, "list", live("live", will=True))["sessions"]
    assert (row["depth"], row["lasting"], row["expires_ms"]) == (3, False, None)
    shown = result(store, "show", live("live", will=True, filters=(("t", 1, 9),)), client_id="live")
    assert shown["filters"] == [{"filter": "t", "qos": 1, "no_local": False, "retain_as_published": False, "identifier": 9}]
    assert (shown["will"]["topic"], shown["will"]["size"], shown["will"]["delay_s"], shown["will"]["due_ms"]) == (
        WILL[0].decode(),
        len(WILL[2]),
        30,
        None,
    )
    whole = result(store, "will", live("live", will=True), client_id="live")["will"]
    assert (whole["payload"], whole["properties"]) == (WILL[2], WILL[3])


@pytest.mark.parametrize("verb", ["show", "end", "disconnect"])
def test_what_is_no_session_of_a_client_is_named(engine: Engine, verb: str) -> None:
    lane = "connection:cloud:0"
    store = open_store(engine, settings(), 1)
    session = with_remote_session(store)

    nobody = ask(store, verb, client_id="nobody")
    assert nobody.error == "no_such_session"
    assert "'nobody'" in nobody.message
    for name in (lane, session, "bridge:cloud:0"):
        remote = ask(store, verb, client_id=name)
        assert remote.error == "not_a_client"
        assert "is a bridge's lane" in remote.message
    filled(store)
    turn(store, away())
    assert verb != "disconnect" or ask(store, verb, client_id="c").error == "not_connected"


# --- end ---


def test_a_session_that_is_ended_leaves_nothing_behind_and_is_counted(engine: Engine) -> None:
    """store.session-goes-with-its-queue"""
    store = open_store(engine, settings(), 1)
    queue = filled(store, user="ada")
    filled(store, "other", messages=1, number=2, request=2)
    turn(store, away())

    effects = effects_of(store, "end", client_id="c")

    gone = SessionGone(session="c", queue=queue, drops_will=False)
    assert effects[:2] == [(DISTRIBUTOR, gone), (LISTENER, gone)]
    ((peer, answer),) = effects[2:]
    assert peer == LISTENER
    assert isinstance(answer, QueueAnswer)
    assert answer.result == {"client_id": "c", "was_connected": False, "purged": 2, "subscriptions": 1, "will": "none"}
    assert list(known(store)) == ["other"]
    if engine.durable:
        (event,) = [row for row in store.housekeeping.events.read(0, 10)[0] if row.kind == "session.ended"]
        assert (event.actor, event.reason, event.count) == ("operator", "operator", 2)
        assert event.details == {"client_id": "c", "user": "ada", "subscriptions": 1, "will": "none"}
    figures = store.status(0).sessions
    assert (present(figures).ended, present(figures).purged, present(figures).kept) == (1, 2, 1)
    again = open_session(store, request=9, source=9)
    assert (again.present, again.subscriptions, again.received) == (False, (), b"")
    assert again.queue != queue


def test_an_end_is_whole_or_has_not_been_whenever_the_node_dies() -> None:
    """store.session-goes-with-its-queue: a kill or a power cut at each write: the session with all in it, or nothing of it;
    the event says which.
    """
    engine = RecordingEngine()
    store = open_store(engine, settings(), 1)
    queue = filled(store, messages=3)
    turn(store, away())
    before = len(engine.writes)
    assert result(store, "end", client_id="c")["purged"] == 3
    assert len(engine.writes) == before + 1, "one commit"

    for _, kept, survivor in engine.survivors(before):
        ended = kept > before
        recovered = open_store(survivor, settings(), 2)
        told = [row for row in recovered.housekeeping.events.read(0, 10)[0] if row.kind == "session.ended"]
        opened = open_session(recovered, epoch=2)
        assert opened.present is not ended
        assert bool(told) is ended
        stored = list(survivor.scan("msg", b"\0", b"\xff" * 12))
        if ended:
            assert not stored
            assert opened.queue != queue
        else:
            assert stored
            assert (opened.queue, opened.received) == (queue, b"\x07\0")
            assert [one[0] for one in opened.subscriptions] == ["a/#"]


def test_the_will_of_a_session_that_is_ended_is_due_at_once_and_stays_on_record_until_it_is_out(engine: Engine) -> None:
    """store.will-kept-until-published"""
    store = open_store(engine, settings(), 1)
    filled(store, will=WILL)
    turn(store, away(keep_will=True))
    assert result(store, "end", client_id="c")["will"] == "published"

    store = open_store(engine, settings(), 2) if engine.durable else store
    queue, subscriptions, will, due_ms, *_ = known(store)["c"]
    assert (queue, subscriptions, will, due_ms) == ("", (), WILL, MINUTE_MS), "its delay has passed"
    assert names(result(store, "list")) == []
    refused = ask(store, "end", client_id="c")
    assert refused.error == "no_such_session"
    assert "its Will waits to be published" in refused.message


def test_a_will_that_is_taken_back_goes_with_its_session(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = filled(store, will=WILL)
    turn(store, away(keep_will=True))
    effects = effects_of(store, "end", client_id="c", drops_will=True)
    assert effects[1] == (LISTENER, SessionGone(session="c", queue=queue, drops_will=True))
    assert known(store) == {}
    assert not list(engine.scan("meta", b"S", b"T"))


def test_a_live_session_ends_with_its_connection_and_is_told_of(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    effects = effects_of(store, "end", live("live"), client_id="live")
    ((_, answer),) = effects
    assert isinstance(answer, QueueAnswer)
    assert answer.result == {"client_id": "live", "was_connected": True, "purged": 3, "subscriptions": 1, "will": "none"}


def test_an_end_that_the_disk_refuses_is_told_once_it_is_done() -> None:
    engine = RecordingEngine()
    store = open_store(engine, settings(), 1)
    queue = filled(store)
    turn(store, away())
    engine.refusing = True
    effects = effects_of(store, "end", client_id="c")
    ((_, answer),) = effects
    assert isinstance(answer, QueueAnswer)
    assert (answer.error, answer.result) == ("unavailable", {"ordered": True})
    assert "make room and say it again; nothing was done" in ask(store, "end", client_id="c").message
    assert names(result(store, "list")) == [], "what was ordered is seen, though it waits"
    engine.refusing = False
    gone = SessionGone(session="c", queue=queue)
    assert store.commit(200.0, 0) == [(DISTRIBUTOR, gone), (LISTENER, gone)]


def test_the_bridges_are_not_touched(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = filled(store)
    turn(store, append_frame(2, {"bridge:cloud:0": (batch([b"x"], 1), None), queue: (batch([b"x"], 1), None)}))
    result(store, "end", client_id="c")
    row = store.status(0).queues["bridge:cloud:0"]
    assert (row.depth, row.ledger_closes) == (1, True)
