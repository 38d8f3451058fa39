"""``bascule queue``: look at queues and dead letters, take them out, put them back. The node must run: it alone opens its store."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar, cast

import click

from storage import files
from supervisor.cli.completion import names
from supervisor.cli.node_calls import JSON, GivenNode, LocalPath, about_node, confirm, moments
from supervisor.units import counted
from wire.figure import to_map
from wire.frames.names import LaneLabel, lane_label
from wire.mqtt.topics import matches
from wire.status.answers import HeldMessage, HeldMessages, Purged, Queues

if TYPE_CHECKING:
    from supervisor.control.client import ControlClient
    from supervisor.terminal.message_text import Message

FROM = click.option("--from", "start", type=click.IntRange(0), default=0, metavar="SEQ", help="Begin at this sequence.")

Command = TypeVar("Command", bound=Callable[..., Any])

_PAGE = 500
_FULL_S = 1.0


def place(command: Command) -> Command:
    """Which queues a command is about: those of a bridge, of one lane, or its dead letters."""
    for option in (
        click.option("--dead", is_flag=True, help="The dead letters instead."),
        click.option(
            "--lane", type=lane_label, shell_complete=names("lane"), metavar="LANE", help="One lane only: its number, or its class."
        ),
        about_node(bridge="BRIDGE"),
    ):
        command = option(command)
    return command


class _Wanted(NamedTuple):
    """Which messages: of those that have ``left``, the ones accepted in a stretch of time (UTC); those of a ``topic`` filter."""

    left: bool
    since: int | None
    until: int | None
    topic: str | None


def wanted(command: Command) -> Command:
    """``--left``, ``--since``, ``--until`` and ``--topic``, of which the command gets the ``wanted``."""

    @wraps(command)
    def with_wanted(left: bool, since: int | None, until: int | None, topic: str | None, **others: Any) -> int:
        if not left and (since, until) != (None, None):
            raise click.UsageError("--since and --until go with --left")
        if left and others["dead"]:
            raise click.UsageError("--left goes without --dead")
        status: int = command(wanted=_Wanted(left, since, until, topic), **others)
        return status

    for option in (
        moments("With --left: accepted from then on", "With --left: accepted before then"),
        click.option("--topic", metavar="FILTER", help="Only messages whose topic matches, such as plant/#."),
        click.option("--left", is_flag=True, help="Messages that have left instead, as the bridge's retention keeps them."),
    ):
        with_wanted = option(with_wanted)
    return cast(Command, with_wanted)


@click.group()
def queue() -> None:
    """Look at queues and dead letters, purge and replay them."""


@queue.command("list")
@about_node(bridge="[BRIDGE]")
@JSON
def list_queues(node: GivenNode, bridge: str | None, as_json: bool) -> int:
    """List the queues and dead letters, of BRIDGE or of all.

    Those of bridges that are not configured any more are among them.
    """
    listed = node.client.queues(bridge)
    if as_json:
        print(json.dumps(to_map(listed)))
        return 0
    from supervisor.terminal.view import print_queues

    print_queues(listed)
    return 0


@queue.command()
@place
@wanted
@click.option("--count", type=click.IntRange(1), metavar="N", default=10, show_default=True, help="How many (of each lane).")
@FROM
@JSON
def peek(
    node: GivenNode, bridge: str, lane: LaneLabel | None, dead: bool, wanted: _Wanted, count: int, start: int, as_json: bool
) -> int:
    """Show the next messages of BRIDGE without touching them.

    A released message has its PUBREC (QoS 2). One in flight was sent and is not acknowledged. One that is handed out is about to be
    sent. One that is maybe sent left before the connection ended, or its fate is unknown. A waiting one was never sent. One that is
    held waits until its rule lets it enter the queue.

    With --left it shows how and when messages left: the newest, or the first from --since or --from on.
    """
    places = _places(node.client, bridge, lane, dead)
    look = _Look(node.client, bridge, wanted, whole=False)
    found = list(look.found(places, start, count))
    from supervisor.terminal.message_text import message_json

    if as_json:
        print(json.dumps([message_json(message) for message in found]))
        _say_damaged(look.damaged, sys.stderr)
        return 0
    from supervisor.terminal.view import print_messages

    print_messages(found, dead=dead, left=wanted.left)
    _say_damaged(look.damaged, sys.stdout)
    return 0


@queue.command()
@place
@wanted
@click.option(
    "--to", "path", type=LocalPath(allow_dash=True), required=True, metavar="FILE", help="The file to write; - is standard output."
)
def export(node: GivenNode, bridge: str, lane: LaneLabel | None, dead: bool, wanted: _Wanted, path: str) -> int:
    """Write all messages of BRIDGE as JSON Lines.

    Payloads are in base64 and, if they are that, as text. Nothing is taken out of the queue. With --left it writes those that have
    left it, with how and when.
    """
    places = _places(node.client, bridge, lane, dead)
    from supervisor.terminal.message_text import message_json

    look = _Look(node.client, bridge, wanted, whole=True)
    lines = (json.dumps(message_json(message)) + "\n" for message in look.found(places, 0, None))
    if path == "-":
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        _say_damaged(look.damaged, sys.stderr)
        return 0
    from supervisor.terminal.view import progress

    listed = node.client.queues(bridge)
    expected = (
        sum(row.held for row in listed.dead_letters) if dead else sum(row.depth for row in listed.queues if row.lane in places)
    )
    with progress("exported") as show:
        count = _write_whole(Path(path), _shown_to(show, lines, expected))
    print(f"{bridge}: {counted(count, 'message')} in {path}")
    _say_damaged(look.damaged, sys.stdout)
    return 0


@queue.command()
@place
@click.option(
    "--in-flight", is_flag=True, help="Remove messages that may have been sent, too; the lane then connects with a clean session."
)
@click.option("--reason", help="With --dead: only messages that died for this reason.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def purge(
    node: GivenNode,
    bridge: str,
    lane: LaneLabel | None,
    dead: bool,
    in_flight: bool,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove what is queued for BRIDGE, or its dead letters, for good.

    Messages that may have been sent stay, unless --in-flight is given. A purge cannot be undone; export first.
    """
    if dead and (in_flight or lane is not None):
        raise click.UsageError("--dead goes without --lane and --in-flight: a bridge has one dead-letter queue")
    if reason is not None and not dead:
        raise click.UsageError("--reason goes with --dead: messages that wait have none")
    listed = node.client.queues(bridge)
    if not yes:
        _confirm(bridge, listed, lane, dead, reason)
    if reason is not None:
        result = Purged(purged=node.client.purge_died_of(bridge, reason))
    else:
        result = node.client.purge(bridge, lane=lane, dead=dead, in_flight=in_flight)
    if as_json:
        print(json.dumps(to_map(result)))
        return 0
    from supervisor.terminal.message_text import kept_lines

    print(f"{bridge}: {counted(result.purged, 'dead letter' if dead else 'message')} purged")
    print("\n".join(kept_lines(result.kept_lanes)), end="\n" if result.kept_lanes else "")
    return 0


@queue.command()
@about_node(bridge="BRIDGE")
@click.option("--reason", shell_complete=names("reason"), help="Only messages that died for this reason.")
@FROM
@click.option("--count", type=click.IntRange(1), metavar="N", help="The most to replay.")
@JSON
def replay(node: GivenNode, bridge: str, reason: str | None, start: int, count: int | None, as_json: bool) -> int:
    """Put the dead letters of BRIDGE back into its queue.

    They join the end of the queue, oldest first, and count as accepted once more.
    """
    replayed = damaged = 0
    is_full = False
    position: int | None = start
    tail: int | None = None
    while position is not None and (tail is None or position < tail) and (count is None or replayed < count):
        wanted = _PAGE if count is None else min(_PAGE, count - replayed)
        page = node.client.replay(bridge, reason=reason, start=position, count=wanted)
        tail = page.tail if tail is None else tail  # what dies again meanwhile is not replayed again
        position = page.next
        replayed += page.replayed
        damaged += page.damaged
        is_full = page.full
        if is_full:
            break
    if as_json:
        print(json.dumps({"replayed": replayed, "damaged": damaged, "full": is_full}))
    else:
        print(f"{bridge}: dead letters back in the queue: {replayed}")
        if damaged:
            print(f"  {damaged} are damaged and stay; only a purge removes them")
    if is_full:
        print("bascule: the queue is full; the other dead letters stay where they are", file=sys.stderr)
        return 1
    return 0


@queue.command()
@about_node(bridge="BRIDGE")
@moments("Messages accepted from then on", "Messages accepted before then")
@click.option("--from", "start", type=click.IntRange(0), metavar="SEQ", help="Messages from this sequence on.")
@click.option("--below", type=click.IntRange(0), metavar="SEQ", help="Messages below this sequence.")
@click.option(
    "--lane", type=lane_label, shell_complete=names("lane"), metavar="LANE", help="Of one lane only: its number, or its class."
)
@click.option("--into", shell_complete=names("bridge"), metavar="BRIDGE", help="Into the queue of this bridge instead.")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="The most messages a second.")
@click.option("--run", metavar="NAME", help="The run's name; one that was begun goes on where it stands.")
@JSON
def resend(
    node: GivenNode,
    bridge: str,
    since: int | None,
    until: int | None,
    start: int | None,
    below: int | None,
    lane: LaneLabel | None,
    into: str | None,
    rate: int | None,
    run: str | None,
    as_json: bool,
) -> int:
    """Send messages again that have left the queue of BRIDGE.

    It sends those that the bridge's retention keeps. They join the end of the queue, and count as accepted and as resent. A full
    queue is waited for. Ctrl-C ends the run where it stands, and --run NAME goes on with it.
    """
    name = run or f"{time.time_ns() // 1_000_000:x}"
    lanes = [lane] if lane is not None else [row.lane for row in node.client.queues(bridge).queues]
    due_s, total, missed, damaged = time.monotonic(), 0, 0, 0
    count = _PAGE if rate is None else max(1, min(_PAGE, rate // 5))
    if not as_json:
        print(f"{bridge}: run {name}; --run {name} goes on with it", file=sys.stderr)
    from supervisor.terminal.view import progress

    for label in lanes:
        waiting, first = False, None
        with progress(f"lane {label}") as show:
            while True:
                page = node.client.resend(
                    bridge, name, lane=label, into=into, start=start, below=below, since_ms=since, until_ms=until, count=count
                )
                missed, damaged = missed + page.missed, damaged + page.damaged
                if page.next is None:
                    total += page.total
                    break
                if page.full and not waiting:
                    print(f"lane {label}: the queue is full at sequence {page.next}; waiting for room", file=sys.stderr)
                waiting = page.full
                first = max(0, page.next - page.resent) if first is None else first
                show(page.next - first, page.below - first)
                due_s = _pause(due_s, page.resent, rate, full=page.full)
    if as_json:
        print(json.dumps({"run": name, "resent": total, "missed": missed, "damaged": damaged}))
        return 0
    print(f"{bridge}: {counted(total, 'message')} sent again")
    if missed:
        print(f"  up to {missed} more are not kept any more")
    _say_damaged(damaged, sys.stdout)
    return 0


@queue.command("import")
@about_node(bridge="BRIDGE", path="FILE")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="The most messages a second.")
@click.option("--run", metavar="NAME", help="The run's name; without it, the digest of the file.")
@JSON
def import_file(node: GivenNode, bridge: str, path: str, rate: int | None, run: str | None, as_json: bool) -> int:
    """Put what queue export wrote at the end of BRIDGE's queue.

    The whole file is checked before the first message goes. They count as accepted and as resent, and go where FILE says. A full
    queue is waited for. A run goes on where it stands, so a file goes once, unless its run has another name.
    """
    from supervisor.control.imported_messages import ExportedMessages
    from supervisor.terminal.view import progress

    try:
        with Path(path).open("rb") as file, progress("imported") as show:
            exported = ExportedMessages(file)
            below, name, position, total, due_s = exported.messages, run or exported.digest, 0, 0, time.monotonic()
            waiting = is_new = False
            count = _PAGE if rate is None else max(1, min(_PAGE, rate // 5))
            while below:
                page = node.client.import_messages(bridge, name, exported.page(position, count), start=position, below=below)
                total, is_new = page.total, is_new or page.imported > 0
                if page.next is None:
                    break
                if page.full and not waiting:
                    print(f"the queue is full behind message {page.next} of {below}; waiting for room", file=sys.stderr)
                waiting, position = page.full, page.next
                show(position, below)
                due_s = _pause(due_s, page.imported, rate, full=page.full)
    except ValueError as error:
        raise click.ClickException(f"{path}: {error}; nothing was imported") from error
    except OSError as error:
        raise click.ClickException(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if as_json:
        print(json.dumps({"run": name, "imported": total, "before": not is_new}))
    elif below and not is_new:
        print(f"{bridge}: {counted(total, 'message')} of {path} were imported before, as run {name}; --run NAME imports them again")
    else:
        print(f"{bridge}: {counted(total, 'message')} imported, as run {name}")
    return 0


# --- inside ---


def _say_damaged(pieces: int, file: TextIO) -> None:
    if pieces:
        print(f"  {counted(pieces, 'piece')} of the history cannot be read", file=file)


def _shown_to(show: Callable[[int, int | None], None], lines: Iterable[str], expected: int) -> Iterator[str]:
    for done, line in enumerate(lines, start=1):
        show(done, max(done, expected))
        yield line


def _pause(due_s: float, messages: int, rate: int | None, *, full: bool) -> float:
    """Wait until the next page is due, which comes after ``messages``; when that is. full: there is no room for more for now."""
    now_s = time.monotonic()
    due_s = max(due_s, now_s) + (messages / rate if rate is not None else 0.0)
    time.sleep(max(due_s - now_s, _FULL_S if full else 0.0))
    return due_s


def _places(client: ControlClient, bridge: str, lane: LaneLabel | None, dead: bool) -> list[LaneLabel | None]:
    """The lane of each queue to look into; None: the dead letters."""
    if dead:
        if lane is not None:
            raise click.UsageError("--dead goes without --lane: a bridge has one dead-letter queue")
        return [None]
    if lane is not None:
        return [lane]
    return [row.lane for row in client.queues(bridge).queues]


class _Look:
    """A look at the ``wanted`` messages of a bridge, as they are printed."""

    def __init__(self, client: ControlClient, bridge: str, wanted: _Wanted, *, whole: bool) -> None:
        self._client = client
        self._bridge = bridge
        self._wanted = wanted
        self._whole = whole
        self._damaged: dict[LaneLabel | None, int] = {}  # by the last look at the lane

    @property
    def damaged(self) -> int:
        """How many pieces of the history cannot be read, as far as was looked."""
        return sum(self._damaged.values())

    def found(self, places: list[LaneLabel | None], start: int, count: int | None) -> Iterator[Message]:
        """Those of ``places``, from ``start`` on and at most ``count`` of each: of what has left the newest, unless a start is
        given."""
        wanted = self._wanted
        if not wanted.left and wanted.topic is None:
            yield from _messages(self._client, self._bridge, places, start, count, whole=self._whole)
            return
        for lane in places:
            if not wanted.left or start or wanted.since is not None or count is None:
                yield from islice(self._from(lane, start), count)
            elif wanted.until is None and wanted.topic is None:
                yield from self._newest(lane, count)
            else:
                yield from deque(self._from(lane, 0), count)

    def _newest(self, lane: LaneLabel | None, count: int) -> deque[Message]:
        """The newest that have left ``lane``. It looks further back until there are so many: QoS 0 takes sequences too, and is
        not kept."""
        head = next(row.head for row in self._client.queues(self._bridge).queues if row.lane == lane)
        behind = count
        while True:
            start = max(0, head - behind)
            newest = deque(self._from(lane, start), count)
            if len(newest) == count or not start:
                return newest
            behind *= 2

    def _from(self, lane: LaneLabel | None, start: int) -> Iterator[Message]:
        """All of ``lane`` from ``start`` on."""
        from supervisor.terminal.message_text import message_of

        wanted = self._wanted
        if wanted.left:
            now_ms = time.time_ns() // 1_000_000
            self._damaged[lane] = 0
            rows = _rows(self._left, self._bridge, lane, start, None)
            messages: Iterator[Message] = (message_of(name, row, now_ms, whole=self._whole) for name, row in rows)
        else:
            messages = _messages(self._client, self._bridge, [lane], start, None, whole=self._whole)
        for message in messages:
            if wanted.topic is None or (message.topic is not None and matches(wanted.topic, message.topic)):
                yield message

    def _left(self, bridge: str, *, lane: LaneLabel | None, **page: Any) -> HeldMessages:
        ask = self._client.export if self._whole else self._client.peek
        found = ask(bridge, lane=lane, left=True, since_ms=self._wanted.since, until_ms=self._wanted.until, **page)
        self._damaged[lane] += found.damaged
        return found


def _messages(
    client: ControlClient, bridge: str, places: list[LaneLabel | None], start: int, count: int | None, *, whole: bool
) -> Iterator[Message]:
    """The messages of ``places``, from ``start`` on and at most ``count`` of each, as they are printed."""
    from supervisor.terminal.message_text import message_of

    now_ms = time.time_ns() // 1_000_000
    sent = {} if start else _in_flight(client, bridge)
    look = client.export if whole else client.peek
    for lane in places:
        left, following = sent.get(lane, 0), start
        for name, row in _rows(look, bridge, lane, start, count):
            if left > 0 and row.state == "handed out":
                row = replace(row, state="in flight")
            left -= 1
            following = row.seq + 1
            yield message_of(name, row, now_ms, whole=whole)
        if lane is None or start:
            continue
        held = list(_rows(look, bridge, lane, 0, count, held=True))
        # What was held and has entered the queue since it was looked through is there.
        entered = _rows(look, bridge, lane, following, None) if held and count is None else iter(())
        yield from (message_of(name, row, now_ms, whole=whole) for name, row in chain(entered, held))


def _in_flight(client: ControlClient, bridge: str) -> dict[LaneLabel | None, int]:
    """How many messages of each lane have left and are not acknowledged: the first of its queue, since they leave in order."""
    return {row.lane: row.in_flight or 0 for row in client.status().bridges if row.name == bridge}


def _rows(
    look: Callable[..., HeldMessages], bridge: str, lane: LaneLabel | None, start: int, count: int | None, *, held: bool = False
) -> Iterator[tuple[str, HeldMessage]]:
    """The messages of one queue, page by page: (queue, message). Messages that come after the first page was asked for are left
    out. held: what rules hold for it instead."""
    position: int | None = start
    tail: int | None = None
    taken = 0
    while position is not None and (tail is None or position < tail) and (count is None or taken < count):
        wanted = _PAGE if count is None else min(_PAGE, count - taken)
        page = look(bridge, lane=lane, dead=lane is None, held=held, start=position, count=wanted)
        tail = page.tail if tail is None else tail
        position = page.next
        for row in page.messages:
            taken += 1
            yield page.queue, row


def _write_whole(path: Path, lines: Iterable[str]) -> int:
    """Write ``lines`` to ``path``, which is there whole or not at all; how many they were."""
    if path.exists() and not path.is_file():
        raise click.ClickException(f"{path} is not a plain file; - is standard output")
    count = 0
    try:
        with files.replacing(path, suffix=f".{os.getpid()}.partial") as file:
            for line in lines:
                file.write(line.encode())
                count += 1
    except OSError as error:
        raise files.unwritable(path, error) from error
    return count


def _confirm(bridge: str, listed: Queues, lane: LaneLabel | None, dead: bool, reason: str | None) -> None:
    if dead:
        held = [row.held if reason is None else row.reasons.get(reason, 0) for row in listed.dead_letters]
        what = counted(sum(held), "dead letter")
    else:
        rows = [row for row in listed.queues if lane in (None, row.lane)]
        what = f"up to {counted(sum(row.depth for row in rows), 'message')}"
    confirm(f"Remove {what} of {bridge} for good?", f"this would remove {what} of {bridge}; nothing was done: add --yes to mean it")
