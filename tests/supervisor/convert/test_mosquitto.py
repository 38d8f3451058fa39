"""``mosquitto.conf`` becomes a configuration that holds, says where each line came from, and what was lost."""

from __future__ import annotations

import errno
import os
import random
import re
import stat
import sys
from pathlib import Path

import pytest

from actors.access.password_file import read_passwords
from supervisor.cli.main import main
from supervisor.config.first_configuration import FirstAnswers, write_first
from supervisor.config.loading import load
from supervisor.config.setting_annotations import each_setting
from supervisor.convert.mosquitto_file import OPTIONS
from supervisor.convert.options import ACCESS_OPTIONS, BRIDGE_OPTIONS, HIVEMQ_EDGE_OPTIONS, LISTENER_OPTIONS, NODE_OPTIONS, Fate
from supervisor.reload.bridge_trial import settings_with
from tests.supervisor.convert.conftest import CONFIGS
from wire.access.access_rules import AccessRules
from wire.config_settings import SESSION_NEVER_EXPIRES_S, BridgeSettings, LinkStateSettings, NodeSettings
from wire.routing.topic_mapping import TopicTemplate

pytestmark = pytest.mark.process  # openssl makes the certificates
NAMES = sorted(path.name for path in CONFIGS.glob("*.conf"))


def converted(folder: Path, name: str, status: int | None = None) -> tuple[NodeSettings, str]:
    """What ``name`` becomes, loaded, and its text. It has passed ``bascule check``."""
    config = folder / f"out-{name}" / "bascule.yaml"
    config.parent.mkdir(mode=0o700, exist_ok=True)
    assert main(["convert", str(folder / name), "-o", str(config)]) in ((0, 3) if status is None else (status,))
    assert main(["check", str(config)]) == 0
    return load(config), config.read_text()


def written(folder: Path, text: str, status: int | None = None) -> NodeSettings:
    (folder / "mosquitto.conf").write_text(text)
    return converted(folder, "mosquitto.conf", status)[0]


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_and_names_what_is_lost(configs: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = re.search(r"^#! untaken: (.*)$", (configs / name).read_text(), re.MULTILINE)
    untaken = said[1].split(", ") if said else []
    if "bridge_psk" in (configs / name).read_text() and sys.version_info < (3, 13):
        untaken.append("connection")
    untaken.sort()

    _, text = converted(configs, name, 3 if untaken else 0)

    told = [line for line in capsys.readouterr().err.splitlines() if re.match(r"\S+:\d+ ", line)]
    assert sorted(line.split()[1].rstrip(":") for line in told) == untaken
    assert all(f"#   {line}\n" in text for line in told), "they stand at the end of the file, too"
    assert f"# Not taken ({len(told)}):\n" in text or not told
    for line in text.split("# Not taken")[0].splitlines()[1:]:
        assert not line or line.startswith("#") or line.endswith(":") or re.search(r"  # \S", line), f"no origin: {line}"
    assert "not-a-secret" not in text


def test_a_bridge_has_what_its_connection_had(configs: Path) -> None:
    settings, text = converted(configs, "03-cloud-over-tls.conf")

    (bridge,) = settings.bridges
    remote = bridge.remote
    assert (bridge.name, remote.addresses, remote.transport) == ("plant-central", (("mqtt.cloud.example", 8883),), "tls")
    assert (remote.protocol, remote.client_id, remote.username, remote.clean_start) == (4, "edge-plant", "plant", False)
    assert remote.tls.ca_file == str(configs / "certs" / "ca.pem")
    assert (bridge.backoff.initial_s, bridge.backoff.max_s) == (10, 60)
    assert [(rule.filters, rule.max_qos) for rule in bridge.local_subscriptions] == [
        (("data/#",), 1),
        (("sys/alarms/#",), 1),
        (("spBv1.0/#",), 1),
    ]
    secret = Path(remote.password_file or "")
    assert secret.read_text() == "not-a-secret\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (secret, secret.parent)] == [0o600, 0o700]
    assert "client_id: edge-plant  # 03-cloud-over-tls.conf:11 remote_clientid\n" in text
    assert set(read_passwords(settings.access.password_file or "")._hashes) == {"operator", "pump-7"}


def test_a_bridge_says_that_it_is_one_unless_the_connection_said_otherwise(configs: Path) -> None:
    remotes = [converted(configs, f"{name}.conf")[0].bridges[0].remote for name in ("02-both-whole", "17-overlapping-topics")]
    assert [(remote.protocol, remote.try_private) for remote in remotes] == [(4, True), (4, False)]


@pytest.mark.parametrize(
    ("ways", "hops"),
    [
        (["both"], [1]),
        (["out", "out"], [1, 1]),
        (["in", "in"], [1, 1]),
        (["out", "in"], [2, 1]),
        (["both", "both", "out", "in"], [2, 2, 2, 1]),
    ],
)
def test_what_one_connection_brings_goes_on_by_the_others(tmp_path: Path, ways: list[str], hops: list[int]) -> None:
    """Mosquitto keeps it from none but where it came from; what has come from a remote has crossed one bridge here."""
    text = "".join(f"connection {place}\naddress b:{place}\ntopic # {way} 1\n" for place, way in enumerate(ways, start=1))
    assert [bridge.loop_prevention.max_hops for bridge in written(tmp_path, text, 0).bridges] == hops


@pytest.mark.parametrize(
    ("connections", "hops", "told"),
    [
        (["b|# in", "b|# out"], [1, 1], [2]),
        (["b|# in", "b:1883|# out"], [1, 1], [2]),
        (["a b|# in", "B c|# out"], [1, 1], [2]),
        (["b|# both", "b|# both"], [1, 1], [1, 2]),
        (["b|a/# in", "b|+/x out"], [1, 1], [2]),
        (["b|# in 0 here/ there/", "b|# out 0 here/ there/"], [1, 1], [2]),
        (["b|# in 0 here/ there/", "b|here/# out"], [1, 2], []),
        (["b|# in 0 here/ there/", "b|there/# out"], [1, 2], []),
        (["b|a/# in", "b|a/# out", "c|a/# both"], [1, 1, 2], [2]),
        (["b|a/# in", "b|b/# out"], [1, 2], []),
        (["b|# in", "b:1884|# out"], [1, 2], []),
        (["b|# in|mqttv50", "b|# out|mqttv50"], [1, 2], []),
        (["b|# in|mqttv50", "b|# out"], [1, 1], [2]),
    ],
)
def test_what_would_come_from_the_same_remote_again_does_not_go_on(
    tmp_path: Path, connections: list[str], hops: list[int], told: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Mosquitto lets it go round without end, between two connections to one remote; MQTT 3.1.1 counts no hops."""
    text = ""
    for place, (addresses, topic, *version) in enumerate((one.split("|") for one in connections), start=1):
        text += f"connection c{place}\naddresses {addresses}\ntopic {topic}\n"
        text += "".join(f"bridge_protocol_version {one}\n" for one in version)

    settings = written(tmp_path, text, 3 if told else 0)

    assert [bridge.loop_prevention.max_hops for bridge in settings.bridges] == hops
    report = [line for line in capsys.readouterr().err.splitlines() if "without end" in line]
    named = [re.match(r"\S+:(\d+) (connection \S+): .* what c\d brings would go back", line) for line in report]
    assert [one and one[2] for one in named] == [f"connection c{place}" for place in told]
    assert all(one and text.splitlines()[int(one[1]) - 1] == one[2] for one in named)


@pytest.mark.parametrize(
    ("line", "topics"),
    [
        ('topic sensors/# out 1 "" site1/', {"sensors/a/b": "site1/sensors/a/b", "sensors": "site1/sensors", "other": None}),
        ("topic # out 1 evcc/ evcc/7/", {"evcc/a": "evcc/7/a", "evcc": "evcc/7/evcc"}),
        ("topic pump/# out 1 hall1_ north/h1-", {"hall1_pump/3": "north/h1-pump/3", "hall1_pump": "north/h1-pump", "pump/3": None}),
        ("topic fan/+/speed out 0 a/b_ c", {"a/b_fan/2/speed": "cfan/2/speed"}),
        ("topic state out 2 hall2/x_ south_", {"hall2/x_state": "south_state"}),
        ('topic "" out 1 project/led user/status', {"project/led": "user/status"}),
        ("topic # OUT there/", {"a": "a"}),
        ('topic + out 1 "" ${x}\\{1}/', {"a": "${x}\\{1}/a"}),
    ],
)
def test_prefixes_are_exchanged_wherever_they_end(tmp_path: Path, line: str, topics: dict[str, str | None]) -> None:
    (bridge,) = written(tmp_path, f"connection a\naddress b:1\n{line}\n", 0).bridges
    assert {topic: sent(bridge, topic) for topic in topics} == topics


def sent(bridge: BridgeSettings, topic: str) -> str | None:
    """Under which topic ``topic`` leaves."""
    from wire.mqtt.topics import matches

    for rule in bridge.local_subscriptions:
        if any(matches(one, topic) for one in rule.filters):
            return TopicTemplate.parse(rule.destination).map(topic.encode()).decode()
    return None


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("topic $share/g/c/# in 1", [("c/#", "g", "{#}", 1)]),
        ('topic $share/g/c/# in 1 site/ ""', [("c/#", "g", "{#}", 1)]),  # Mosquitto does not put it before what comes
        ('topic c/# in 2 "" $share/g/', [("c/#", "g", "{#}", 2)]),
        ("topic $share/g/# in 0", [("#", "g", "{#}", 0)]),
        ("topic $share/g/c in\ntopic $share/h/d in\ntopic $share/g/c in", [("c", "g", "{#}", 0), ("d", "h", "{#}", 0)]),
        ('topic $share/g/c/# in 1 "" x/', [("x/$share/g/c/#", None, "{2-#}", 1)]),  # no shared subscription any more
    ],
)
def test_a_shared_subscription_at_the_remote_is_one_here(
    tmp_path: Path, line: str, taken: list[tuple[str, str | None, str, int]]
) -> None:
    (bridge,) = written(tmp_path, f"connection a\naddress b:1\n{line}\n", 0).bridges
    found = [(*rule.filters, rule.shared, rule.destination, rule.max_qos) for rule in bridge.remote_subscriptions]
    assert found == taken


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("topic $share/g/c/# out 1", "is for what comes in"),
        ("topic $share/g/c/# both 1", "is for what comes in"),
        ("topic $share/+/c in", "MQTT-4.8.2-2"),
        ("topic $share/g/c/# in 1\ntopic c/# in", "let both be of one group, or of none"),
        ("topic $share/g/c/# in\ntopic c/# in 1", "let both be of one group, or of none"),
    ],
)
def test_a_shared_subscription_that_cannot_be_one_here_is_named(
    tmp_path: Path, line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (bridge,) = written(tmp_path, f"connection a\naddress b:1\n{line}\ntopic up/# out\n", 3).bridges
    (told,) = [each for each in capsys.readouterr().err.splitlines() if re.match(r"\S+:\d+ topic", each)]
    assert says in told
    assert len(bridge.remote_subscriptions) == line.count("\n")


def test_the_first_rule_is_the_one_that_mosquitto_goes_by(configs: Path) -> None:
    (bridge,) = converted(configs, "17-overlapping-topics.conf")[0].bridges
    assert [(rule.filters[0], rule.max_qos) for rule in bridge.local_subscriptions] == [("log/#", 1), ("alarm/#", 2), ("#", 0)]


def test_each_listener_has_its_own_access(configs: Path) -> None:
    local, plain, web = converted(configs, "09-per-listener.conf")[0].listeners
    assert local.access is not None
    assert plain.access is not None
    assert web.access is not None
    assert [access.allow_anonymous for access in (local.access, plain.access, web.access)] == [True, False, False]
    assert (local.bind, plain.connections_max, web.protocol) == ("127.0.0.1:1883", 200, "ws")
    assert len(read_passwords(plain.access.password_file or "")) == 2
    assert local.access.password_file is None


def test_rights_are_those_of_the_acl_file(configs: Path) -> None:
    settings, _ = converted(configs, "10-mutual-tls.conf")
    (listener,) = settings.listeners
    assert listener.tls is not None
    assert (listener.tls.client_certificate, listener.tls.identity) == ("required", "common-name")
    assert listener.tls.crl_file == str(configs / "certs" / "revoked.crl")
    rules = AccessRules(settings.access.acl or ())

    def may(user: str | None, publish: str = "", receive: str = "") -> bool:
        rights = rules.for_client(user, "c1")
        return rights.may_publish(publish.encode()) if publish else rights.may_receive(receive.encode())

    assert may("operator", publish="any/thing")
    assert may("operator", receive="any/thing")
    assert not may("operator", publish="secret/x")
    assert not may("operator", receive="secret/x")
    assert may("pump-7", publish="garden/zone1/t")
    assert not may("pump-7", receive="garden/zone1/t")
    assert may("pump-7", receive="garden/zone1/control/a")
    assert may("pump-7", publish="device/pump-7/state")
    assert not may("pump-7", publish="device/other/state")
    assert may("pump-7", receive="device/pump-7/c1/command")
    assert not may("pump-7", receive="device/pump-7/c2/command")
    assert may(None, receive="public/a")
    assert not may("pump-7", receive="public/a")
    assert not may(None, publish="public/a")


def test_a_percent_sign_is_one(configs: Path) -> None:
    settings, text = converted(configs, "19-acl-and-users.conf")
    rights = AccessRules(settings.access.acl or ()).for_client("ada", "c")
    assert rights.may_publish(b"100%/x")
    assert rights.may_receive(b"ada/50%/x")
    assert "$6$s" not in text
    assert "whatever" in text


def test_what_would_stand_there_open_is_left_out(configs: Path) -> None:
    settings, _ = converted(configs, "11-pre-shared-keys.conf")
    assert [listener.bind for listener in settings.listeners] == ["127.0.0.1:1883"]
    assert settings.bridges == ()

    settings, _ = converted(configs, "12-plug-in-decides.conf")
    assert not settings.access.allow_anonymous
    assert len(read_passwords(settings.access.password_file or "")) == 0


@pytest.mark.parametrize(
    "line", ["mount_point tenant/", "enable_proxy_protocol 2", "psk_hint x", "protocol http_api", "certfile none.pem", "capath x"]
)
def test_a_listener_is_there_as_it_was_or_not_at_all(tmp_path: Path, line: str) -> None:
    more = "certfile none.pem\nkeyfile none.key\nrequire_certificate true\n" if line.startswith("ca") else ""
    settings = written(tmp_path, f"listener 1884\n{line}\n{more}listener 1885 127.0.0.1\nallow_anonymous true\n", 3)
    assert [listener.bind for listener in settings.listeners] == ["127.0.0.1:1885"]


@pytest.mark.parametrize("line", ["bridge_cafile none.pem", "remote_clientid same"])
def test_a_bridge_is_there_as_it_was_or_not_at_all(tmp_path: Path, line: str) -> None:
    text = f"connection a\naddress b:1\nremote_clientid same\ntopic # out\nconnection c\naddress b:1\n{line}\ntopic # out 1\n"
    assert [bridge.name for bridge in written(tmp_path, text, 3).bridges] == ["a"]


def test_how_a_bridge_is_encrypted_and_how_long_its_socket_waits_is_taken(tmp_path: Path) -> None:
    (tmp_path / "authorities").mkdir()
    text = "connection a\naddress b:8883\nbridge_capath authorities\nbridge_tls_version tlsv1.3\nbridge_tcp_user_timeout 1500\n"
    (bridge,) = written(tmp_path, f"{text}topic # out 1\n", 0).bridges
    tls = bridge.remote.tls
    assert (tls.ca_path, tls.min_version) == (str(tmp_path / "authorities"), "tls1.3")
    assert bridge.remote.tcp_user_timeout_s == 1.5


def test_numbers_keep_within_our_bounds(tmp_path: Path) -> None:
    settings = written(
        tmp_path, "max_packet_size 268435456\nmax_inflight_messages 0\nmax_connections -1\nmax_queued_messages 0\n", 0
    )
    assert settings.clients.packet_max_bytes == 16 << 20
    assert (settings.sessions.in_flight_max, settings.sessions.queue_max_messages) == (65_000, 10**9)


def test_a_comment_may_stand_behind_a_value(tmp_path: Path) -> None:
    text = "listener 1884 # plain\nallow_anonymous true # all\nmax_connections 7 # few\npersistent_client_expiration 100y # long\n"
    text += "connection a\naddress b:1 # there\nstart_type automatic # always\nrestart_timeout 3 # s\ntopic # out 1 # all\n"
    settings = written(tmp_path, text, 0)
    assert (settings.listeners[0].port, settings.listeners[0].connections_max, settings.access.allow_anonymous) == (1884, 7, True)
    (bridge,) = settings.bridges
    assert (bridge.remote.addresses, bridge.backoff.max_s, bridge.local_subscriptions[0].max_qos) == ((("b", 1),), 3, 1)
    assert settings.sessions.expiry_max_s == SESSION_NEVER_EXPIRES_S


def test_a_right_that_does_not_hold_here_takes_its_listener_with_it(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("user a\x01b\ntopic deny x\n")
    head = "per_listener_settings true\nlistener 1884\nallow_anonymous true\nacl_file acl\n"
    settings = written(tmp_path, f"{head}listener 1885 127.0.0.1\nallow_anonymous true\n", 3)
    assert [listener.port for listener in settings.listeners] == [1885]


def test_without_a_listener_it_is_for_this_machine_alone(configs: Path) -> None:
    settings, _ = converted(configs, "07-system-authorities.conf")
    assert ([listener.bind for listener in settings.listeners], settings.access.allow_anonymous) == (["127.0.0.1:1883"], True)
    assert (settings.bridges[0].remote.transport, settings.bridges[0].remote.tls.ca_file) == ("tls", None)


def test_included_files_are_read_where_they_are_named(configs: Path) -> None:
    settings, text = converted(configs, "01-debian-default.conf")
    assert [bridge.name for bridge in settings.bridges] == ["edge"]
    assert "# conf.d/10-edge.conf:7 topic\n" in text


def test_it_is_printed_where_no_secret_is_in_it(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(configs / "01-debian-default.conf")]) == 0
    assert "name: edge  #" in capsys.readouterr().out
    assert main(["convert", str(configs / "03-cloud-over-tls.conf")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "secrets/plant-central.password" in printed.err


def test_nothing_that_is_there_is_replaced_unless_told_to(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    converted(configs, "03-cloud-over-tls.conf")
    config, secret = (
        configs / "out-03-cloud-over-tls.conf" / "bascule.yaml",
        configs / "out-03-cloud-over-tls.conf" / "secrets" / "plant-central.password",
    )
    words = ["convert", str(configs / "03-cloud-over-tls.conf"), "-o", str(config)]
    secret.write_text("kept\n")
    assert main(words) == 2
    config.unlink()
    assert main(words) == 2
    assert "is there already" in capsys.readouterr().err
    assert (config.exists(), secret.read_text()) == (False, "kept\n")
    assert main([*words, "--force"]) == 0
    assert secret.read_text() == "not-a-secret\n"


@pytest.mark.parametrize("there", [True, False])
def test_what_would_not_hold_beside_a_bridge_of_the_same_name_replaces_nothing(
    tmp_path: Path, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_text("")
    (tmp_path / "mosquitto.conf").write_text("password_file users\nconnection cloud\naddress b:1\nremote_username u\n")
    with (tmp_path / "mosquitto.conf").open("a") as lines:
        lines.write("remote_password not-a-secret\ntopic # out 1\n")
    folder = tmp_path / "out"
    cloud = "{name: cloud, remote: {addresses: [c], client_id: c}, local_subscriptions: [{filters: [a]}]}"
    written = {"bridges.d/cloud.yaml": f"bridges: [{cloud}]\n"}
    if there:
        written |= {"bascule.yaml": "# mine\n", "secrets/users": "# mine\n"}
    for name, text in written.items():
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_text(text)

    assert main(["convert", str(tmp_path / "mosquitto.conf"), "-o", str(folder / "bascule.yaml"), "--force"]) == 78

    said = capsys.readouterr().err
    assert f"{folder / 'bascule.yaml'}: nothing is written" in said
    assert f"{folder / 'bridges.d' / 'cloud.yaml'}:1:" in said
    assert '"cloud" is taken' in said
    assert {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()} == written


def files_in(folder: Path) -> dict[str, str]:
    """The text of each file in ``folder``, and of each folder that it has one."""
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else "a folder" for path in folder.rglob("*")}


@pytest.mark.parametrize("in_the_way", ["bascule.yaml.new", "secrets/users.new", "secrets/cloud.password.new"])
@pytest.mark.parametrize("there", [False, True])
def test_of_what_cannot_be_written_whole_nothing_stays_and_the_next_try_goes(
    tmp_path: Path, in_the_way: str, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_text("")
    (tmp_path / "mosquitto.conf").write_text(
        "password_file users\nconnection cloud\naddress b:1\nremote_username u\nremote_password not-a-secret\ntopic # out 1\n"
    )
    folder = tmp_path / "out"
    words = ["convert", str(tmp_path / "mosquitto.conf"), "-o", str(folder / "bascule.yaml"), *(["--force"] if there else [])]
    for name in ("bascule.yaml", "secrets/users", "secrets/cloud.password") if there else ():
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_text("# mine\n")
    (folder / in_the_way / "kept").mkdir(mode=0o700, parents=True)
    before = files_in(folder)

    assert main(words) == 75

    assert f"{folder / 'bascule.yaml'} cannot be written" in capsys.readouterr().err
    assert files_in(folder) == before
    (folder / in_the_way / "kept").rmdir()
    (folder / in_the_way).rmdir()
    assert main(words) == 0
    assert (folder / "secrets/cloud.password").read_text() == "not-a-secret\n"


def test_the_folders_that_it_has_made_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mosquitto.conf").write_text("connection cloud\naddress b:1\nremote_username u\ntopic # out 1\nremote_password p\n")

    def unreadable(path: Path) -> NodeSettings:
        if path.name != "bascule.yaml.new":
            return load(path)
        assert (tmp_path / "new" / "out" / "secrets" / "cloud.password").exists()
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("supervisor.config.loading.load", unreadable)

    assert main(["convert", str(tmp_path / "mosquitto.conf"), "-o", str(tmp_path / "new" / "out" / "bascule.yaml")]) == 75

    assert set(files_in(tmp_path)) == {"mosquitto.conf"}


@pytest.mark.parametrize("text", ["<hivemq>", "\0\x1b[31m\n", "connection\ntopic\nlistener\n", "listener 0\nport x\naddress\n"])
def test_whatever_it_is_given_it_says_what_is_wrong(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.conf").write_text(text)
    assert main(["convert", str(tmp_path / "odd.conf"), "-o", str(tmp_path / "out.yaml")]) in (3, 78)
    assert "odd.conf:" in capsys.readouterr().err


VALUES = (
    *("", "true", "0", "-1", "99999999999", "5 10 15", "mqttv50", "tlsv1.3", "/etc/passwd", "none", "b:1 ::1:2", "a/# in 1 x/ y"),
    *("# both 2 a_ b_", "+/b out 2", "websockets", "x\x01y", "${x}", "1884 127.0.0.1", "8883", "14d", "all", '"" out 1 a b'),
)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_it_is_given_what_comes_of_it_holds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = ""
    for _ in range(chance.randint(1, 25)):
        name = chance.choice([*OPTIONS, *["topic"] * 20, *["connection", "listener", "address"] * 6])
        value = {"connection": f"c{chance.randint(0, 5)}", "listener": f"2000{chance.randint(0, 9)}"}.get(
            name, chance.choice(VALUES)
        )
        text += f"{name} {value}\n"
    written(tmp_path, text)


def test_every_key_of_the_tables_is_one_of_ours() -> None:
    keys = {key for key, _ in each_setting()} | {"bridges[].local_subscriptions", "access.acl"}
    options = (*NODE_OPTIONS, *ACCESS_OPTIONS, *LISTENER_OPTIONS, *BRIDGE_OPTIONS, *HIVEMQ_EDGE_OPTIONS)
    assert {option.key for option in options if option.key} - keys == set()
    assert all(option.says for option in options if option.fate is not Fate.KEY)
    names = [option.name for option in options]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("", LinkStateSettings()),
        ("notifications true", LinkStateSettings()),
        ("notifications false\nnotification_topic bridge/state", None),
        ("notifications_local_only true", LinkStateSettings(remote=False)),
        ("notification_topic bridge/state", LinkStateSettings(topic="bridge/state")),
    ],
)
def test_the_link_is_told_where_mosquitto_told_it(tmp_path: Path, lines: str, told: LinkStateSettings | None) -> None:
    (bridge,) = written(tmp_path, f"connection a\naddress b:1\ntopic # out 1\n{lines}\n", 0).bridges
    assert bridge.link_state == told


def test_a_bridge_can_be_added_to_what_was_converted_as_to_a_first_configuration(tmp_path: Path) -> None:
    config = tmp_path / "bascule.yaml"
    config.write_text(write_first(FirstAnswers(name="edge", data_dir="data", bind="127.0.0.1:1883")))
    (tmp_path / "mosquitto.conf").write_text("connection a\naddress b:1\ntopic # out 1\n")

    north = "bridges: [{name: north, remote: {addresses: [mqtt://b], client_id: c}, local_subscriptions: [{filters: [a]}]}]"
    for wanted in (["north"], ["a", "north"]):
        place, settings = settings_with(config, "north", north)

        assert (place, [bridge.name for bridge in settings.bridges]) == (tmp_path / "bridges.d" / "north.yaml", wanted)
        assert main(["convert", str(tmp_path / "mosquitto.conf"), "-o", str(config), "--force"]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to a group")
def test_the_service_of_a_package_can_read_the_secrets_that_root_converts(tmp_path: Path) -> None:
    (tmp_path / "mosquitto.conf").write_text(
        "connection a\naddress b:1\nremote_username u\nremote_password not-a-secret\ntopic # out 1\n"
    )
    folder = tmp_path / "secrets"
    folder.mkdir()
    os.chown(folder, 0, 1)
    folder.chmod(0o750)

    assert main(["convert", str(tmp_path / "mosquitto.conf"), "-o", str(tmp_path / "bascule.yaml")]) == 0

    found = (folder / "a.password").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 1, 0o640)
