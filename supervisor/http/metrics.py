"""``/metrics``: what Prometheus and its like read. Its role is that of ``status``, of which it is made."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from supervisor.http.callers import Callers
from supervisor.http.node_calls import NodeCalls
from supervisor.metrics.exposition import OPENMETRICS, TEXT, format_for, render

READING = ("GET", "HEAD")


def routes(calls: NodeCalls, callers: Callers) -> APIRouter:
    """``/metrics``."""
    router = APIRouter(tags=["metrics"])

    async def metrics(request: Request) -> Response:
        """In Prometheus's text format, or in OpenMetrics for those who ask for that.

        Role: view.
        """
        content_type = format_for(request.headers.get("accept", ""))
        return Response(render(await calls.status(), content_type), headers={"Content-Type": content_type})

    described: dict[int | str, dict[str, Any]] = {
        200: {"content": {TEXT: {}, OPENMETRICS: {}}, "description": "One line for each value."}
    }
    for method in READING:
        router.add_api_route(
            "/metrics",
            metrics,
            methods=[method],
            summary="The metrics of the node",
            response_class=Response,
            responses=described,
            dependencies=[callers.may("status")],
            include_in_schema=method == "GET",
        )
    return router
