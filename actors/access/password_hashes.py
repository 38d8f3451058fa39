"""Password hashes: the only user of argon2, for the Listener and for ``bascule user``. Which user has which is the table's.

Source: RFC 9106; the parameters are OWASP's smallest (19 MiB, 2 passes, 1 thread), about 20 ms on a small machine. Hashes that
Mosquitto has made by PBKDF2 (RFC 8018) are verified, too.
"""

from __future__ import annotations

import ctypes
import os
import threading
from base64 import b64decode
from hashlib import pbkdf2_hmac
from hmac import compare_digest

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from wire.access.password_table import PBKDF2

_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_NICENESS = 10
_M_MMAP_THRESHOLD = -3  # mallopt(3)
_MMAP_THRESHOLD_BYTES = 8 * 1024 * 1024
# Of 32 random bytes that nobody has: what a login costs while there are no users.
DECOY = "$argon2id$v=19$m=19456,t=2,p=1$jYjCJdrAuCUddmrc7FCavg$ZBDshqPydcO0+t1XvrBA5DGFfmJvUYIFNkavDtsYg/I"


def hash_password(password: bytes) -> str:
    """An argon2id hash of ``password`` with a salt of its own, as the password file has it."""
    return _HASHER.hash(password)


def verify_password(stored: str, password: bytes) -> bool | None:
    """Whether ``stored`` is a hash of ``password``; None if it could not be found out (no memory). Takes tens of milliseconds."""
    if stored.startswith(PBKDF2):
        iterations, salt, digest = stored.removeprefix(PBKDF2).split("$")
        return compare_digest(pbkdf2_hmac("sha512", password, b64decode(salt), int(iterations)), b64decode(digest))
    try:
        return _HASHER.verify(stored, password)
    except VerifyMismatchError:
        return False
    except (VerificationError, InvalidHashError):
        return None


def give_memory_back() -> None:
    """Have what a hash works in returned to the system when it is done; glibc would keep it once for each of its arenas."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def give_way() -> None:
    """Let the calling thread run behind everything else: a flood of logins must not slow the messages."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
