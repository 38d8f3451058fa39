"""The command line of the simulation."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.simulation.mutations import MUTATIONS
from tests.simulation.plan import Plan, make_plan
from tests.simulation.shrink import shrink
from tests.simulation.simulation import Outcome, run
from tests.simulation.world import Violation
from tests.support.placements import ISOLATED, TOGETHER
from wire.frames.frame import Frame

# By placement, lines such as "P7/rule-by-place 37 112": the seeds that notice a planted bug.
FOUND_AT = {
    ISOLATED: Path(__file__).with_name("found_at.txt"),
    TOGETHER: Path(__file__).with_name("found_together_at.txt"),
}
_FOUND_ENOUGH = 1  # of each planted bug; the search for more takes long
_BATCH = 20


@dataclass(frozen=True, slots=True)
class Failed:
    """A seed that failed, in words."""

    seed: int
    kind: str
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    """0 when nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Deterministic simulation of a node.")
    parser.add_argument("--seeds", help="A..B: from A up to B, B not included, or A,B,C; 0..2000 if nothing is said")
    parser.add_argument("--for", dest="for_s", type=float, help="stop after that many seconds; seeds go on without end")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--only", help="keep only these steps, such as 0,3,105")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happens")
    parser.add_argument("--hash", action="store_true", help="print the hash of the course of events, of each seed")
    parser.add_argument("--no-shrink", action="store_true", help="do not shrink the first failure")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="break the product on purpose; stops at the first violation")
    parser.add_argument("--all-mutations", action="store_true", help="each at the seeds on record; with --seeds: search those, too")
    parser.add_argument("--record", action="store_true", help="with --all-mutations: put what was found on record")
    parser.add_argument(
        "--placement",
        choices=(ISOLATED, TOGETHER),
        help="whether each child has a process or all share one; as the seed says if nothing is said, isolated with --mutation, "
        "by its name with --all-mutations",
    )
    arguments = parser.parse_args(argv)
    if arguments.all_mutations:
        return _run_mutations(arguments)
    arguments.seeds = arguments.seeds or "0..2000"
    if arguments.mutation is not None:
        arguments.placement = arguments.placement or ISOLATED
    if arguments.seed is not None:
        only = None if arguments.only is None else [int(step) for step in arguments.only.split(",") if step]
        return _run_one(arguments, only)
    return _hash_many(arguments) if arguments.hash else _run_many(arguments)


def command_for(seed: int, steps: Iterable[int] | None, mutation: str | None, placement: str | None) -> str:
    """The one command that replays a failure."""
    only = None if steps is None else ",".join(map(str, steps))
    options = {"--only": only, "--mutation": mutation, "--placement": placement}
    said = "".join(f" {name} {value}" for name, value in options.items() if value is not None)
    return f"python -m tests.simulation --seed {seed}{said} --trace"


def _run_one(arguments: argparse.Namespace, only: list[int] | None) -> int:
    plan = make_plan(arguments.seed, arguments.placement)
    if only is not None:
        plan = plan.only(only)
    with _mutated(arguments.mutation):
        outcome = run(plan, tracing=arguments.trace or arguments.hash)
    if arguments.trace:
        _print_trace(plan, outcome)
    if arguments.hash:
        _say(outcome.trace_hash())
    if outcome.violation is not None:
        _say(f"seed {outcome.seed}: {outcome.violation}")
        return 1
    _say(f"seed {outcome.seed}: nothing violated in {outcome.simulated_s:.1f} simulated seconds, {outcome.events} events")
    return 0


def _seeds(text: str) -> Sequence[int]:
    """Those that ``--seeds`` says; ``A..``, to which ``--for`` sets an end, has none."""
    first, dots, stop = text.partition("..")
    return range(int(first), int(stop or 1 << 40)) if dots else [int(seed) for seed in text.split(",")]


def _hash_many(arguments: argparse.Namespace) -> int:
    """Print the course of each seed, all of this process."""
    for seed in _seeds(arguments.seeds):
        _say(f"seed {seed}: {run(make_plan(seed, arguments.placement), tracing=True).trace_hash()}")
    return 0


def _run_many(arguments: argparse.Namespace) -> int:
    started_s = time.monotonic()
    deadline_s = None if arguments.for_s is None else started_s + arguments.for_s
    seeds = _seeds(arguments.seeds)
    schedules, failures = 0, []
    for count, failed in _batches(seeds, arguments, deadline_s):
        schedules += count
        failures += failed
        if failed and arguments.mutation:
            break
    took_s = time.monotonic() - started_s
    _say(f"{schedules} schedules in {took_s:.1f} s, {schedules / took_s:.0f} a second: {len(failures)} violations")
    for failure in failures[:20]:
        _say(f"seed {failure.seed}: {failure.kind}: {failure.text}")
    if not failures:
        return 0
    seed, kind = failures[0].seed, failures[0].kind
    steps = None
    if not arguments.no_shrink:
        with _mutated(arguments.mutation):
            steps = shrink(make_plan(seed, arguments.placement), kind).steps()
    _say(f"replay: {command_for(seed, steps, arguments.mutation, arguments.placement)}")
    return 1


def _run_mutations(arguments: argparse.Namespace) -> int:
    known = {placement: read_found(path.read_text(encoding="utf-8")) for placement, path in FOUND_AT.items()}
    searched = _seeds(arguments.seeds or "0..0")
    enough = _FOUND_ENOUGH if arguments.record else 1
    survived = 0
    with get_context("spawn").Pool(arguments.jobs) as pool:
        results = []
        for name in MUTATIONS:
            placement = arguments.placement or _placement(name, known[TOGETHER])
            tries = _in_order(known[placement].get(name) or known[ISOLATED].get(name, []), searched)
            results.append((name, placement, pool.apply_async(run_seeds, (tries, name, placement, enough))))
        for name, placement, result in results:
            count, failures = result.get()
            known[placement][name] = [failure.seed for failure in failures]
            survived += not failures
            told = f"seed {failures[0].seed}: {failures[0].kind}" if failures else f"SURVIVED {count} seeds"
            _say(f"{name}, {placement}: {told}  ({MUTATIONS[name].what})")
    _say(f"{len(MUTATIONS)} mutations, {survived} survived")
    if survived and not searched:
        _say("to search for seeds that notice them: python -m tests.simulation --all-mutations --seeds 0..2000 --record")
    if arguments.record:
        for placement, path in FOUND_AT.items():
            path.write_text(write_found(known[placement]), encoding="utf-8")
    return 1 if survived else 0


def _placement(name: str, together: Collection[str]) -> str:
    """Of the planted bugs that are found where all children share a process, half are looked for there, by their names."""
    return TOGETHER if name in together and crc32(name.encode()) & 1 else ISOLATED


def read_found(text: str) -> dict[str, list[int]]:
    """The seeds on record, by planted bug."""
    lines = (line.split() for line in text.splitlines())
    return {name: [int(seed) for seed in seeds] for name, *seeds in lines}


def write_found(found: Mapping[str, Iterable[int]]) -> str:
    """The text of the record, each planted bug on a line."""
    return "".join(f"{name} {' '.join(map(str, sorted(seeds)))}\n" for name, seeds in sorted(found.items()) if seeds)


def _in_order(known: Iterable[int], searched: Sequence[int]) -> list[int]:
    """The seeds on record, then those that are searched."""
    known = list(known)
    return [*known, *(seed for seed in searched if seed not in known)]


def _batches(seeds: Sequence[int], arguments: argparse.Namespace, deadline_s: float | None) -> Iterator[tuple[int, list[Failed]]]:
    pieces = (seeds[start : start + _BATCH] for start in range(0, len(seeds), _BATCH))
    jobs, mutation, placement = arguments.jobs, arguments.mutation, arguments.placement
    if jobs == 1:
        for piece in pieces:
            yield run_seeds(piece, mutation, placement)
            if deadline_s is not None and time.monotonic() > deadline_s:
                return
        return
    with get_context("spawn").Pool(jobs) as pool:
        # A few pieces are under way at a time, so that a deadline is met and an endless range is no endless list.
        running: list[Any] = []
        for piece in pieces:
            running.append(pool.apply_async(run_seeds, (piece, mutation, placement)))
            if len(running) > 2 * jobs:
                yield running.pop(0).get()
            if deadline_s is not None and time.monotonic() > deadline_s:
                break
        for result in running:
            yield result.get()


def run_seeds(seeds: Iterable[int], mutation: str | None, placement: str | None, enough: int = 1) -> tuple[int, list[Failed]]:
    """Run ``seeds``: how many, and those that failed. With a mutation so many failures are enough."""
    count, failures = 0, []
    with _mutated(mutation):
        for seed in seeds:
            count += 1
            violation = run(make_plan(seed, placement)).violation
            if mutation and violation is not None and is_misfit(violation):
                raise RuntimeError(f"the planted bug {mutation} does not fit the product any more: {violation.text}")
            if violation is not None:
                failures.append(Failed(seed, violation.kind, violation.text))
                if mutation and len(failures) >= enough:
                    break
    return count, failures


def is_misfit(violation: Violation) -> bool:
    """Whether a planted bug has failed of itself, so that nobody has found it: its code raised, or is called otherwise now."""
    if violation.kind != "crash":
        return False
    files = re.findall(r'File "([^"]*)"', violation.text)
    return files[-1].endswith("mutations.py") or re.search(r"TypeError: .* argument", violation.text) is not None


@contextmanager
def _mutated(mutation: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        if mutation is not None:
            stack.enter_context(MUTATIONS[mutation].applied())
        yield


def _print_trace(plan: Plan, outcome: Outcome) -> None:
    _say(f"seed {plan.seed}: {plan.shape}")
    for fault in plan.faults:
        _say(f"  {fault}")
    for at_s, *facts in outcome.trace:
        _say(f"{at_s:10.6f}  " + " ".join(_shown(fact) for fact in facts))


def _shown(fact: Any) -> str:
    if not isinstance(fact, Frame):
        return str(fact)
    shown = []
    for name in (field.name for field in fields(fact)):
        value = getattr(fact, name)
        if name == "bodies":
            value = [b"".join(piece for piece in body.split(b".") if piece)[-60:] for body in value]
        shown.append(f"{name}={value!r}")
    return f"{type(fact).__name__}({', '.join(field for field in shown if not field.startswith('status='))})"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
