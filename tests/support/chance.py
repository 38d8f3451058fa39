"""Chance for tests of real faults: a seed that is shown when the test fails and can be given again."""

from __future__ import annotations

import os
import random
import sys


def chance() -> random.Random:
    """A random source whose seed stands in the test's output; ``FAULTS_SEED=N`` sets it."""
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(1 << 32))
    sys.stderr.write(f"FAULTS_SEED={seed}\n")
    return random.Random(seed)
