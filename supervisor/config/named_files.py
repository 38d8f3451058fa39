"""The files of a configuration: itself, what it includes, and what it names; which of them hold secrets.

Nothing of it has to hold but its YAML: who saves a configuration saves it as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from supervisor.config.files_read import digest
from supervisor.config.include import files_included, folders_included
from supervisor.config.yaml_file import read_document
from wire.config_settings import NodeSettings

SECRET_KEYS = (
    "credentials_file",
    "data_file",
    "key_file",
    "key_passphrase_file",
    "nkey_file",
    "password_file",
    "psk_file",
    "token_file",
    "tokens_file",
)
TRUSTED_KEYS = (*SECRET_KEYS, "ca_file", "crl_file", "allowed_keys")  # whoever can replace these decides who logs in as whom
_CONTENT = re.compile(r"(?<!\$)\$\{file:(?P<path>[^}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """One of them. key: the last part of the key that names it; empty for the configuration's own files."""

    path: Path
    key: str = ""

    @property
    def secret(self) -> bool:
        """Whether who has it can log in as the node, or knows what clients' passwords are checked against."""
        return self.key in SECRET_KEYS


def named_files(config: Path) -> list[NamedFile]:
    """The files of the configuration ``config``, itself first, each once; whether they are there is not looked at.

    Raises:
        ConfigError: it, or a file that it includes, is not one YAML mapping.
    """
    own = [config, *files_included(config)]
    found = {path: NamedFile(path=path) for path in own}
    for path in own:
        for key, text in _texts(read_document(path).data, ""):
            for content in _CONTENT.finditer(text):
                _add(found, config.parent, content["path"], "password_file")
            if key.endswith("_file") and "${" not in text:
                _add(found, config.parent, text, key)
    return list(found.values())


def digests(config: Path) -> tuple[tuple[str, str], ...]:
    """The files of the configuration ``config``, and the folders that it includes files of, each with the digest of what it is now.

    Raises:
        ConfigError: as ``named_files``.
    """
    config = config.absolute()
    paths = [*(file.path for file in named_files(config)), *folders_included(config)]
    return tuple((str(path), digest(path)) for path in dict.fromkeys(paths))


def named_by(settings: NodeSettings, keys: Collection[str]) -> list[str]:
    """The values of ``settings`` at keys of these names, such as ``SECRET_KEYS``, each once."""
    return list(dict.fromkeys(text for key, text in _texts(asdict(settings), "") if key in keys and text))


def _add(found: dict[Path, NamedFile], folder: Path, written: str, key: str) -> None:
    path = Path(os.path.normpath(folder / os.path.expanduser(written)))
    known = found.get(path)
    if known is None or (known.key and not known.secret):
        found[path] = NamedFile(path=path, key=key)


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every text below ``value``, with the name of its key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str):
        yield key, value
