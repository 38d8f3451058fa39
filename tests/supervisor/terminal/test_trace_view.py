"""The message of a trace in a line."""

from __future__ import annotations

from supervisor.terminal.trace_view import head_line
from wire.status.answers import TracedStep

TAKEN = {"topic": "plant/1", "qos": 1, "bytes": 3, "retain": True}


def test_a_message_is_told_by_its_first_step_as_far_as_that_is_known() -> None:
    def line(step: str, **details: object) -> str:
        return head_line(TracedStep(step=step, actor="store", queue="", at_ms=0.0, after_ms=0.0, details=details))

    assert line("taken", **TAKEN) == "plant/1, QoS 1, 3 bytes, to be retained"
    assert line("denied", topic="plant/1") == "plant/1, not taken"
    assert line("settled") == "a message, whose first step was not told"
