"""A node goes on with the store that the first version wrote: it opens it, delivers what waits, and its sessions are there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.storage.first_store import SESSION, unpack
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until


def test_what_waits_in_the_store_of_the_first_version_is_delivered(remote: Mosquitto, tmp_path: Path) -> None:
    """Of one bridge two messages were delivered, one was refused, one released; the other has all. A Will has come due since."""
    node = Node(node_config(*(bridge_config(name, remote.port) for name in ("cloud", "away"))), tmp_path)
    node.data_dir.mkdir(mode=0o700)
    unpack(node.data_dir)
    with Subscriber(remote.port, "#") as subscriber, node:
        for name, delivered in (("cloud", 8), ("away", 9)):
            lane = node.wait_lane(name, depth=0, delivered=delivered, accepted=9)
            assert lane["ledger_closes"], name
        waited = [b"m%d" % at for at in [*(3, 5, 6, 7), *range(8)]]
        wait_until(lambda: subscriber.count() >= len(waited) + 2, 20.0, "what waited, and the Will by both bridges")
        assert Counter(packet.payload for packet in subscriber.packets) == Counter([*waited, b"gone", b"gone"])
        assert re.search(rf"^{SESSION}\b.*", node.cli("session", "list", str(node.config_path)).stdout, re.MULTILINE)
        assert node.stop() == 0
