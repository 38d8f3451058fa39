"""What is tried when a store is opened, in which order, over a model of its database."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.engine.store_opening import StoreOpening
from wire.errors import StorageDamaged


class ModelDatabase:
    """Has taken ``at`` operations; it can be opened, or only so that it bears with damage, or not at all."""

    def __init__(self, at: int = 0, *, damaged: bool = False, hopeless: bool = False) -> None:
        self.at = at
        self.damaged, self.hopeless = damaged, hopeless
        self.is_open = False
        self.openings: list[tuple[bool, bool]] = []  # tolerant, salvage
        self.copies: list[Path] = []

    def open(self, *, tolerant: bool, salvage: bool) -> None:
        self.openings.append((tolerant, salvage))
        if self.hopeless or (self.damaged and not tolerant):
            raise StorageDamaged("a table is damaged")
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def number(self, *, sync: bool = False) -> int:
        return self.at

    def look(self, *, tolerant: bool) -> int:
        return self.at

    def copy_to(self, target: Path) -> int:
        self.copies.append(target)
        target.mkdir(parents=True, exist_ok=True)
        (target / "CURRENT").write_text("MANIFEST-000001\n")
        (target / "MANIFEST-000001").write_bytes(b"whole")
        self.damaged = False
        return self.at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store in which seven operations are promised."""
    path = tmp_path / "store"
    database = ModelDatabase()
    opening = StoreOpening(path, database)
    opening.open()
    (path / "MANIFEST-000001").write_bytes(b"whole")
    (path / "CURRENT").write_text("MANIFEST-000001\n")
    opening.promise(7, {1: 30}, synced=True)
    opening.close()
    return path


def opened(path: Path, database: ModelDatabase) -> StoreOpening:
    opening = StoreOpening(path, database)
    opening.open()
    return opening


def test_a_store_that_has_what_was_promised_is_opened_once_and_owes_nothing(folder: Path) -> None:
    database = ModelDatabase(7)

    opening = opened(folder, database)

    assert database.openings == [(False, False)]
    assert (opening.missing, opening.owed, opening.kept) == (None, False, "")
    opening.close()


def test_commits_that_are_missing_are_owed_until_a_promise_says_where_all_stands(folder: Path) -> None:
    database = ModelDatabase(5)
    opening = opened(folder, database)

    assert database.openings == [(False, True)], "what can be salvaged of the log is"
    assert opening.missing is not None
    assert (opening.missing.number, opening.missing.tails) == (7, {1: 30})
    assert opening.owed
    assert opening.kept
    opening.close()
    opening = opened(folder, ModelDatabase(6))
    assert opening.owed, "it was not put on record in between"

    opening.promise(6, {1: 20}, synced=True)
    assert not opening.owed
    opening.close()

    again = opened(folder, ModelDatabase(6))
    assert (again.missing, again.owed) == (None, False)
    again.close()


def test_a_damaged_table_is_borne_with_at_last_and_the_rest_copied(folder: Path) -> None:
    database = ModelDatabase(7, damaged=True)

    opening = opened(folder, database)

    assert database.openings[0] == (False, False)
    assert (True, False) in database.openings
    assert len(database.copies) == 1
    assert database.openings[-1] == (False, False), "the copy is whole"
    assert not opening.tolerant
    assert opening.kept
    opening.close()


def test_what_nothing_opens_is_left_as_it_was(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(("CURRENT", "MANIFEST"))}
    opening = StoreOpening(folder, ModelDatabase(7, hopeless=True))

    with pytest.raises(StorageDamaged, match="cannot be opened"):
        opening.open()
    opening.close()

    assert {name: (folder / name).read_bytes() for name in before} == before
