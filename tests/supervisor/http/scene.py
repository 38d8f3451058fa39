"""A node as an operator meets it on a bad day, with its page: one bridge cannot log in, one has dead letters, one lags behind.

``Scene`` is for the page's tests and for the manual's pictures (``scripts/page-pictures``). Its remotes are real Mosquittos.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_S, wait_until

NODE = "plant-7"
FORBIDDEN = "plant/recipe"
BURST = 200


class Scene:
    """The node, its page at ``url``, and the remotes of its bridges; ``http`` has keys of the node's configuration besides.

    ``cloud`` takes everything but what ``forbid`` names. ``lab`` has the wrong password. ``archive`` takes temperatures and counts.
    ``cloud_link`` and ``archive_link`` are the ways to those two, which can be cut and delayed.
    """

    def __init__(self, folder: Path, **http: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._acl = folder / "acl"
        http_port = free_port()
        self.url = f"http://127.0.0.1:{http_port}/"
        self.cloud = Mosquitto(folder / "cloud", lines=[f"acl_file {self._acl}"])
        self.forbid(FORBIDDEN)
        self.lab = Mosquitto(folder / "lab", users={NODE: "right"})
        self.archive = Mosquitto(folder / "archive")
        self.cloud_link = Proxy(self.cloud.port)
        self.archive_link = Proxy(self.archive.port)
        secret = folder / "lab.password"
        secret.write_text("wrong\n")
        secret.chmod(0o600)
        login = {"username": NODE, "password_file": str(secret)}
        lasting = {"initial": "2s", "max": "8s"}
        self._bridges = [
            bridge_config("cloud", self.cloud_link.port, protocol="mqtt5"),
            bridge_config(
                "lab", self.lab.port, protocol="mqtt5", remote=login, backoff=lasting, local_subscriptions=[{"filters": ["line/#"]}]
            ),
            bridge_config("archive", self.archive_link.port, local_subscriptions=[{"filters": ["plant/+/temperature", "line/#"]}]),
        ]
        self._keys: dict[str, Any] = {
            "node": {"name": NODE, "data_dir": str(folder / "data")},
            "http": {"bind": f"127.0.0.1:{http_port}", **http},
        }
        self.node = Node(node_config(*self._bridges, **self._keys), folder / "node", data_dir=folder / "data")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            for part in (self.cloud, self.lab, self.archive, self.cloud_link, self.archive_link, self.node):
                self._stack.enter_context(part)
            wait_until(self._served, PATIENCE_S, "the HTTP interface is ready", period_s=0.1)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def configure(self, *more: Config) -> None:
        """Write the configuration anew, with ``more`` bridges."""
        self.node.configure(node_config(*self._bridges, *more, **self._keys))

    def forbid(self, *topics: str) -> None:
        """Have the remote ``cloud`` refuse messages of ``topics``, and take all others."""
        self._acl.write_text("".join(f"topic deny {topic}\n" for topic in topics) + "topic readwrite #\n")
        if self.cloud.runs:
            self.cloud.reread()

    def publish(self, topic: str, *payloads: str) -> None:
        """Publish with QoS 1, and wait for the acknowledgements."""
        with MqttClient(self.node.port, "press-4", version=5) as client:
            for start in range(0, len(payloads), BURST):
                part = payloads[start : start + BURST]
                for number, payload in enumerate(part, start=1):
                    client.publish(topic, payload, qos=1, packet_id=number)
                for number in range(1, len(part) + 1):
                    client.expect(PUBACK, packet_id=number)

    def _served(self) -> bool:
        return any(row["name"] == "http" and row["state"] == "ready" for row in self.node.status()["processes"])
