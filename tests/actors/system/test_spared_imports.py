"""What is left out while a library is imported is there again afterwards, for whoever does use it."""

from __future__ import annotations

import importlib
import sys

import pytest

from actors.system.spared_imports import sparing

OPTIONAL, UNUSED = "colorsys", "tabnanny"


@pytest.mark.parametrize("imported", [False, True])
def test_what_is_spared_is_only_spared_meanwhile(monkeypatch: pytest.MonkeyPatch, imported: bool) -> None:
    for name in (OPTIONAL, UNUSED):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = [importlib.import_module(name) for name in (OPTIONAL, UNUSED)] if imported else []

    with sparing(optional=OPTIONAL, unused=UNUSED):
        with pytest.raises(ImportError):
            importlib.import_module(OPTIONAL)
        assert hasattr(importlib.import_module(UNUSED), "check") is imported, "whoever has it keeps it"

    after = [importlib.import_module(name) for name in (OPTIONAL, UNUSED)]
    assert hasattr(after[0], "rgb_to_hsv")
    assert hasattr(after[1], "check")
    assert not imported or after == before
