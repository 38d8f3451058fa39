"""The bytes of a request's head, looked at before they are parsed: two that read them must not find two requests. Pure.

Constructs in which HTTP/1.1 lets a receiver be lenient, and which a proxy in front may read another way, are refused: a line that
ends with LF alone, CR alone, a header that goes on in the next line, an empty line in front. A head has a limit as a whole.
"""

from __future__ import annotations

import re

HEAD_MAX_BYTES = 16_384
_END = b"\r\n\r\n"
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\r\n[ \t]|\A\s")


class RequestHead:
    """One head, as far as it has come. Bytes that were looked at are not looked at again, however small the pieces in which they
    come."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.complete = False

    def take(self, data: bytes) -> bool:
        """Add what was read; whether all of it is as it should be. Bytes behind the head are not looked at."""
        looked_at = max(0, len(self._bytes) - len(_END))  # the last bytes may mean something else with those that follow
        self._bytes += data
        end = self._bytes.find(_END, looked_at)
        self.complete = end >= 0
        size = end if self.complete else len(self._bytes)
        good = end != 0 and size + len(_END) <= HEAD_MAX_BYTES and _AMBIGUOUS.search(self._bytes, looked_at, size) is None
        if self.complete or not good:
            self._bytes.clear()
        return good
