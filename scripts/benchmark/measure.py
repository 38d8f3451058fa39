"""Measurements: runs of the load generator through one system, and the machine's own fdatasync.

A run gives plain figures in a dictionary; how often, in which turn and beside what is left to ``main.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systems import Bascule, BenchError, FarEnd, Remote, System

MESSAGE_BYTES = 256
WINDOW = 1000
RUN_TIMEOUT_S = 120.0
IDLE_S = 10.0
_WARM_UP_MESSAGES = 3000

Figures = dict[str, Any]


def compile_load(folder: Path) -> Path:
    """Compile the load generator into ``folder``."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BenchError("the bench needs a C compiler for its load generator (Debian: apt-get install gcc libc6-dev)")
    program = folder / "load"
    source = Path(__file__).with_name("load.c")
    done = subprocess.run([compiler, "-O2", "-o", str(program), str(source)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"the load generator does not compile:\n{done.stderr}")
    return program


def fdatasync_p50_us(folder: Path, *, count: int = 300) -> float:
    """The middle time of appending 300 bytes to a file in ``folder`` and syncing them."""
    path = folder / "fdatasync"
    times_s = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for _ in range(count):
            begun_s = time.perf_counter()
            os.write(descriptor, b"x" * 300)
            os.fdatasync(descriptor)
            times_s.append(time.perf_counter() - begun_s)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(times_s) * 1e6


@dataclass(slots=True, kw_only=True)
class Bench:
    """The load generator between a system's port and the remote's."""

    load: Path
    qos: int

    def subscriber(self, port: int, *, expect: int, publishers: int, deadline_s: float = RUN_TIMEOUT_S) -> subprocess.Popen[str]:
        """A subscriber at ``port`` whose subscription stands."""
        process = self._spawn("sub", port, expect=expect, publishers=publishers, idle=IDLE_S, deadline=deadline_s)
        assert process.stdout is not None
        if "subscribed" not in process.stdout.readline():
            raise BenchError("the subscriber could not subscribe at the remote broker")
        return process

    def publisher(self, port: int, *, messages: int, deadline_s: float = RUN_TIMEOUT_S, **options: float) -> subprocess.Popen[str]:
        """A publisher of ``messages`` to ``port``."""
        window = options.pop("window", WINDOW)
        return self._spawn("pub", port, messages=messages, size=MESSAGE_BYTES, window=window, deadline=deadline_s, **options)

    def publish(self, port: int, *, messages: int, deadline_s: float = RUN_TIMEOUT_S, **options: float) -> Figures:
        """Publish ``messages`` to ``port`` and return the publisher's figures."""
        return finish(self.publisher(port, messages=messages, deadline_s=deadline_s, **options), deadline_s)

    def through(
        self,
        system: System,
        remote: Remote | FarEnd,
        *,
        messages: int,
        publishers: int = 1,
        rate: float = 0.0,
        window: int = WINDOW,
    ) -> Figures:
        """Messages through ``system`` to the subscriber at ``remote``, or to the far end that is in its place.

        end_to_end_per_s is messages at the subscriber / (its last new message - the publisher's start); cpu_us is the CPU time of
        all processes of the system per message.
        """
        messages -= messages % publishers
        receiver = self._receiver(remote, messages, publishers)
        cpu_s = system.cpu_s()
        try:
            published = self.publish(system.port, messages=messages, connections=publishers, rate=rate, window=window)
        except BaseException:
            if not isinstance(receiver, FarEnd):
                end(receiver)
            raise
        received = receiver.received() if isinstance(receiver, FarEnd) else finish(receiver, RUN_TIMEOUT_S)
        time.sleep(0.2)  # the last acknowledgements and settlements are part of the work
        cpu_s = system.cpu_s() - cpu_s
        seconds = (received["last_new_ns"] - published["start_ns"]) / 1e9
        return {
            "messages": messages,
            "publishers": publishers,
            "end_to_end_per_s": received["distinct"] / seconds,
            "acknowledged_per_s": published["acknowledged_per_s"],
            "cpu_us": cpu_s * 1e6 / messages,
            "missing": messages - received["distinct"],
            "duplicates": received["duplicates"],
            "out_of_order": received["out_of_order"],
            "ack_p50_us": published["ack_p50_us"],
            "ack_p99_us": published["ack_p99_us"],
            "ack_p999_us": published["ack_p999_us"],
            "ack_max_us": published["ack_max_us"],
            "latency_p50_us": received["transit_p50_us"],
            "latency_p99_us": received["transit_p99_us"],
            "latency_p999_us": received["transit_p999_us"],
        }

    def _receiver(self, remote: Remote | FarEnd, messages: int, publishers: int) -> subprocess.Popen[str] | FarEnd:
        """Who counts what comes: a subscriber at ``remote``, or the far end itself."""
        if isinstance(remote, FarEnd):
            remote.expect(messages, publishers)
            return remote
        return self.subscriber(remote.port, expect=messages, publishers=publishers)

    def warm_up(self, system: System, remote: Remote | FarEnd, *, publishers: int = 1, window: int = WINDOW) -> None:
        """Wait until ``system`` bridges, and let it see some traffic first."""
        figures = self.through(system, remote, messages=_WARM_UP_MESSAGES, publishers=publishers, window=window)
        if figures["missing"]:
            raise BenchError(f"{system.name} did not bridge the warm-up messages")

    def backlog(self, folder: Path, *, messages: int) -> Figures:
        """Fill ours while the remote is down, stop it, start it with the backlog, and let it drain."""
        remote = Remote(folder / "remote", self.qos)
        ours = Bascule(folder / "bascule", remote.port)
        deadline_s = 60.0 + messages / 2000.0
        try:
            started_empty_s = ours.start()
            before = ours.rss_bytes()
            filled = self.publish(ours.port, messages=messages, deadline_s=deadline_s)
            after = ours.rss_bytes()
            stopped_s = ours.stop(gracefully=True)
            remote.start()
            subscriber = self.subscriber(remote.port, expect=messages, publishers=1, deadline_s=deadline_s)
            try:
                accepting_s = ours.start()
                received = finish(subscriber, deadline_s)
            finally:
                end(subscriber)
        finally:
            ours.stop()
            remote.stop()
        drain_s = (received["last_new_ns"] - received["first_ns"]) / 1e9
        return {
            "messages": messages,
            "fill_acknowledged_per_s": filled["acknowledged_per_s"],
            "rss_before_bytes": before,
            "rss_after_bytes": after,
            "start_empty_s": started_empty_s,
            "stop_s": stopped_s,
            "start_to_accepting_s": accepting_s,
            "start_to_first_bridged_s": received["first_ns"] / 1e9 - ours.started_s,
            "drained_per_s": received["distinct"] / drain_s if drain_s > 0 else 0.0,
            "missing": messages - received["distinct"],
            "duplicates": received["duplicates"],
            "out_of_order": received["out_of_order"],
        }

    def _spawn(self, mode: str, port: int, **options: float) -> subprocess.Popen[str]:
        words = [str(self.load), mode, "--port", str(port), "--qos", str(self.qos)]
        for name, value in options.items():
            words += [f"--{name}", str(value)]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], timeout_s: float) -> Figures:
    """The figures that a load process prints at its end.

    Raises:
        BenchError: it failed, or did not end in time.
    """
    try:
        output, _ = process.communicate(timeout=timeout_s + 30.0)
    except subprocess.TimeoutExpired as error:
        raise BenchError("the load generator did not end in time") from error
    finally:
        end(process)
    lines = output.splitlines()
    if process.returncode not in (0, 2) or not lines:
        raise BenchError(f"the load generator failed with exit status {process.returncode}")
    figures: Figures = json.loads(lines[-1])
    return figures


def end(process: subprocess.Popen[str]) -> None:
    """Kill a load process if it still runs."""
    if process.poll() is None:
        process.kill()
        process.wait()
