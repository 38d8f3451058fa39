"""A bridge's file of its own, ``bridges.d/NAME.yaml``: where it is, and the node that another content of it would make.

It is found out in a process aside: ``python -m supervisor.reload.bridge_trial FILE`` reads name and content from its standard
input, and writes the place and the settings, as ``supervisor/config/loading_aside.py`` does.

It is there for commands from elsewhere, by which nobody may come to more than the node's messages: such a file names no program,
no reference to the environment, and no file outside of the configuration's folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from supervisor.config.include import IncludeInstead, files_included, patterns_included
from supervisor.config.loading import load
from supervisor.config.yaml_file import Key, Place, Problem, YamlDocument, read_document
from supervisor.units import check_name
from wire.config_settings import NodeSettings, dump
from wire.errors import ConfigError

FOLDER = "bridges.d"
_FILES, _NO_FILES = ("_file", "_path"), ("websocket_path",)
_SECRET = "websocket_headers"
_LEAST = "write bridges: with the one bridge"


def settings_with(config: Path, name: str, content: str | None) -> tuple[Path, NodeSettings]:
    """The file of the bridge ``name``, and the settings of the node ``config`` if that had this ``content``; None: if it went.

    Raises:
        ConfigError: there is no place for it, it is another's, or the configuration does not hold then; nothing is written.
    """
    path = _place_of(config, name)
    for file in (config, *files_included(config)):
        if os.path.realpath(file) != os.path.realpath(path) and (place := _stands_in(file, name)) is not None:
            raise _refused(file, place, f"the bridge {name} stands here; change it in this file")
    if path.is_symlink():
        raise _refused(path, Place(1, 1), "this is a link to another file; change that")
    if path.exists():
        _check_alone(read_document(path, _LEAST), path, name)
    elif content is None:
        raise ConfigError("the configuration is refused", problems=[f"there is no file {path}: the bridge {name} is not known"])
    if content is not None:
        document = read_document(path, _LEAST, text=content)
        _check_alone(document, path, name)
        if problems := [problem.line(path) for problem in _beyond(document, config.parent)]:
            raise ConfigError("the configuration is refused", problems=problems)
    return path, load(config, IncludeInstead(path, content))


def file_of_bridge(config: Path, name: str) -> tuple[Path, str, dict[str, Any], tuple[str, ...]]:
    """The file in which the bridge ``name`` stands, its text, the bridge as it is written there, and why no command can change it.

    Raises:
        ConfigError: no file has such a bridge, or one cannot be read.
    """
    for file in (config, *files_included(config)):
        if (place := _stands_in(file, name)) is None:
            continue
        document = read_document(file)
        reasons: list[str] = []
        try:
            if os.path.realpath(_place_of(config, name)) != os.path.realpath(file):
                raise _refused(file, place, f"the bridge {name} stands here; change it in this file")
            _check_alone(document, file, name)
        except ConfigError as error:
            reasons += error.problems
        reasons += [problem.line(file) for problem in _beyond(document, config.parent)]
        reasons += [problem.line(file) for problem in _untold(document)]
        bridges: Any = document.data["bridges"]
        bridge = next(one for one in bridges if isinstance(one, dict) and one.get("name") == name)
        return file, file.read_text(), bridge, tuple(reasons)
    problem = f"{config}: has no bridge {name}, nor does a file that it includes"
    raise ConfigError("the configuration is refused", problems=[problem])


def _untold(document: YamlDocument) -> Iterator[Problem]:
    """What no answer tells, so that nobody can give it back."""
    for key, _ in _leaves(document.data, ()):
        if key[-2:-1] == (_SECRET,):
            yield Problem(document.place(key), key[:-1], "no answer tells it, so nobody can write it again; change it in this file")


def _place_of(config: Path, name: str) -> Path:
    try:
        check_name(name)
    except ValueError as error:
        raise ConfigError("the configuration is refused", problems=[f"{name!r} cannot be a bridge's name: {error}"]) from error
    for pattern in patterns_included(config):
        folder, files = os.path.split(os.path.join(config.parent, os.path.expanduser(pattern)))
        if os.path.basename(folder) == FOLDER and fnmatchcase(f"{name}.yaml", files):
            if not os.access(folder if os.path.lexists(folder) else os.path.dirname(folder), os.W_OK | os.X_OK):
                problem = f"{folder}: the node may not write here; give it the folder, or change the bridge in its file"
                raise ConfigError("the configuration is refused", problems=[problem])
            return Path(folder) / f"{name}.yaml"
    problem = f"{config}: includes no {FOLDER}; write include: [{FOLDER}/*.yaml], and bridges can be made by command"
    raise ConfigError("the configuration is refused", problems=[problem])


def _stands_in(file: Path, name: str) -> Place | None:
    document = read_document(file)
    bridges: Any = document.data.get("bridges")
    for number, bridge in enumerate(bridges if isinstance(bridges, tuple) else ()):
        if isinstance(bridge, dict) and bridge.get("name") == name:
            return document.place(("bridges", number))
    return None


def _check_alone(document: YamlDocument, path: Path, name: str) -> None:
    bridges: Any = document.data.get("bridges")
    alone = document.data.keys() == {"bridges"} and isinstance(bridges, tuple) and len(bridges) == 1
    if not alone or not isinstance(bridges[0], dict) or bridges[0].get("name") != name:
        raise _refused(path, Place(1, 1), f"this file has bridges: with the one bridge {name}, and nothing else")


def _beyond(document: YamlDocument, folder: Path) -> Iterator[Problem]:
    """What would reach beyond the node: who may change a bridge may not have programs run, nor files read."""
    for key, value in _leaves(document.data, ()):
        name = next(str(part) for part in reversed(key) if isinstance(part, str))
        if name.endswith(("_command", "_env")):
            why = "is for the node's own files: no command can make it"
        elif isinstance(value, str) and "${" in value:
            why = "references are for the node's own files: no command can make them"
        elif isinstance(value, str) and name.endswith(_FILES) and name not in _NO_FILES and _is_outside(folder, value):
            why = f"this file is not below {folder}: no command can name it"
        else:
            continue
        yield Problem(document.place(key), key, why)


def _is_outside(folder: Path, written: str) -> bool:
    inside = os.path.realpath(folder)
    return os.path.commonpath((inside, os.path.realpath(folder / os.path.expanduser(written)))) != inside


def _leaves(value: Any, key: Key) -> Iterator[tuple[Key, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*key, name))
    elif isinstance(value, tuple | list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*key, number))
    else:
        yield key, value


def _refused(path: Path, place: Place, message: str) -> ConfigError:
    return ConfigError("the configuration is refused", problems=[Problem(place, (), message).line(path)])


def main(argv: list[str]) -> int:
    """The process aside: try, tell, end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        place, settings = settings_with(Path(argv[0]).absolute(), *json.load(sys.stdin))
    except ConfigError as error:
        sys.stdout.buffer.write(json.dumps((error.message, error.problems)).encode())
        return error.exit_status
    sys.stdout.buffer.write(os.fsencode(place) + b"\n" + dump(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
