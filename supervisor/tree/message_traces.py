"""Traces of messages: one that is followed through all actors, and how many flow by each topic.

Requests come from the control socket; the actors tell what they see by the frames of ``wire/frames/traces.py``. A trace waits for
its message for a time, then follows it until it has left every queue, or for a time again; some are kept to be asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.process.mailbox import Mailbox
from supervisor.control.control_socket import Answers, Asker, ControlError, Request, encode_error, encode_result
from supervisor.tree.running_children import RunningChildren
from wire.frames.names import CLIENTS, DISTRIBUTOR, LISTENER
from wire.frames.traces import TopicCounts, TopicsWanted, TraceStep, TraceWanted
from wire.mqtt.topics import filter_fault
from wire.status.answers import CountedTopic, Topics, TraceBegun, TracedStep, TraceState, TraceSteps
from wire.status.refusals import Refusal

TIMER = "topics"
WAIT_S, WAIT_MAX_S = 30.0, 3600.0  # for the message: unless told, and at most
FOLLOW_S = 60.0
KEPT = 20
STEPS_MAX = 500
TOPICS_SHOWN, TOPICS_SHOWN_MAX = 100, 1000
ASKERS_MAX = 32
ANSWER_S = 5.0

_ORDER = ("taken", "denied", "routed", "committed", "refused", "acknowledged", "handed_out", "waits", "sent", "received")


@dataclass(slots=True)
class _Trace:
    """One trace; ``offset_ms`` makes UTC of the monotonic times of its steps."""

    number: int
    topic_filter: str
    until_s: float
    timeout_s: float
    offset_ms: float
    state: TraceState = "waiting"
    follow_until_s: float = 0.0
    steps: list[TraceStep] = field(default_factory=list)

    def finish_if_done(self, now_s: float) -> None:
        """Whether the time is up, or all that is to come has come."""
        if self.state == "waiting" and now_s > self.until_s:
            self.state = "timed_out"
        elif self.state == "following" and (self.complete or now_s > self.follow_until_s):
            self.state = "done"

    def add(self, step: TraceStep, now_s: float) -> None:
        """Another step."""
        if self.state not in ("waiting", "following") or len(self.steps) >= STEPS_MAX:
            return
        if self.state == "waiting":
            self.state, self.follow_until_s = "following", now_s + FOLLOW_S
        self.steps.append(step)
        self.finish_if_done(now_s)

    @property
    def complete(self) -> bool:
        """Whether the message has left every queue, and its publisher was answered if it is to be."""
        details = self.details("routed")
        if any(step.step in ("denied", "refused") for step in self.steps):
            return True
        if details is None or (self.owes_answer and self.details("acknowledged") is None):
            return False
        left = sum(1 for step in self.steps if step.step == "settled")
        return bool(left >= len(details["lanes"]) + details["sessions_count"])

    @property
    def owes_answer(self) -> bool:
        """Whether a local client is to have a PUBACK or PUBREC."""
        taken = [step for step in self.steps if step.step == "taken"]
        return any(step.details.get("qos") for step in taken) and any(step.actor == LISTENER for step in taken)

    def details(self, name: str) -> dict[str, Any] | None:
        """Those of the step ``name``; None if it has not come."""
        return next((step.details for step in self.steps if step.step == name), None)

    def note(self) -> str:
        """The fact in words."""
        match self.state:
            case "waiting":
                return f"no message whose topic matches {self.topic_filter} has come yet"
            case "timed_out":
                return f"no message whose topic matches {self.topic_filter} has come within {self.timeout_s:g} s"
            case "replaced":
                return "another trace was begun before its message came"
            case "following":
                return "the message is on its way"
        if self.details("denied") is not None:
            return "the access list forbids the message: it went nowhere"
        if self.details("refused") is not None:
            return "a queue that the message goes to is full: it went nowhere, and its publisher keeps it or was told"
        routed = self.details("routed") or {}
        if not routed.get("lanes") and not routed.get("sessions_count"):
            live = ", only to clients that are connected" if routed.get("live") else ""
            return f"the message went to no queue{live}" + (", and is retained" if routed.get("retained") else "")
        if not self.complete:
            return f"the message was followed for {FOLLOW_S:g} s, and still waits: bascule status CONFIG says why its bridge does"
        return "the message has left every queue"

    def result(self) -> TraceSteps:
        """The answer."""
        steps = sorted(self.steps, key=_place_of)
        rows: list[TracedStep] = []
        for step in steps:
            if step.step == "taken" and rows and rows[0].step == "taken":
                rows[0].details.update(step.details)  # of the Listener: who published it
                continue
            rows.append(
                TracedStep(
                    step=step.step,
                    actor=step.actor,
                    queue=step.queue,
                    at_ms=round(step.at_s * 1000 + self.offset_ms, 3),
                    after_ms=round((step.at_s - steps[0].at_s) * 1000, 3),
                    details=dict(step.details),
                )
            )
        return TraceSteps(number=self.number, topic=self.topic_filter, state=self.state, note=self.note(), steps=tuple(rows))


def _place_of(step: TraceStep) -> tuple[bool, float, int]:
    """Where it comes among the steps: by its time, but the message was taken before anything else happened to it."""
    order = _ORDER.index(step.step) if step.step in _ORDER else len(_ORDER)
    return step.step not in ("taken", "denied"), step.at_s, order


class MessageTraces:
    """Carries out ``trace``, ``trace.result`` and ``topics``. The timer ``TIMER`` is for ``timed_out``."""

    def __init__(self, mailbox: Mailbox, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._children = children
        self._traces: dict[int, _Trace] = {}
        self._number = 0
        self._askers: dict[int, tuple[Asker, Any, float]] = {}  # by number: whom to answer, their identifier, until when

    def ask(self, whom: Asker, request: Request) -> None:
        """Have a message followed, and ``whom`` answered once the next one will be: it may be published right then.

        Raises:
            ControlError: the arguments are wrong, or nobody is there to follow anything.
        """
        topic_filter, timeout_s = request.arguments["topic"], _seconds(request)
        if fault := filter_fault(topic_filter):
            raise ControlError(Refusal.BAD_ARGUMENTS, f"topic: {fault}", request.request_id)
        now_s = self._wait_for(whom, request)
        for trace in self._traces.values():
            trace.finish_if_done(now_s)
            if trace.state == "waiting":
                trace.state = "replaced"
        offset_ms = self._mailbox.wall_ms() - now_s * 1000
        self._traces[self._number] = _Trace(self._number, topic_filter, now_s + timeout_s, timeout_s, offset_ms)
        while len(self._traces) > KEPT:
            del self._traces[next(iter(self._traces))]
        self._mailbox.send(DISTRIBUTOR, TraceWanted(request=self._number, topic_filter=topic_filter, timeout_s=timeout_s))

    def result(self, request: Request) -> TraceSteps:
        """What is known of a trace.

        Raises:
            ControlError: there is none of that number.
        """
        text = request.arguments["number"]
        trace = self._traces.get(int(text)) if text.isascii() and text.isdigit() and len(text) < 19 else None
        if trace is None:
            raise ControlError(Refusal.UNKNOWN, f"there is no trace {text}; the last {KEPT} are kept", request.request_id)
        trace.finish_if_done(self._mailbox.now_s())
        return trace.result()

    def on_stepped(self, step: TraceStep) -> Answers:
        """Something has happened to a message that is followed, or the next one will be."""
        trace = self._traces.get(step.request)
        if step.step == "armed":
            asked = self._askers.pop(step.request, None)
            if trace is None or asked is None:
                return []
            return [(asked[0], encode_result(asked[1], TraceBegun(number=trace.number, timeout_s=trace.timeout_s)))]
        if trace is not None:
            trace.add(step, self._mailbox.now_s())
            if step.step in ("denied", "refused"):  # another one that matches is not it
                self._mailbox.send(DISTRIBUTOR, TraceWanted(request=step.request, topic_filter="", timeout_s=0.0))
        return []

    # --- topics ---

    def ask_topics(self, whom: Asker, request: Request) -> None:
        """Have ``whom`` answered when the Distributor has told.

        Raises:
            ControlError: it does not run, or too many wait.
        """
        count = _number(request, "count", TOPICS_SHOWN, TOPICS_SHOWN_MAX)
        self._wait_for(whom, request)
        self._mailbox.send(DISTRIBUTOR, TopicsWanted(request=self._number, count=count))

    def on_counted(self, frame: TopicCounts) -> Answers:
        """The Distributor has told what was counted."""
        asked = self._askers.pop(frame.request, None)
        if asked is None:
            return []
        rows = tuple(
            CountedTopic(
                topic=topic.decode(errors="replace"), messages=messages, bytes=size_bytes, rate=_rate(messages, frame.since_s)
            )
            for topic, messages, size_bytes in frame.topics
        )
        told = Topics(since_s=round(frame.since_s, 3), topics=rows, others=frame.others)
        return [(asked[0], encode_result(asked[1], told))]

    def timed_out(self, now_s: float) -> Answers:
        """Askers whom nobody has answered."""
        late = [number for number, (_, _, until_s) in self._askers.items() if until_s <= now_s]
        answers: Answers = []
        for number in late:
            whom, request_id, _ = self._askers.pop(number)
            answers.append((whom, encode_error(ControlError(Refusal.UNAVAILABLE, "the distributor does not answer", request_id))))
        if self._askers:
            self._mailbox.set_timer(TIMER, min(until_s for _, _, until_s in self._askers.values()))
        return answers

    def _wait_for(self, whom: Asker, request: Request) -> float:
        """``whom`` waits for the answer to the next number; the time."""
        clients = self._children[CLIENTS]
        if not clients.is_working:
            raise ControlError(Refusal.UNAVAILABLE, f"the distributor is {clients.state}", request.request_id)
        if len(self._askers) >= ASKERS_MAX:
            raise ControlError(Refusal.BUSY, "too many questions for topics and traces are waiting", request.request_id)
        self._number += 1
        now_s = self._mailbox.now_s()
        self._askers[self._number] = whom, request.request_id, now_s + ANSWER_S
        self._mailbox.set_timer(TIMER, now_s + ANSWER_S)
        return now_s


def _rate(messages: int, since_s: float) -> float:
    return round(messages / since_s, 3) if since_s > 0 else 0.0


def _seconds(request: Request) -> float:
    return float(_number(request, "timeout_s", int(WAIT_S), int(WAIT_MAX_S)))


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.arguments.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= len(text) < 10 and 1 <= int(text) <= most):
        raise ControlError(Refusal.BAD_ARGUMENTS, f"{name} is a whole number from 1 to {most}, not {text!r}", request.request_id)
    return int(text)
