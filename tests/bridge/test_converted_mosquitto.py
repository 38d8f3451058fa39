"""Mosquitto with its file, and a node with what ``bascule convert`` makes of it, side by side: each before remotes of its own.

What is published at either end comes to the other under the same topic, with the same QoS and RETAIN. The files run whole: ports,
addresses and folders are others (``moved_files.py``), and what they name is made here. ``BASCULE_BENCH_MOSQUITTO21`` may name a
mosquitto 2.1, with which they are done again.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.config.loading import load
from tests.support.authority import Authority
from tests.support.mosquitto import Mosquitto, program
from tests.support.moved_files import (
    Connection,
    connections_of,
    for_version_2_0,
    listeners_of,
    moved,
    run_by_root,
    with_own,
)
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import Node
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_still, wait_until

CONFIGS = Path(__file__).parents[1] / "supervisor" / "convert" / "configs"
PLUGINS = os.environ.get("BASCULE_BENCH_MOSQUITTO21_PLUGIN", "")
Came = dict[tuple[str, bytes, bool], list[int]]  # topic, payload and RETAIN: the QoS of each time

# Several at a time: most of it is waiting.
TOGETHER = [
    ("01-debian-default", "02-both-whole", "03-cloud-over-tls", "04-client-certificate-to-iot-cloud"),
    ("05-fleet-with-prefixes", "06-one-topic-renamed", "07-system-authorities", "08-failover"),
    ("14-mesh-of-five", "15-prefix-inside-a-level", "16-mqtt-5"),
    ("17-overlapping-topics", "21-topics-with-signs", "22-device-agent", "23-power-station"),
    ("24-home-automation", "25-things-api", "26-radio-add-on", "27-agent-on-a-gateway", "28-messages-by-phone"),
]
NO_RIGHT = re.compile(r"^(topic deny a/#/b|whatever x)$", re.MULTILINE)  # Mosquitto does not start with it
WITHOUT_BRIDGE = ("09-per-listener", "10-mutual-tls", "13-constrained-device", "19-acl-and-users", "20-plug-ins-of-2.1")
NOT_RUN = {
    "11-pre-shared-keys": "pre-shared keys are spoken to remotes alone, and with Python 3.13",
    "12-plug-in-decides": "a plug-in that is not there decides who comes in; Mosquitto does not start without it",
    "18-lazy-and-wrong": "Mosquitto does not start with what is wrong in it",
}

PEOPLE = [
    (None, None),
    ("operator", "of operator"),
    ("pump-7", "of pump-7"),
    ("pump-7", "wrong"),
    ("ada", "of ada"),
    ("nobody", "x"),
]
TOPICS = (
    *("public/a", "any/thing", "secret/x", "garden/zone1/t", "garden/zone1/control/a", "plant/a", "100%/x", "ada/50%/x", "a/x/b"),
    *("device/pump-7/state", "device/other/state", "device/pump-7/8883-pump-7-of pump-7/command", "device/pump-7/c/command"),
)
CERTIFIED = ("operator", "pump-7")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at a listener: its port in the file, a name, a password; with a certificate the name is the certificate's."""

    listener: str
    name: str | None
    password: str | None
    certified: bool = False

    def client(self, port: int, certificates: Path, *, encrypts: bool) -> MqttClient:
        """A client of the broker at ``port``."""
        tls = ssl.create_default_context(cafile=str(certificates / "ca.pem")) if encrypts else None
        if tls is not None and self.certified:
            tls.load_cert_chain(certificates / f"{self.name}.pem", certificates / f"{self.name}.key")
        username, password = (None, None) if self.certified else (self.name, self.password)
        name = f"{self.listener}-{self.name}-{self.password}"
        return MqttClient(port, name, username=username, password=password, keep_alive_s=60, tls=tls)


@dataclass(slots=True)
class Site:
    """A file in a folder of its own, which one of both runs, and its remotes: by the address in the file."""

    name: str
    folder: Path
    path: str | None
    listeners: dict[str, str] = field(default_factory=dict)  # the lines of each, by its port in the file
    ports: dict[str, int] = field(default_factory=dict)  # where they are here
    remotes: dict[str, Mosquitto] = field(default_factory=dict)
    plain: dict[str, int] = field(default_factory=dict)  # where a test's own clients connect to them
    reads: dict[str, Subscriber] = field(default_factory=dict)

    def prepare(self, stack: ExitStack, certificates: Path, *, for_mosquitto: bool) -> None:
        """Write the files, moved, and start the remotes."""
        shutil.copytree(CONFIGS, self.folder)
        shutil.copytree(certificates, self.folder / "certs", symlinks=True)
        self.listeners = listeners_of(self.texts().values())
        self.ports = {port: free_port() for port in self.listeners}
        for connection in self.connections():
            self._start_remote(stack, connection, certificates)
        for file, text in self.texts().items():
            here = moved(text if self.path else for_version_2_0(text), str(self.folder), self.ports, self._port_of)
            file.write_text(with_own(here, str(self.folder / "certs"), os.path.dirname(PLUGINS)) if for_mosquitto else here)
        for file in (self.folder / "passwd", self.folder / "passwd-old"):
            for user in re.findall(r"^([^:]*):\$7\$", file.read_text(), re.MULTILINE):
                words = [program("mosquitto_passwd"), "-b", str(file), user, f"of {user}"]
                subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S)
        odd = self.folder / "acl-odd"
        odd.write_text(NO_RIGHT.sub("", odd.read_text()))

    @property
    def port(self) -> int:
        """The port of its first listener."""
        return next(iter(self.ports.values()))

    @property
    def per_listener(self) -> bool:
        """Whether each listener has an access of its own."""
        return any("per_listener_settings true" in text for text in self.texts().values())

    @property
    def user(self) -> str | None:
        """Who may do everything here."""
        return "operator" if any("allow_anonymous false" in text for text in self.texts().values()) else None

    def texts(self) -> dict[Path, str]:
        """The file, and those that it includes."""
        files = [self.folder / f"{self.name}.conf"]
        if "include_dir" in files[0].read_text():
            files += sorted((self.folder / "conf.d").iterdir())
        return {file: file.read_text() for file in files}

    def connections(self) -> list[Connection]:
        """Those of its files."""
        return connections_of(self.texts().values())

    def mosquitto(self) -> Mosquitto:
        """The Mosquitto that runs it."""
        text = (self.folder / f"{self.name}.conf").read_text()
        return Mosquitto(self.folder, whole=run_by_root(text) if os.geteuid() == 0 else text, port=self.port, path=self.path)

    def node(self) -> Node:
        """The node that runs what it becomes."""
        node = Node({}, self.folder / "node")
        node.port = self.port
        assert main(["convert", str(self.folder / f"{self.name}.conf"), "-o", str(node.config_path), "--force"]) in (0, 3)
        written = node.config_path.read_text()  # where no listener is named, both have one
        written += "\nsupervision: {placement: together}\n"  # several nodes run at once
        node.config_path.write_text(written.replace('"127.0.0.1:1883"', f'"127.0.0.1:{self.port}"'))
        return node

    def let_in(self, stack: ExitStack, certificates: Path) -> dict[Person, MqttClient]:
        """Those who are, subscribed to each topic."""
        found = {}
        for listener, lines in self.listeners.items():
            encrypts, is_web = "certfile" in lines, "protocol websockets" in lines
            text = lines if self.per_listener else "".join(self.texts().values())
            proves = "password_file" in text or "require_certificate" in text  # names, which count for nothing here elsewhere
            for name, password in () if is_web else PEOPLE if proves else PEOPLE[:1]:
                person = Person(listener, name, password, certified=encrypts and name in CERTIFIED)
                client = person.client(self.ports[listener], certificates, encrypts=encrypts)
                stack.callback(client.close)
                try:
                    if client.connect().reason_code != 0:
                        continue
                except OSError:
                    continue  # no certificate that it takes
                client.subscribe(*TOPICS)
                found[person] = client
        return found

    def read(self, stack: ExitStack) -> None:
        """Read all that comes to the site, and to each remote."""
        self.reads["here"] = stack.enter_context(
            Subscriber(self.port, "#", version=5, username=self.user, password="of operator" if self.user else None)
        )
        for name, port in self.plain.items():
            self.reads[name] = stack.enter_context(Subscriber(port, "#", version=5))

    def publish(self) -> None:
        """Publish at the site and at each remote what their lines take, at each QoS."""
        connections = self.connections()
        self._publish("here", self.port, self.user, [topic for one in connections for topic in one.topics("out")])
        for (place, port), connection in zip(self.plain.items(), connections, strict=True):
            self._publish(place, port, None, connection.topics("in"))

    def _publish(self, place: str, port: int, user: str | None, topics: list[str]) -> None:
        with MqttClient(port, "publisher", username=user, password="of operator" if user else None) as client:
            for topic in dict.fromkeys(topics):
                for qos, retain in ((0, False), (1, False), (2, False), (1, True)):
                    publish(client, topic, f"from {place} {qos}{retain}", qos=qos, retain=retain)
            client.disconnect()

    def _port_of(self, address: str) -> int:
        return self.remotes[address].port if address in self.remotes else free_port()  # nobody is at a second address

    def _start_remote(self, stack: ExitStack, connection: Connection, certificates: Path) -> None:
        plain, user = free_port(), connection.last("remote_username", "username")
        secret = connection.last("remote_password", "password")  # a token has none
        lines = [f"listener {plain} 127.0.0.1", "allow_anonymous true"]
        if connection.last("bridge_certfile"):
            lines = [f"cafile {certificates / 'ca.pem'}", "require_certificate true", *lines]
        remote = Mosquitto(
            self.folder / f"remote-{len(self.remotes)}",
            users={user: secret} if secret else None,
            certificate=(certificates / "server.pem", certificates / "server.key") if connection.encrypts else None,
            lines=lines,
            path=self.path,
        )
        self.remotes[connection.address] = stack.enter_context(remote)
        self.plain[connection.address] = plain


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, and pairs of a server and a client; as a folder of authorities, too."""
    authority = Authority(tmp_path_factory.mktemp("certs"))
    authority.issue("server")
    authority.issue("client")
    for user in CERTIFIED:
        authority.issue(user, f"/CN={user}")
    authority.revoke()
    subprocess.run(["openssl", "rehash", str(authority.folder)], check=True, capture_output=True, timeout=PATIENCE_S)
    return authority.folder


def test_each_file_is_run_or_says_why_not() -> None:
    run = {name for names in TOGETHER for name in names}
    assert run | {*WITHOUT_BRIDGE} | NOT_RUN.keys() == {file.stem for file in CONFIGS.glob("*.conf")}


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: "+".join(name[:2] for name in names))
def test_each_message_goes_where_mosquitto_sent_it(
    tmp_path: Path, certificates: Path, mosquitto_path: str | None, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))  # the system's authorities
    with ExitStack() as stack:
        pairs = [side_by_side(stack, tmp_path / name, name, mosquitto_path, certificates) for name in names]
        for (theirs, front), (_, node) in pairs:
            node.wait_ready()
            wait_bridged(front, node, theirs.connections())
        for (theirs, _), (ours, _) in pairs:
            for site in (theirs, ours):
                site.read(stack)
                site.publish()

        wait_until(
            lambda: all(differing(theirs, ours) == [] for (theirs, _), (ours, _) in pairs),
            PATIENCE_S,
            lambda: f"the same comes from both: {[differing(theirs, ours) for (theirs, _), (ours, _) in pairs]}",
            period_s=0.1,
        )
        sites = [site for pair in pairs for site, _ in pair]
        wait_still(lambda: sum(reader.count() for site in sites for reader in site.reads.values()), period_s=0.7)
        for (theirs, _), (ours, _) in pairs:
            for where, reader in ours.reads.items():
                here, there = came(reader), came(theirs.reads[where])
                assert best(here, where) == best(there, where), f"{ours.name}, at {where}"
                assert best(here, ""), f"{ours.name}: something has come at {where}"
                more = [key for key, times in here.items() if len(times) > len(there[key])]
                assert more == [], f"{ours.name}, at {where}: nothing comes more often"
        for site in sites:
            for reader in site.reads.values():
                reader.end()


def test_each_client_may_do_what_mosquitto_let_it(tmp_path: Path, certificates: Path, mosquitto_path: str | None) -> None:
    """Who is let in at each listener, what of which publisher arrives, and at whom."""
    with ExitStack() as stack:
        names = [
            name for name in (*WITHOUT_BRIDGE, "03-cloud-over-tls") if name != "20-plug-ins-of-2.1" or (mosquitto_path and PLUGINS)
        ]
        pairs = [side_by_side(stack, tmp_path / name, name, mosquitto_path, certificates) for name in names]
        for _, (_, node) in pairs:
            node.wait_ready()
        sites = [site for pair in pairs for site, _ in pair]
        clients = [site.let_in(stack, certificates) for site in sites]
        came: list[set[tuple[Person, str, bytes]]] = [set() for _ in sites]
        for known in clients:
            for person, client in known.items():
                for topic in TOPICS:
                    client.publish(topic, f"{person.listener} {person.name}")

        def count() -> int:
            for known, found in zip(clients, came, strict=True):
                found |= {(person, one.topic, one.payload) for person, client in known.items() for one in client.drain()}
            return sum(map(len, came))

        wait_until(
            lambda: count() and all(came[2 * place] == came[2 * place + 1] for place in range(len(names))),
            PATIENCE_S,
            lambda: f"the same comes from both: {[came[2 * place] ^ came[2 * place + 1] for place in range(len(names))]}",
        )
        wait_still(count)
        for place, name in enumerate(names):
            assert clients[2 * place + 1].keys() == clients[2 * place].keys(), f"{name}: the same are let in"
            assert came[2 * place + 1] == came[2 * place], name
            assert came[2 * place], f"{name}: something has come"


def side_by_side(
    stack: ExitStack, folder: Path, name: str, path: str | None, certificates: Path
) -> tuple[tuple[Site, Mosquitto], tuple[Site, Node]]:
    """A Mosquitto with the file ``name``, and a node with what it becomes, which is being started."""
    folder.mkdir(mode=0o700)
    theirs, ours = Site(name, folder / "theirs", path), Site(name, folder / "ours", path)
    theirs.prepare(stack, certificates, for_mosquitto=True)
    ours.prepare(stack, certificates, for_mosquitto=False)
    front, node = theirs.mosquitto(), ours.node()
    node.spawn()
    stack.callback(node.kill_supervisor)
    stack.enter_context(front)
    return (theirs, front), (ours, node)


def wait_bridged(front: Mosquitto, node: Node, connections: list[Connection]) -> None:
    """All bridges are connected, and have their subscriptions at their remotes."""
    subscribes = sum(one.count("in") for one in connections)
    wait_until(
        lambda: front.log.count("Received SUBACK") >= subscribes and front.log.count("Received CONNACK") >= len(connections),
        PATIENCE_S,
        lambda: front.log,
    )
    for bridge in load(node.config_path).bridges:
        node.wait_lane(bridge.name, state="connected")
        if bridge.remote_subscriptions:
            wait_until(lambda name=bridge.name: is_subscribed(node, name), PATIENCE_S, f"subscriptions of {bridge.name}")  # type: ignore[misc]


def is_subscribed(node: Node, bridge: str) -> bool:
    """Whether the remote has granted every filter."""
    figures = node.lane(bridge)["remote_subscriptions"]
    return bool(figures and figures["granted"] == figures["filters"])


def came(reader: Subscriber) -> Came:
    """What ``reader`` was sent of what was published here; the state of a link and Mosquitto's figures are not."""
    found: Came = {}
    for one in reader.packets:
        if one.payload.startswith(b"from "):
            found.setdefault((one.topic, one.payload, one.retain), []).append(one.qos)
    return found


def differing(theirs: Site, ours: Site) -> list[str]:
    """Where not the same has come from both, or nothing yet."""
    found = {where: (came(reader), came(theirs.reads[where])) for where, reader in ours.reads.items()}
    return [
        f"{ours.name}, at {where}" for where, (here, there) in found.items() if not here or best(here, where) != best(there, where)
    ]


def best(found: Came, where: str) -> dict[tuple[str, bytes, bool], int]:
    """The highest QoS of each: Mosquitto sends a message once for each line that takes it.

    Without those that were published at ``where``: to a remote that is not told of a bridge Mosquitto's go, and come back.
    """
    return {key: max(times) for key, times in found.items() if not where or not key[1].startswith(f"from {where} ".encode())}
