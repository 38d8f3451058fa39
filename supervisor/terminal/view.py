"""The output of ``bascule status``, ``queue`` and ``demo`` on a terminal. The only user of rich."""

from __future__ import annotations

import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from supervisor.terminal import cluster_text
from supervisor.terminal.message_text import Message, printable, when
from supervisor.terminal.queue_room import fullness, when_full
from supervisor.terminal.remote_limitations import lacking
from supervisor.terminal.typed_commands import typed
from supervisor.units import counted, duration, write_time
from wire.figure import to_map
from wire.status.answers import DeadLetterQueue, Queue, Queues, ReloadChange
from wire.status.bridges import FULL, BridgeLane, Unserved
from wire.status.loss_reasons import INTENDED, THINNED, Loss
from wire.status.node_status import ConfigurationFigures, ControlFigures, SnapshotsFigures, Status, TelemetryFigures
from wire.status.replication_figures import ReplicationFigures
from wire.status.states import StoreState
from wire.status.store import StoreFigures

_GOOD, _BAD, _BUSY = "green", "bold red", "yellow"
_STATE_STYLES = {"ready": _GOOD, "connected": _GOOD, "closed": _GOOD, "damaged": _BAD, "misconfigured": _BAD}
_PIPE_WIDTH = 180
_MESSAGES_PIPE_WIDTH = 400
_FOLDED_WIDTH = 12  # of a text, where there is little room
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_status(status: Status, *, bridge: str | None = None, wide: bool = False) -> None:
    """Print ``status`` once."""
    _console().print(status_view(status, bridge=bridge, wide=wide))


def watch_status(fetch: Callable[[], Status], period_s: float, *, bridge: str | None = None, wide: bool = False) -> None:
    """Show what ``fetch`` returns, anew each ``period_s``, until interrupted."""
    try:
        with Live(status_view(fetch(), bridge=bridge, wide=wide), auto_refresh=False) as live:
            while True:
                time.sleep(period_s)
                live.update(status_view(fetch(), bridge=bridge, wide=wide), refresh=True)
    except KeyboardInterrupt:
        return


def status_view(status: Status, *, bridge: str | None = None, wide: bool = False, now_ms: int | None = None) -> RenderableType:
    """The node's line, its bridges and what they wait for, its processes, its local clients and what is kept for them.

    It fits into 80 columns; ``wide`` has every count of the ledgers, too. One ``bridge`` that was asked for stands alone, with all
    that is known of it behind that. now_ms: the time, UTC; that of this machine if none is given.
    """
    bridges, now_ms = status.bridges, time.time_ns() // 1_000_000 if now_ms is None else now_ms
    told = _bridges(bridges, wide=wide, now_ms=now_ms)
    queues = *_paused(bridges), *_behind_others(bridges), *_former_rules(bridges)
    if bridge is not None:
        return Group(told, *queues, *_history(bridges), *(part for row in bridges for part in _all_figures(row)))
    cluster = status.replication
    stands_by = cluster is not None and cluster.role == "standby"
    state = Text("stands by" if stands_by else "ready", _GOOD) if status.ready else Text("not ready", _BAD)
    head = Text.assemble(("node ", "bold"), (status.node, "bold cyan"), "  ", state, f"  pid {status.supervisor.pid}")
    head.append(f"  up {duration(status.supervisor.uptime_s)}")
    if status.store is not None and status.store.mode:
        head.append(f"  {status.store.mode}")
    queues = *queues, *_unserved(status.unserved), *_history(bridges)
    first = *_cluster(cluster), *_store(status.store), *_configuration(status.configuration)
    table = () if stands_by else (Text(""), told)
    rows = *first, *table, *queues, Text(""), _processes(status)
    others = *_control(status.control), *_telemetry(status.telemetry), *_snapshots(status.snapshots)
    return Group(head, *rows, *_clients(status, wide=wide), *others)


def _store(figures: StoreFigures | None) -> list[RenderableType]:
    """Faults of the disk, if there are any."""
    if figures is None or figures.state in (None, StoreState.RUNNING):
        return []
    line = Text.assemble(("store ", "bold"), (str(figures.state), _BAD))
    if figures.error:
        line.append(f"  {figures.error}")
    if figures.disk_free_bytes is not None:
        line.append(f"  {size(figures.disk_free_bytes)} free")
    return [line]


def _cluster(figures: ReplicationFigures | None) -> list[RenderableType]:
    """Of a replicated node: who leads, how far it is or who follows it, and whether the log can be used."""
    if figures is None:
        return []
    if figures.role == "leader":
        said = f"leads {figures.stream}, term {figures.term or 0}; members: {cluster_text.members(figures)}"
    else:
        said = f"{figures.stream}: {cluster_text.leader(figures)}; this node is {cluster_text.own_part(figures)}"
    lines: list[RenderableType] = [Text.assemble(("cluster ", "bold"), typed(said))]
    if why := cluster_text.base(figures):
        lines.append(Text(why, _BUSY))
    if figures.log != "ready":
        lines.append(Text.assemble(("log ", "bold"), (cluster_text.log_state(figures), _BAD)))
    return lines


def _configuration(figures: ConfigurationFigures | None) -> list[RenderableType]:
    """Changes in the files that are not applied, if there are any."""
    lines: list[RenderableType] = []
    if figures is None:
        return lines
    if figures.changed_on_disk:
        files = printable(", ".join(figures.changed_files))
        lines.append(Text.assemble(("changed and not reloaded: ", _BUSY), typed(f"{files}; bascule reload CONFIG applies it")))
    if figures.pending:
        lines.append(Text.assemble(("do not use the new configuration yet: ", _BUSY), ", ".join(figures.pending)))
    return lines


def _processes(status: Status) -> RenderableType:
    """The processes and who lives in each; of an actor that is not as its process is, how it is."""
    rows, states = status.processes, {row.name: row.state for row in status.actors}
    table = _Table("process", "state", ">pid", ">restarts", ">memory", ">CPU", "actors")
    for row in rows:
        named = Counter((name.partition(":")[0], states[name]) for name in row.actors)
        table.add_row(
            row.name,
            _state(row.state),
            _figure(row.pid),
            Text(str(row.restarts), _BUSY if row.restarts else ""),
            "-" if row.pss_bytes is None else f"{row.pss_bytes / (1 << 20):.1f} MiB",
            "-" if row.cpu_s is None else f"{row.cpu_s:.1f} s",
            Text(", ").join(
                Text(_many(kind, count)) if state == row.state else Text.assemble(f"{_many(kind, count)} ", _state(state))
                for (kind, state), count in named.items()
            ),
        )
    causes = [(row, _BUSY if row.state == "ready" else _BAD) for row in rows if row.last_cause]
    return Group(table, *(Text.assemble((f"{row.name} ", "bold"), (row.last_cause, style)) for row, style in causes))


def _many(kind: str, count: int) -> str:
    return kind if count == 1 else f"{count} {kind}"


def _bridges(rows: Sequence[BridgeLane], *, wide: bool, now_ms: int) -> RenderableType:
    if not rows:
        return Text("no bridges: a broker alone", "dim")
    counts = ("accepted", "delivered", "expired", "dropped", "dead_lettered") if wide else ()
    columns = "bridge", "state", ">depth", ">size", ">full", ">oldest", ">in flight", ">in/s", ">out/s", ">drain"
    table = _Table(*columns, *(f">{name.replace('_', ' ')}" for name in counts), *(("ledger",) if wide else ()), whole=wide)
    for row in rows:
        table.add_row(
            _lane(row),
            _state(row.state),
            _figure(row.depth),
            "-" if row.bytes is None else size(row.bytes),
            _share(row.full),
            "-" if row.oldest_age_s is None else briefly(row.oldest_age_s),
            _figure(row.in_flight),
            _rate(row.rate_in),
            _rate(row.rate_out),
            "-" if not row.drain_s else briefly(row.drain_s),
            *(_figure(sum(row.dropped.values()) if name == "dropped" else getattr(row, name)) for name in counts),
            *((_ledger(row),) if wide else ()),
        )
    return Group(
        table,
        *_reasons(rows),
        *_prospects(rows, now_ms),
        *_losses(rows),
        *_ledgers(rows),
        *_without_room(rows, now_ms),
        *_notes(rows),
        *_remote_subscriptions(rows, wide=wide),
    )


def _all_figures(row: BridgeLane) -> list[RenderableType]:
    """All figures of one lane, a line each; nested ones by their path, and none that says nothing."""
    lines: list[RenderableType] = [Text(""), Text.assemble((_lane(row), "bold cyan"), "  ", _state(row.state))]
    told = {name: value for name, value in to_map(row).items() if name not in ("name", "lane", "state")}
    for name, value in _leaves(told):
        lines.append(Text.assemble((f"  {name:<38}", "bold"), printable(str(value))))
    return lines


def _leaves(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif value not in (None, "", [], ()):
        yield path, value


def _lane(row: BridgeLane) -> str:
    return f"{row.name}:{row.lane}"


def _share(full: float | None) -> Text:
    """How full a queue is; red where the next message may find no room."""
    if full is None:
        return Text("-")
    return Text(f"{int(full * 100)} %", _BAD if full >= FULL else "")


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def _reasons(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Of each link that does not stand: for how long, after how many attempts, what comes next, why, and what cures that."""
    lines: list[RenderableType] = []
    for row in rows:
        if not row.reason or row.paused_since_ms is not None:  # _paused tells of those
            continue
        is_down = row.down_s is not None
        line = Text.assemble((f"{_lane(row)} ", "bold"), ("down", _BAD) if is_down else _state(row.state))
        if (lasted_s := row.down_s if is_down else row.since_s) is not None:
            line.append(f" for {duration(lasted_s)}")
        if row.attempts and is_down:
            line.append(f", {counted(row.attempts, 'attempt')} failed")
        if row.next_attempt_s is not None:
            line.append(f", next in {duration(row.next_attempt_s)}")
        line.append(f": {printable(row.last_error or row.reason)}")
        if row.cure:
            line.append(f"\n  -> {typed(row.cure)}")
        lines.append(line)
    return lines


def _prospects(rows: Sequence[BridgeLane], now_ms: int) -> list[RenderableType]:
    """The times at which growing queues are full, and how long those that do not move take once they do. Those that are nearly full
    already have a line of their own."""
    growing = (row for row in rows if row.full_s and not (row.room is not None and row.room.is_nearly_full))
    full = {row.name if row.room is None else row.room.name: when_full(row.full_s or 0.0, now_ms) for row in growing}
    best = {_lane(row): duration(row.drain_at_best_s) for row in rows if row.drain_s is None and row.drain_at_best_s}
    return [
        Text.assemble((what, _BUSY), "; ".join(f"{name} {after}" for name, after in found.items()))
        for what, found in (("full, as fast as it grows: ", full), ("drained, at the best rate so far, in: ", best))
        if found
    ]


def _losses(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Messages that will not arrive by themselves: dead letters, drops by reason; and, as no trouble, those that operators
    removed."""
    dead = {row.name: row.dead_letters for row in rows if row.dead_letters}
    held = [
        f"{name} {letters.held} ({', '.join(f'{reason} {count}' for reason, count in letters.reasons.items())})"
        for name, letters in dead.items()
        if letters.held
    ]
    lost = [
        f"{_lane(row)} {', '.join(f'{reason} {count}' for reason, count in found.items())}"
        for row in rows
        if (
            found := {
                reason: count
                for reason, count in (*row.dropped.items(), ("expired", row.expired))
                if count and reason not in INTENDED
            }
        )
    ]
    done = [f"{_lane(row)} {row.dropped[Loss.PURGED]} purged" for row in rows if row.dropped.get(Loss.PURGED)]
    done += [
        f"{name} {count} dead letters {what}"
        for name, letters in dead.items()
        for what, count in (("replayed", letters.replayed), ("purged", letters.purged))
        if count
    ]
    lines: list[RenderableType] = []
    if held:
        see = typed("; bascule queue peek CONFIG BRIDGE --dead shows them")
        lines.append(Text.assemble(("dead letters: ", _BAD), "; ".join(held), see))
    if lost:
        lines.append(Text.assemble(("dropped so far: ", _BUSY), "; ".join(lost)))
    thinned = [
        f"{_lane(row)} {', '.join(f'{row.dropped[reason]} {reason}' for reason in THINNED if row.dropped.get(reason))}"
        for row in rows
        if any(row.dropped.get(reason) for reason in THINNED)
    ]
    if thinned:
        lines.append(Text("left out by rules: " + "; ".join(thinned), "dim"))
    if done:
        lines.append(Text("by operators: " + "; ".join(done), "dim"))
    return lines


def _ledger(row: BridgeLane) -> Text:
    if row.ledger_closes is None:
        return Text("-")
    return Text("closes", _GOOD) if row.ledger_closes else Text("OPEN", _BAD)


def _ledgers(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Which ledgers do not add up."""
    names = ", ".join(_lane(row) for row in rows if row.ledger_closes is False)
    lines: list[RenderableType] = []
    if names:
        lines.append(Text.assemble(("ledger OPEN: ", _BAD), f"{names}; see -o wide, and tell us"))
    return lines


def _without_room(rows: Sequence[BridgeLane], now_ms: int) -> list[RenderableType]:
    """Which queues are full or nearly so, since when or when they will be, and what happens then; what is beside the ledgers: what
    they refused."""
    lines: list[RenderableType] = []
    rooms = {row.room.name: (row.room, row.full_s) for row in rows if row.room is not None and row.room.is_nearly_full}
    for room, full_s in rooms.values():
        told = f"{fullness(room, full_s, now_ms=now_ms)}\n  -> {room.cure}"
        lines.append(Text.assemble((f"queue of {room.name}: ", _BAD if room.is_full else _BUSY), told))
    told = "; ".join(f"{_lane(row)} {row.refused}" for row in rows if row.refused)
    if told:
        lines.append(Text.assemble(("refused for want of room: ", _BUSY), told))
    return lines


def _notes(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Facts that an operator should know of a link beside its state."""
    noted = [(_lane(row), note, _BAD) for row in rows if row.link is not None and (note := row.link.note)]
    noted += [(_lane(row), words, _BUSY) for row in rows for words, _ in lacking(row)]
    return [Text.assemble((f"{lane} ", "bold"), (printable(note), style)) for lane, note, style in noted]


def _paused(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Which bridges wait for an operator."""
    since = {row.name: write_time(row.paused_since_ms) for row in rows if row.paused_since_ms is not None}
    told = ", ".join(f"{bridge} since {at}" for bridge, at in since.items())
    which = next(iter(since)) if len(since) == 1 else "BRIDGE"
    hint = typed(f"\n  -> bascule bridge resume CONFIG {which}")
    return [Text.assemble(("paused by an operator: ", _BUSY), f"{told}{hint}")] if since else []


def _behind_others(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Which lanes wait for others, because the number of lanes has changed."""
    waits = "; ".join(f"{row.name}:{row.lane} for {', '.join(map(str, lanes))}" for row in rows if (lanes := row.waits_for_lanes))
    return (
        [Text.assemble(("wait until other lanes have sent messages from before the change of lanes: ", _BUSY), waits)]
        if waits
        else []
    )


def _former_rules(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Former rules whose messages still wait, because the rule is gone or has changed."""
    kept = "; ".join(
        f"{row.name}:{row.lane} {rule.rule} -> {rule.destination} (at most {counted(rule.messages, 'message')})"
        for row in rows
        for rule in row.former_rules
    )
    said = "former rules, whose messages still go where they said: "
    return [Text.assemble((said, _BUSY), printable(kept))] if kept else []


def _unserved(rows: Sequence[Unserved]) -> list[RenderableType]:
    """Messages of bridges and lanes that are not configured any more."""
    kept = "; ".join(f"{row.queue} {counted(row.depth, 'message')}, {size(row.bytes or 0)}" for row in rows)
    return [Text.assemble(("messages for bridges or lanes that are not configured any more: ", _BAD), kept)] if rows else []


def _history(rows: Sequence[BridgeLane]) -> list[RenderableType]:
    """Settled messages that retention keeps, if it keeps any."""
    kept = [
        f"{row.name}:{row.lane} {counted(row.retained.messages, 'message')}, {size(row.retained.bytes)}"
        for row in rows
        if row.retained and row.retained.messages
    ]
    return [Text.assemble(("kept after they left: ", "bold"), "; ".join(kept))] if kept else []


def _control(figures: ControlFigures | None) -> list[RenderableType]:
    """Clients of the control interface over the network, its address, and the refusals."""
    if figures is None:
        return []
    refused = {reason.replace("_", " "): count for reason, count in figures.refused.items() if count}
    if not (figures.endpoint or figures.error or refused):
        return []
    line = Text.assemble(("control ", "bold"), figures.endpoint or "by file")
    if figures.endpoint:
        line.append(f"  {figures.connections} connected  {counted(figures.keys, 'key')}")
    if refused:
        line.append("  refused: " + ", ".join(f"{reason} {count}" for reason, count in refused.items()), _BUSY)
    for problem in (*([figures.error] if figures.error else ()), *figures.problems):
        line.append(f"\n  {problem}", _BAD)
    return [Text(""), line]


def _telemetry(figures: TelemetryFigures | None) -> list[RenderableType]:
    """The reason why metrics do not reach their collector, if they do not."""
    if figures is None or not figures.error:
        return []
    since = f" for {duration(figures.failing_s)}" if figures.failing_s is not None else ""
    return [Text(""), Text.assemble(("telemetry ", "bold"), figures.endpoint, (f"{since}: {printable(figures.error)}", _BAD))]


def _snapshots(figures: SnapshotsFigures | None) -> list[RenderableType]:
    """The snapshots and their faults, if there are any."""
    if figures is None or not (figures.count or figures.every_s or figures.failure or figures.making):
        return []
    line = Text.assemble(("snapshots ", "bold"), f"{figures.count}, {size(figures.bytes)}")
    line.append(f" ({size(figures.own_bytes)} not in the store)")
    if figures.making is not None:
        line.append("  one is being made", _BUSY)
    if figures.last is not None:
        line.append(f"  the last is {figures.last.id}")
    if figures.next_in_s is not None:
        line.append(f"  the next in {duration(figures.next_in_s)}")
    if figures.skipped:
        line.append(f"  {figures.skipped} skipped for want of disk space", _BAD)
    for what, failure in (("not made", figures.failure), ("not copied", figures.ship_failure)):
        if failure is not None:
            line.append(f"\n  {what}: {failure.message}", _BAD)
    return [Text(""), line]


def _clients(status: Status, *, wide: bool) -> list[RenderableType]:
    """The sessions, connected and not, and what is kept for them; nothing until both sides have reported."""
    listener, sessions = status.listener, None if status.store is None else status.store.sessions
    if sessions is None or listener is None:
        return []
    dropped = sessions.dropped + sum(listener.dropped.values())
    figures: dict[str, str | Text] = {
        "clients": str(listener.clients),
        "sessions": str(sessions.kept),
        "queued": str(sessions.depth),
        "size": size(sessions.bytes),
        "in flight": str(listener.in_flight),
        "dropped": Text(str(dropped), _BUSY if dropped else ""),
        "retained": str(sessions.retained.messages),
    }
    if wide:
        figures["sessions connected"] = str(sessions.connected)
        figures["Wills waiting"] = str(listener.pending_wills)
    table = _Table("local", *(f">{name}" for name in figures), whole=wide)
    table.add_row("", *figures.values())
    return [Text(""), table]


def _remote_subscriptions(rows: Sequence[BridgeLane], *, wide: bool) -> list[RenderableType]:
    """Messages from the remotes, if there are any."""
    subscribed = [(row, row.remote_subscriptions) for row in rows if row.remote_subscriptions is not None]
    if not subscribed:
        return []
    counts = ("received", "duplicates", "waiting") + (("looped", "unmatched", "too_large", "dropped") if wide else ())
    table = _Table("from remote", ">granted", *(f">{name.replace('_', ' ')}" for name in counts), "refused filters")
    for row, figures in subscribed:
        refused = ", ".join(f"{topic_filter} ({code})" for topic_filter, code in figures.refused.items())
        granted = Text(f"{figures.granted} of {figures.filters}", _GOOD if figures.granted == figures.filters else _BUSY)
        table.add_row(
            _lane(row),
            granted,
            *(_figure(getattr(figures, count)) for count in counts),
            Text(refused or "-", _BAD if refused else ""),
        )
    return [Text(""), table]


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table; a column whose name starts with ``>`` is aligned right."""
    table = _Table(*columns)
    say(f"\n{title}")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def say(line: str) -> None:
    """Print one line of progress."""
    _console().print(Text(line), soft_wrap=True)


@contextmanager
def progress(what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """Show on standard error how far ``what`` is, as it is told: so many of so many, or of nobody knows how
    many. Nothing is shown where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    how_far = DownloadColumn(binary_units=True) if in_bytes else MofNCompleteColumn()
    columns = TextColumn("{task.description}"), BarColumn(bar_width=None), how_far, TimeRemainingColumn(compact=True)
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty(), expand=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_changes(changes: Iterable[ReloadChange]) -> None:
    """Print what a new configuration changes: how, what, and below it more of that."""
    styles = {"live": _GOOD, "reconnect": _BUSY, "restart": _BUSY, "destructive": _BAD, "node-restart": _BAD}
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for change in changes:
        what = Text(printable(change.what), "bold")
        if change.detail:
            what.append(f"\n{printable(change.detail)}", "not bold")
        table.add_row(Text(change.how, styles.get(change.how, "")), what)
    if table.row_count:
        _console().print(table)


def say_finding(verdict: str, about: str, found: str, cure: str) -> None:
    """Print what the doctor has found, and below it what cures it."""
    style = {"ok": _GOOD, "warn": _BUSY, "fail": _BAD}[verdict]
    line = Text.assemble((f"{verdict:<4}  ", style), (about, "bold"), f": {printable(found)}")
    if cure:
        line.append(f"\n      -> {typed(cure)}")
    _console().print(line, soft_wrap=True)


def verdict(good: bool, text: str) -> Text:
    """``text`` in the colour of good or bad news."""
    return Text(text, _GOOD if good else _BAD)


def briefly(seconds: float) -> str:
    """Seconds for people, in a narrow column: the largest unit."""
    units = ((86_400, "d"), (3600, "h"), (60, "min"))
    return next((f"{int(seconds // unit_s)} {unit}" for unit_s, unit in units if seconds >= unit_s), f"{seconds:.0f} s")


def size(count: float) -> str:
    """Bytes for people."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


def paragraph(titles: Sequence[str], cells: Sequence[str], width: int) -> str:
    """A row of a table as lines of at most ``width``: its first cell, then the others behind their titles."""
    line, *others = cells
    lines = [line]
    for title, cell in zip(titles[1:], others, strict=False):
        pair = f"{title} {cell}".strip()
        lines[-1:] = [f"{lines[-1]}  {pair}"] if len(lines[-1]) + 2 + len(pair) <= width else [lines[-1], f"  {pair}"]
    return "\n".join(
        part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="    ", break_on_hyphens=False) or [""]
    )


def folded(text: str, indent: int = 4) -> str:
    """``text``, whose lines go on behind ``indent`` where a terminal is too narrow for them. A word stays whole."""
    console = _console()
    if not console.is_terminal:
        return text
    margin = " " * min(indent, console.width // 2)
    lines = (
        textwrap.wrap(line, console.width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join("\n".join(line) for line in lines)


def terminal_width() -> int:
    """The columns of the terminal; 80 where it is none."""
    console = _console()
    return console.width if console.is_terminal else 80


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], *, headed: bool = True) -> None:
    """Print plain columns, tens of thousands of rows, too; paragraphs where a terminal is too narrow. ``>``: aligned right."""
    names, console = [title.lstrip(">") for title in titles], _console()
    lines = [*([names] if headed else []), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if console.is_terminal and sum(widths) + 2 * (len(widths) - 1) > console.width:
        print("\n".join(paragraph(names, row, console.width) for row in rows))
        return
    for cells in lines:
        padded = (
            cell.rjust(width) if title[0] == ">" else cell.ljust(width)
            for cell, width, title in zip(cells, widths, titles, strict=True)
        )
        print("  ".join(padded).rstrip())


def _console(pipe_width: int = _PIPE_WIDTH) -> Console:
    """A terminal as wide as it is; a file or a pipe as wide as our tables need."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=pipe_width)


class _Table:
    """Rows below ``columns``, of which those with ``>`` are figures. On a narrow terminal texts are folded, and then the last
    figures left out, by name: a cell that is cut off could be taken for another. whole: nothing is left out; a row becomes a
    paragraph instead.
    """

    def __init__(self, *columns: str, whole: bool = False) -> None:
        self._whole = whole
        self._columns = [(column.lstrip(">"), column.startswith(">")) for column in columns]
        self._rows: list[Sequence[Text]] = []

    def add_row(self, *cells: str | Text) -> None:
        """Add a row of plain text: rich would read ``:a:`` in a name as a picture."""
        self._rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        widest = [max(len(name), *(row[place].cell_len for row in self._rows), 0) for place, (name, _) in enumerate(self._columns)]
        if self._whole and sum(widest) + 2 * (len(widest) - 1) > options.max_width:
            titles = [name for name, _ in self._columns]
            yield from (Text(paragraph(titles, [cell.plain for cell in row], options.max_width)) for row in self._rows)
            return
        least = [
            width if is_figure else min(width, _FOLDED_WIDTH) for width, (_, is_figure) in zip(widest, self._columns, strict=True)
        ]
        shown = list(range(len(least)))
        figures = [place for place in shown if self._columns[place][1]]
        while figures and sum(least[place] + 2 for place in shown) - 2 > options.max_width:
            shown.remove(figures.pop())
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name, is_figure in (self._columns[place] for place in shown):
            table.add_column(name, justify="right" if is_figure else "left", no_wrap=is_figure, overflow="fold")
        for row in self._rows:
            table.add_row(*(row[place] for place in shown))
        yield table
        if left := [name for place, (name, _) in enumerate(self._columns) if place not in shown]:
            yield Text(f"too narrow for: {', '.join(left)}", "dim")


def _state(state: str) -> Text:
    return Text(state, _STATE_STYLES.get(state, _BUSY))


def _figure(value: int | None) -> str:
    return "-" if value is None else str(value)


def print_bridges(rows: Sequence[BridgeLane]) -> None:
    """Print a line for each lane: its state, its backlog, how fast messages come and go, and the remote."""
    table = _Table("bridge", "state", "remote", ">depth", ">size", ">oldest", ">in/s", ">out/s", ">drain")
    for row in rows:
        table.add_row(
            _lane(row),
            _state(row.state),
            printable(row.link.address) if row.link is not None and row.link.address else "-",
            _figure(row.depth),
            "-" if row.bytes is None else size(row.bytes),
            "-" if row.oldest_age_s is None else briefly(row.oldest_age_s),
            _rate(row.rate_in),
            _rate(row.rate_out),
            "-" if not row.drain_s else briefly(row.drain_s),
        )
    _console().print(table if rows else Text("no bridges: a broker alone", "dim"))


def print_queues(listed: Queues) -> None:
    """Print the answer to ``queue.list``."""
    queues = _Table("queue", "configured", "state", ">depth", ">size", ">oldest", ">handed out")
    for row in listed.queues:
        queues.add_row(
            row.queue,
            _configured(row),
            _state(row.state),
            _figure(row.depth),
            size(row.bytes),
            _age(row.oldest_age_s),
            _figure(row.in_flight),
        )
    counts = ("evicted", "purged", "replayed", "damaged")
    dead = _Table("dead letters", "configured", ">held", ">size", ">oldest", *(f">{count}" for count in counts), "held by reason")
    for letters in listed.dead_letters:
        reasons = ", ".join(f"{reason} {held}" for reason, held in sorted(letters.reasons.items())) or "-"
        figures = (_figure(getattr(letters, count)) for count in counts)
        age = _age(letters.oldest_age_s)
        dead.add_row(letters.queue, _configured(letters), _figure(letters.held), size(letters.bytes), age, *figures, reasons)
    _console().print(queues if listed.queues else Text("no queues", "dim"))
    if listed.dead_letters:
        _console().print(dead)


def print_messages(rows: Sequence[Message], *, dead: bool = False, left: bool = False) -> None:
    """Print messages as ``message_of`` makes them. dead: they are dead letters; left: they have left their queue."""
    if not rows:
        say("nothing there")
        return
    head = ("dead at", "reason", "from") if dead else ("accepted", "left", "how") if left else ("state",)
    aged = () if left else (">age",)
    table = _Table("queue", ">seq", *head, "topic", ">QoS", "retain", ">size", *aged, "rule", "properties", "payload", whole=True)
    for row in rows:
        if row.damaged:
            table.add_row(row.queue, str(row.seq), Text("damaged", _BAD))
            continue
        where = f"{row.from_queue} {row.queue_seq}" + (f" {row.remote}" if row.remote else "") if dead else ""
        cells = (row.dead_at or "", row.reason or "", where) if dead else (row.state or "",)
        if left:
            cells = when(row.accepted_ms or 0), row.left_at or "-", row.state or ""
        properties = ", ".join(f"{name}={value}" for name, value in (row.properties or {}).items())
        table.add_row(
            row.queue,
            str(row.seq),
            *map(printable, cells),
            printable(row.topic or ""),
            str(row.qos),
            "yes" if row.retain else "no",
            size(row.size or 0),
            *(() if left else (duration(row.age_s or 0.0),)),
            printable(f"{row.rule} -> {row.destination}") if row.rule else "-",
            printable(properties) or "-",
            row.payload or "",
        )
    _console(_MESSAGES_PIPE_WIDTH).print(table)


def _configured(row: Queue | DeadLetterQueue) -> Text:
    return Text("yes") if row.configured else Text("no", _BUSY)


def _age(age_s: float | None) -> str:
    return "-" if age_s is None else duration(age_s)
