"""Collections of figures for status requests."""

from __future__ import annotations

from supervisor.tree.status_collection import ASKERS_MAX, Collection


def test_a_collection_is_complete_when_all_have_reported_to_it() -> None:
    collection: Collection[str] = Collection()
    assert not collection.begin(["store"]), "nobody asks"
    assert collection.ask("a")
    assert collection.begin(["store", "listener"])
    collection.on_reported("store", collection.number)
    collection.on_reported("listener", collection.number - 1)
    collection.on_reported("listener", 0)
    assert not collection.complete
    collection.on_reported("listener", collection.number)
    assert collection.complete
    assert collection.end() == ["a"]
    assert not collection.complete


def test_who_asks_meanwhile_is_served_by_the_next_one() -> None:
    collection: Collection[str] = Collection()
    collection.ask("a")
    assert collection.begin(["store"])
    collection.ask("b")
    assert not collection.begin(["store"]), "one at a time"
    collection.on_gone("store")
    assert collection.complete
    assert collection.end() == ["a"]
    assert collection.begin([])
    assert collection.complete
    assert collection.end() == ["b"]


def test_too_many_askers_are_refused() -> None:
    collection: Collection[int] = Collection()
    assert all(collection.ask(number) for number in range(ASKERS_MAX))
    assert not collection.ask(-1)
    collection.begin([])
    assert not collection.ask(-1), "those that are being served count too"
    collection.end()
    assert collection.ask(-1)
