"""Many schedules without a violation, planted bugs that are found, and failures that shrink and replay.

The tests run the simulation's own command, as a developer does.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.simulation.command import FOUND_AT, read_found, write_found
from tests.simulation.mutations import MUTATIONS
from tests.simulation.tcp import Far, Link
from tests.simulation.world import World
from tests.support import programs
from tests.support.placements import ISOLATED, TOGETHER

ROOT = Path(__file__).resolve().parents[2]
SEEDS = "0..150"
SEARCHED = "0..2000"  # for each planted bug, in a soak
# The commit points of docs/design/promises.md, with the rules that keep them: each is broken on purpose.
COMMIT_POINTS = (
    (1, "store.answer-after-commit"),
    (1, "store.identifier-with-its-message"),
    (2, "store.identifier-with-its-message"),
    (3, "exchange.identifier-never-twice"),
    (3, "exchange.dup-on-repeats"),
    (4, "exchange.settled-by-last-answer"),
    (5, "exchange.release-after-record"),
    (6, "exchange.settled-by-last-answer"),
    (7, "exchange.session-on-record-first"),
    (8, "exchange.session-on-record-first"),
)
PATIENCE_S = 400.0  # less than pytest's own
MANY_S = 3000.0  # for the schedules: one to three minutes alone on two processors, half an hour on starved ones
JOBS = str(min(2, os.cpu_count() or 1))


def simulation(*words: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    return programs.run([sys.executable, "-m", "tests.simulation", *words], cwd=ROOT, timeout_s=timeout_s)


def replay(output: str) -> Sequence[str]:
    """The words of the command that the simulation tells to replay a failure with."""
    (command,) = re.findall(r"^replay: python -m tests\.simulation (.*)$", output, re.MULTILINE)
    return shlex.split(command)


@pytest.mark.timeout(MANY_S + 20.0)
def test_no_schedule_breaks_a_promise(request: pytest.FixtureRequest, soak: bool) -> None:
    seconds = request.config.getoption("--soak")
    length = ("--seeds", f"{SEEDS.partition('.')[0]}..", "--for", str(seconds)) if soak else ("--seeds", SEEDS)

    done = simulation(*length, "--jobs", JOBS, timeout_s=MANY_S + (seconds or 0.0))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(MANY_S + 20.0)
def test_each_planted_bug_is_found_at_a_seed_on_record(soak: bool) -> None:
    done = simulation("--all-mutations", "--jobs", JOBS, *(("--seeds", SEARCHED) if soak else ()), timeout_s=MANY_S)

    assert done.returncode == 0, done.stdout + done.stderr
    for commit_point, rule in COMMIT_POINTS:
        assert re.search(rf"^{re.escape(rule)}/", done.stdout, re.MULTILINE), (
            f"no bug is planted at commit point {commit_point}: {rule}"
        )


RECORDED = {
    "505": "the remote closes by what a message says, gets one five times, and its topic is a class by then",
    "203616": "without persistence QoS 1 is QoS 0, and has no place kept at a full queue, in whatever mode the store is",
    "215395": "a remote that closes by topic is mended while messages are tried at QoS 1, which is a lesson then",
    "236815": "an identifier that was given up is released after others, whatever message had its PUBREC long before",
    "223294": "an isolated lane outlives its bridge's removal, and the bridge is back before it has ended",
    "233461": "a message of QoS 1 that is raised was published twice, and two lanes have it under one identifier",
    "211860": "what a rule brings goes in front of live messages of its topic alone, not of each that their batch names",
    "206901": "a crash takes back a release that nobody wanted kept, and the next message under its identifier is for one who does",
    "204729": "the link ends once while it carries a message, as another is searched for on which the remote closes",
    "202483": "a message was tried at QoS 1, and goes at QoS 2 again when another is accepted",
    "211715": "a batch goes to the queue of a strict bridge that the store knows no more, and is kept as strictly as it was routed",
    "206777": "a remote holds what came at MQTT 5, and speaks MQTT 3.1.1 alone when the exchanges go on",
    "201062": "a bridge leaves at once, at a full window, and its birth message is not answered yet",
    "209611": "a message left at QoS 1, since the remote had closed on it, and goes again at QoS 2 after a restart",
}


RECORDED_ISOLATED = {"801": "a batch for a strict bridge is sent again to a store that has died, and knows the bridge no more"}


@pytest.mark.parametrize(("recorded", "words"), [(RECORDED, ()), (RECORDED_ISOLATED, ("--placement", ISOLATED))])
def test_what_once_was_a_violation_is_none(recorded: dict[str, str], words: tuple[str, ...]) -> None:
    done = simulation("--seeds", ",".join(recorded), "--no-shrink", *words)

    assert done.returncode == 0, f"{done.stdout}{done.stderr}{recorded}"
    assert done.stdout.startswith(f"{len(recorded)} schedules")


def test_releases_that_are_never_written_are_found_where_one_that_is_taken_back_is_excused() -> None:
    words = ("--mutation", "store.identifier-with-its-message/never-removed", "--placement", TOGETHER)

    found = simulation("--seed", "206901", "--no-shrink", *words)

    assert found.returncode == 1, found.stdout + found.stderr
    assert "P1" in found.stdout


def test_the_record_of_seeds_is_read_as_it_was_written() -> None:
    text = write_found({"b": [7, 3], "a": [1], "survived": []})

    assert text == "a 1\nb 3 7\n"
    assert read_found(text) == {"a": [1], "b": [3, 7]}
    assert read_found(FOUND_AT[ISOLATED].read_text(encoding="utf-8")).keys() == MUTATIONS.keys()
    assert read_found(FOUND_AT[TOGETHER].read_text(encoding="utf-8")).keys() <= MUTATIONS.keys()


def test_a_seed_takes_the_same_course_in_any_process_whatever_the_order_of_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several lanes, sessions and bridges have something at once, and others have had theirs before in the process."""
    seeds = ["0", "1", "3", "8", "17", "212141"]
    courses = []
    for order, hash_seed in ((seeds, "1"), (seeds[::-1], "2")):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        courses.append(sorted(simulation("--seeds", ",".join(order), "--hash").stdout.splitlines()))

    assert courses[0] == courses[1]
    assert len({line.partition(": ")[2] for line in courses[0]}) == len(seeds)


def test_a_failure_shrinks_and_its_command_replays_it() -> None:
    found = simulation("--mutation", "store.next-number-only/in-memory", "--seeds", "6..2000")
    assert found.returncode == 1, found.stdout + found.stderr
    words = replay(found.stdout)
    kind = re.findall(r"^seed \d+: ([^:]*):", found.stdout, re.MULTILINE)[0]

    again = simulation(*words)

    assert again.returncode == 1, again.stdout
    assert again.stdout.splitlines()[-1].split(": ")[1] == kind, again.stdout
    steps = words[words.index("--only") + 1].split(",")
    assert len(steps) <= 6, f"not small: {steps}"
    assert "VIOLATION" in again.stdout
    assert simulation(*(word for word in words if word not in ("--mutation", "store.next-number-only/in-memory"))).returncode == 0


class _Heard(Far):
    def __init__(self) -> None:
        self.bytes = 0

    def arrived(self, count: int) -> None:
        self.bytes += count


def test_nothing_gets_through_a_connection_behind_the_byte_that_it_is_cut_at() -> None:
    """Not even when it is cut again, or healed, before both ends have learnt of it: TCP leaves no gap."""
    world, far = World("cut", tracing=False), _Heard()
    link = Link(world, world.chance("link"), lambda kind: None, far, window_bytes=100, latency_s=0.01)
    link.cut_in = link.cut_out = 2
    link.send(b"abc")
    link.near.send(b"abc")
    link.cut_in, link.cut_out = 50, None
    link.send(b"def")
    link.near.send(b"def")

    while not link.broken:
        world.step()

    assert bytes(link.near.incoming) in (b"", b"a", b"ab")
    assert far.bytes <= 2


def test_planted_bugs_hook_what_is_public() -> None:
    hooked = {f"{owner.__name__}.{name}" for mutation in MUTATIONS.values() for owner, name, _ in mutation.patches}

    assert {name for name in hooked if re.search(r"\._(?!_)", name)} == set()
