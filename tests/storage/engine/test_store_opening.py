"""Attempts when a store is opened, and their order, over a model of its database."""

from __future__ import annotations

import shutil
from pathlib import Path
from zlib import crc32

import pytest

from storage.engine.store_identity import KnownStore, StoreNote
from storage.engine.store_opening import StoreOpening
from wire.errors import StorageDamaged, StoreGone


class ModelDatabase:
    """Has taken ``at`` operations; it can be opened, or only so that it bears with damage, or not at all."""

    def __init__(self, at: int = 0, *, damaged: bool = False, hopeless: bool = False, name: str = "5a" * 16) -> None:
        self.at = at
        self.name = name
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

    def probe(self, *, tolerant: bool) -> tuple[int, str]:
        return self.at, self.name

    def identity(self) -> str:
        return self.name

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
    path.mkdir()
    (path / "MANIFEST-000001").write_bytes(b"whole")
    (path / "CURRENT").write_text("MANIFEST-000001\n")
    opening.open()
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


# --- whose store it is (engine.own-store-only) ---


def refused(path: Path, database: ModelDatabase, *, begins: bool = False) -> str:
    opening = StoreOpening(path, database, begins=begins)
    with pytest.raises(StoreGone) as refusal:
        opening.open()
    opening.close()
    assert database.openings == [], "nothing is changed in what is not ours"
    assert "bascule run CONFIG --new-store" in str(refusal.value)
    return str(refusal.value)


def test_another_store_is_not_opened_and_both_are_named(folder: Path) -> None:
    """engine.own-store-only"""
    assert "store b0b0b0b0 is in its place" in refused(folder, ModelDatabase(9, name="b0" * 16))
    assert "store 5a5a5a5a" in refused(folder, ModelDatabase(9, name="b0" * 16)), "the one that is wanted"


def test_a_store_without_an_identity_is_none_where_one_is_known(folder: Path) -> None:
    """engine.own-store-only"""
    assert "store without a name is in its place" in refused(folder, ModelDatabase(7, name=""))


def test_an_older_copy_is_not_opened(folder: Path) -> None:
    """engine.own-store-only: its mark is as old as itself, and the note is not."""
    kept = folder.with_name("copy")
    shutil.copytree(folder, kept)
    opening = opened(folder, ModelDatabase(7))
    opening.promise(8, {}, synced=True)
    opening.note(0, durable=False)
    opening.close()
    shutil.rmtree(folder)
    kept.rename(folder)

    assert "ends at commit 7 and not at 8" in refused(folder, ModelDatabase(7))


@pytest.mark.parametrize("left", ["empty", "nothing", "mark"])
def test_a_store_that_is_not_there_is_not_made_anew(folder: Path, left: str) -> None:
    """engine.own-store-only: not even where what may make a new one asks."""
    for path in folder.iterdir():
        if left != "mark" or path.name != "COMMITTED":
            path.unlink()
    if left == "nothing":
        folder.rmdir()

    assert "nothing of a store" in refused(folder, ModelDatabase(), begins=True)
    assert folder.exists() is (left != "nothing"), "so that it can be moved back"


def test_without_a_note_a_node_makes_nothing_at_all(tmp_path: Path) -> None:
    """engine.own-store-only: the whole data folder may be gone, or covered by another one."""
    assert "no note of it" in refused(tmp_path / "data" / "store", ModelDatabase())
    assert not (tmp_path / "data").exists()


def test_a_store_of_which_nothing_was_ever_promised_may_be_made_again(tmp_path: Path) -> None:
    opened(tmp_path / "store", ModelDatabase(0, name="")).close()
    (tmp_path / "store" / "COMMITTED").unlink()
    (tmp_path / "store").rmdir()

    opened(tmp_path / "store", ModelDatabase(0, name="")).close()


def test_what_the_note_says_of_a_store_that_went_back_is_what_was_found(folder: Path) -> None:
    """Otherwise the next opening would take it for an older copy."""
    opening = opened(folder, ModelDatabase(5))
    assert opening.owed
    opening.promise(6, {}, synced=True)
    opening.close()

    opened(folder, ModelDatabase(6)).close()


@pytest.mark.parametrize("facts", ['{"color": "red"}', '{"store": 7}', "[]", "{"])
def test_a_note_with_other_fields_is_a_damaged_one(folder: Path, facts: str) -> None:
    body = f"99 {facts}\n".encode()
    StoreNote(folder).path.write_bytes((f"{crc32(body):08x} ".encode() + body).ljust(2048, b"\0"))

    assert StoreNote(folder).read() == KnownStore()


def test_a_folder_whose_note_was_lost_is_taken_for_what_is_inside(folder: Path) -> None:
    folder.with_name("store.identity").unlink()
    opening = opened(folder, ModelDatabase(7))

    assert (opening.known.store, opening.known.number) == ("5a" * 16, 7)
    opening.close()


# --- the files of an open store (engine.files-there) ---


@pytest.mark.parametrize("what", ["removed", "moved", "emptied", "replaced", "one file"])
def test_nothing_is_promised_in_files_that_the_next_opening_would_not_find(folder: Path, what: str) -> None:
    """engine.files-there"""
    opening = opened(folder, ModelDatabase(7))
    opening.promise(8, {}, synced=True)
    match what:
        case "removed":
            shutil.rmtree(folder)
        case "moved":
            folder.rename(folder.with_name("away"))
        case "emptied":
            for path in folder.iterdir():
                path.unlink()
        case "replaced":
            folder.rename(folder.with_name("away"))
            shutil.copytree(folder.with_name("away"), folder)
        case _:
            (folder / "COMMITTED").unlink()

    with pytest.raises(StoreGone, match="is not here"):
        opening.promise(9, {}, synced=True)
    opening.close()


def test_a_file_that_comes_and_goes_is_nothing(folder: Path) -> None:
    """engine.files-there: only what is open in this process must have its name."""
    opening = opened(folder, ModelDatabase(7))
    (folder / "000001.sst").touch()
    opening.check()
    (folder / "000001.sst").unlink()
    opening.check()
    opening.close()
