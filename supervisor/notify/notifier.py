"""The actor that looks for troubles and has notices of them sent.

A thread asks the node for its status and its new events, as any client of the control socket does; each receiver has a thread while
one notice is sent to it. A slow or dead receiver keeps its own thread alone, and nothing here is on a message's way.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from actors.process.actor import MailboxActor
from actors.process.mailbox import Mailbox
from actors.system.certificates import CertificateFault
from actors.system.tls import certificate_dates
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError, NotRunning
from supervisor.notify import notice_record
from supervisor.notify.events_seen import EventsSeen, new_events
from supervisor.notify.growth import Growth
from supervisor.notify.notice_record import Record
from supervisor.notify.notice_topics import NoticeTopics
from supervisor.notify.notices import Notice, Notices
from supervisor.notify.outbox import Outbox
from supervisor.notify.receivers import NotTaken, Receiver, receivers_of
from supervisor.notify.troubles import Trouble, take_over, troubles_of, troubles_of_events
from wire.config_settings import NodeSettings, NoticeSettings
from wire.errors import BasculeError
from wire.frames.frame import Frame
from wire.frames.names import SUPERVISOR
from wire.status.answers import Event
from wire.status.node_status import NotifyFigures, Status

log = logging.getLogger("bascule")

LOOK_TIMER, SEND_TIMER = "look", "send"
LOOK_S = 3.0
SEND_S = 1.0
HANGS_S = 60.0  # no answer of the node takes so long
_CERTIFICATE_TIME = "%Y%m%d%H%M%SZ"


class LookHangs(BasculeError):
    """A look does not end."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Look's thread -> actor: how the node is. status: None where it gave none. certificates: in how many seconds each ends."""

    status: Status | None = None
    events: list[Event] = field(default_factory=list)
    seen: EventsSeen = field(default_factory=EventsSeen)
    certificates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tried:
    """A receiver's thread -> actor: it has taken a notice, or has not because of ``error``."""

    receiver: str
    error: str = ""


class Notifier(MailboxActor):
    """One a node."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._node = ControlClient.of_run_dir(settings.run_dir)
        self._growth = Growth()
        self._outbox = Outbox(random.random)
        self._receivers: dict[str, Receiver] = {name: one for rule in settings.notify for name, one in receivers_of(rule)}
        self._notices = Notices(settings.node.name)
        self._topics = NoticeTopics(settings.node.name, settings.notify, {}, ())
        self._events_seen = EventsSeen()
        self._role = ""
        self._looking_since_s: float | None = None
        self._recorded: object = None
        self._record_error = ""

    # --- life ---

    def on_start(self) -> None:
        super().on_start()
        self._remember()
        self._tell_topics()
        self.ready()
        self._look(self.mailbox.now_s())
        self._send(self.mailbox.now_s())

    def on_timer(self, name: str, now_s: float) -> None:
        if name == LOOK_TIMER:
            self._look(now_s)
        elif name == SEND_TIMER:
            self._send(now_s)

    def on_thread_message(self, message: Any) -> None:
        match message:
            case Looked():
                self._looking_since_s = None
                self._on_looked(message)
            case Tried():
                self._on_tried(message)
        self._record()

    def on_frame(self, frame: Frame) -> None:
        log.error("frame.refused", extra={"actor": self.name, "error": "no frame comes here", "kind": frame.KIND})

    def status(self) -> NotifyFigures:
        counts = self._outbox.counts
        return NotifyFigures(
            standing=tuple(f"{each.about}: {each.text}" for each in self._notices.standing if each.told),
            sent=counts.sent,
            failed=counts.failed,
            given_up=counts.given_up,
            waiting=len(self._outbox.waiting),
            errors=self._outbox.errors,
            error=self._record_error,
        )

    # --- troubles ---

    def _look(self, now_s: float) -> None:
        self.mailbox.set_timer(LOOK_TIMER, now_s + LOOK_S)
        if self._looking_since_s is None:
            self._looking_since_s = now_s
            self.mailbox.in_thread("look", self._look_in_thread)
        elif now_s - self._looking_since_s > HANGS_S:
            raise LookHangs("a look at the node does not end")

    def _look_in_thread(self) -> None:
        looked = Looked(seen=self._events_seen)
        try:
            status = self._node.status()
            looked = Looked(status, *new_events(self._node, status, self._events_seen), self._certificates())
        except (ControlError, NotRunning):
            pass  # it starts, or stops; the next look sees more
        finally:
            self.send_from_thread(looked)

    def _certificates(self) -> dict[str, float]:
        """The node's own certificates towards clients and HTTP."""
        settings, now = self.settings, datetime.now(UTC)
        shown = [listener.tls for listener in settings.listeners] + [settings.http.tls if settings.http is not None else None]
        found: dict[str, float] = {}
        for path in dict.fromkeys(tls.cert_file for tls in shown if tls is not None):
            try:
                ends = datetime.strptime(certificate_dates(path)[1], _CERTIFICATE_TIME).replace(tzinfo=UTC)
            except (CertificateFault, ValueError):
                continue  # whoever shows it says what is wrong with it
            found[path] = (ends - now).total_seconds()
        return found

    def _on_looked(self, looked: Looked) -> None:
        self._events_seen = looked.seen
        if looked.status is None:
            return
        now_s, now_ms = self.mailbox.now_s(), self.mailbox.wall_ms()
        for rule in self.settings.notify:
            lasting = troubles_of(rule, looked.status, looked.certificates, self._growth, now_s)
            self._tell(rule, self._notices.look(rule, lasting, now_ms))
            self._tell(rule, self._happened(rule, troubles_of_events(rule, looked.events), now_ms))
            self._tell(rule, self._happened(rule, take_over(rule, self._role, looked.status), now_ms))
        if looked.status.replication is not None:
            self._role = looked.status.replication.role
        self._tell_topics()
        self._try(now_s)

    def _happened(self, rule: NoticeSettings, troubles: Iterator[Trouble], now_ms: int) -> Iterator[Notice]:
        return (self._notices.happened(rule, trouble, now_ms) for trouble in troubles)

    # --- notices ---

    def _tell(self, rule: NoticeSettings, notices: Iterator[Notice]) -> None:
        for notice in notices:
            facts = {"rule": rule.name, "kind": notice.kind, "about": notice.about, "text": notice.text}
            log.info(f"notice.{notice.state}", extra=facts)
            self._topics.tell(notice)
            for name in self._receivers:
                if name.partition(":")[0] == rule.name:
                    self._outbox.put(name, notice)

    def _tell_topics(self) -> None:
        """Have the node publish what is news."""
        if (news := self._topics.news()) is not None:
            self.send(SUPERVISOR, news)

    def _send(self, now_s: float) -> None:
        self.mailbox.set_timer(SEND_TIMER, now_s + SEND_S)
        self._try(now_s)

    def _try(self, now_s: float) -> None:
        for name, notice in self._outbox.next(now_s, self.mailbox.wall_ms()):
            self.mailbox.in_thread(name, lambda name=name, notice=notice: self._send_in_thread(name, notice))  # type: ignore[misc]

    def _send_in_thread(self, name: str, notice: Notice) -> None:
        tried = Tried(name, "an error of our own, which standard error shows")
        try:
            self._receivers[name].send(notice)
            tried = Tried(name)
        except NotTaken as error:
            tried = Tried(name, error.message)
        finally:
            self.send_from_thread(tried)

    def _on_tried(self, tried: Tried) -> None:
        now_s = self.mailbox.now_s()
        if not tried.error:
            self._outbox.on_sent(tried.receiver)
            self._try(now_s)
            return
        if tried.receiver not in self._outbox.errors:
            remedy = "it is tried again, ever less often; bascule notify test CONFIG tries it at once"
            log.warning("notice.failed", extra={"receiver": tried.receiver, "error": tried.error, "remedy": remedy})
        self._outbox.on_failed(tried.receiver, tried.error, now_s)

    # --- the record ---

    def _remember(self) -> None:
        try:
            record = notice_record.read(Path(self.settings.node.data_dir))
        except (OSError, ValueError) as error:
            log.error("notices.forgotten", extra={"error": str(error), "remedy": "what stands may be told again"})
            return
        self._notices = Notices(self.settings.node.name, record.standing)
        self._notices.keep_to(rule.name for rule in self.settings.notify)
        self._topics = NoticeTopics(self.settings.node.name, self.settings.notify, record.topics, self._notices.standing)
        self._events_seen, self._role = record.seen, record.role
        for receiver, notice in record.waiting:
            self._outbox.put(receiver, notice)
        self._outbox.keep_to(self._receivers)

    def _record(self) -> None:
        """Have on record what has changed. A disk that refuses is said once, and nothing waits for it."""
        standing = tuple(each for each in self._notices.standing if each.told)
        now = Record(
            standing=standing,
            waiting=tuple(self._outbox.waiting),
            topics=dict(self._topics.states),
            seen=self._events_seen,
            role=self._role,
        )
        if now == self._recorded:
            return
        try:
            notice_record.write(Path(self.settings.node.data_dir), now)
            self._recorded, self._record_error = now, ""
        except OSError as error:
            if not self._record_error:
                log.warning("notices.unrecorded", extra={"error": str(error), "remedy": "after a restart they may be told again"})
            self._record_error = f"no record of notices can be written: {error.strerror or error}"
