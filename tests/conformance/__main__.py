"""``python -m tests.conformance``: each normative statement with the tests that show it."""

from __future__ import annotations

import sys

from tests.conformance.test_coverage import report

sys.stdout.write(f"{report()}\n")
