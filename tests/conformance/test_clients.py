"""The same scenarios with clients that others wrote: paho-mqtt, mosquitto_pub and mosquitto_sub, MQTT.js.

Each pair of publisher and subscriber passes messages at QoS 1 and 2, retained ones, a Will, and a session that is kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any, Protocol

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.conformance.brokers import Broker
from tests.support.mosquitto import program
from tests.support.nodejs import NODE, node_modules
from tests.support.waiting import PATIENCE_S, wait_until

MQTT_JS = "mqtt@5.10.4"
WAIT_S = PATIENCE_S

_SCRIPT = """
const mqtt = require("mqtt");
const asked = JSON.parse(process.argv[2]);
const client = mqtt.connect(asked.url, {
  clientId: asked.clientId, protocolVersion: asked.version, clean: asked.clean, reconnectPeriod: 0,
  properties: asked.version === 5 && !asked.clean ? { sessionExpiryInterval: 100 } : undefined,
  will: asked.will ? { topic: asked.will, payload: Buffer.from("gone"), qos: 1 } : undefined,
});
const say = (what) => process.stdout.write(JSON.stringify(what) + "\\n");
client.on("error", (error) => { console.error(error); process.exit(1); });
client.on("message", (topic, payload, packet) =>
  say({ topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain }));
client.on("connect", (connack) => {
  if (asked.subscribe) {
    client.subscribe(asked.subscribe, { qos: 2 }, (error) => { if (error) throw error; say("ready"); });
  } else if (asked.publish) {
    Promise.all(asked.publish.map((one) => client.publishAsync(asked.topic, one, { qos: asked.qos, retain: asked.retain })))
      .then(() => client.endAsync()).then(() => say("done"));
  } else { say("ready"); }
});
"""


class Subscriber(Protocol):
    """Subscribes at QoS 2 and tells what comes; ``leave`` ends it, ``vanish`` without DISCONNECT."""

    def take(self, count: int) -> list[str]: ...

    def leave(self) -> None: ...

    def vanish(self) -> None: ...


class Family(Protocol):
    """A client library or program."""

    def publish(self, version: int, topic: str, payloads: list[str], qos: int, *, retain: bool = False) -> None: ...

    def subscribe(self, version: int, topic: str, client_id: str, *, clean: bool = True, will: str | None = None) -> Subscriber: ...


class _Lines:
    """The messages that a program prints, one a line."""

    def __init__(self, words: list[str], cwd: Path, read: Callable[[str], str | None], ready: Callable[[str], bool]) -> None:
        self._path = cwd / f"lines-{time.monotonic_ns()}"
        self._read = read
        self._taken = 0
        with self._path.open("wb") as out:
            self._process = subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        wait_until(lambda: ready(self._text), WAIT_S, lambda: f"{words} is ready:\n{self._text}")

    @property
    def _text(self) -> str:
        return self._path.read_text(errors="replace")

    def take(self, count: int) -> list[str]:
        def found() -> list[str]:
            read = (self._read(line) for line in self._text.split("\n")[:-1])
            return [one for one in read if one is not None][self._taken :]

        wait_until(lambda: len(found()) >= count, WAIT_S, lambda: f"{count} messages:\n{self._text}")
        messages = found()[:count]
        self._taken += count
        return messages

    def leave(self) -> None:
        self._process.terminate()  # both programs DISCONNECT, or their session is kept anyway
        self._process.wait(WAIT_S)

    def vanish(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)


class Programs:
    """mosquitto_pub and mosquitto_sub."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._port, self._folder = broker.port, folder

    def publish(self, version: int, topic: str, payloads: list[str], qos: int, *, retain: bool = False) -> None:
        words = [program("mosquitto_pub"), *self._common(version), "-t", topic, "-q", str(qos), "-l", *(["-r"] if retain else [])]
        done = subprocess.run(words, input="\n".join(payloads) + "\n", capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stderr

    def subscribe(self, version: int, topic: str, client_id: str, *, clean: bool = True, will: str | None = None) -> Subscriber:
        words = [program("mosquitto_sub"), *self._common(version), "-d", "-t", topic, "-q", "2", "-i", client_id, "-F", "=%p"]
        words += [] if clean else ["-c"]  # version 5: it lasts for good
        words += ["--will-topic", will, "--will-payload", "gone", "--will-qos", "1"] if will else []
        words = [shutil.which("stdbuf") or "stdbuf", "-oL", *words]
        return _Lines(
            words, self._folder, lambda line: line[1:] if line.startswith("=") else None, lambda text: "Subscribed (mid: 1)" in text
        )

    def _common(self, version: int) -> list[str]:
        return ["-p", str(self._port), "-V", "mqttv5" if version == 5 else "mqttv311"]


class MqttJs:
    """MQTT.js, over TCP or WebSocket."""

    def __init__(self, url: str, modules: Path) -> None:
        self._url, self._modules = url, modules

    def publish(self, version: int, topic: str, payloads: list[str], qos: int, *, retain: bool = False) -> None:
        asked = {"clientId": f"js{time.monotonic_ns()}", "topic": topic, "publish": payloads, "qos": qos, "retain": retain}
        done = subprocess.run(
            self._words(version, asked, clean=True), cwd=self._modules, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert '"done"' in done.stdout

    def subscribe(self, version: int, topic: str, client_id: str, *, clean: bool = True, will: str | None = None) -> Subscriber:
        words = self._words(version, {"clientId": client_id, "subscribe": topic, "will": will}, clean=clean)

        def read(line: str) -> str | None:
            said = json.loads(line) if line.startswith("{") else None
            return None if said is None else str(said["payload"])

        return _Lines(words, self._modules, read, lambda text: '"ready"' in text)

    def _words(self, version: int, asked: dict[str, Any], *, clean: bool) -> list[str]:
        whole = {**asked, "url": self._url, "version": version, "clean": clean}
        return [str(NODE), str(self._modules / "client.js"), json.dumps(whole)]


class _PahoSubscriber:
    def __init__(self, client: paho.Client, received: Queue[str]) -> None:
        self._client, self._received = client, received

    def take(self, count: int) -> list[str]:
        return [self._received.get(timeout=WAIT_S) for _ in range(count)]

    def leave(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def vanish(self) -> None:
        self._client.loop_stop()
        socket = self._client.socket()
        assert socket is not None
        socket.close()


class Paho:
    """paho-mqtt."""

    def __init__(self, broker: Broker) -> None:
        self._port = broker.port

    def publish(self, version: int, topic: str, payloads: list[str], qos: int, *, retain: bool = False) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5 if version == 5 else paho.MQTTv311)
        client.connect("127.0.0.1", self._port)
        client.loop_start()
        for handle in [client.publish(topic, payload, qos, retain) for payload in payloads]:
            handle.wait_for_publish(WAIT_S)
            assert handle.is_published()
        client.disconnect()
        client.loop_stop()

    def subscribe(self, version: int, topic: str, client_id: str, *, clean: bool = True, will: str | None = None) -> Subscriber:
        received: Queue[str] = Queue()
        subscribed: Queue[bool] = Queue()
        if version == 5:
            client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        else:
            client = paho.Client(CallbackAPIVersion.VERSION2, client_id, clean_session=clean, protocol=paho.MQTTv311)
        client.on_message = lambda _client, _data, message: received.put(message.payload.decode())
        client.on_subscribe = lambda *_: subscribed.put(True)
        if will:
            client.will_set(will, "gone", 1)
        if version == 5:
            expiry = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho says no more
            expiry.SessionExpiryInterval = 0 if clean else 100
            client.connect("127.0.0.1", self._port, clean_start=clean, properties=expiry)
        else:
            client.connect("127.0.0.1", self._port)
        client.loop_start()
        client.subscribe(topic, 2)
        assert subscribed.get(timeout=WAIT_S)
        return _PahoSubscriber(client, received)


@pytest.fixture(scope="session")
def modules() -> Path:
    """A folder with MQTT.js, and with what it is to do."""
    place = node_modules(MQTT_JS).parent
    (place / "client.js").write_text(_SCRIPT)
    return place


PAIRS = [  # who publishes, who subscribes, and in which version; fewer with MQTT.js, whose start takes long
    *(
        (publisher, subscriber, version)
        for publisher, subscriber in (("paho", "mosquitto"), ("mosquitto", "paho"))
        for version in (4, 5)
    ),
    ("mosquitto", "mqtt.js", 4),
    ("paho", "mqtt.js", 5),
    ("mqtt.js", "paho", 5),
    ("mqtt.js-websocket", "mosquitto", 4),
    ("paho", "mqtt.js-websocket", 5),
]


@pytest.fixture
def family(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Family]:
    """The clients by name."""

    def of(name: str) -> Family:
        if name == "paho":
            return Paho(broker)
        if name == "mosquitto":
            return Programs(broker, tmp_path)
        modules: Path = request.getfixturevalue("modules")
        if name == "mqtt.js":
            return MqttJs(f"mqtt://127.0.0.1:{broker.port}", modules)
        return MqttJs(f"ws://127.0.0.1:{broker.websocket_port}/mqtt", modules)

    return of


@pytest.mark.parametrize(("publisher", "subscriber", "version"), PAIRS)
def test_messages_pass_between_any_two_clients(
    family: Callable[[str], Family], topic: str, version: int, publisher: str, subscriber: str
) -> None:
    """Each QoS, in order and once; a retained message; a Will; a kept session that catches up."""
    sender, receiver = family(publisher), family(subscriber)
    sender.publish(version, f"{topic}/a", ["retained"], 1, retain=True)
    first = receiver.subscribe(version, f"{topic}/a/#", topic, clean=False, will=f"{topic}/will")
    assert first.take(1) == ["retained"]
    for qos in (1, 2):
        payloads = [f"{qos}-{number}" for number in range(20)]
        sender.publish(version, f"{topic}/a", payloads, qos)
        assert first.take(20) == payloads
    watcher = family("paho").subscribe(version, f"{topic}/will", f"{topic}w")
    first.vanish()
    assert watcher.take(1) == ["gone"]
    sender.publish(version, f"{topic}/a", ["missed-1", "missed-2"], 1)
    again = receiver.subscribe(version, f"{topic}/b", topic, clean=False)
    assert again.take(2) == ["missed-1", "missed-2"]
    again.leave()
    watcher.leave()
