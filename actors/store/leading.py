"""A leader's QueueStore besides: it keeps its lease, hears the other members, and lets another lead in time.

The store itself goes on as on any node, over an engine that puts each commit on the log first. nats-py is imported only here and in
``standby_store.py``: other nodes lack it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage import files
from storage.replication.base import offer, withdraw
from storage.replication.leader import Leader
from storage.replication.lease import LeaseFile
from storage.replication.log import LogAway
from storage.replication.members import member_rows
from storage.replication.replica import open_replica
from storage.replication.replicated_engine import ReplicatedEngine
from wire.config_settings import ReplicationSettings
from wire.errors import BasculeError, StorageDamaged, Unavailable
from wire.figure import to_map
from wire.frames.frame import Frame
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import QueueAnswer, QueueCommand, RoleChanged
from wire.status.answers import MemberRemoved, Promoted, SteppedDown
from wire.status.refusals import Refusal
from wire.status.replication_figures import ReplicationFigures

if TYPE_CHECKING:
    from actors.process.actor import MailboxActor
    from storage.replication.jetstream_log import JetStreamLog

log = logging.getLogger("bascule")

LEAD_TIMER = "lead"
OFFER_NAME = "store.offer"


@dataclass(frozen=True, slots=True)
class BaseOffered:
    """Thread -> actor: what others may begin with is there, or is not (an empty ``name``)."""

    name: str
    sequence: int


class Leading:
    """The part of a leader's QueueStore, ``store``, that has to do with others."""

    def __init__(self, store: MailboxActor) -> None:
        settings = store.settings
        assert settings.replication is not None
        self._actor = store
        self._settings: ReplicationSettings = settings.replication
        self._data_dir = Path(settings.node.data_dir)
        self._lease = LeaseFile(Path(settings.run_dir))
        self._lease.hold(0.0)  # what is there may be of before the machine was started anew
        self._log: JetStreamLog | None = None
        self._leader: Leader | None = None
        self._epoch = store.epoch
        self._offering = False
        self._ended = self._ended_at_once = False  # this node leads no more

    def met(self, epoch: int) -> None:
        """A process of this node has that epoch."""
        self._epoch = max(self._epoch, epoch)
        if self._leader is not None:
            self._leader.engine.meet(self._epoch)

    def on_not_opened(self) -> None:
        """The store could not be opened over the engine, which is closed: nobody leads with it."""
        self._leader = None
        self._actor.mailbox.cancel_timer(LEAD_TIMER)

    def open(self) -> ReplicatedEngine:
        """The engine for the store, which leads from here on.

        Raises:
            Replaced: another member leads.
            Unavailable: the disk refuses, or the log cannot be used for now.
            StorageDamaged, ConfigError: the store and the log do not belong together.
        """
        if self._log is None:
            self._log = _connect(self._settings)
        replica = open_replica(self._data_dir)
        try:
            self._leader = Leader(replica, self._log, self._settings, self._lease)
        except BasculeError:
            replica.engine.close()
            raise
        self._leader.engine.meet(self._epoch)
        self._actor.mailbox.set_timer(LEAD_TIMER, self._actor.mailbox.now_s())
        return self._leader.engine

    def tick(self) -> None:
        """Do what time brings.

        Raises:
            Replaced: another member leads.
            ConfigError: another node goes by this one's name.
        """
        leader = self._leader
        if leader is None or self._ended_at_once:
            return
        leader.tick(self._actor.mailbox.wall_ms())
        now_s = self._actor.mailbox.now_s()  # it may have waited for the log; what else is to be done has its turn
        if self._ended:  # clients and bridges are told to stop, and may take their time
            self._actor.mailbox.set_timer(LEAD_TIMER, now_s + leader.period_s)
            return
        if leader.lease_left_s <= 0:
            self._end("the lease has ended: the log could not be reached for as long", at_once=True)
            return
        self._actor.mailbox.set_timer(LEAD_TIMER, now_s + leader.period_s)
        if wanted := leader.wanted():
            leader.choose(wanted)
            self._end(f"{wanted} was asked to lead", at_once=False)
        elif not self._offering and leader.needs_base():
            self._offer(leader)
        elif not self._offering and leader.offered[0] and not leader.base_is_needed():
            self._offer_no_more()

    def on_replaced(self, why: str) -> None:
        """Another member leads."""
        self._end(why, at_once=True)

    def step_down(self) -> None:
        """Let another member lead at once. All that was spoken to clients and remotes is over."""
        leader = self._leader
        if leader is None or leader.lease_left_s <= 0:
            return
        try:
            leader.engine.sync()
            leader.engine.step_down(leader.successor)
        except BasculeError as error:  # then the lease runs out
            log.warning("replication.not_stepped_down", extra={"error": str(error)})

    def close(self) -> None:
        """Release the log and the lease."""
        if self._log is not None:
            self._log.close()
        self._lease.close()

    def obey(self, frame: Frame) -> bool:
        """Carry out a command that is about the cluster; whether ``frame`` is one."""
        if not isinstance(frame, QueueCommand) or frame.verb not in ("promote", "step_down", "remove"):
            return False
        result: dict[str, Any] = {}
        error = message = ""
        leader = self._leader
        if leader is None or self._log is None:
            error, message = Refusal.UNAVAILABLE, "this node does not lead yet; nothing was done"
        elif frame.verb == "promote":
            result = to_map(Promoted(leads=True))
        elif frame.verb == "step_down":
            leader.choose(str(frame.arguments.get("to", "")))
            result = to_map(SteppedDown(to=leader.successor))
            others = [report for report in leader.members.values() if report.node != leader.engine.replica.node]
            if leader.successor and leader.successor not in leader.members:
                error, message = Refusal.UNKNOWN_MEMBER, f"no member is called {leader.successor}; nothing was done"
            elif not others:
                error, message = Refusal.ALONE, "there is no other member; nothing was done"
            else:
                self._end("it was told to step down", at_once=False)
        else:
            error, message, result = self._forget(leader, str(frame.arguments.get("member", "")))
        self._actor.send(SUPERVISOR, QueueAnswer(request=frame.request, error=error, message=message, result=result))
        return True

    def figures(self) -> ReplicationFigures:
        """For ``bascule status``."""
        leader, member, stream = self._leader, self._settings.member, self._settings.stream
        if leader is None:
            return ReplicationFigures(role="leader", member=member, stream=stream, log="away", error="not reached yet")
        position = leader.engine.replica.position
        return ReplicationFigures(
            role="leader",
            member=member,
            stream=stream,
            log="away" if leader.log_error else "ready",
            error=leader.log_error,
            leader=member,
            leader_address=self._settings.address,
            term=position.term,
            sequence=position.sequence,
            records=leader.engine.records,
            lease_left_s=round(leader.lease_left_s, 3),
            log_first=leader.log_first,
            members=member_rows(leader.members, position.sequence, self._actor.mailbox.wall_ms()),
        )

    # --- inside ---

    def _end(self, reason: str, *, at_once: bool) -> None:
        if self._ended:
            return
        self._ended, self._ended_at_once = True, at_once
        epoch = self._epoch if self._leader is None else max(self._epoch, self._leader.engine.replica.position.epoch)
        self._actor.send(SUPERVISOR, RoleChanged(role="standby", at_once=at_once, epoch=epoch, reason=reason))

    def _forget(self, leader: Leader, member: str) -> tuple[str, str, dict[str, Any]]:
        assert self._log is not None
        if member == self._settings.member:
            return Refusal.LEADS, "that is the member that leads; nothing was done", {}
        try:
            forgotten = self._log.forget(member)
        except LogAway as error:
            return Refusal.UNAVAILABLE, str(error), {}
        leader.members.pop(member, None)
        if not forgotten:
            return Refusal.UNKNOWN_MEMBER, f"no member is called {member}", {}
        return "", "", to_map(MemberRemoved(removed=member))

    def _offer(self, leader: Leader) -> None:
        """Offer the store as it is now to whoever needs it."""
        folder = self._data_dir / OFFER_NAME
        sequence = leader.engine.replica.position.sequence
        try:
            files.discard(folder)
            leader.engine.checkpoint(str(folder))
        except (Unavailable, StorageDamaged, OSError) as error:
            log.warning("replication.base_not_offered", extra={"error": str(error)})
            return
        name = f"at-{sequence}"

        def bring(objects: JetStreamLog) -> str:
            try:
                size_bytes = offer(objects, folder, name)
            finally:
                files.discard(folder)
            log.info("replication.base_offered", extra={"base": name, "bytes": size_bytes})
            return name

        leader.begin_offer(sequence)
        self._beside(bring, sequence, "replication.base_not_offered")

    def _offer_no_more(self) -> None:
        def remove(objects: JetStreamLog) -> str:
            withdraw(objects)
            return ""

        self._beside(remove, 0, "replication.base_not_removed")

    def _beside(self, job: Callable[[JetStreamLog], str], sequence: int, failed: str) -> None:
        """Do ``job`` in a thread, on a connection of its own; it returns the name of what is offered then."""
        self._offering = True

        def work() -> None:
            name = ""
            try:
                objects = _connect(self._settings)
                try:
                    name = job(objects)
                finally:
                    objects.close()
            except (Unavailable, OSError) as error:
                log.warning(failed, extra={"error": str(error)})
            finally:
                self._actor.send_from_thread(BaseOffered(name, sequence))

        self._actor.mailbox.in_thread("base", work)

    def on_offered(self, message: BaseOffered) -> None:
        """The thread has ended."""
        self._offering = False
        if self._leader is not None:
            self._leader.offer(message.name, message.sequence)
            self._actor.mailbox.set_timer(LEAD_TIMER, self._actor.mailbox.now_s())


def _connect(settings: ReplicationSettings) -> JetStreamLog:
    from storage.replication.jetstream_log import JetStreamLog

    return JetStreamLog(settings, settings.member)
