"""Modules that are left out while a library is imported are there again afterwards, for whoever does use them."""

from __future__ import annotations

import importlib
import sys

import pytest

from actors.system.spared_imports import sparing

OPTIONAL, UNUSED, SELDOM = "colorsys", "tabnanny", "sched"


@pytest.mark.parametrize("imported", [False, True])
def test_what_is_spared_is_only_spared_meanwhile(monkeypatch: pytest.MonkeyPatch, imported: bool) -> None:
    for name in (OPTIONAL, UNUSED, SELDOM):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = [importlib.import_module(name) for name in (OPTIONAL, UNUSED, SELDOM)] if imported else []

    with sparing(optional=OPTIONAL, unused=UNUSED, seldom=(SELDOM,)):
        with pytest.raises(ImportError):
            importlib.import_module(OPTIONAL)
        assert hasattr(importlib.import_module(UNUSED), "check") is imported, "whoever has it keeps it"
        seldom = importlib.import_module(SELDOM)
        loaded = SELDOM in sys.modules and sys.modules[SELDOM].__spec__ is not None
        assert loaded is imported

    after = [importlib.import_module(name) for name in (OPTIONAL, UNUSED, SELDOM)]
    assert hasattr(after[0], "rgb_to_hsv")
    assert hasattr(after[1], "check")
    assert seldom.scheduler is after[2].scheduler, "it is the module itself, loaded once"
    assert not hasattr(seldom, "of no such name")
    assert not imported or after == before
