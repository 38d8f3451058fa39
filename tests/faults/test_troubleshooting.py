"""Each fault of the troubleshooting guide, planted alone: doctor says what the guide says, with that cure.

Faults of bridges share one node, each on a bridge of its own; so do those of clients.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.access.password_hashes import hash_password
from supervisor.config.loading import load
from supervisor.doctor.examination import examine
from supervisor.doctor.findings import Finding
from supervisor.doctor.running_node import ask
from tests.faults.fault_table import PLANTED, plants, rows, told
from tests.faults.test_clock_and_descriptors import crowd, descriptors, limit_descriptors
from tests.faults.test_damaged_node import damage_current_and_manifest
from tests.faults.test_disk_faults import FaultyNode
from tests.faults.test_disk_faults import shim as shim
from tests.supervisor.http.client import request
from tests.supervisor.http.served import write_tokens
from tests.support.authority import Authority, Pair, tls_keys
from tests.support.fake_remote import FakeRemote
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import MAXIMUM_PACKET_SIZE, SESSION_EXPIRY, USER_PROPERTY
from tests.support.node import Config, Node, bascule, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.shim import NO_SPACE
from tests.support.waiting import PATIENCE_S, wait_until
from wire.frames.placement import SITE

Look = Callable[[], list[Finding]]
NOT_AUTHORIZED, QUOTA_EXCEEDED = 0x87, 0x97
HOPS = (USER_PROPERTY, ("bascule-hops", "1"))


def test_each_row_of_the_guide_has_a_test_and_each_test_a_row() -> None:
    assert set(rows()) == set(PLANTED)
    assert len(rows()) >= 30


# --- ports behind which something is wrong ---


@contextmanager
def port_that(answers: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose connections get what ``answers`` does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                try:
                    answers(sock)
                except OSError:
                    sock.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def speaks_http(sock: socket.socket) -> None:
    sock.settimeout(PATIENCE_S)
    sock.recv(1000)
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65_536):  # closed over what is unread, it would be reset, and perhaps before the answer is read
        pass
    sock.close()


def knows_3_1_1_only(sock: socket.socket) -> None:
    sock.settimeout(PATIENCE_S)
    level = sock.recv(1000)[8]
    if level == 4:
        sock.sendall(bytes.fromhex("20020000"))
        sock.recv(1000)
    sock.close()


def tls_of(pair: Pair) -> Callable[[socket.socket], None]:
    """A server that shows the certificate ``pair``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert_file, pair.key_file)

    def answer(sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        context.wrap_socket(sock, server_side=True).close()

    return answer


# --- bridges: one node, each fault on a bridge of its own ---


class Links:
    """The node, its bridges' remotes by name, and what doctor says of it."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        self.stack = stack
        self.remotes: dict[str, FakeRemote] = {}
        self.bridges: list[Config] = []
        self.mosquitto = stack.enter_context(Mosquitto(folder / "remote", users={"edge": "right"}))
        self.open = stack.enter_context(Mosquitto(folder / "open"))
        self.silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._add_links()
        self._add_fakes()
        self.http_port = free_port()
        write_tokens(folder / "tokens", "view")
        (folder / "users").write_text(f"ada:{hash_password(b'lovelace')}\n")
        access = {
            "allow_anonymous": True,
            "password_file": str(folder / "users"),
            "acl": [{"permission": "deny", "topics": ["no/#"], "action": "publish"}, {"topics": ["#"]}],
        }
        http = {"bind": f"127.0.0.1:{self.http_port}", "tokens_file": str(folder / "tokens")}
        collector = stack.enter_context(port_that(speaks_http))
        telemetry = {"otlp": {"endpoint": f"http://127.0.0.1:{collector}", "interval": "1s"}}
        config = node_config(*self.bridges, access=access, http=http, telemetry=telemetry)
        self.node = stack.enter_context(Node(config, folder / "edge"))

    def add(self, name: str, port: int, **keys: Any) -> None:
        self.bridges.append(bridge_config(name, port, local_subscriptions=[{"filters": [f"{name}/#"]}], **keys))

    def _add_links(self) -> None:
        secrets = {"wrong": "wrong", "right": "right"}
        for name, text in secrets.items():
            (self.folder / name).write_text(text)
        wrong, right = str(self.folder / "wrong"), str(self.folder / "right")
        self.add("wrong-password", self.mosquitto.port, remote={"username": "edge", "password_file": wrong})
        self.add("unknown-user", self.mosquitto.port, protocol="mqtt5", remote={"username": "egde", "password_file": right})
        ours, theirs = Authority(self.folder / "ours"), Authority(self.folder / "theirs")
        certificates = {
            "expired-certificate": ours.issue("expired", days=-1),
            "wrong-ca": theirs.issue("other"),
            "wrong-host-name": ours.issue("named"),
        }
        for name, pair in certificates.items():
            port = self.stack.enter_context(port_that(tls_of(pair)))
            tls = {"ca_file": str(ours.ca_file), **({"server_name": "cloud.example"} if name == "wrong-host-name" else {})}
            self.add(name, port, remote={"transport": "tls", "tls": tls})
        self.add("dns-fails", 1883, remote={"addresses": ["nowhere.invalid:1883"]})
        self.add("connection-refused", free_port())
        self.add("not-mqtt", self.stack.enter_context(port_that(speaks_http)))
        self.add("hangs", self.silent.getsockname()[1], protocol="mqtt5", remote={"connect_timeout": "1s"})
        self.add("not-tls", self.open.port, remote={"transport": "tls", "tls": {"ca_file": str(ours.ca_file)}})
        self.add("no-password", free_port(), remote={"username": "u", "password_command": ["false"]})
        self.add("twin", self.open.port, protocol="mqtt5")
        self.add("paused", self.open.port)
        self.add("killed", self.open.port)
        self.add("full", free_port(), limits={"max_messages": 2, "overflow": "reject"})
        self.add("oldest", free_port(), limits={"max_messages": 2, "overflow": "drop-oldest"})
        self.add("hops", self.open.port, protocol="mqtt5")
        self.add("circle", self.open.port, protocol="mqtt5", remote_subscriptions=[{"filters": ["circle/#"]}])

    def _add_fakes(self) -> None:
        for name in ("refuses", "quota", "small", "poison", "hole", "shorter"):
            remote = self.remotes[name] = self.stack.enter_context(FakeRemote())
            keys = {"remote": {"keep_alive": "1s", "connect_timeout": "1s"}} if name == "hole" else {}
            self.add(name, remote.port, protocol="mqtt5", **keys)
        self.remotes["refuses"].reason_code = lambda packet: NOT_AUTHORIZED
        self.remotes["quota"].reason_code = lambda packet: QUOTA_EXCEEDED
        self.remotes["small"].properties = [(MAXIMUM_PACKET_SIZE, 200)]
        self.remotes["poison"].closes_on = lambda packet: True
        self.remotes["hole"].stalled = True
        self.remotes["shorter"].properties = [(SESSION_EXPIRY, 60)]

    def __call__(self) -> list[Finding]:
        return list(ask(self.node.config_path, load(self.node.config_path)))

    def publish(self, topic: str, *payloads: str, **keys: Any) -> None:
        with MqttClient(self.node.port, version=5) as client:
            for number, payload in enumerate(payloads, 1):
                client.publish(topic, payload, qos=1, packet_id=number, **keys)
            for _ in payloads:
                client.read()


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Links]:
    with ExitStack() as stack:
        yield Links(stack, tmp_path_factory.mktemp("links"))


@pytest.mark.parametrize(
    "fault",
    [
        "wrong-password",
        "unknown-user",
        "expired-certificate",
        "wrong-ca",
        "wrong-host-name",
        "dns-fails",
        "connection-refused",
        "not-mqtt",
        "hangs",
        "not-tls",
        "no-password",
    ],
)
@plants(
    "wrong-password",
    "unknown-user",
    "expired-certificate",
    "wrong-ca",
    "wrong-host-name",
    "dns-fails",
    "connection-refused",
    "not-mqtt",
    "hangs",
    "not-tls",
    "no-password",
)
def test_a_link_that_does_not_come_up_says_why(fault: str, links: Links) -> None:
    told(fault, links, about=f"bridge {fault}:0")


@plants("shorter-session")
def test_a_remote_that_keeps_the_session_for_a_shorter_time_is_no_failure(links: Links) -> None:
    assert told("shorter-session", links, about="bridge shorter:0").verdict == "warn"


@plants("client-id-twice")
def test_a_client_identifier_that_another_uses_too(links: Links) -> None:
    def look() -> list[Finding]:
        try:
            with MqttClient(links.open.port, "bridge-twin", version=5):
                pass
        except (Closed, ConnectionError):
            pass
        return links()

    told("client-id-twice", look, about="bridge twin:0")


@plants("black-hole")
def test_a_way_that_swallows_everything(links: Links) -> None:
    told("black-hole", links, about="bridge hole:0")


@plants("remote-forbids", "quota-exceeded", "too-large", "poison-message")
@pytest.mark.parametrize(
    ("fault", "bridge", "payload"),
    [
        ("remote-forbids", "refuses", "x"),
        ("quota-exceeded", "quota", "x"),
        ("too-large", "small", "x" * 300),
        ("poison-message", "poison", "x"),
    ],
    ids=["remote-forbids", "quota-exceeded", "too-large", "poison-message"],
)
def test_a_message_that_the_remote_does_not_take(fault: str, bridge: str, payload: str, links: Links) -> None:
    links.publish(f"{bridge}/1", payload)
    told(fault, links, about=f"bridge {bridge}:0")


@plants("paused-and-forgotten")
def test_a_bridge_that_somebody_has_paused(links: Links) -> None:
    assert links.node.cli("bridge", "pause", str(links.node.config_path), "paused").returncode == 0
    links.publish("paused/1", "x")
    told("paused-and-forgotten", links, about="bridge paused:0")


@plants("process-killed", "shared-process-killed")
def test_a_process_that_is_killed_again_and_again(links: Links) -> None:
    old = links.node.kill("bridge", signal.SIGKILL, "killed")
    wait_until(lambda: links.node.find_pid("bridge", "killed") not in (None, old), PATIENCE_S, "a new process")
    process = links.node.place_of("bridge:killed:0")
    told("shared-process-killed" if process == SITE else "process-killed", links, about=process)


@plants("queue-full", "queue-drops")
@pytest.mark.parametrize(("fault", "bridge"), [("queue-full", "full"), ("queue-drops", "oldest")])
def test_a_queue_that_is_full(fault: str, bridge: str, links: Links) -> None:
    links.publish(f"{bridge}/1", "1", "2", "3")
    told(fault, links, about=f"bridge {bridge}:0")


@plants("hop-limit")
def test_a_message_that_has_crossed_enough_bridges(links: Links) -> None:
    links.publish("hops/1", "x", properties=[HOPS])
    told("hop-limit", links)


@plants("loop")
def test_a_message_that_comes_back(links: Links) -> None:
    links.node.wait_lane("circle", state="connected")
    with MqttClient(links.open.port, version=5) as client:
        client.publish("circle/1", "x", qos=1, packet_id=1, properties=[HOPS])
        client.read()
    told("loop", links, about="bridge circle:0")


# --- local clients ---


@plants("acl-forbids")
def test_a_client_that_may_not_publish_there(links: Links) -> None:
    links.publish("no/1", "x")
    told("acl-forbids", links)


@plants("client-login-fails")
def test_a_client_with_a_wrong_password(links: Links) -> None:
    client = MqttClient(links.node.port, "ada", version=5, username="ada", password="wrong")
    assert client.connect().reason_code
    client.close()
    told("client-login-fails", links)


@plants("wrong-token")
def test_a_request_with_a_wrong_token(links: Links) -> None:
    wait_until(lambda: links.node.status()["http"].get("answers") is not None, PATIENCE_S, "the HTTP interface is ready")
    assert request(links.http_port, "/api/v1/status", token="bascule_wrong").status == 401
    told("wrong-token", links, about="http")


@plants("collector-refuses")
def test_a_collector_that_does_not_take_the_metrics(links: Links) -> None:
    told("collector-refuses", links, about="telemetry")


@plants("low-descriptors")
def test_more_clients_than_descriptors(links: Links) -> None:
    clients = links.node.pid("clients")
    before = resource.prlimit(clients, resource.RLIMIT_NOFILE)[0]
    limit_descriptors(clients, descriptors(clients) + 40)
    with crowd(links.node.port, 120):
        told("low-descriptors", links, about="listener")
    limit_descriptors(clients, before)


# --- the node, each on one of its own ---


@plants("port-taken", "http-port-taken")
@pytest.mark.parametrize("fault", ["port-taken", "http-port-taken"])
def test_a_port_that_somebody_else_has(fault: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = node_config()
        if fault == "http-port-taken":
            config["http"] = {"bind": f"127.0.0.1:{port}"}
        node = Node(config, tmp_path)
        if fault == "port-taken":
            node.port = port
            node.configure(config)
        node.spawn()
        try:
            told(fault, lambda: list(ask(node.config_path, load(node.config_path))))
        finally:
            node.kill_supervisor()


@plants("disk-full")
def test_a_disk_that_is_full(shim: Path, tmp_path: Path) -> None:
    with FaultyNode(shim, tmp_path) as faulty:
        faulty.node.start()
        with MqttClient(faulty.node.port, version=5) as client:
            faulty.faults.fail(NO_SPACE, 28)
            client.publish("t", "x", qos=1, packet_id=1)
            told("disk-full", lambda: list(ask(faulty.node.config_path, load(faulty.node.config_path))), about="store")
            faulty.faults.heal()


@plants("store-damaged")
def test_a_store_whose_files_are_damaged(tmp_path: Path) -> None:
    with Node(node_config(bridge_config("cloud", free_port())), tmp_path) as node:
        with MqttClient(node.port, version=5) as client:
            client.publish("t", "x", qos=1, packet_id=1)
            client.read()
        node.kill_supervisor()
        damage_current_and_manifest(node)
        node.start()
        told("store-damaged", lambda: list(ask(node.config_path, load(node.config_path))), about="store")


@plants("orphaned-queue", "clock-set-back")
@pytest.mark.parametrize("fault", ["orphaned-queue", "clock-set-back"])
def test_what_is_found_when_a_node_starts_again(fault: str, tmp_path: Path) -> None:
    with Node(node_config(bridge_config("cloud", free_port())), tmp_path) as node:
        with MqttClient(node.port, version=5) as client:
            client.publish("t", "x", qos=1, packet_id=1)
            client.read()
        node.stop()
        if fault == "orphaned-queue":
            node.configure(node_config())
            node.start()
            told(fault, lambda: list(ask(node.config_path, load(node.config_path))))
        else:
            later_s = time.time() + 86_400  # as if the clock had been right then, and was set back
            file = next((node.data_dir / "store").iterdir())
            os.utime(file, (later_s, later_s))
            told(fault, lambda: list(examine(node.config_path, remotes=False)), about="clock")
            node.start()


@plants("second-node")
def test_two_nodes_in_one_data_folder(tmp_path: Path) -> None:
    with Node(node_config(), tmp_path / "one") as first:
        second = Node(node_config(), tmp_path / "two", data_dir=first.data_dir)
        second.spawn()
        assert second.wait_ended() == 75
        said, _, cure = second.output.strip().splitlines()[-1].partition("; ")
        told("second-node", lambda: [Finding("fail", "node", said, cure.partition(" (")[0])])


# --- what the configuration and the machine say without a node ---


def written(folder: Path, config: Config, **keys: Any) -> Path:
    """The configuration file of a node that does not run."""
    whole = {
        "node": {"name": "edge", "data_dir": str(folder / "data")},
        "listeners": [{"bind": f"127.0.0.1:{free_port()}"}],
        **config,
        **keys,
    }
    path = folder / "bascule.yaml"
    path.write_text(json.dumps(whole))
    return path


def offline(path: Path) -> Look:
    return lambda: list(examine(path, remotes=False))


@plants("syntax-error", "unknown-key")
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("syntax-error", "node: {name: edge\nlisteners: ["),
        ("unknown-key", "node: {nmae: edge}\nlisteners: [{bind: '127.0.0.1:1'}]\n"),
    ],
    ids=["syntax-error", "unknown-key"],
)
def test_a_file_that_is_wrong(fault: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "bascule.yaml"
    path.write_text(text)
    told(fault, offline(path), about="configuration")


@plants("min-free-disk-too-large", "too-much-memory", "rule-takes-nothing", "open-to-everybody", "verify-off")
@pytest.mark.parametrize(
    ("fault", "keys"),
    [
        ("min-free-disk-too-large", {"limits": {"min_free_disk": "900TiB"}}),
        ("too-much-memory", {"bridges": [bridge_config("cloud", 1883, lanes=16, tier2={"max_bytes": "64GiB"})]}),
        (
            "rule-takes-nothing",
            {
                "bridges": [
                    bridge_config(
                        "cloud",
                        1883,
                        local_subscriptions=[{"name": "all", "filters": ["#"]}, {"name": "alarms", "filters": ["a/#"]}],
                    )
                ]
            },
        ),
        ("open-to-everybody", {"listeners": [{"bind": f"0.0.0.0:{free_port()}"}]}),
        ("verify-off", {"bridges": [bridge_config("cloud", 1883, remote={"transport": "tls", "tls": {"verify": False}})]}),
    ],
    ids=["min-free-disk-too-large", "too-much-memory", "rule-takes-nothing", "open-to-everybody", "verify-off"],
)
def test_what_a_file_asks_for_is_looked_at(fault: str, keys: dict[str, Any], tmp_path: Path) -> None:
    told(fault, offline(written(tmp_path, node_config(), **keys)))


@plants("own-certificate-expired")
def test_a_certificate_of_ours_that_has_expired(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("server", days=-1)
    listeners = [{"bind": f"127.0.0.1:{free_port()}", "protocol": "tls", "tls": tls_keys(pair)}]
    told("own-certificate-expired", offline(written(tmp_path, node_config(), listeners=listeners)), about="certificate")


@plants("secret-readable")
def test_a_password_that_everybody_can_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(b64encode(os.urandom(9)).decode())
    secret.chmod(0o644)
    bridge = bridge_config("cloud", 1883, remote={"username": "u", "password_file": str(secret)})
    told("secret-readable", offline(written(tmp_path, node_config(bridge))), about="secret")


@plants("secret-writable")
def test_a_password_that_others_can_replace(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "cloud").write_text("x")
    (tmp_path / "secrets").chmod(0o777)
    bridge = bridge_config("cloud", 1883, remote={"username": "u", "password_file": str(tmp_path / "secrets" / "cloud")})
    told("secret-writable", offline(written(tmp_path, node_config(bridge))), about="configuration")


@plants("disk-forgets")
def test_a_data_folder_that_is_in_memory(tmp_path: Path) -> None:
    config = node_config(node={"name": "edge", "data_dir": f"/dev/shm/bascule-{os.getpid()}"})
    told("disk-forgets", offline(written(tmp_path, {}, **config)), about="file system")


@plants("older-mqtt")
def test_a_remote_that_knows_mqtt_3_1_1_only(tmp_path: Path) -> None:
    with port_that(knows_3_1_1_only) as port:
        path = written(tmp_path, node_config(bridge_config("cloud", port, protocol="mqtt5")))
        told("older-mqtt", lambda: list(examine(path)), about="bridge cloud to")


@plants("no-data-folder")
def test_a_data_folder_that_cannot_be_made(tmp_path: Path) -> None:
    config = node_config(node={"name": "edge", "data_dir": "/proc/bascule"})
    told("no-data-folder", offline(written(tmp_path, {}, **config)), about="data folder")


@plants("few-descriptors")
def test_a_service_that_may_open_few_files(tmp_path: Path) -> None:
    path = written(tmp_path, node_config())
    words = " ".join([*bascule("doctor"), "--offline", "--json", str(path)])
    done = subprocess.run(["sh", "-c", f"ulimit -n 1000; exec {words}"], capture_output=True, text=True, timeout=60, check=False)
    findings = [Finding(**json.loads(line)) for line in done.stdout.splitlines()]
    told("few-descriptors", lambda: findings, about="open files")
