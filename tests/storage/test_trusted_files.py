"""A user who can replace a file of secrets decides who logs in: such a file is found, by whichever way it can be replaced."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from storage.trusted_files import check, fault

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "secret"
    path.parent.mkdir(0o700)
    path.write_text("hush")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640, 0o644, 0o604])
def test_who_may_only_read_it_can_change_nothing(secret: Path, mode: int) -> None:
    secret.chmod(mode)
    assert fault(secret) == ""
    check(secret)


@pytest.mark.parametrize("below", [".", "secret"])
@pytest.mark.parametrize("mode", [0o702, 0o777, 0o666])
def test_what_everybody_may_write_is_found(secret: Path, below: str, mode: int) -> None:
    """The file, its folder: whoever can write there can put another in its place."""
    place = secret.parent / below
    place.chmod(mode)
    assert fault(secret) == f"others can write {place}: chmod go-w it"
    with pytest.raises(PermissionError, match="others can write"):
        check(secret)


def test_in_a_sticky_folder_nobody_replaces_what_is_anothers(secret: Path) -> None:
    secret.parent.chmod(0o1777)
    assert fault(secret) == ""


def test_a_file_that_is_not_there_yet_is_judged_by_the_folders_above(secret: Path) -> None:
    assert fault(secret.parent / "a" / "b") == ""
    secret.parent.chmod(0o777)
    assert "others can write" in fault(secret.parent / "a" / "b")


@pytest.mark.parametrize("hops", [1, 3])
def test_a_link_is_judged_by_each_folder_on_its_way(secret: Path, tmp_path: Path, hops: int) -> None:
    at = secret
    for hop in range(hops):
        (tmp_path / f"hop-{hop}").mkdir(0o700)
        link = tmp_path / f"hop-{hop}" / "link"
        link.symlink_to(at)
        at = link
    assert fault(at) == ""
    for folder in [secret.parent, *(tmp_path / f"hop-{hop}" for hop in range(hops))]:
        folder.chmod(0o777)
        assert fault(at) == f"others can write {folder}: chmod go-w it"
        folder.chmod(0o700)


def test_a_link_that_leads_nowhere_or_to_itself_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    assert fault(tmp_path / "nowhere") == ""
    assert fault(tmp_path / "round") == ""


@as_root
@pytest.mark.parametrize("links", ["secret", "folder"])
def test_a_link_of_another_in_a_folder_of_all_is_found(secret: Path, tmp_path: Path, links: str) -> None:
    """Its owner can have it lead elsewhere, though what it leads to is ours."""
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    link = tmp_path / "all" / "link"
    link.symlink_to(secret if links == "secret" else secret.parent)
    way = link if links == "secret" else link / "secret"
    assert fault(way) == ""
    os.chown(link, NOBODY.pw_uid, -1, follow_symlinks=False)
    assert f"{link} belongs to the user {NOBODY.pw_uid}" in fault(way)


@as_root
@pytest.mark.parametrize("below", ["secret", ".."])
def test_what_belongs_to_another_is_found(secret: Path, below: str) -> None:
    """Root goes by the owner of the file's folder alone: neither of the file's own, nor of a folder above."""
    place = Path(os.path.normpath(secret.parent / below))
    os.chown(place, NOBODY.pw_uid, -1)
    try:
        assert fault(secret) == f"{place} belongs to the user {NOBODY.pw_uid}, who is neither root nor this one: chown it"
    finally:
        os.chown(place, 0, -1)


@as_root
def test_root_takes_the_files_of_the_user_whose_folder_they_are_in(secret: Path) -> None:
    """``sudo bascule check`` of the node of a user."""
    for path in (secret, secret.parent):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    assert fault(secret) == ""


@as_root
def test_a_group_that_has_nobody_else_gives_nobody_anything(secret: Path) -> None:
    """Many systems have a group for each user, and files that it may write."""
    secret.chmod(0o660)
    assert fault(secret) == ""
    os.chown(secret, -1, NOBODY.pw_gid)
    assert "others can write" in fault(secret)
    used = {user.pw_gid for user in pwd.getpwall()}
    unused = next(group.gr_gid for group in grp.getgrall() if group.gr_gid not in used and not group.gr_mem)
    os.chown(secret, -1, unused)
    assert fault(secret) == ""
