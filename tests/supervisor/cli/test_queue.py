"""What ``bascule queue`` shows of the messages that have left a queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from storage.engine.engine import Write
from storage.engine.keys import chunk_key
from storage.store.store import Store
from supervisor.cli.main import cli
from supervisor.control.control_socket import Request
from supervisor.control.store_commands import to_frame
from tests.storage.building import QUEUE, RecordingEngine, append_frame, settle_frame
from tests.storage.commanding import command
from tests.storage.store.test_history_resends import kept
from tests.storage.turns import EPOCH, open_lane, turn
from tests.support.client_double import have_answered
from tests.support.stores import open_store
from wire.frames.batch import from_rows

NUMBER = 1  # of the bridge's queue


def left(engine: RecordingEngine, *qos: int) -> Store:
    """A store of whose queue a message of each of these ``qos`` has left, accepted a second behind the one before."""
    store = open_store(engine, kept(), 1)
    open_lane(store)
    for seq, level in enumerate(qos):
        batch = from_rows([(b"t/%d" % (seq % 2), level, b"%d" % seq)], accepted_ms=1000 * seq)
        turn(store, append_frame(seq + 1, {QUEUE: (batch, None)}))
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, len(qos)),))))
    turn(store, now_s=200.0)  # by now that is on record
    return store


def asked(monkeypatch: pytest.MonkeyPatch, store: Store, *words: str) -> Result:
    """``bascule queue`` about the bridge of ``store``."""

    def answer(name: str, arguments: dict[str, str]) -> Any:
        frame = to_frame(Request(request_id="r", command=name, arguments=arguments), 1)
        return command(store, frame.verb, **frame.arguments)

    have_answered(monkeypatch, answer)
    done = CliRunner().invoke(cli, ["queue", words[0], __file__, "cloud", *words[1:]])
    assert done.exit_code == 0, done.output
    return done


def peeked(monkeypatch: pytest.MonkeyPatch, store: Store, *words: str) -> list[int]:
    """The sequences that ``peek --left`` shows."""
    return [row["seq"] for row in json.loads(asked(monkeypatch, store, "peek", "--left", "--json", *words).stdout)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [*range(30, 40)]),
        (("--until", "1970-01-01T00:00:20"), [*range(10, 20)]),
        (("--until", "1970-01-01T00:00:20", "--topic", "t/1"), [*range(1, 20, 2)]),
        (("--since", "1970-01-01T00:00:05", "--until", "1970-01-01T00:00:20"), [*range(5, 15)]),
        (("--from", "3", "--until", "1970-01-01T00:00:05"), [3, 4]),
    ],
)
def test_of_what_left_before_a_time_the_newest_is_shown(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: list[int]
) -> None:
    assert peeked(monkeypatch, left(RecordingEngine(), *[1] * 40), *words) == expected


@pytest.mark.parametrize(
    ("qos", "expected"),
    [
        ([1] * 12 + [0] * 30, [*range(2, 12)]),
        ([1] * 4 + [0] * 30, [*range(4)]),
        ([1, 0] * 20, [*range(20, 40, 2)]),
        ([0] * 30, []),
    ],
)
def test_the_newest_are_found_behind_qos_0_which_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, qos: list[int], expected: list[int]
) -> None:
    assert peeked(monkeypatch, left(RecordingEngine(), *qos)) == expected


@pytest.mark.parametrize(
    ("words", "is_in_the_output"),
    [
        (("peek", "--left", "--count", "5"), True),
        (("peek", "--left", "--topic", "t/#"), True),
        (("peek", "--left", "--json"), False),
        (("export", "--left", "--to", "-"), False),
        (("export", "--left", "--to", "left.jsonl"), True),
    ],
)
def test_what_cannot_be_read_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], is_in_the_output: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    engine = RecordingEngine()
    store = left(engine, *[1] * 10)
    write = Write()
    for seq in (7, 8):
        write.put("msg", chunk_key(NUMBER, seq), b"rubbish")
    engine.apply(write)

    done = asked(monkeypatch, store, *words)

    text = done.stdout if is_in_the_output else done.stderr
    assert text.splitlines()[-1] == "  2 pieces of the history cannot be read"
    assert ("cannot be read" in done.stdout) is is_in_the_output


def test_a_history_that_can_be_read_is_said_nothing_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be read" not in asked(monkeypatch, left(RecordingEngine(), 1, 1), "peek", "--left").output
