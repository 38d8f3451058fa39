"""The section ``replication``: what makes no cluster is refused with the key and what to do, and no sentence tells a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config import extras
from supervisor.config.loading import load
from supervisor.config.named_files import named_files
from wire.config_settings import ClientTlsSettings, NodeSettings, ReplicationSettings, TrimSettings, dump
from wire.config_settings import load as load_dumped
from wire.errors import ConfigError

HEAD = """\
node: {name: edge-1, data_dir: data}
listeners: [{bind: "127.0.0.1:1883"}]
access: {allow_anonymous: true}
"""
MODE = "persistence: {mode: replicated}\n"
LEAST = 'servers: ["nats://10.0.0.1:4222"], stream: edge, member: a'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for each way of logging in."""
    for name in ("password", "token", "own.creds", "own.nk", "own.pem", "own.key"):
        (tmp_path / name).write_text("secret\n")
    return tmp_path


def loaded(folder: Path, keys: str, mode: str = MODE) -> NodeSettings:
    path = folder / "node.yaml"
    path.write_text(f"{HEAD}{mode}replication: {{{keys}}}\n")
    return load(path)


def problems(folder: Path, text: str) -> list[str]:
    path = folder / "node.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert refused.value.exit_status == 78
    return list(refused.value.problems)


def test_the_least_has_every_default(folder: Path) -> None:
    settings = loaded(folder, LEAST)

    assert settings.persistence.mode == "replicated"
    assert settings.replication == ReplicationSettings(
        servers=("nats://10.0.0.1:4222",),
        stream="edge",
        member="a",
        address="",
        replicas=3,
        lease_s=10.0,
        standby="closed",
        trim=TrimSettings(max_bytes=10 << 30, max_age_s=86_400.0),
    )
    assert load_dumped(dump(settings)) == settings


def test_every_key_becomes_a_setting(folder: Path) -> None:
    keys = (
        'servers: ["nats://a:4222", "tls://[::1]:4223"], stream: edge, member: b, address: "b:1883", replicas: 5, lease: 2s,'
        "standby: redirect, trim: {max_bytes: unlimited, max_age: unlimited}, user: bascule, password_file: password,"
        "tls: {ca_file: own.pem, cert_file: own.pem, key_file: own.key}"
    )

    assert loaded(folder, keys).replication == ReplicationSettings(
        servers=("nats://a:4222", "tls://[::1]:4223"),
        stream="edge",
        member="b",
        address="b:1883",
        replicas=5,
        lease_s=2.0,
        standby="redirect",
        trim=TrimSettings(max_bytes=None, max_age_s=None),
        user="bascule",
        password_file=str(folder / "password"),
        tls=ClientTlsSettings(ca_file=str(folder / "own.pem"), cert_file=str(folder / "own.pem"), key_file=str(folder / "own.key")),
    )


def test_one_file_does_for_all_members(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMBER", "c")

    replication = loaded(folder, LEAST.replace("member: a", 'member: "${MEMBER}"')).replication

    assert replication is not None
    assert replication.member == "c"


@pytest.mark.parametrize("way", ["token_file: token", "credentials_file: own.creds", "nkey_file: own.nk"])
def test_there_are_other_ways_of_logging_in_and_each_is_known_for_a_secret(way: str, folder: Path) -> None:
    key, _, name = way.partition(": ")
    replication = loaded(folder, f"{LEAST}, {way}").replication

    assert getattr(replication, key) == str(folder / name)
    assert [file.path.name for file in named_files(folder / "node.yaml") if file.secret] == [name]


@pytest.mark.parametrize(
    ("keys", "key", "hint"),
    [
        ("stream: edge, member: a", "replication.servers", "is missing; write servers:"),
        ("servers: [], stream: edge, member: a", "replication.servers", "must have at least one; such as"),
        ('servers: ["nats://a:4222"], member: a', "replication.stream", "is missing; write stream: "),
        ('servers: ["nats://a:4222"], stream: edge', "replication.member", "is missing; write member: a"),
        (LEAST.replace("nats://10.0.0.1:4222", "10.0.0.1:4222"), "replication.servers[0]", "write it such as nats://10.0.0.1:4222"),
        (LEAST.replace("nats://", "http://"), "replication.servers[0]", "is not the address of a NATS server"),
        (LEAST.replace(":4222", ""), "replication.servers[0]", "is not the address of a NATS server"),
        (LEAST.replace(":4222", ":99999"), "replication.servers[0]", "is not the address of a NATS server"),
        (LEAST.replace(":4222", ":4222/edge"), "replication.servers[0]", "is not the address of a NATS server"),
        (LEAST.replace("nats://", "nats://ada:swordfish@"), "replication.servers[0]", "write replication.user and password_file"),
        (LEAST.replace("nats://", "ada:swordfish@"), "replication.servers[0]", "write replication.user and password_file"),
        (LEAST.replace("stream: edge", "stream: a.b"), "replication.stream", "A-Z a-z 0-9 _ -"),
        (LEAST.replace("stream: edge", f"stream: {'s' * 61}"), "replication.stream", "A-Z a-z 0-9 _ -"),
        (LEAST.replace("member: a", 'member: "a b"'), "replication.member", "A-Z a-z 0-9 _ -"),
        (LEAST.replace("member: a", 'member: ""'), "replication.member", "A-Z a-z 0-9 _ -"),
        (f"{LEAST}, replicas: 2", "replication.replicas", "is not one of 1, 3, 5"),
        (f"{LEAST}, lease: 1s", "replication.lease", "from 2s to 1h"),
        (f"{LEAST}, standby: open", "replication.standby", "is not one of closed, redirect"),
        (f"{LEAST}, trim: {{max_age: 1s}}", "replication.trim.max_age", "1m"),
        (f"{LEAST}, trim: {{max_bytes: 1kB}}", "replication.trim.max_bytes", "1MiB"),
        (f"{LEAST}, password: swordfish", "replication.password", "write password_file: FILE"),
        (f"{LEAST}, user: bascule", "replication.password_file", "is missing; user and password_file go together"),
        (f"{LEAST}, password_file: password", "replication.user", "is missing; user and password_file go together"),
        (f"{LEAST}, user: a, password_file: password, token_file: token", "replication.token_file", "cannot stand beside user"),
        (f"{LEAST}, token_file: token, nkey_file: own.nk", "replication.nkey_file", "cannot stand beside token_file"),
        (f"{LEAST}, token_file: none", "replication.token_file", "none"),
        (f"{LEAST}, tls: {{cert_file: own.pem}}", "replication.tls.cert_file", "needs key_file"),
    ],
)
def test_what_makes_no_cluster_is_refused(keys: str, key: str, hint: str, folder: Path) -> None:
    said = problems(folder, f"{MODE}replication: {{{keys}}}\n")

    assert [problem for problem in said if f": {key}: " in problem and hint in problem], said
    assert "swordfish" not in str(said)


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        (MODE, "replication", "is missing; persistence.mode: replicated needs its servers, stream and member"),
        (f"replication: {{{LEAST}}}\n", "replication", "has no effect without persistence.mode: replicated"),
        (f"persistence: {{mode: in-memory}}\nreplication: {{{LEAST}}}\n", "replication", "has no effect without"),
        (
            f"persistence: {{mode: replicated, acknowledge: fast}}\nreplication: {{{LEAST}}}\n",
            "persistence.acknowledge",
            "cannot be fast with mode: replicated",
        ),
    ],
    ids=["no section", "no mode", "another mode", "fast"],
)
def test_the_mode_and_the_section_go_together(text: str, key: str, hint: str, folder: Path) -> None:
    (problem,) = problems(folder, text)

    assert f": {key}: " in problem
    assert hint in problem


def test_without_the_extra_the_check_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)

    (problem,) = problems(folder, f"{MODE}replication: {{{LEAST}}}\n")

    assert "replication.servers: the client of NATS is not installed" in problem
    assert "[replicated]" in problem
