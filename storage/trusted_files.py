"""Whether a file of secrets, keys or authorities is what its owner made of it: whoever can replace it decides who logs in as whom.

Only root and this process's user may be able to change the file, or a name on the way to it. Root also commands the nodes of other
users, so it takes what belongs to the owner of the file's folder, and of the node's data folder.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from functools import partial


def fault(path: str | os.PathLike[str], owner: int = 0) -> str:
    """Other users who can change the file or folder ``path``, or make one there, and the cure; empty if nobody can.

    owner: who may, too, if this is root.
    """
    path = os.path.abspath(path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    trusted = {0, os.geteuid()}
    try:
        if os.geteuid() == 0:
            trusted |= {owner, owner_of(folder)}
        return next(filter(None, map(partial(_fault_of_one, trusted), _way_to(path))), "")
    except OSError as error:
        return f"{error.filename}: {(error.strerror or 'not readable').lower()}"


def check(path: str | os.PathLike[str]) -> None:
    """Return if nobody else can change the file ``path``. For root its owner is nobody else: that is the node's user as a rule.

    Raises:
        PermissionError: somebody can, or it cannot be found out; ``strerror`` says who, and the cure.
    """
    if found := fault(path, owner_of(path)):
        raise PermissionError(errno.EPERM, found, os.fspath(path))


def owner_of(path: str | os.PathLike[str]) -> int:
    """The owner of ``path``; root, if it is not there."""
    return os.stat(path).st_uid if os.path.exists(path) else 0


def _way_to(path: str) -> Iterator[str]:
    """``path``, where it leads to, and all folders above of each: whoever may write one of them can put another in the place."""
    seen = set()
    following = [path, os.path.realpath(path)]
    while following:
        at = following.pop()
        while at not in seen:
            seen.add(at)
            yield at
            if os.path.islink(at):
                following.append(os.path.normpath(os.path.join(os.path.dirname(at), os.readlink(at))))
            at = os.path.dirname(at)


def _fault_of_one(trusted: set[int], path: str) -> str:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ""
    if found.st_uid not in trusted:
        return f"{path} belongs to the user {found.st_uid}, who is neither root nor this one: chown it"
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        return ""  # a link has no mode; and in a sticky folder nobody can replace what is another's
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and _has_others(found.st_gid, trusted)):
        return f"others can write {path}: chmod go-w it"
    return ""


def _has_others(group: int, trusted: set[int]) -> bool:
    """Whether anybody else is in ``group``: the group of one user alone, which many systems have, gives nobody anything."""
    members = {name for known in grp.getgrall() if known.gr_gid == group for name in known.gr_mem}
    return any(user.pw_uid not in trusted and (user.pw_gid == group or user.pw_name in members) for user in pwd.getpwall())
