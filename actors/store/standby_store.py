"""The store of a member that stands by: it follows the log, says how far it is, and leads when nobody else does.

Its process has no other actor, and takes no client. Once it leads it says so to the supervisor and releases the store; the node
then begins as one that leads (``supervisor/tree/node.py``).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.process.actor import MailboxActor
from actors.process.mailbox import Mailbox
from actors.store.redirecting import Redirecting
from storage.replication.base import fetch, install
from storage.replication.follower import Follower
from storage.replication.jetstream_log import JetStreamLog
from storage.replication.lease import clock_s, renewal_s
from storage.replication.log import LogAway
from storage.replication.members import MemberReport, exchange_reports, member_rows
from storage.replication.replica import open_replica
from wire.config_settings import NodeSettings, ReplicationSettings
from wire.errors import BasculeError, StoreGone, Unavailable
from wire.figure import to_map
from wire.frames.frame import Frame
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import QueueAnswer, QueueCommand, RoleChanged, SessionCommand, SnapshotMade, SnapshotWanted
from wire.status.answers import MemberRemoved, Promoted
from wire.status.refusals import Refusal
from wire.status.replication_figures import ReplicationFigures
from wire.status.store import StoreReport

log = logging.getLogger("bascule")

_FOLLOW = "follow"
RETRY_S = 0.5
PAUSE_S = 0.001  # between two steps: what others say is heard then
SYNC_S = 1.0
_FOR_THE_LEADER = "this node stands by: give the command to the one that leads; nothing was done"


class StandbyStore(MailboxActor):
    """Follows until it leads."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        assert settings.replication is not None
        self._replication: ReplicationSettings = settings.replication
        self._store = Path(settings.node.data_dir) / "store"
        self._log = JetStreamLog(self._replication, self._replication.member)
        self._follower: Follower | None = None
        self._members: dict[str, MemberReport] = {}
        self._error = ""
        self._synced_s = self._reported_s = 0.0
        self._fetching = ""  # the base that is being brought
        self._leads = False
        self._redirecting: Redirecting | None = None
        self._leader_address = ""

    # --- hooks ---

    def on_start(self) -> None:
        super().on_start()
        self.ready()
        if self._replication.standby == "redirect":
            self._redirecting = Redirecting(self.settings.listeners, lambda: self._leader_address)
        self.mailbox.set_timer(_FOLLOW, self.mailbox.now_s())

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case QueueCommand():
                self._obey(frame)
            case SessionCommand():
                self.send(
                    frame.asker, QueueAnswer(request=frame.request, error=Refusal.STANDBY, message=_FOR_THE_LEADER, result={})
                )
            case SnapshotWanted():
                self.send(SUPERVISOR, SnapshotMade(request=frame.request, error=Refusal.STANDBY, message=_FOR_THE_LEADER, facts={}))

    def on_thread_message(self, message: Any) -> None:
        self._on_fetched(message)

    def on_timer(self, name: str, now_s: float) -> None:
        if self._leads or self._fetching:
            return
        wait_s = PAUSE_S
        try:
            self._step()
            self._error = ""
            if self._follower is not None and self._follower.needs_base:
                wait_s = RETRY_S
        except (Unavailable, StoreGone) as error:
            if not self._error:
                log.warning("replication.unavailable", extra={"error": str(error)})
            self._error = str(error.fields.get("error") or error.message)
            wait_s = RETRY_S
        if not self._leads:
            self.mailbox.set_timer(_FOLLOW, self.mailbox.now_s() + wait_s)

    def on_stopping(self) -> None:
        self._release()
        self.on_finished()

    def status(self) -> StoreReport:
        return StoreReport(mode=self.settings.persistence.mode, replication=self._figures())

    def _figures(self) -> ReplicationFigures:
        follower = self._follower
        known = max((report.sequence for report in self._members.values()), default=0)
        if follower is not None:
            known = max(known, follower.replica.position.sequence + follower.behind)
        figures = ReplicationFigures(
            role="standby",
            member=self._replication.member,
            stream=self._replication.stream,
            log="away" if self._error else "ready",
            error=self._error,
            members=member_rows(self._members, known, self.mailbox.wall_ms()),
        )
        if follower is None:
            return figures
        position = follower.replica.position
        return replace(
            figures,
            leader="" if position.released else position.leader,
            leader_address=position.address,
            term=position.term,
            sequence=position.sequence,
            behind=follower.behind,
            silent_s=round(follower.silent_s(), 3),
            needs_base=follower.needs_base,
            applied=follower.replica.applied,
        )

    # --- inside ---

    def _step(self) -> None:
        follower = self._follower or self._on_opened()
        now_s = clock_s()
        speaks = now_s - self._reported_s >= renewal_s(self._replication.lease_s)
        if speaks or not follower.needs_base:
            follower.follow()
        position = follower.replica.position
        self._leader_address = "" if position.released else position.address
        if now_s - self._synced_s >= SYNC_S:
            self._synced_s = now_s
            follower.replica.sync()
        if speaks:
            self._reported_s = now_s
            follower.poll()
            self._speak(follower)
        if follower.needs_base:
            self._seek_base(follower)
        elif follower.is_due() and follower.lead(self.epoch):
            self._lead(follower)

    def _on_opened(self) -> Follower:
        try:
            install(self._store)
        except OSError as error:
            raise Unavailable("the store that was brought cannot take its place", error=str(error)) from error
        replica = open_replica(Path(self.settings.node.data_dir))
        self._follower = Follower(replica, self._log, self._replication)
        log.info("replication.stands_by", extra={"sequence": replica.position.sequence, "term": replica.position.term})
        return self._follower

    def _speak(self, follower: Follower) -> None:
        own = follower.replica.report("standby", self.mailbox.wall_ms(), self._replication.address)
        own = replace(own, wants=follower.wants, needs_base=bool(follower.needs_base))
        self._members = exchange_reports(self._log, self._replication.member, own)

    def _lead(self, follower: Follower) -> None:
        position = follower.replica.position
        self._leads = True
        log.warning("replication.leads", extra={"term": position.term, "silent_s": round(follower.silent_s(), 3)})
        self._release()
        self.send(SUPERVISOR, RoleChanged(role="leader", at_once=False, epoch=position.epoch, reason="nobody else leads"))

    def _release(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            try:
                follower.replica.sync()
            except Unavailable as error:
                log.warning("replication.not_synced", extra={"error": str(error)})
            follower.replica.engine.close()
        self._log.close()
        redirecting, self._redirecting = self._redirecting, None
        if redirecting is not None:
            redirecting.close()

    # --- the store to begin with ---

    def _seek_base(self, follower: Follower) -> None:
        offers = [report for report in self._members.values() if report.base]  # one that is gone may have left its own
        found = max(offers, key=lambda report: report.base_sequence, default=None)
        if found is None or found.base_sequence <= follower.replica.position.sequence:
            return
        self._fetching = found.base
        log.info("replication.base_wanted", extra={"base": found.base, "why": follower.needs_base})
        name, store = found.base, self._store
        objects = JetStreamLog(self._replication, self._replication.member)

        def bring() -> None:
            error: BasculeError | None = Unavailable("the store to begin with was not brought")
            try:
                size_bytes = fetch(objects, name, store)
                log.info("replication.base_brought", extra={"base": name, "bytes": size_bytes})
                error = None
            except Unavailable as refusal:
                error = refusal
            except OSError as refusal:
                error = Unavailable("the store to begin with cannot be written", error=str(refusal))
            finally:
                objects.close()
                self.send_from_thread(error)

        self.mailbox.in_thread("base", bring)

    def _on_fetched(self, error: BasculeError | None) -> None:
        self._fetching = ""
        if error is not None:
            log.warning("replication.base_not_brought", extra={"error": str(error)})
            self._error = str(error)
        elif self._follower is not None:
            self._follower.replica.engine.close()
            self._follower = None
        self.mailbox.set_timer(_FOLLOW, self.mailbox.now_s() + (RETRY_S if error is not None else 0.0))

    def _obey(self, command: QueueCommand) -> None:
        result: dict[str, Any] = {}
        error, message = "", ""
        try:
            if command.verb == "promote":
                error, message, result = self._want()
            elif command.verb == "remove":
                error, message, result = self._forget(command.arguments["member"])
            else:
                error, message = Refusal.STANDBY, _FOR_THE_LEADER
        except LogAway as refusal:
            error, message = Refusal.UNAVAILABLE, str(refusal)
        self.send(SUPERVISOR, QueueAnswer(request=command.request, error=error, message=message, result=result))

    def _want(self) -> tuple[str, str, dict[str, Any]]:
        """Have whoever leads step down for this member: what to answer."""
        follower = self._follower
        if follower is None or self._error:
            return Refusal.UNAVAILABLE, f"the log, or the store, cannot be used for now: {self._error}; nothing was done", {}
        if follower.needs_base:
            return Refusal.BEHIND, f"this member cannot lead yet: {follower.needs_base}; nothing was done", {}
        follower.ask_to_lead()
        self._reported_s = 0.0
        position = follower.replica.position
        asked = "" if position.released else position.leader
        return "", "", to_map(Promoted(leads=False, asked=asked, silent_s=round(follower.silent_s(), 3)))

    def _forget(self, member: str) -> tuple[str, str, dict[str, Any]]:
        if member == self._replication.member:
            return "itself", "that is the member that was asked, which says at once that it is there; nothing was done", {}
        if not self._log.forget(member):
            return Refusal.UNKNOWN_MEMBER, f"no member is called {member}; nothing was done", {}
        self._members.pop(member, None)
        return "", "", to_map(MemberRemoved(removed=member))
