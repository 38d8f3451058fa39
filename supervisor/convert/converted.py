"""Converts a file, and leaves out of the result whatever ``bascule check`` refuses, with its reason: what is left always holds."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

from storage import files, trusted_files
from supervisor.config.first_configuration import ABOUT_INCLUDED, INCLUDED, name_of
from supervisor.config.loading import as_lines, load
from supervisor.config.yaml_file import Key
from supervisor.convert.draft import Draft
from supervisor.convert.hivemq_edge import from_hivemq_edge
from supervisor.convert.mosquitto import from_mosquitto, let_nobody_in
from supervisor.convert.mosquitto_file import read_text
from supervisor.doctor.circles import faults_and_warnings
from supervisor.doctor.machine_checks import unmet
from wire.errors import ConfigError

CONFIG = "bascule.yaml"
_PROBLEM = re.compile(r":(\d+):\d+: (?:[^ ]+: )?(.*)", re.DOTALL)
# What a listener or a bridge cannot lose and still be what it was; of the rest, a wrong value gives way to the default.
_NEEDED = ("access", "addresses", "bind", "client_id", "password_file", "protocol", "tls", "transport", "username")


def convert(path: Path, data_dir: str) -> tuple[str, Draft]:
    """The text of the configuration that the file ``path`` becomes, and what it was made of.

    Raises:
        ConfigError: ``path`` cannot be read, or nothing can be made of it.
    """
    draft = Draft()
    draft.put(("node", "name"), name_of(socket.gethostname()), "the name of this machine")
    draft.put(("node", "data_dir"), data_dir, "the folder of the queues")
    draft.put(("include",), list(INCLUDED), ABOUT_INCLUDED)
    text = read_text(path)
    kind = "HiveMQ Edge" if text.lstrip().startswith("<") else "Mosquitto"
    if kind == "Mosquitto":
        from_mosquitto(path, draft)
    else:
        from_hivemq_edge(path, text, draft)
    head = f"Made of {path.name}, a configuration of {kind}. Each comment says which line a key came from."
    while problem := _problem(draft, head):
        key, message = problem
        draft.leave_out(key, f"it does not hold here: {message}")
        if not draft.count("listeners"):
            draft.put(("listeners", 0, "bind"), "127.0.0.1:1883", "no listener could be taken")
            let_nobody_in(draft)
    return "".join(f"{line}\n" for line, _ in draft.lines(head)), draft


def _problem(draft: Draft, head: str) -> tuple[Key, str] | None:
    """The parts that have to be left out, and why; None if all of it holds."""
    written = list(draft.lines(head))
    with TemporaryDirectory() as folder:
        config = Path(folder, CONFIG)
        files.write(config, "".join(f"{line}\n" for line, _ in written).encode())
        for name, content in draft.files.items():
            files.make_folder((config.parent / name).parent)
            files.write(config.parent / name, content)
        try:
            settings = load(config)
            without_end, _ = faults_and_warnings(settings)
            problems = as_lines(config, (*unmet(settings), *without_end))
        except ConfigError as error:
            problems = list(error.problems)
    if not problems:
        return None
    if (found := _PROBLEM.search(problems[0].removeprefix(str(config)))) is not None and problems[0].startswith(str(config)):
        key = _gives_way(written[int(found[1]) - 1][1])
        if key and key[0] not in ("access", "node"):  # what protects all of it is never left out
            return key, found[2]
    for key, value in draft.values():  # of files that others can change, only the files are named
        if isinstance(value, str) and value.startswith("/") and trusted_files.fault(value):
            return _gives_way(key), problems[0]
    raise ConfigError("it cannot be converted", problems=problems)


def _gives_way(key: Key) -> Key:
    """What is left out where ``key`` does not hold: itself, or the rule, the bridge or the listener that cannot be without it."""
    items = [key[: place + 1] for place, part in enumerate(key) if isinstance(part, int)]
    if not items or ("acl" not in key and (key == items[-1] or not set(key[len(items[0]) :]) & set(_NEEDED))):
        return key
    return items[0]
