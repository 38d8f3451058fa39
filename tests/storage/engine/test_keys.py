"""Keys of rows: each kind has a letter of its own, so who scans one kind never meets a row of another."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable

from storage.engine import keys
from storage.engine.store_identity import IDENTITY_KEY

SAMPLES = {"int": 7, "str": "cloud", "bytes": b"plant/1"}
NOT_ROWS = {"chunk_key"}  # of another family
WITHIN = {"early_key"}  # begins with the key of the pass that it is of


def kinds() -> dict[str, Callable[..., bytes]]:
    found = {name: value for name, value in vars(keys).items() if name.endswith("_key") and callable(value)}
    return {name: value for name, value in found.items() if name not in NOT_ROWS | WITHIN}


def test_no_two_kinds_of_rows_have_a_letter_in_common() -> None:
    letters: dict[bytes, set[str]] = defaultdict(set)
    for name, key in kinds().items():
        arguments = [SAMPLES[parameter.annotation] for parameter in inspect.signature(key).parameters.values()]
        letters[key(*arguments)[:1]].add(name)
    for name in ("_FORMAT_KEY", "QUEUE_NAME", "HIGHEST_NUMBER", "GONE"):
        letters[getattr(keys, name)].add(name)
    letters[IDENTITY_KEY[:1]].add("IDENTITY_KEY")

    assert len(kinds()) > 10
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {}
