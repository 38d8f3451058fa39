"""A node with the HTTP interface and a token for each role, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.supervisor.http.client import CHANGING, Answer, request
from tests.support.node import Config, Node, node_config
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from wire.access.roles import ROLES
from wire.access.token_table import Token, digest_of, with_token

TOKENS: dict[str, str] = {role: f"bascule_token-of-{role}" for role in ROLES}


@dataclass(frozen=True, slots=True)
class Served:
    """The node, its HTTP port, and its tokens file."""

    node: Node
    port: int
    tokens_file: Path

    def get(self, path: str, role: str = "view") -> Answer:
        """GET below ``/api/v1``."""
        return request(self.port, f"/api/v1{path}", token=TOKENS[role])

    def change(self, path: str, body: Any = None, role: str = "admin", *, method: str = "POST") -> Answer:
        """Change something below ``/api/v1``, as our own page does."""
        return request(self.port, f"/api/v1{path}", method, token=TOKENS[role], body=body, headers=CHANGING)

    @property
    def figures(self) -> dict[str, Any]:
        """The interface's part of ``status``."""
        figures: dict[str, Any] = self.node.status()["http"]
        return figures

    @property
    def process(self) -> dict[str, Any]:
        """The row of its process."""
        return next(row for row in self.node.status()["processes"] if row["name"] == "http")


@contextmanager
def serve(folder: Path, *bridges: Config, telemetry: Any = None, include: Any = (), **http: Any) -> Iterator[Served]:
    """A node that runs and whose HTTP interface is ready; ``http`` has keys besides. telemetry: that section, if it has one.

    include: files that it includes.
    """
    tokens_file = folder / "tokens"
    write_tokens(tokens_file, *ROLES)
    port = free_port()
    config = node_config(*bridges, http={"bind": f"127.0.0.1:{port}", "tokens_file": str(tokens_file), **http})
    config |= {"history": {"every": "1s"}}
    config |= {"telemetry": telemetry} if telemetry is not None else {}
    config |= {"include": list(include)} if include else {}
    with Node(config, folder / "node") as node:
        served = Served(node, port, tokens_file)
        wait_until(lambda: served.process["state"] == "ready", 20.0, "the HTTP interface is ready")
        yield served


def write_tokens(path: Path, *roles: str) -> None:
    """A token for each of ``roles``, called as its role."""
    text = ""
    for role in ROLES:
        if role in roles:
            text = with_token(text, Token(role, role, digest_of(TOKENS[role])))
    path.write_text(text)
