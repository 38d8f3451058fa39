"""The troubles that a rule of ``notify`` may be for, each with what it is, for the reference."""

from __future__ import annotations

from enum import StrEnum


class TroubleKind(StrEnum):
    """Of a trouble. The last three are single events; the others last."""

    LINK_DOWN = "link_down"
    QUEUE_AGE = "queue_age"
    QUEUE_FULL = "queue_full"
    DEAD_LETTERS = "dead_letters"
    MESSAGES_LOST = "messages_lost"
    DISK = "disk"
    CERTIFICATE = "certificate"
    CREDENTIAL = "credential"
    REFUSED_CLIENTS = "refused_clients"
    PROCESS_DOWN = "process_down"
    PROCESS_ENDED = "process_ended"
    TAKE_OVER = "take_over"
    CLOCK_STEP = "clock_step"
