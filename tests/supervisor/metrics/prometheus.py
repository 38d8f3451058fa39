"""A real Prometheus on a free port, in a folder of its own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until

PROMETHEUS = shutil.which("prometheus")


class Prometheus:
    """Runs with the configuration ``config``; leaving the context kills it."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        assert PROMETHEUS is not None
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._output = folder / "output.log"
        path = folder / "prometheus.yml"
        path.write_text(json.dumps(config))  # JSON is YAML
        self._words = [
            PROMETHEUS,
            f"--config.file={path}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def __enter__(self) -> Self:
        with self._output.open("wb") as out:
            self._process = subprocess.Popen(self._words, stdout=out, stderr=out, start_new_session=True)
        wait_until(lambda: accepts(self.port), PATIENCE_S, lambda: f"Prometheus listens:\n{self._output.read_text()[-4000:]}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def api(self, path: str, **query: str) -> Any:
        """The data that its API answers; nothing while it starts."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError:
            return {}

    def value(self, question: str) -> float | None:
        """The one value that answers ``question``; None without one."""
        found = self.api("query", query=question).get("result", [])
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None
