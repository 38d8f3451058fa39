"""The first configuration of a node: a small file with comments, made of what an operator has answered.

Any text is read as it was written. Whether it holds, ``supervisor/config/loading.py`` decides, which loads the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from supervisor.config.yaml_file import write_value

INCLUDED = ("bridges.d/*.yaml",)
ABOUT_INCLUDED = "a file for each bridge that a command or the page makes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAnswers:
    """remote: an address, or empty for a broker alone. user: who may log in to the listener; empty lets everybody in. small: all
    actors share a process. preset: the bridge as a preset has it, in place of what is said of one here.

    password_file, remote_password_file: relative to the configuration; empty where there is no password.
    """

    name: str
    data_dir: str
    bind: str
    user: str = ""
    password_file: str = ""
    bridge: str = "cloud"
    remote: str = ""
    client_id: str = ""
    remote_password_file: str = ""
    ca_file: str = ""
    filters: tuple[str, ...] = ("#",)
    small: bool = False
    preset: str = ""


def name_of(host: str) -> str:
    """The name of a node on the machine ``host``: its first label, with what a name may not have left out."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", host.partition(".")[0])[:64].strip("-") or "edge-1"


def write_first(answers: FirstAnswers) -> str:
    """The text of the file."""
    lines = [
        "# Made by bascule init. What else can be set, with every default: bascule's configs/default.yaml.",
        "# After a change: bascule check FILE. What is wrong beside it: bascule doctor FILE.",
        "node:",
        f"  name: {write_value(answers.name)}",
        f"  data_dir: {write_value(answers.data_dir)}  # queues live here; relative paths count from this file's folder",
        "",
        "listeners:  # where local clients connect",
        f"  - bind: {write_value(answers.bind)}",
        "",
        "access:",
        *_access(answers),
        "",
        f"include: {write_value(list(INCLUDED))}  # {ABOUT_INCLUDED}",
        "",
        *(["supervision: {placement: together}  # one process for store, clients and bridges", ""] if answers.small else []),
        *_bridges(answers),
    ]
    return "\n".join(lines) + "\n"


def _access(answers: FirstAnswers) -> list[str]:
    if not answers.user:
        return ["  allow_anonymous: true  # everybody who reaches the listener may publish and read"]
    return [
        f"  password_file: {write_value(answers.password_file)}  # users are added with: bascule user add FILE USER",
        '  # Without a list all is allowed; such as: acl: [{users: [ada], topics: ["site/%u/#"]}]',
    ]


def _bridges(answers: FirstAnswers) -> list[str]:
    if answers.preset:
        return answers.preset.splitlines()
    if not answers.remote:
        return ["bridges: []  # a broker alone"]
    remote = [f"      addresses: [{write_value(answers.remote)}]  # tried in turn"]
    if answers.client_id:
        remote.append(
            f"      client_id: {write_value(answers.client_id)}  # the remote keeps our session under it: no two may have the same"
        )
    if answers.remote_password_file:
        remote.append(f"      password_file: {write_value(answers.remote_password_file)}")
    if answers.ca_file:
        remote.append(f"      tls: {{ca_file: {write_value(answers.ca_file)}}}")
    return [
        "bridges:",
        f"  - name: {write_value(answers.bridge)}",
        "    remote:",
        *remote,
        "    local_subscriptions:  # what goes to the remote; remote_subscriptions brings messages from there",
        f"      - filters: [{', '.join(map(write_value, answers.filters))}]",
    ]
