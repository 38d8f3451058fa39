"""The REST API: each route is one command of the control socket, and its answer is that command's result."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from supervisor.control.client import ControlClient
from supervisor.http.node_calls import NodeCalls


def routes(calls: NodeCalls) -> APIRouter:
    """All below ``/api/v1``."""
    router = APIRouter(prefix="/api/v1")

    @router.get("/status", tags=["node"])
    async def status() -> JSONResponse:
        """How the node is: processes, bridges, queues, clients. It asks every process for fresh figures."""
        return JSONResponse(await calls.ask(ControlClient.status))

    return router
