"""P3 over nodes: a server of the log loses power, and what it had not synced; a majority still has all that was promised.

Its streams are on a file system in a file, as in ``test_lost_power_on_file_systems.py``. Once it is back another server goes, so
the majority needs what this one has kept.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.faults.test_take_over import Run
from tests.support.devices import make_device, mounted, run

DEVICE_BYTES = 256 << 20
CUTS, CUTS_SOAK = 1, 20


def test_a_server_that_loses_power_takes_nothing_with_it(tmp_path: Path, soak: bool) -> None:
    device, left, place = tmp_path / "device", tmp_path / "left", tmp_path / "place"
    make_device(device, "ext4", DEVICE_BYTES)
    with ExitStack() as stack:
        mount = stack.enter_context(ExitStack())
        mount.enter_context(mounted(device, place))
        cluster = Run(tmp_path, stack, first_server=place / "server")
        fragile, other = cluster.cluster.servers.servers[:2]
        stack.callback(fragile.kill)
        for _ in range(CUTS_SOAK if soak else CUTS):
            cluster.progress()
            run("cp", "--sparse=always", str(device), str(left))
            fragile.kill()
            mount.close()
            left.rename(device)
            mount.enter_context(mounted(device, place))
            fragile.start()
            cluster.progress()
            cluster.cluster.servers.wait_level(fragile)
            other.kill()
            cluster.progress()
            other.start()
            cluster.cluster.servers.wait_level(other)
        cluster.judge()
