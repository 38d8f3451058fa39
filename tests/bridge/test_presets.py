"""Presets tried: a remote that enforces what each cloud documents has nothing to complain of, and real brokers take all of theirs.

The remote closes the connection on a violation, and it is noted. AWS IoT Core is reached over TLS with its ALPN.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.config.presets import PRESETS, preset, to_fill_in
from tests.conftest import StartNode
from tests.support.authority import Authority
from tests.support.fake_remote import FakeRemote
from tests.support.foreign_brokers import ForeignBroker, NatsMqtt, RabbitMq
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.mqtt_packets import Packet
from tests.support.node import Config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

BURST = 150
LATE = 1.2  # on a busy machine packets are read late, and then many at once
KIB = 1024


@dataclass
class Documented:
    """What a cloud documents, and what was seen against it."""

    payload_bytes: int
    per_s: int | None = None
    bytes_per_s: int | None = None
    qos: int = 1
    retains: bool = False
    slashes: int = 255
    topic_bytes: int = 65_535
    topics: str = ""
    alpn: str = ""
    seen: list[str] = field(default_factory=list)
    came: list[tuple[float, int]] = field(default_factory=list)

    def is_broken_by(self, packet: Packet) -> bool:
        """Whether the cloud would close the connection."""
        now_s = time.monotonic()
        self.came = [(at_s, size) for at_s, size in self.came if now_s - at_s < 1.0] + [(now_s, len(packet.payload))]
        found = {
            f"QoS {packet.qos}": packet.qos > self.qos,
            "RETAIN": packet.retain and not self.retains,
            f"{len(packet.payload)} bytes": len(packet.payload) > self.payload_bytes,
            f"{packet.topic[:30]}: too deep": packet.topic.count("/") > self.slashes,
            f"{packet.topic[:30]}: too long": len(packet.topic.encode()) > self.topic_bytes,
            f"{packet.topic[:30]}: another topic": not packet.topic.startswith(self.topics),
            f"{len(self.came)} in a second": self.per_s is not None and len(self.came) > self.per_s * LATE,
            "bytes in a second": self.bytes_per_s is not None and sum(size for _, size in self.came) > self.bytes_per_s * LATE,
        }
        broken = [what for what, is_so in found.items() if is_so]
        self.seen += broken
        return bool(broken)


CLOUDS: dict[str, Callable[[], Documented]] = {
    "aws-iot": lambda: Documented(128 * KIB, 100, 512_000, slashes=7, topic_bytes=256, alpn="x-amzn-mqtt-ca"),
    "azure-event-grid": lambda: Documented(512 * KIB, 1000, 1_000_000, slashes=14, topic_bytes=256),
    "azure-iot-hub": lambda: Documented(256 * KIB, 100, topics="devices/edge-1/messages/events/"),
    "hivemq-cloud": lambda: Documented(256 * KIB * KIB, qos=2, retains=True),
    "emqx": lambda: Documented(1_000_000, 10, qos=2, retains=True),
}


@contextmanager
def tls_before(port: int, certificate: tuple[Path, Path], limits: Documented) -> Iterator[int]:
    """A port by which TLS, with the ALPN that is documented, comes to ``port``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if limits.alpn:
        context.set_alpn_protocols([limits.alpn])
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = [server]

    def pass_on(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            sink.close()

    def serve() -> None:
        while server.fileno() >= 0:
            try:
                near = context.wrap_socket(server.accept()[0], server_side=True)
                if limits.alpn and near.selected_alpn_protocol() != limits.alpn:
                    limits.seen.append(f"ALPN {near.selected_alpn_protocol()}")
                far = socket.create_connection(("127.0.0.1", port))
            except OSError:
                continue
            held.extend((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pass_on, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        for one in held:
            one.close()


def filled(name: str, port: int, filters: str, **remote: Any) -> Config:
    """The bridge of the preset, called as that, with the remote at ``port``."""
    text = preset(name, bridge=name, client_id="edge-1", filters=[filters]).replace("YOUR-DEVICE", "edge-1")
    (bridge,) = yaml.safe_load(text)["bridges"]
    bridge["remote"] |= {"addresses": [f"127.0.0.1:{port}"], **remote}
    return bridge  # type: ignore[no-any-return]


def wait_delivered(remote: FakeRemote, count: int, name: str, limits: Documented) -> None:
    wait_until(lambda: len(remote.delivered) >= count, 60.0, lambda: f"{name}: {len(remote.delivered)} of {count}; {limits.seen}")


def test_no_cloud_has_anything_to_complain_of(tmp_path: Path, start_node: StartNode) -> None:
    """QoS 2, RETAIN, a deep topic, a burst and a message that is too large for one of them: what a cloud takes, it gets."""
    authority = Authority(tmp_path / "ca")
    certificate = authority.issue("127.0.0.1")
    secrets = tmp_path / "secrets"
    with ExitStack() as stack:
        bridges, remotes, documented = [], {}, {name: make() for name, make in CLOUDS.items()}
        for name, limits in documented.items():
            remote = remotes[name] = stack.enter_context(FakeRemote())
            remote.closes_on = limits.is_broken_by
            port = stack.enter_context(tls_before(remote.port, certificate, limits))
            bridge = filled(name, port, "few/#" if name == "emqx" else "#")
            tls = bridge["remote"].get("tls", {})
            assert (tls.get("alpn") or [""])[0] == limits.alpn
            own = {"cert_file": str(certificate[0]), "key_file": str(certificate[1])} if "cert_file" in tls else {}
            bridge["remote"]["tls"] = {**tls, **own, "ca_file": str(authority.ca_file)}
            secret = secrets / f"{name}.secret"
            secrets.mkdir(mode=0o700, exist_ok=True)
            secret.touch(mode=0o600)
            secret.write_text("secret\n")
            bridge["remote"].update({"password_file": str(secret)} if "password_file" in bridge["remote"] else {})
            bridges.append(bridge)
        node = start_node(node_config(*bridges))
        with MqttClient(node.port, version=5) as client:
            publish(client, "few/0", "0", qos=0)
            publish(client, "few/1", *(f"{number}" for number in range(15)), qos=2)
            publish(client, "few/kept", "kept", qos=1, retain=True)
            for levels in (9, 15, 16):
                publish(client, "/".join(map(str, range(levels))), "deep", qos=1)
            publish(client, "large", "x" * (200 * KIB), qos=1)
            publish(client, "many", *(f"{number}" for number in range(BURST)), qos=1)
        few, all_of_them = 17, 17 + 4 + BURST
        wanted = {"aws-iot": all_of_them - 4, "azure-event-grid": all_of_them - 1, "emqx": few}
        for name, remote in remotes.items():
            count = wanted.get(name, all_of_them)
            wait_delivered(remote, count, name, documented[name])
            lane = node.wait_lane(name, depth=0)
            assert lane["dead_lettered"] == (1 if name == "aws-iot" else 0), name
            assert lane["ledger_closes"]
    assert {name: limits.seen for name, limits in documented.items()} == {name: [] for name in CLOUDS}


REAL: dict[str, type[ForeignBroker]] = {"nats": NatsMqtt, "rabbitmq": RabbitMq}


@pytest.mark.parametrize("name", ["mosquitto", "nats", pytest.param("rabbitmq", marks=pytest.mark.soak)])
def test_a_real_broker_takes_all_of_its_preset(name: str, tmp_path: Path, start_node: StartNode) -> None:
    with REAL[name](tmp_path / "remote") if name in REAL else Mosquitto(tmp_path / "remote") as remote:
        bridge = filled(name, remote.port, "#")
        for key in ("username", "password_file"):
            del bridge["remote"][key]
        node = start_node(node_config(bridge))
        with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port) as client:
            wanted: Counter[str] = Counter()
            for qos in (0, 1, 2):
                payloads = [f"{qos} {number}" for number in range(20)]
                publish(client, f"t/{qos}", *payloads, qos=qos)
                wanted.update(payloads)
            wait_until(lambda: subscriber.count() >= wanted.total(), 30.0, lambda: f"{subscriber.count()}")
            assert Counter(packet.payload.decode() for packet in subscriber.packets) == wanted
        assert node.wait_lane(name, depth=0)["ledger_closes"]


def test_each_preset_says_what_is_to_be_filled_in() -> None:
    for name in PRESETS:
        found = to_fill_in(preset(name, bridge="cloud", client_id="edge-1", filters=["#"]))
        assert any(word.startswith("YOUR-") for word in found), name
        assert any(word.startswith("secrets/cloud.") for word in found), name
