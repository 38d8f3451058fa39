"""The next commit: what it makes durable, how strongly, and when it is due. Time is an argument.

Code that puts something into ``write`` says here what it needs.

store.refused-write-kept: when the disk refuses, the open write is kept and committed again later: no acknowledgement, no loss, no
    gap in the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from storage.engine.engine import Engine, Moment, Write
from storage.store.disk_trouble import Disk
from wire.config_settings import NodeSettings, SettingsNow
from wire.durability import Durabilities
from wire.errors import Unavailable
from wire.frames.frame import Frame
from wire.frames.intake import Append, CommitWanted
from wire.frames.lanes import Credit, Settle
from wire.status.histogram import Histogram
from wire.status.outcomes import is_dead
from wire.status.store import CommitFigures

LAZY_S = 0.1
MADE_MAX = 256
_SAY_THEMSELVES = frozenset((Append, CommitWanted, Settle))  # how long they wait
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
MESSAGES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)

PutRows = Callable[[Write, Moment], object]  # what has changed of a part


class CommitTime:
    """The time at which the open write is due.

    If somebody waits for it, it is committed in its turn, or once in each flush period. Nobody waits for what only settles
    messages: where that is lost with the process, they are delivered again, as after any death. So it goes with a commit that
    happens anyway, or after ``LAZY_S``.
    """

    def __init__(self, durabilities: Durabilities) -> None:
        self.durabilities = durabilities
        self._waits_s: float | None = None  # how long it may, by what somebody waits for; None: as the store says
        self._committed_s = float("-inf")
        self._only_settled = False  # nothing else came since the last commit
        self._lazy_due_s: float | None = None  # when that is committed though nobody waits for it

    @property
    def _flush_period_s(self) -> float:
        return self.durabilities.own.flush_period_s if self._waits_s is None else self._waits_s

    def take(self, frame: Frame) -> None:
        """``frame`` is in the open write. Nobody waits for credit, nor for most of what settles."""
        if self._only_settled and (type(frame) is Credit or (type(frame) is Settle and _can_wait(frame))):
            return
        self._only_settled = False
        if self.durabilities.differ and type(frame) is not Credit and type(frame) not in _SAY_THEMSELVES:
            self.want(self.durabilities.own.flush_period_s)

    def want(self, flush_period_s: float) -> None:
        """Something in the open write waits no longer than that since the last commit."""
        self._waits_s = flush_period_s if self._waits_s is None else min(self._waits_s, flush_period_s)

    def hurry(self, *, waited_for: bool = True) -> None:
        """The open write has something that does not wait as settlements do. waited_for: nor longer than the store's own period."""
        self._only_settled = False
        if waited_for and self.durabilities.differ:
            self.want(self.durabilities.own.flush_period_s)

    def put_off(self, now_s: float) -> None:
        """The open write has something, and is not committed now."""
        if self._lazy_due_s is None:
            self._lazy_due_s = now_s + LAZY_S

    def on_committed(self, now_s: float, *, written: bool) -> None:
        """Nothing is left uncommitted. written: something went to the disk for that."""
        if written:
            self._committed_s = now_s
        self._only_settled, self._lazy_due_s, self._waits_s = True, None, None

    def is_due(self, now_s: float) -> bool:
        """Whether to commit now."""
        if self._only_settled and (self._lazy_due_s is None or now_s < self._lazy_due_s):
            return False
        period_s = self._flush_period_s
        return not period_s or now_s >= self._committed_s + period_s

    def wakes_at_s(self, *, waited_for: bool) -> float:
        """The time at which it is due though nothing comes. waited_for: somebody waits for the open write."""
        wake_s, period_s = float("inf"), self._flush_period_s
        if self._only_settled and self._lazy_due_s is not None:
            wake_s = max(self._lazy_due_s, self._committed_s + period_s)
        if waited_for and period_s:
            wake_s = min(wake_s, self._committed_s + period_s)
        return wake_s


class NextCommit:
    """The open write, and what those want that have put something into it.

    engine, disk: which take it. messages: how many came with it. time: when it is due. needs_sync: it is to survive the loss of
    power. awaited: somebody waits for it. at_once: it is not put off, because a queue can be handed out after it. count: the
    commits that were made; last_s: how long the last one took. now_s, wall_ms: when the turn began.
    """

    def __init__(self, engine: Engine, disk: Disk, settings: SettingsNow) -> None:
        self.engine = engine
        self.disk = disk
        self.write = Write()
        self.messages = 0
        self.needs_sync = self.awaited = self.at_once = False
        self.time = CommitTime(Durabilities(settings.now))
        self.count = 0
        self.last_s = 0.0
        self.now_s, self.wall_ms = 0.0, 0
        self._written_bytes = 0
        self._made: list[tuple[float, int]] = []  # commits that are not in the histograms: how long each took, and its messages
        self._seconds = Histogram(SECONDS)
        self._messages = Histogram(MESSAGES)

    def begin_turn(self, now_s: float, wall_ms: int) -> None:
        """A turn begins."""
        self.now_s, self.wall_ms = now_s, wall_ms

    @property
    def durabilities(self) -> Durabilities:
        """What is promised now."""
        return self.time.durabilities

    def settings_changed(self, settings: NodeSettings) -> None:
        """Others hold from the next frame on."""
        self.time.durabilities = Durabilities(settings)

    def promise(self, *, synced: bool | None = None) -> None:
        """Somebody waits for something in it; ``synced`` as of ``survive``."""
        self.survive(synced=synced)
        self.awaited = True

    def take(self, messages: int, *, survives: bool) -> None:
        """So many messages came with it, and somebody waits for it. survives: some are to survive the loss of power."""
        self.messages += messages
        self.awaited = True
        if survives:
            self.needs_sync = True

    def survive(self, *, synced: bool | None = None) -> None:
        """Something in it is to survive the loss of power, if ``synced``; None: if anything is."""
        self.needs_sync |= self.durabilities.any_synced if synced is None else synced

    def go_on(self, *, synced: bool) -> None:
        """It is not put off: a queue can be handed out after it. synced: once it survives the loss of power."""
        self.at_once = True
        self.needs_sync |= synced

    def goes_on(self) -> bool:
        """Whether it is not put off; the one after it is put off again."""
        goes_on, self.at_once = self.at_once, False
        return goes_on

    def commit(self, rows: Iterable[PutRows], now_s: float, wall_ms: int) -> bool:
        """Commit what is there, with the ``rows`` that have changed, as strongly as it needs; whether the disk took it.

        Raises:
            StorageDamaged: what every queue depends on is damaged.
        """
        write, disk = self.write, self.disk
        strong = self.needs_sync or not self.durabilities.any_synced
        moment = Moment(now_s, wall_ms, strong, disk.refusal is None)
        for put in rows:
            put(write, moment)
        if self.awaited and strong:
            write.promise()  # what the loss of power may take back leaves no mark
        written = bool(write.ops or write.callbacks)
        if written:
            try:
                self.last_s = self.engine.commit(write, sync=self.needs_sync)
            except Unavailable as error:
                disk.refuses(error, now_s, wall_ms)
                return False
            self._written_bytes += write.size_bytes
            disk.wrote(write.size_bytes)
            self._made.append((self.last_s, self.messages))
            self.count += 1
            if self.count % MADE_MAX == 0:
                self._count_made()
        self.on_done(now_s, written=written)
        return True

    def on_done(self, now_s: float, *, written: bool) -> None:
        """Everything that was wanted is committed; if that was ``written`` to the disk, another write begins."""
        if written:
            self.write, self.messages = Write(), 0
        self.needs_sync = self.awaited = self.at_once = False
        self.time.on_committed(now_s, written=written)

    def _count_made(self) -> None:
        for took_s, messages in self._made:
            self._seconds.add(took_s)
            self._messages.add(messages)
        self._made.clear()

    def figures(self) -> CommitFigures:
        """For ``bascule status``, since the process began."""
        self._count_made()
        return CommitFigures(
            commits=self.count,
            written_bytes=self._written_bytes,
            commit_seconds=self._seconds.figures(),
            commit_messages=self._messages.figures(),
        )


def _can_wait(frame: Settle) -> bool:
    """Whether nobody waits for what ``frame`` changes: it settles messages, which leaves nothing but their places."""
    kept = any(is_dead(outcome) for outcome, _ in frame.settled)
    return frame.session is None and not frame.released and not kept
