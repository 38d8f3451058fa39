"""Batching of settlements: the moment at which they are worth a frame of their own. Pure.

Settlements wait a moment for more of them. Many do not, nor does much. And a small queue is not to be held up by them: what is
settled makes room in it.
"""

from __future__ import annotations

from wire.config_settings import LimitSettings

MESSAGES_MAX = 256
QUEUE_FRACTION = 8


class Settling:
    """The amounts at which settlements wait no longer, by the smallest of the queues' ``limits``."""

    def __init__(self, *limits: LimitSettings, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._reported_bytes = 0
        self.limit(*limits)

    def limit(self, *limits: LimitSettings) -> None:
        """These are the queues' limits from now on."""
        messages = [limit.max_messages for limit in limits if limit.max_messages is not None]
        size_bytes = [limit.max_bytes for limit in limits if limit.max_bytes is not None]
        self._messages = max(1, min([MESSAGES_MAX, *(most // QUEUE_FRACTION for most in messages)]))
        self._bytes = min([self._bytes_max, *(most // QUEUE_FRACTION for most in size_bytes)])

    def on_opened(self) -> None:
        """Passed bytes are counted anew."""
        self._reported_bytes = 0

    def on_sent(self, passed_bytes: int) -> None:
        """Settlements were sent. passed_bytes: how much has passed so far."""
        self._reported_bytes = passed_bytes

    def is_enough(self, messages: int, passed_bytes: int) -> bool:
        """Whether to send the settlements of ``messages`` now."""
        return messages >= self._messages or (messages > 0 and passed_bytes - self._reported_bytes >= self._bytes)
