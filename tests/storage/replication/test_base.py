"""A store that another member begins with: brought whole or not at all, and put in place however often it is cut short."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import files
from storage.engine.engine import RocksEngine
from storage.replication.base import PART_NAME, WHOLE, fetch, install, offer, withdraw
from storage.replication.replica import Replica
from tests.storage.replication.building import Clock, Node, put
from tests.support.log_double import LogDouble, Servers
from wire.errors import Unavailable

OLD, NEW = {"CURRENT": b"old", "1.sst": b"o" * 100}, {"CURRENT": b"new", "2.sst": b"n" * 100, "empty": b""}


class _Killed(BaseException):
    """kill -9, here."""


def made(folder: Path, content: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def offered(tmp_path: Path) -> LogDouble:
    objects = Servers().client("a")
    offer(objects, made(tmp_path / "offer", NEW), "at-1")
    return objects


def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, names: tuple[str, ...], at: int, *, after: bool) -> None:
    """Die at the call number ``at`` of these, before it or after it."""
    calls = itertools.count()

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            dies = next(calls) == at
            if dies and not after:
                raise _Killed
            found = original(*arguments)
            if dies:
                raise _Killed
            return found

        return call

    for name in names:
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))


def test_what_is_offered_is_brought_and_takes_the_place_of_what_was(tmp_path: Path) -> None:
    objects, store = offered(tmp_path), made(tmp_path / "data/store", OLD)

    assert fetch(objects, "at-1", store) == 103
    assert content(store) == OLD
    assert install(store)

    assert content(store) == NEW
    assert [path.name for path in store.parent.iterdir()] == ["store"]
    assert not install(store)


def test_a_member_without_a_store_begins_with_it(tmp_path: Path) -> None:
    objects, store = offered(tmp_path), tmp_path / "data/store"
    store.parent.mkdir()
    assert not install(store)
    fetch(objects, "at-1", store)

    assert install(store)
    assert content(store) == NEW


def test_one_offer_takes_the_place_of_another_and_can_be_withdrawn(tmp_path: Path) -> None:
    objects = offered(tmp_path)
    offer(objects, made(tmp_path / "later", OLD), "at-2")
    assert {name.partition("/")[0] for name in objects.names()} == {"at-2"}

    withdraw(objects)
    assert objects.names() == []
    with pytest.raises(Unavailable):
        fetch(objects, "at-2", made(tmp_path / "data/store", OLD))


def test_an_offer_counts_once_all_of_it_is_there(tmp_path: Path) -> None:
    for put_before in range(len(NEW) + 1):
        objects, folder = Servers().client("a"), made(tmp_path / f"offer{put_before}", NEW)
        puts = itertools.count()

        class Failing(LogDouble):
            def put(self, name: str, path: Path, puts: Any = puts, put_before: int = put_before) -> None:
                if next(puts) == put_before:
                    raise Unavailable("away")
                super().put(name, path)

        with pytest.raises(Unavailable):
            offer(Failing(objects.servers, "a"), folder, "at-1")
        store = made(tmp_path / f"data{put_before}/store", OLD)
        with pytest.raises(Unavailable):
            fetch(objects, "at-1", store)
        assert not install(store)
        assert content(store) == OLD
        assert offer(objects, folder, "at-1")


def test_what_changes_while_it_is_brought_does_not_count(tmp_path: Path) -> None:
    objects, store = offered(tmp_path), made(tmp_path / "data/store", OLD)
    objects.servers.objects["at-1/2.sst"] = b"n"

    with pytest.raises(Unavailable):
        fetch(objects, "at-1", store)

    assert not install(store)
    assert content(store) == OLD


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(0, 26, 2))
def test_a_fetch_that_is_cut_short_leaves_the_old_store_or_has_brought_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool
) -> None:
    objects, store = offered(tmp_path), made(tmp_path / "data/store", OLD)
    with monkeypatch.context() as patched:
        killed_at(patched, files, ("discard", "make_folder", "remove", "sync", "touch"), at, after=after)
        try:
            fetch(objects, "at-1", store)
        except _Killed:
            pass

    whole = (store.with_name(PART_NAME) / WHOLE).exists()
    assert content(store) == OLD
    assert install(store) == whole
    assert content(store) == (NEW if whole else OLD)
    fetch(objects, "at-1", store)
    assert install(store)
    assert content(store) == NEW


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("left", [False, True], ids=["", "one was left"])
def test_an_installation_that_is_cut_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool, left: bool
) -> None:
    objects, store = offered(tmp_path), made(tmp_path / "data/store", OLD)
    if left:
        made(tmp_path / "data/store.replaced", OLD)
    fetch(objects, "at-1", store)
    with monkeypatch.context() as patched:
        killed_at(patched, files, ("discard", "rename", "remove"), at, after=after)
        try:
            install(store)
        except _Killed:
            pass

    install(store)

    assert content(store) == NEW
    assert [path.name for path in store.parent.iterdir()] == ["store"]


def test_a_member_goes_on_from_the_base_of_another(tmp_path: Path) -> None:
    servers, clock = Servers(), Clock()
    node, other = Node(servers, clock, "a"), Node(servers, clock, "b")
    own = RocksEngine(tmp_path / "a/store")
    node.replica = node.follower.replica = Replica(own, "node-a")
    engine = node.lead()
    engine.commit(put(b"before")[0], sync=True)
    engine.checkpoint(str(tmp_path / "a/offer"))
    offer(node.log, tmp_path / "a/offer", "at-3")
    node.log.trim(servers.last + 1)
    engine.commit(put(b"after")[0], sync=True)
    files.make_folder(tmp_path / "b")
    old = RocksEngine(tmp_path / "b/store")
    old.close()

    fetch(other.log, "at-3", tmp_path / "b/store")
    install(tmp_path / "b/store")
    begun = RocksEngine(tmp_path / "b/store")
    assert begun.missing is None
    other.replica = other.follower.replica = Replica(begun, "node-b")
    assert begun.get("msg", b"rows1") == b"before"
    other.follow()

    assert begun.get("msg", b"rows1") == b"after"
    assert other.replica.position == node.replica.position
    begun.close()
    own.close()
