"""The history of the running node: a minute is put on record, questions about it are answered, and what is said of it.

This class is in the supervisor's actor and never blocks. Files are read and written by ``storage/node_history.py`` in a thread that
gives way to messages: one thing after the other, so that nobody reads what is being removed. A disk that hangs, or refuses, costs
minutes of the history and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from actors.process.actor import PolledActor
from storage.node_history import HistoryFolder
from supervisor.control.control_socket import Answers, Asker, ControlError, Request, encode_error, encode_result
from supervisor.history.periods import Question, history_of
from supervisor.history.sampling import Sample, Sampler
from supervisor.machine_usage import usage_of
from supervisor.units import no_such_bridge, parse_duration
from supervisor.workers import Worker, words
from wire.config_settings import HistorySettings, SettingsNow
from wire.errors import BasculeError
from wire.figure import to_map
from wire.status.node_status import HistoryFigures
from wire.status.refusals import Refusal

log = logging.getLogger("bascule")

TIMER = "history"
FIRST_S = 5.0  # by then all have reported
ASKERS_MAX = 16
SINCE_S = 86_400.0
_TIME_MAX_MS = 1 << 62


class NodeHistory:
    """The history of one node, in the actor ``host``. The timer ``TIMER`` is for ``on_due``."""

    def __init__(
        self,
        host: PolledActor,
        settings: SettingsNow,
        sample: Callable[[], Sample],
        answer: Callable[[Answers], None],
    ) -> None:
        """sample: the node as it is now. answer: sends answers to those who asked."""
        self._host = host
        self._settings = settings
        self._sample = sample
        self._answer = answer
        self._goes_by = settings.now.history
        self._folder = HistoryFolder(Path(settings.now.node.data_dir))
        self._worker = Worker(host, "history")
        self._sampler = Sampler()
        self._asking = 0
        self._recording = False
        self._lost = 0
        self._error = ""
        self._damage = ""

    @property
    def _own(self) -> HistorySettings:
        return self._settings.now.history

    def start(self) -> None:
        """The node starts, or goes by other settings."""
        if self._own.keep_s:
            self._host.mailbox.set_timer(TIMER, self._host.mailbox.now_s() + min(FIRST_S, self._own.every_s))
        else:
            self._host.mailbox.cancel_timer(TIMER)

    def on_settings_changed(self) -> None:
        """Others hold, maybe here as well; a history that is wanted no more is removed."""
        before, self._goes_by = self._goes_by, self._own
        if before == self._own:
            return
        if before.keep_s and not self._own.keep_s:
            self._worker.do(self._folder.clear, lambda _: None, self._failed)
        self._sampler = Sampler()
        self.start()

    def stop(self) -> None:
        """The node stops; no more is put on record."""
        self._host.mailbox.cancel_timer(TIMER)

    def on_due(self, now_s: float) -> None:
        """Put the time since the last call on record."""
        self._host.mailbox.set_timer(TIMER, now_s + self._own.every_s)
        if self._recording:  # the disk hangs
            self._lost += 1
            return
        self._recording = True
        self._worker.do(partial(self._record, self._sampler, self._sample(), self._own), self._recorded, self._not_recorded)

    def ask(self, whom: Asker, request: Request) -> None:
        """Have ``whom`` answered.

        Raises:
            ControlError: nothing is kept, an argument is wrong, or too many wait already.
        """
        if not self._own.keep_s:
            raise ControlError(Refusal.NOT_KEPT, "the node keeps no history: history.keep is 0s", request.request_id)
        if self._asking >= ASKERS_MAX:
            raise ControlError(Refusal.BUSY, "too many questions about the history are waiting", request.request_id)
        question = question_of(request, self._host.mailbox.wall_ms())
        known = {bridge.name for bridge in self._settings.now.bridges}
        self._asking += 1
        self._worker.do(
            partial(self._look, question, self._own.every_s, request, known),
            partial(self._told, whom),
            partial(self._refused, whom, request),
        )

    def figures(self) -> HistoryFigures | None:
        """``history`` of ``status``; None where none is kept."""
        if not self._own.keep_s:
            return None
        return HistoryFigures(
            kept_since_ms=self._folder.since_ms,
            bytes=self._folder.bytes,
            max_bytes=self._own.max_bytes,
            lost=self._lost,
            error=self._error,
            damage=self._damage,
        )

    # --- in the thread ---

    def _record(self, sampler: Sampler, sample: Sample, settings: HistorySettings) -> None:
        taken = sampler.take(sample, {pid: usage_of(pid) for pid in sample.pids})
        if taken is None:
            self._folder.look()
        else:
            self._folder.add(
                taken.at_ms, taken.seconds, taken.node, taken.lanes, keep_s=settings.keep_s, max_bytes=settings.max_bytes
            )

    def _look(self, question: Question, every_s: float, request: Request, known: set[str]) -> bytes:
        minutes = partial(self._folder.minutes, question.since_ms, question.until_ms)
        found = history_of(question, minutes, every_s, self._folder.since_ms)
        if question.bridge is not None and not found.lanes and question.bridge not in known:
            raise ControlError(Refusal.UNKNOWN_BRIDGE, no_such_bridge(question.bridge, known), request.request_id)
        return encode_result(request.request_id, to_map(found))

    # --- what follows, in the actor ---

    def _recorded(self, _: None) -> None:
        self._recording, self._error = False, ""
        self._look_at_damage()

    def _not_recorded(self, error: OSError | BasculeError) -> None:
        self._recording = False
        self._lost += 1
        self._failed(error)

    def _failed(self, error: OSError | BasculeError) -> None:
        if not self._error:
            log.warning("history.unrecorded", extra={"error": words(error), "remedy": "minutes are missing in the history"})
        self._error = words(error)
        self._look_at_damage()

    def _told(self, whom: Asker, answer: bytes) -> None:
        self._asking -= 1
        self._look_at_damage()
        self._answer([(whom, answer)])

    def _refused(self, whom: Asker, request: Request, error: OSError | BasculeError) -> None:
        self._asking -= 1
        if not isinstance(error, ControlError):
            error = ControlError(Refusal.UNAVAILABLE, f"the history cannot be read: {words(error)}", request.request_id)
        self._answer([(whom, encode_error(error))])

    def _look_at_damage(self) -> None:
        if self._folder.damage != self._damage:
            self._damage = self._folder.damage
            log.error("history.damaged", extra={"error": self._damage, "remedy": "look for the cause (dmesg, smartctl)"})


def question_of(request: Request, now_ms: int) -> Question:
    """The question in the arguments of ``request``.

    Raises:
        ControlError: one of them is wrong.
    """
    arguments = request.arguments
    try:
        since_ms = _time_ms(arguments.get("since", f"{SINCE_S:g}s"), now_ms)
        until_ms = _time_ms(arguments.get("until", "0s"), now_ms)
        step_s = parse_duration(arguments.get("step", "0s"))
        if since_ms >= until_ms:
            raise ValueError("since is to be before until")
    except ValueError as error:
        raise ControlError(Refusal.BAD_ARGUMENTS, str(error), request.request_id) from error
    return Question(since_ms=since_ms, until_ms=until_ms, step_s=min(step_s, 366 * 86_400.0), bridge=arguments.get("bridge"))


def _time_ms(text: str, now_ms: int) -> int:
    """A time as it is written: Unix time in milliseconds, or how long ago, such as ``24h``. Raises ValueError."""
    if text.isascii() and text.isdecimal():
        return min(int(text[:20]), _TIME_MAX_MS)
    return max(0, now_ms - int(min(parse_duration(text) * 1000, _TIME_MAX_MS)))
