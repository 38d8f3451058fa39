"""Passwords that were verified a short while ago, so that clients that come back cost no argon2 each. Pure.

The trade: an argon2 hash costs tens of milliseconds by design, so 2,000 clients that reconnect after a cut would keep a core busy
for a minute. Here a success is remembered, for ``age_s`` at most, as a keyed BLAKE2b of user name and password. Whoever can read
this process's memory could try passwords against that faster than against argon2; but in that memory passwords pass in the clear
anyway. The key is made anew at each start and nothing is ever written. Failures are not remembered: each guess costs its argon2.
What is remembered goes with the password file that it was verified against.
"""

from __future__ import annotations

from wire.blake2 import blake2b

LOGINS_MAX = 10_000
AGE_S = 3600.0


class RecentLogins:
    """Successes against one password file. ``key``: 16 to 64 random bytes."""

    def __init__(self, key: bytes, *, age_s: float = AGE_S, logins_max: int = LOGINS_MAX) -> None:
        self._key = key
        self._age_s = age_s
        self._logins_max = logins_max
        self._verified_s: dict[bytes, float] = {}  # in the order of their verification

    def __len__(self) -> int:
        return len(self._verified_s)

    def knows(self, user: str, password: bytes, now_s: float) -> bool:
        """Whether this pair was verified less than ``age_s`` ago; asking does not make it younger."""
        verified_s = self._verified_s.get(self._digest(user, password))
        return verified_s is not None and now_s - verified_s < self._age_s

    def verified(self, user: str, password: bytes, now_s: float) -> None:
        """Remember a success; beyond ``logins_max`` the oldest is forgotten."""
        digest = self._digest(user, password)
        self._verified_s.pop(digest, None)
        if len(self._verified_s) >= self._logins_max:
            del self._verified_s[next(iter(self._verified_s))]
        self._verified_s[digest] = now_s

    def clear(self) -> None:
        """The file has changed."""
        self._verified_s.clear()

    def _digest(self, user: str, password: bytes) -> bytes:
        name = user.encode()
        return blake2b(len(name).to_bytes(4, "big") + name + password, key=self._key, digest_size=32).digest()
