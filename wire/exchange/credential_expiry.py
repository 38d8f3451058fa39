"""When a credential ends, and when it is to be made anew. Pure: the wall clock is an argument.

A JWT (RFC 7519) says its end in ``exp``, a SAS token in ``se=``; of any other text nobody knows.
"""

from __future__ import annotations

import base64
import binascii
import json
import re

RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0
_SAS = re.compile(r"(?:^SharedAccessSignature |[?&])(?:.*&)?se=(\d{1,12})(?:&|$)")


def ends_at_s(secret: str) -> float | None:
    """The time at which ``secret`` ends, in seconds of UTC since 1970; None where it does not say so."""
    found = _SAS.search(secret)
    if found:
        return float(found[1])
    parts = secret.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) and not isinstance(end, bool) and 0 <= end < 1e12 else None


class CredentialRenewal:
    """One credential at a time: from when it is to be made anew, and whether that has failed since.

    ends_at_s: when it ends; None where it does not say so. overdue: it was to be made anew, and what came was no newer one.
    """

    def __init__(self, renew_before_s: float) -> None:
        self._renew_before_s = renew_before_s
        self.ends_at_s: float | None = None
        self.overdue = False
        self.due_at_s: float | None = None

    def on_used(self, ends_at_s: float | None, now_s: float) -> None:
        """One is used from ``now_s`` on. What lives less than twice the time before is renewed after half of its life."""
        self.ends_at_s = ends_at_s
        self.overdue = False
        if ends_at_s is None:
            self.due_at_s = None
        else:
            self.due_at_s = ends_at_s - min(self._renew_before_s, max(0.0, ends_at_s - now_s) / 2)

    def on_no_newer(self, now_s: float) -> bool:
        """There was none, or the same again: it is tried again, the more often the nearer the end. Whether that is news."""
        if self.ends_at_s is None:
            return False
        left_s = self.ends_at_s - now_s
        self.due_at_s = now_s + (min(RETRY_MAX_S, max(RETRY_MIN_S, left_s / 10)) if left_s > 0 else RETRY_MAX_S)
        news, self.overdue = not self.overdue, True
        return news

    def is_due(self, now_s: float) -> bool:
        """Whether it is to be made anew now."""
        return self.due_at_s is not None and now_s >= self.due_at_s

    def left_s(self, now_s: float) -> float | None:
        """How long it holds still; negative once it has ended."""
        return None if self.ends_at_s is None else self.ends_at_s - now_s
