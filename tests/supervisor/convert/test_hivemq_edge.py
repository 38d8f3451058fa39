"""HiveMQ Edge's ``config.xml``: its bridges become ours, and no document makes the reader fetch or build anything."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.config.loading import load
from supervisor.convert.values import cipher_name
from tests.supervisor.convert.conftest import CONFIGS
from wire.config_settings import NodeSettings

WHOLE = (CONFIGS / "hivemq-edge.xml").read_text()


def converted(folder: Path, text: str, status: int = 3) -> tuple[NodeSettings, str]:
    """What ``text`` becomes, and what was printed into the file."""
    (folder / "config.xml").write_text(text)
    config = folder / "bascule.yaml"
    assert main(["convert", str(folder / "config.xml"), "-o", str(config), "--force"]) == status
    assert main(["check", str(config)]) == 0
    return load(config), config.read_text()


def test_bridges_are_the_same_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, text = converted(tmp_path, WHOLE)

    cloud, web = settings.bridges
    remote = cloud.remote
    assert (cloud.name, remote.addresses, remote.transport, remote.client_id) == (
        "cloud-bridge",
        (("cloud.example", 8883),),
        "tls",
        "edge-7",
    )
    assert (remote.protocol, remote.keep_alive_s, remote.session_expiry_s, remote.connect_timeout_s) == (5, 30, 0xFFFFFFFF, 15)
    assert (remote.username, Path(remote.password_file or "").read_text()) == ("edge", "not-a-secret\n")
    (out,), (back,) = cloud.local_subscriptions, cloud.remote_subscriptions
    assert (out.filters, out.excludes, out.destination) == (("plant/#", "line/+/state"), ("plant/private/#",), "site/7/{#}")
    assert (out.max_qos, out.preserve_retain, out.user_properties) == (1, True, (("site", "7"),))
    assert (back.filters, back.destination, back.max_qos, back.preserve_retain) == (("cmd/7/#",), "cmd/{3-#}", 2, False)
    assert (cloud.loop_prevention.enabled, cloud.loop_prevention.max_hops) == (True, 2)
    assert (web.remote.transport, web.remote.websocket_path, web.remote.client_id) == ("wss", "/mqtt", "web")
    assert [(each.bind, each.protocol) for each in settings.listeners] == [("0.0.0.0:1883", "tcp"), ("127.0.0.1:8000", "ws")]
    assert "not-a-secret" not in text
    assert "changeme" not in text
    told = [line.split()[1].rstrip(":") for line in capsys.readouterr().err.splitlines() if re.match(r"\S+:\d+ ", line)]
    assert told == [
        "tls-tcp-listener",
        "remote-broker/tls/truststore/path",
        "remote-broker/tls/truststore/password",
        "forwarded-topics/forwarded-topic/queue-limit",
        "protocol-adapters",
    ]
    assert "  # config.xml:26 remote-broker/mqtt/client-id\n" in text


def test_the_name_in_the_certificate_and_the_subprotocol_are_as_there(tmp_path: Path) -> None:
    text = WHOLE.replace("<verify-hostname>true<", "<verify-hostname>false<").replace(
        "<server-path>", "<subprotocol>mqttv5.0</subprotocol><server-path>"
    )

    settings, _ = converted(tmp_path, text)

    cloud, web = (bridge.remote for bridge in settings.bridges)
    assert (cloud.tls.verify_name, web.tls.verify_name, web.websocket_subprotocol) == (False, True, "mqttv5.0")


@pytest.mark.parametrize(
    ("protocols", "oldest", "lost"),
    [
        (["TLSv1.2"], "tls1.2", 0),
        (["TLSv1.3", "TLSv1.2"], "tls1.2", 0),
        (["TLSv1.3"], "tls1.3", 0),
        (["TLSv1.1", "TLSv1.3"], "tls1.2", 1),
    ],
)
def test_tls_is_as_old_as_there_but_not_older_than_1_2(
    tmp_path: Path, protocols: list[str], oldest: str, lost: int, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "".join(f"<protocol>{one}</protocol>" for one in protocols)
    settings, _ = converted(tmp_path, WHOLE.replace("<protocol>TLSv1.2</protocol>", said))
    assert settings.bridges[0].remote.tls.min_version == oldest
    assert capsys.readouterr().err.count("oldest that is spoken") == lost


@pytest.mark.process
def test_ciphers_are_those_of_the_same_standard_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As OpenSSL itself names them; what it cannot be told is named by line."""
    ciphers = [
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
        "TLS_PSK_WITH_NULL_SHA",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
    ]
    said = "".join(f"<cipher-suite>{one}</cipher-suite>" for one in ciphers)
    settings, _ = converted(
        tmp_path, WHOLE.replace("<handshake-timeout>", f"<cipher-suites>{said}</cipher-suites><handshake-timeout>")
    )
    assert settings.bridges[0].remote.tls.ciphers == "ECDHE-RSA-AES128-GCM-SHA256:AES256-SHA"
    told = re.findall(r"cipher-suite (\S+): (.*)", capsys.readouterr().err)
    assert [name for name, _ in told] == ciphers[1:3]
    assert "TLS 1.3" in told[0][1]

    done = subprocess.run(
        ["openssl", "ciphers", "-stdname", "-tls1_2", "aRSA:aECDSA:aDSS"], capture_output=True, text=True, check=True
    )
    names = [line.split()[:3:2] for line in done.stdout.splitlines()]
    known = {standard: name for standard, name in names if "_WITH_" in standard and not re.search("PSK|SRP|ARIA|anon", standard)}
    assert len(known) > 20
    assert {standard: cipher_name(standard) for standard in known} == known


def test_variables_of_the_environment_are_written_as_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGE_NAME", "edge-of-7")
    settings, text = converted(tmp_path, WHOLE.replace(">edge-7<", ">${ENV:EDGE_NAME}<"))
    assert settings.bridges[0].remote.client_id == "edge-of-7"
    assert 'client_id: "${EDGE_NAME}"' in text


def test_a_password_that_is_a_variable_stays_in_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGE_SECRET", "not-a-secret")
    settings, _ = converted(tmp_path, WHOLE.replace(">not-a-secret<", ">${ENV:EDGE_SECRET}<"))
    remote = settings.bridges[0].remote
    assert (remote.username, remote.password_env, remote.password_file) == ("edge", "EDGE_SECRET", None)
    settings, _ = converted(tmp_path, WHOLE.replace(">not-a-secret<", ">pre-${ENV:EDGE_SECRET}<"))
    assert settings.bridges[0].remote.password_env is None
    assert "password: write what pre-${EDGE_SECRET} stands for into a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "declared", ['<!ENTITY a "x">', '<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a SYSTEM "http://127.0.0.1:1/"> %a;']
)
def test_entities_are_refused(tmp_path: Path, declared: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.xml").write_text(f"<!DOCTYPE hivemq [{declared}]><hivemq><mqtt-bridges>&a;</mqtt-bridges></hivemq>")
    assert main(["convert", str(tmp_path / "config.xml")]) == 78
    assert "entities are not read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("<enabled>true<", "<enabled>yes<"),
        (">8883</port>\n                <mqtt>", ">x</port><mqtt>"),
        ("{3-#}", "{9-#}"),
        (">1<", ">9<"),
    ],
)
def test_wrong_values_are_named_and_the_rest_holds(tmp_path: Path, said: str, instead: str) -> None:
    assert said in WHOLE
    converted(tmp_path, WHOLE.replace(said, instead))


def test_a_list_without_bridges_is_a_broker_alone(tmp_path: Path) -> None:
    settings, _ = converted(tmp_path, "<hivemq><mqtt-bridges/></hivemq>", 0)
    assert settings.bridges == ()
