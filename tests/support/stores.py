"""A store as its actor opens it, from plain settings, and others for it while it runs."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from storage.engine.engine import Engine
from storage.store.store import Store
from wire.config_settings import NodeSettings, SettingsNow

_settings: WeakKeyDictionary[Store, SettingsNow] = WeakKeyDictionary()


def open_store(engine: Engine, settings: NodeSettings, epoch: int) -> Store:
    """A store over ``engine``. epoch: of its life."""
    now = SettingsNow(settings)
    store = Store(engine, now, epoch)
    _settings[store] = now
    return store


def change_settings(store: Store, settings: NodeSettings) -> None:
    """``settings`` hold for ``store`` from here on."""
    _settings[store].change(settings)
    store.settings_changed()
