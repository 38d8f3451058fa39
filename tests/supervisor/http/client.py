"""A client of the HTTP interface, for tests: one request a connection, with whatever headers and bytes a test wants."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from tests.support.waiting import PATIENCE_S

CHANGING = {"X-Bascule": "1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer; ``headers`` by their names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """Of the error that it says."""
        kind: str = self.json["error"]["kind"]
        return kind


def request(
    port: int,
    path: str,
    method: str = "GET",
    *,
    headers: dict[str, str] | None = None,
    body: Any = None,
    token: str | None = None,
    host: str = "127.0.0.1",
) -> Answer:
    """Send one request, with ``body`` as JSON, and read its answer."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    given = {} if token is None else {"Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body)
    if body is not None:
        given["Content-Type"] = "application/json"
    try:
        connection.request(method, path, data, {**given, **(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()
