"""What has left a lane is sent again, and a file of what waits is imported, while the store is killed between two pages of each.

By the queue's own count each message comes in once more, and no more. The remote takes it under as many packet identifiers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from supervisor.control.client import ControlClient
from supervisor.control.imported_messages import ExportedMessages
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import Node
from tests.support.recorder import Recorder
from wire.frames.names import STORE, LaneLabel

RESENT_BELOW = 100  # the sequence at which it ends
PAGE = 30
LATE, LATE_TOPIC = [str(number) for number in range(PAGE + 10)], "late"
DEADLINE_S = 60.0


class SentAgain:
    """What the bridge ``cloud`` of ``node`` has done, and does again. lanes: all of it, each with its record."""

    def __init__(self, node: Node, lanes: Mapping[LaneLabel, Recorder]) -> None:
        self._node = node
        self._lanes = lanes

    def resend(self) -> None:
        """Have the first lane send again what it began with."""
        before = self._counts_when_empty()
        with ControlClient.of_config(self._node.config_path) as asked:
            asked.resend("cloud", "again", below=RESENT_BELOW, count=PAGE)
            self._kill_store()
            while (resent := asked.resend("cloud", "again", below=RESENT_BELOW)).next is not None:
                pass
        assert resent.total > 0
        self._judge(before, accepted=resent.total, resent=resent.total, delivered=resent.total)

    def take_in(self, file: Path) -> None:
        """Have messages wait, and be exported to ``file`` and imported from that."""
        before = self._counts_when_empty()
        self._command("bridge", "pause")
        with MqttClient(self._node.port, "late") as client:
            publish(client, LATE_TOPIC, *LATE, qos=2)
            client.disconnect()
        self._command("queue", "export", "--to", str(file))
        with file.open("rb") as opened, ControlClient.of_config(self._node.config_path) as asked:
            exported = ExportedMessages(opened)
            asked.import_messages("cloud", exported.digest, exported.page(0, PAGE), start=0, below=len(LATE))
            self._kill_store()
        for _ in range(2):  # once more changes nothing
            self._command("queue", "import", str(file))
        self._command("bridge", "resume")
        self._judge(before, accepted=2 * len(LATE), resent=len(LATE), delivered=2 * len(LATE))
        records = [record for recorder in self._lanes.values() for record in recorder.records(LATE_TOPIC) if record.taken_in]
        assert Counter(payload for _, payload in (record.message for record in records)) == Counter(2 * LATE)

    def _judge(self, before: Counter[str], **wanted: int) -> None:
        more = self._counts_when_empty() - before
        assert more == Counter(wanted), f"{more}, not {wanted}; {[self._node.lane('cloud', lane) for lane in self._lanes]}"

    def _command(self, group: str, verb: str, *words: str) -> None:
        done = self._node.cli(group, verb, str(self._node.config_path), "cloud", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def _kill_store(self) -> None:
        self._node.wait_replaced(STORE, self._node.kill(STORE))

    def _counts_when_empty(self) -> Counter[str]:
        for lane in self._lanes:
            self._node.wait_lane("cloud", lane, depth=0, in_flight=0, ledger_closes=True, deadline_s=DEADLINE_S)
        rows = [self._node.lane("cloud", lane) for lane in self._lanes]
        return Counter({name: sum(row[name] for row in rows) for name in ("accepted", "resent", "delivered")})
