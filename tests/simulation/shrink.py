"""Makes a failing plan small: delta debugging over its steps, as long as the same kind of violation remains."""

from __future__ import annotations

from tests.simulation.plan import Plan
from tests.simulation.simulation import run

RUNS_MAX = 400


def shrink(plan: Plan, kind: str) -> Plan:
    """The smallest plan found that still violates ``kind``; ``plan`` itself if it does not."""
    steps = plan.steps()
    runs = 0

    def fails(kept: list[int]) -> bool:
        nonlocal runs
        runs += 1
        violation = run(plan.only(kept)).violation
        return violation is not None and violation.kind == kind

    pieces = 2
    while len(steps) > 1 and runs < RUNS_MAX:
        size = -(-len(steps) // pieces)
        for start in range(0, len(steps), size):
            kept = steps[:start] + steps[start + size :]
            if runs < RUNS_MAX and fails(kept):
                steps, pieces = kept, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(steps), pieces * 2)
    return plan.only(steps)
