"""Commands as a user types them, in processes of their own: output, errors, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import supervisor.lock
from supervisor.cli import node_calls
from supervisor.cli.main import main
from tests.supervisor.conftest import ROOT, StartSupervisor
from tests.support import programs
from tests.support.waiting import wait_until


def bascule(*words: str) -> subprocess.CompletedProcess[str]:
    return programs.run_bascule(*words, timeout_s=60.0)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose node lives in the folder of the ``start`` fixture."""
    path = tmp_path / "bascule.yaml"
    remote = {"addresses": ["127.0.0.1:1"], "client_id": "x"}
    bridge = {"name": "cloud", "remote": remote, "local_subscriptions": [{"filters": ["#"]}]}
    node = {
        "node": {"name": "test", "data_dir": "data"},
        "listeners": [{"bind": "127.0.0.1:18831"}],
        "access": {"allow_anonymous": True},
        "bridges": [bridge],
    }
    path.write_text(json.dumps(node))
    return path


def test_check_says_what_a_configuration_makes(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(config)]) == 0
    printed = capsys.readouterr().out
    assert f"{config}: ok" in printed
    assert "127.0.0.1:18831" in printed
    assert "cloud" in printed
    assert list(config.parent.iterdir()) == [config], "check makes nothing"


def test_check_says_which_files_for_a_remote_cannot_serve(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = json.loads(config.read_text())
    (config.parent / "ca.pem").write_text("no certificate\n")
    (config.parent / "password").write_text("x" * 70_000)
    remote = node["bridges"][0]["remote"]
    remote |= {"transport": "tls", "tls": {"ca_file": "ca.pem"}}
    config.write_text(json.dumps(node))
    assert main(["check", str(config)]) == 78
    assert f"bridges[0].remote: {config.parent / 'ca.pem'} holds no certificates in PEM" in capsys.readouterr().err
    remote |= {"tls": {}, "username": "edge", "password_file": "password"}
    config.write_text(json.dumps(node))
    assert main(["check", str(config)]) == 78
    assert "longer than 65535 bytes" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_wrong_configuration_is_refused_with_each_problem_on_its_line(tmp_path: Path, command: str) -> None:
    path = tmp_path / "wrong.yaml"
    for text, place, words in (
        ("node: {name: edge}\naccess: ]\n", "2:", ("YAML",)),
        ("colour: red\nshape: round\n", "", ("colour", "shape")),
    ):
        path.write_text(text)
        done = bascule(command, str(path))
        assert (done.returncode, done.stdout) == (78, "")
        assert all(line.startswith(f"{path}:{place}") for line in done.stderr.splitlines()), done.stderr
        assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.process
@pytest.mark.parametrize("command", ["status", "stop"])
def test_a_file_that_does_not_say_where_its_node_is_is_refused(tmp_path: Path, command: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("colour: red\n")
    done = bascule(command, str(path))
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith(f"{path}:1:1: node: is missing")


@pytest.mark.parametrize(
    "words", [("status",), ("status", "--json"), ("stop",), ("bridge", "pause"), ("queue", "purge"), ("session", "end")]
)
def test_a_node_that_does_not_run_is_said_so(config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    bridge = ["cloud"] if words[0] in ("bridge", "queue", "session") else []
    assert main([*words, str(config), *bridge]) == 69
    assert "node test does not run" in capsys.readouterr().err


def test_a_command_without_its_argument_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert "CONFIG" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bascule")


@pytest.mark.process
def test_status_prints_the_promised_json(start: StartSupervisor, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start().wait_ready()
    assert main(["status", str(config), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in status["processes"]] == ["supervisor", "template", "store", "bridge:cloud:0", "clients"]
    assert (status["node"], status["ready"], status["bridges"][0]["ledger_closes"]) == ("test", True, True)


@pytest.mark.process
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_status_ends_with_1_while_the_node_is_not_ready(
    start: StartSupervisor, config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """It says all that it knows all the same."""
    node = start("bridge:cloud:0", "--needs", "nobody")
    node.wait_process("store", state="ready")

    assert main(["status", str(config), *words]) == 1

    printed = capsys.readouterr().out
    assert json.loads(printed)["ready"] is False if words else "not ready" in printed


@pytest.mark.process
def test_status_prints_tables_for_people(start: StartSupervisor, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start().wait_ready()
    assert main(["status", str(config)]) == 0
    printed = capsys.readouterr().out
    assert "node test" in printed
    clients = next(line.split() for line in printed.splitlines() if line.startswith("clients "))
    assert clients[1] == "ready"
    assert [clients[5], clients[7]] == ["MiB", "s"]
    assert clients[-2:] == ["distributor,", "listener"]


@pytest.mark.process
def test_status_is_watched_without_a_terminal_too(start: StartSupervisor, config: Path) -> None:
    start().wait_ready()
    command = [sys.executable, "-m", "supervisor.cli", "status", str(config), "--watch"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        heads = 0
        while heads < 2:
            line = watching.stdout.readline()
            assert line, "it goes on until it is interrupted"
            heads += line.startswith("node test")
        watching.terminate()


def test_no_snapshot_is_copied_into_the_data_folder(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("data", "data/below"):
        assert main(["snapshot", "make", str(config), "--to", str(config.parent / target)]) == 2
        assert "which holds the snapshots themselves" in capsys.readouterr().err


@pytest.mark.process
def test_a_bridge_is_paused_resumed_and_restarted(start: StartSupervisor, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = start().wait_ready()
    for verb in ("pause", "resume", "restart"):
        assert main(["bridge", verb, str(config), "cloud"]) == 0
    node.wait_for("child.restarted", "bridge:cloud:0")
    node.wait_process("bridge:cloud:0", state="ready", restarts=0)

    def commands() -> list[str]:
        return [note[1] for note in node.heard("connection:cloud:0") if note[0] == "command"]

    wait_until(lambda: len(commands()) == 3, 20.0, "the word to connect at once")
    assert commands() == ["pause", "resume", "dial"]
    for verb in ("pause", "resume", "restart"):
        assert main(["bridge", verb, str(config), "nowhere"]) == 1
        assert "there is no bridge 'nowhere'; known: cloud" in capsys.readouterr().err


@pytest.mark.process
def test_stop_returns_when_the_node_has_ended(start: StartSupervisor, config: Path) -> None:
    node = start().wait_ready()
    assert main(["stop", str(config)]) == 0
    assert node.process.wait(60.0) == 0
    assert main(["status", str(config)]) == 69


def one_line(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit status of a command, and what it has said, which is one line and goes to standard error."""
    capsys.readouterr()
    status = main(list(words))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    return status, said.err.rstrip("\n")


NO_FOLDER = "bascule: {{folder}}/{} cannot be written: no such file or directory; make the folder {{folder}}/no first"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["stat"], 2, "bascule: no such command 'stat'. Did you mean 'status'?"),
        (["queue", "peak"], 2, "bascule queue: no such command 'peak'. Did you mean 'peek'?"),
        (["reload", "{config}", "--plann"], 2, "bascule reload: no such option '--plann'. Did you mean '--plan'?"),
        (
            ["queue", "export", "{config}", "cloud"],
            2,
            "bascule queue export: missing option '--to'; bascule queue export --help says",
        ),
        (
            ["bridge", "pause", "{config}"],
            2,
            "bascule bridge pause: missing argument 'BRIDGE'; write bascule bridge pause [CONFIG] BRIDGE",
        ),
        (
            ["status"],
            2,
            "bascule status: missing argument 'CONFIG'; give the node's file, such as edge.yaml: BASCULE",
        ),
        (["status", "--node", "tcp://a:1"], 2, "bascule status: --node stands before the command: bascule --node ..."),
        (
            ["status", "{folder}/none.yaml"],
            78,
            "bascule: {folder}/none.yaml: no such file; give the node's file, which bascule init",
        ),
        (
            ["check", "{folder}/none.yaml"],
            78,
            "bascule: {folder}/none.yaml: no such file; give the node's file, which bascule init",
        ),
        (["status", "{folder}"], 78, "bascule: {folder} is a folder; give the node's file, such as {config}"),
        (["run", "{folder}"], 78, "bascule: {folder} is a folder; give the node's file, such as {config}"),
        (["token", "add", "{folder}/no/t", "ada"], 75, NO_FOLDER.format("no/t")),
        (["token", "remove", "{folder}/no/t", "ada"], 75, NO_FOLDER.format("no/t")),
        (["user", "remove", "{folder}/no/users", "ada"], 75, NO_FOLDER.format("no/users")),
        (["init", "--remote", "a:1", "{folder}/no/e.yaml"], 75, NO_FOLDER.format("no/e.yaml")),
        (["key", "make", "{folder}/no/key"], 75, NO_FOLDER.format("no/key")),
        (
            ["--node", "tcp://a:1", "--key", "{folder}/k", "status"],
            75,
            "bascule: the key {folder}/k cannot be read: no such file or",
        ),
        (["restore", "{config}", "{folder}"], 75, "bascule: {folder} is no backup, or a half-made one: it has no backup.json"),
        (["export", "{folder}", "--to", "{folder}/x"], 75, "bascule: there is no snapshot at {folder}"),
        (["key", "make", "{config}/key"], 75, "bascule: {config}/key cannot be written: not a directory; a file has the name"),
        (["status", "{config}"], 69, "bascule: node test does not run; bascule run {config} starts it"),
        (
            ["events", "{config}", "--since", "2026-03-02", "--until", "2026-03-01"],
            2,
            "bascule events: --since, 2026-03-02 00:00:00Z, is not before --until, 2026-03-01 00:00:00Z; bascule events",
        ),
        (
            ["queue", "resend", "{config}", "cloud", "--since", "1795867200"],
            2,
            "bascule queue resend: invalid value for '--since': ",
        ),
    ],
)
def test_what_is_typed_wrong_is_told_in_one_line_that_says_what_to_do(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    monkeypatch.chdir(config.parent.parent)
    monkeypatch.setattr(node_calls, "SYSTEM_CONFIG", config.parent / "none")
    places = {"config": config, "folder": config.parent}

    found = one_line(capsys, *(word.format(**places) for word in words))

    assert (found[0], found[1][: len(said.format(**places))]) == (status, said.format(**places))


@pytest.mark.parametrize("words", [[], ["queue"], ["key"]])
def test_what_is_typed_without_a_command_is_told_which_there_are(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"Usage: {' '.join(('bascule', *words))} [OPTIONS] COMMAND")
    assert "says what it takes" not in said


def test_a_file_that_is_called_as_a_bridge_is_not_taken_for_the_configuration(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one that queue export wrote."""
    monkeypatch.chdir(config.parent)
    monkeypatch.setenv("BASCULE_CONFIG", str(config))
    (config.parent / "cloud").touch()
    status, said = one_line(capsys, "queue", "peek", "cloud")
    assert (status, said.partition(";")[0]) == (69, "bascule: node test does not run")


def test_the_node_of_the_service_is_started_as_a_service(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node_calls, "SYSTEM_CONFIG", config)
    monkeypatch.setattr(node_calls, "SYSTEMD", config.parent)

    assert one_line(capsys, "status")[1].startswith("bascule: node test does not run; systemctl start bascule starts it")
    monkeypatch.setattr(node_calls, "SYSTEMD", config.parent / "none")
    assert one_line(capsys, "status")[1].startswith("bascule: node test does not run; bascule run starts it")


def test_the_node_of_another_user_is_said_to_be_his(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = config.parent / "data" / "lock"
    lock.parent.mkdir()
    lock.touch()
    read_text = Path.read_text

    def refuse(path: Path, *how: str, **named: str) -> str:
        if path == lock:
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *how, **named)

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(supervisor.lock, "_owner", lambda _folder: "bascule")

    status, said = one_line(capsys, "status", str(config))

    assert (status, said) == (77, f"bascule: {lock.parent} is bascule's: give the command as bascule, such as by sudo -u bascule")
    assert main(["doctor", str(config)]) == 1
    assert f"fail  node: {lock.parent} is bascule's\n      -> give the command as bascule" in capsys.readouterr().out
