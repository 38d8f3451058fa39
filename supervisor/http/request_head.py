"""The bytes of a request's head, looked at before they are parsed: two that read them must not find two requests. Pure.

What HTTP/1.1 lets a receiver be lenient about, and a proxy in front may read another way, is refused: a line that ends with LF
alone, CR alone, a header that goes on in the next line, an empty line in front. A head has a limit as a whole.
"""

from __future__ import annotations

import re

HEAD_MAX_BYTES = 16_384
_END = b"\r\n\r\n"
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\r\n[ \t]|\A\s")


class RequestHead:
    """One head, as far as it has come."""

    def __init__(self) -> None:
        self._bytes = b""
        self.complete = False

    def take(self, data: bytes) -> bool:
        """Add what was read; whether all of it is as it should be. What comes behind the head is not looked at."""
        head, end, _ = (self._bytes + data).partition(_END)
        self._bytes, self.complete = head, bool(end)
        if not end:
            self._bytes = head[: HEAD_MAX_BYTES + 1]
        return len(head) + len(_END) <= HEAD_MAX_BYTES and _AMBIGUOUS.search(head) is None
