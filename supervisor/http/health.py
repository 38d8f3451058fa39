"""Whether the node lives and is ready, for load balancers and orchestrators. Open to whoever reaches the address."""

from __future__ import annotations

from fastapi import APIRouter

from supervisor.control.control_socket import ControlError, NotRunning
from supervisor.http.answers import JsonAnswer
from supervisor.http.models import Live, Ready
from supervisor.http.node_calls import NodeCalls
from wire.frames.names import OPTIONAL_PROCESSES, SUPERVISOR
from wire.status.node_status import Status
from wire.status.states import ChildState

_NOT_NEEDED = (SUPERVISOR, "template", *OPTIONAL_PROCESSES)


def readiness_of(status: Status) -> Ready:
    """The node's readiness by ``status``, without what only callers with a role may know."""
    left_s = status.stop_left_s
    if left_s is not None:
        reason = f"the node is stopping, and has stopped within {left_s:g} s"
        return Ready(ready=False, state="stopping", reasons=[reason], stop_left_s=left_s)
    if status.ready and status.replication is not None and status.replication.role == "standby":
        return Ready(ready=False, state="standby", reasons=["the node stands by: another one of its cluster is to be asked"])
    if status.ready:
        return Ready(ready=True, state="ready", reasons=[])
    rows = [row for row in status.processes if row.state != ChildState.READY and row.name not in _NOT_NEEDED]
    return Ready(ready=False, state="starting", reasons=[f"{row.name} is {row.state}" for row in rows])


def routes(calls: NodeCalls) -> APIRouter:
    """``/health/live`` and ``/health/ready``."""
    router = APIRouter(prefix="/health", tags=["health"])

    @router.get("/live", response_model=Live)
    async def live() -> JsonAnswer:
        """Whether this process serves; it says nothing of the node."""
        return JsonAnswer({"live": True})

    @router.get("/ready", response_model=Ready, responses={503: {"model": Ready, "description": "It does not take messages now."}})
    async def ready() -> JsonAnswer:
        """Whether the node takes messages: 200 if so, else 503 with the reasons, and how long it takes to stop if it does."""
        try:
            readiness = readiness_of(await calls.status())
        except (ControlError, NotRunning) as error:
            readiness = Ready(ready=False, state="unknown", reasons=[error.message])
        return JsonAnswer(readiness.model_dump(exclude_unset=True), 200 if readiness.ready else 503)

    for path, endpoint in (("/live", live), ("/ready", ready)):
        router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
    return router
