"""What a bridge says of itself keeps within what its remote allows, and the remote publishes the Will however the link ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.actors.lane_double import LaneDouble, settings_for
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import Closed
from tests.support.mqtt_packets import DISCONNECT, PUBLISH
from tests.support.scripted_remote import ScriptedRemote
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import AnnouncementSettings, WillSettings

pytestmark = pytest.mark.process

ANNOUNCED: dict[str, Any] = {
    "birth": AnnouncementSettings(topic="edge", payload="there"),
    "will": WillSettings(topic="edge", payload="gone"),
}


@pytest.mark.parametrize("level", [4, 5])
def test_a_bridge_that_leaves_at_a_full_window_publishes_nothing_more(tmp_path: Path, level: int) -> None:
    """exchange.announced-in-window: the remote allows two, and has answered neither its birth message nor the other."""
    with (
        ScriptedRemote(level) as remote,
        LaneDouble(tmp_path, settings_for(tmp_path, remote.port, protocol=level, receive_maximum=1, **ANNOUNCED)) as lane,
    ):
        lane.open()
        end = remote.accept(receive_maximum=2 if level == 5 else None)
        lane.until(lambda: bool(lane.settles), "the session goes on record")
        lane.publish("t", ["one", "two"], qos=1)
        assert [(packet.topic, packet.qos) for packet in (end.expect(PUBLISH), end.expect(PUBLISH))] == [("edge", 1), ("t", 1)]
        lane.command("pause")
        if level == 5:
            assert end.expect(DISCONNECT).reason_code == 0x04
        with pytest.raises(Closed):
            end.read()


def test_a_remote_that_is_full_of_qos_2_is_told_that_the_bridge_is_there(tmp_path: Path) -> None:
    """exchange.announced-in-window: Mosquitto throws a QoS 1 PUBLISH away then, and answers it all the same."""
    with (
        Mosquitto(tmp_path / "remote", max_inflight_messages=2) as remote,
        Subscriber(remote.port, "edge") as subscriber,
        LaneDouble(tmp_path, settings_for(tmp_path, remote.port, qos2_maximum=2, **ANNOUNCED)) as lane,
    ):
        lane.open()
        lane.until(lambda: bool(lane.settles), "the session goes on record")
        lane.answers = False
        lane.publish("t", ["one", "two"], qos=2)
        wait_until(lambda: remote.log.count("(d0, q2") == 2, PATIENCE_S, "both are there")
        lane.kill()
        subscriber.wait_for("edge", ["there", "gone"])
        lane.start()
        lane.open(dup_below=2, released=[0, 1], session=f"edge@127.0.0.1:{remote.port}")
        wait_until(lambda: subscriber.payloads("edge")[2:] == ["there"], PATIENCE_S, "it is back")
        assert [packet.qos for packet in subscriber.packets] == [1, 1, 0]
