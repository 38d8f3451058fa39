"""``bascule init``: what it writes loads, says what was answered, and keeps secrets from others."""

from __future__ import annotations

import io
import re
import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actors.access.password_file import read_passwords
from actors.access.password_hashes import verify_password
from supervisor.cli.main import main
from supervisor.config.first_configuration import FirstAnswers, name_of, write_first
from supervisor.config.loading import load
from supervisor.config.presets import PRESETS
from tests.support.authority import Authority
from wire.config_settings import NodeSettings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "edge.yaml"


def made(file: Path, *words: str) -> NodeSettings:
    assert main(["init", str(file), "--yes", *words]) == 0
    return load(file)


def test_without_an_answer_it_is_a_broker_for_this_machine(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = made(file)

    assert (settings.listeners[0].bind, settings.access.allow_anonymous, settings.bridges) == ("127.0.0.1:1883", True, ())
    assert settings.node.data_dir == str(file.parent / "data")
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: written",
        f"  next: bascule doctor {file}, then bascule run {file}",
    ]


def test_a_bridge_has_what_its_url_says_and_its_password_in_a_file_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret word\nmore\n"))

    settings = made(file, "--name", "edge-7", "--remote", "mqtts://ada@broker.example", "--password-stdin", "--filter", "plant/#")

    (bridge,) = settings.bridges
    remote = bridge.remote
    assert (settings.node.name, remote.client_id, remote.username, remote.transport) == ("edge-7", "edge-7", "ada", "tls")
    assert remote.addresses == (("broker.example", 8883),)
    assert bridge.local_subscriptions[0].filters == ("plant/#",)
    secret = Path(remote.password_file or "")
    assert secret.read_text() == "s3cret word\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (secret, secret.parent)] == [0o600, 0o700]
    assert "s3cret" not in file.read_text()


def test_a_node_of_a_small_box_has_its_actors_in_one_process(file: Path) -> None:
    assert made(file, "--small").supervision.placement == "together"


def test_a_user_without_a_password_is_told_of(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = made(file, "--remote", "mqtt://ada@broker.example")

    assert (settings.bridges[0].remote.username, settings.bridges[0].remote.password_file) == ("ada", None)
    assert "ada has no password at the remote: --password-stdin reads one" in capsys.readouterr().out


def test_at_a_terminal_it_asks_for_what_was_not_given(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["edge-7", "127.0.0.1:1885", "", "mqtt://ada@broker.example", "s3cret", "plant/# line/+/state"]
    asked = []

    def prompt(question: str, **_: object) -> str:
        asked.append(question)
        return answers[len(asked) - 1]

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", prompt)
    assert main(["init", str(file)]) == 0

    (bridge,) = load(file).bridges
    assert len(asked) == len(answers)
    assert bridge.local_subscriptions[0].filters == ("plant/#", "line/+/state")
    assert bridge.remote.password_file is not None


def test_what_others_can_reach_has_a_user_with_a_password_of_its_own(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = made(file, "--bind", "0.0.0.0:1883")

    assert not settings.access.allow_anonymous
    password = (file.parent / "secrets" / "site.password").read_text().strip()
    stored = read_passwords(str(settings.access.password_file)).hash_of("site")
    assert stored is not None
    assert verify_password(stored, password.encode())
    assert len(password) >= 20
    assert password not in capsys.readouterr().out
    assert stat.S_IMODE((file.parent / "secrets" / "site.password").stat().st_mode) == 0o600


def test_a_file_that_is_there_stays_unless_it_is_meant(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("mine")

    assert main(["init", str(file), "--yes"]) == 2
    assert file.read_text() == "mine"
    assert "is there already" in capsys.readouterr().err
    assert main(["init", str(file), "--yes", "--force"]) == 0
    load(file)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--remote", "http://broker"], 2, "mqtts://broker.example:8883"),
        (["--user", "a:b"], 2, "--user"),
        (["--bind", "nowhere"], 78, "is not host:port"),
        (["--remote", "broker.example", "--filter", "a#"], 78, "is not a topic filter"),
    ],
)
def test_what_cannot_be_is_told(words: list[str], status: int, told: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(file), "--yes", *words]) == status
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "name"),
    [("pump-7.plant.example", "pump-7"), ("käse", "k-se"), ("", "edge-1"), ("...", "edge-1"), ("x" * 80, "x" * 64)],
)
def test_the_name_of_a_machine_becomes_that_of_a_node(host: str, name: str) -> None:
    assert name_of(host) == name


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.builds(FirstAnswers, **dict.fromkeys(("name", "data_dir", "bind", "client_id", "bridge"), TEXT), remote=st.just("b")))
def test_whatever_is_answered_is_read_as_it_was_written(answers: FirstAnswers) -> None:
    data = yaml.safe_load(write_first(answers))

    assert (data["node"]["name"], data["node"]["data_dir"]) == (answers.name, answers.data_dir)
    assert (data["listeners"][0]["bind"], data["bridges"][0]["name"]) == (answers.bind, answers.bridge)


def test_an_example_is_written_with_its_data_in_its_own_place(file: Path) -> None:
    assert main(["init", str(file), "--example", "minimal", "--data-dir", "queues"]) == 0
    assert load(file).node.data_dir == str(file.parent / "queues")
    schema = re.search(r"\$schema=(\S+)", file.read_text())
    assert schema is not None
    assert Path(schema[1]).is_file()


def test_each_example_is_listed_with_what_it_is_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(file), "--example", "?"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert {"default", "minimal", "tls", "two-way"} <= set(listed)
    assert not file.exists()


def test_an_example_that_is_not_there_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(file), "--example", "maximal"]) == 2
    assert "there is no example maximal" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.process
@pytest.mark.parametrize("name", PRESETS)
def test_a_known_remote_is_written_with_its_limits_and_holds_once_its_files_are_there(
    name: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(file), "--yes", "--name", "edge-1", "--for", name]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  fill in: "))
    wanted = line.removeprefix("  fill in: ").split(", ")
    words = [word for word in wanted if not word.startswith("secrets/")]
    assert all(word in file.read_text() for word in words)
    authority = Authority(tmp_path / "ca").issue("edge")
    (tmp_path / "secrets").mkdir(mode=0o700)
    for path in wanted[len(words) :]:
        secret = tmp_path / path
        secret.write_bytes((authority.key_file if secret.suffix == ".key" else authority.cert_file).read_bytes())
        secret.chmod(0o600)

    (bridge,) = load(file).bridges

    assert (bridge.name, "YOUR-" in bridge.remote.addresses[0][0].upper()) == ("cloud", True)


def test_a_remote_that_is_not_known_is_refused_and_they_are_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(file), "--yes", "--for", "nowhere"]) == 2
    assert main(["init", str(file), "--yes", "--for", "aws-iot", "--remote", "h"]) == 2
    assert not file.exists()
    capsys.readouterr()
    assert main(["init", "--for", "?"]) == 0
    assert capsys.readouterr().out.split() == list(PRESETS)
