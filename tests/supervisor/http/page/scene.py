"""A node with four bridges and its page, for the page's tests and for the manual's pictures (``scripts/page-pictures``).

One bridge never gets in. On a bad day another one has no remote and hardly any room, and a third is paused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from supervisor.control.client import call
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.placements import ISOLATED
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_S, wait_until

NODE = "plant-7"
FORBIDDEN = "plant/recipe"
BURST = 200
LARGEST = 20_000  # bytes of a packet that ``cloud`` takes
ARCHIVE_MOST = 2_000  # messages that may wait for ``archive``


class Scene:
    """The node, its page at ``url``, and the remotes of its bridges; ``http`` has keys of the node's configuration besides. Bridges
    can be made by request.

    ``cloud`` takes everything but what ``forbid`` names; ``cloud_link`` is the way there, which can be cut. ``lab`` has the wrong
    password. ``archive`` takes temperatures and counts. ``depot`` takes what gates say. All remotes are real Mosquittos.
    """

    def __init__(self, folder: Path, **http: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._acl = folder / "acl"
        http_port = free_port()
        self.url = f"http://127.0.0.1:{http_port}/"
        self.cloud = Mosquitto(folder / "cloud", lines=[f"acl_file {self._acl}", f"max_packet_size {LARGEST}"])
        self.forbid(FORBIDDEN)
        self.lab = Mosquitto(folder / "lab", users={NODE: "right"})
        self.archive = Mosquitto(folder / "archive")
        self.cloud_link = Proxy(self.cloud.port)
        secret = folder / "lab.password"
        secret.write_text("wrong\n")
        secret.chmod(0o600)
        login = {"username": NODE, "password_file": str(secret)}
        lasting = {"initial": "2s", "max": "8s"}

        def bridge(name: str, port: int, *filters: str, **keys: Any) -> Config:
            return bridge_config(name, port, protocol="mqtt5", local_subscriptions=[{"filters": list(filters)}], **keys)

        self._bridges = [
            bridge("cloud", self.cloud_link.port, "#"),
            bridge("lab", self.lab.port, "line/#", remote=login, backoff=lasting),
            bridge("archive", self.archive.port, "plant/+/temperature", "line/#", limits={"max_messages": ARCHIVE_MOST}),
            bridge("depot", self.cloud.port, "gate/#"),
        ]
        self._keys: dict[str, Any] = {
            "node": {"name": NODE, "data_dir": str(folder / "data")},
            "http": {"bind": f"127.0.0.1:{http_port}", **http},
        }
        (folder / "node" / "bridges.d").mkdir(parents=True)
        self.node = Node(self._config(), folder / "node", data_dir=folder / "data")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            for part in (self.cloud, self.lab, self.archive, self.cloud_link, self.node):
                self._stack.enter_context(part)
            wait_until(self._served, PATIENCE_S, "the HTTP interface is ready", period_s=0.1)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @contextmanager
    def bad_day(self, backlog: int) -> Iterator[None]:
        """Meanwhile the remote of ``archive`` is down, ``backlog`` messages wait for it, and ``depot`` is paused with some."""
        run_dir = self.node.data_dir / "run"
        self.archive.stop()
        call(run_dir, "bridge.pause", {"bridge": "depot"})
        try:
            for topic, number in (("gate/open", 12), ("line/4/count", 3), ("plant/1/temperature", backlog)):
                self.publish(topic, *(f"{20 + at % 40 / 10}" for at in range(number)))
            yield
        finally:
            self.archive.start()
            call(run_dir, "bridge.resume", {"bridge": "depot"})

    def _config(self, *more: Config) -> Config:
        """Each bridge has a process of its own, which is killed alone, and which the page shows."""
        return node_config(*self._bridges, *more, placement=ISOLATED, **self._keys) | {"include": ["bridges.d/*.yaml"]}

    def configure(self, *more: Config) -> None:
        """Write the configuration anew, with ``more`` bridges."""
        self.node.configure(self._config(*more))

    def forbid(self, *topics: str) -> None:
        """Have the remote ``cloud`` refuse messages of ``topics``, and take all others."""
        self._acl.write_text("".join(f"topic deny {topic}\n" for topic in topics) + "topic readwrite #\n")
        if self.cloud.runs:
            self.cloud.reread()

    def publish(self, topic: str, *payloads: str, client_id: str = "press-4") -> None:
        """Publish with QoS 1, and wait for the acknowledgements. client_id: another one for who does so at the same time."""
        with MqttClient(self.node.port, client_id, version=5) as client:
            for start in range(0, len(payloads), BURST):
                part = payloads[start : start + BURST]
                for number, payload in enumerate(part, start=1):
                    client.publish(topic, payload, qos=1, packet_id=number)
                for number in range(1, len(part) + 1):
                    client.expect(PUBACK, packet_id=number)

    def _served(self) -> bool:
        return any(row["name"] == "http" and row["state"] == "ready" for row in self.node.status()["processes"])
