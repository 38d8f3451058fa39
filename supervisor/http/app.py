"""The application: its routes, and what each kind of failure is answered with."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError

from supervisor.control.control_socket import ControlError, NotRunning
from supervisor.http import health, metrics, page, rest
from supervisor.http.answers import error_body
from supervisor.http.callers import Callers, NotLetIn
from supervisor.http.http_counts import HttpCounts
from supervisor.http.node_calls import NodeCalls
from supervisor.version import VERSION
from wire.config_settings import HttpSettings
from wire.status.refusals import Refusal

# Kinds of refusals by the node that are answered with another status than 409, which says: not as things are now.
STATUS_OF_KIND: dict[str, int] = {
    Refusal.BAD_ARGUMENTS: 400,
    Refusal.BAD_REQUEST: 400,
    Refusal.UNKNOWN_BRIDGE: 404,
    Refusal.UNKNOWN: 404,
    Refusal.UNKNOWN_LANE: 404,
    Refusal.NO_DEAD_LETTERS: 404,
    Refusal.NO_SUCH_SESSION: 404,
    Refusal.UNKNOWN_MEMBER: 404,
    Refusal.BUSY: 503,
    Refusal.STOPPING: 503,
    Refusal.UNAVAILABLE: 503,
    Refusal.NOT_RUNNING: 503,
    Refusal.BAD_VERSION: 502,
    Refusal.UNKNOWN_COMMAND: 501,
}

_ABOUT = """Operates one node: each route below `/api/v1` is a command of the node's control socket.

Send `Authorization: Bearer TOKEN` where the node has tokens, and `X-Bascule: 1` with everything but GET.
"""


def make_app(run_dir: Path, settings: HttpSettings, figures: HttpCounts) -> FastAPI:
    """The application for the node whose sockets are in ``run_dir``."""
    app = FastAPI(
        title="Bascule",
        description=_ABOUT,
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    calls = NodeCalls(run_dir, settings.calls_max, figures)
    callers = Callers(settings, figures, calls.speak_for)
    app.include_router(health.routes(calls))
    app.include_router(metrics.routes(calls, callers))
    app.include_router(rest.routes(calls, callers))
    app.include_router(page.routes())
    app.add_exception_handler(ControlError, _refused)
    app.add_exception_handler(NotRunning, _not_running)
    app.add_exception_handler(HTTPException, _not_so)
    for status in (404, 405):  # those of the router itself
        app.add_exception_handler(status, _not_so)
    app.add_exception_handler(RequestValidationError, _bad_arguments)
    app.add_exception_handler(Exception, _bug)
    return app


def error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what is wrong."""
    return Response(error_body(kind, message), status, headers, "application/json")


def _refused(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, ControlError)
    return error(STATUS_OF_KIND.get(exc.kind, 409), exc.kind, exc.message)


def _not_running(_: Request, __: Exception) -> Response:
    return error(503, Refusal.NOT_RUNNING, "the node did not answer in time; it may be starting, or stopping")


def _not_so(_: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else getattr(exc, "status_code", 500)
    kind = exc.kind if isinstance(exc, NotLetIn) else HTTPStatus(status).phrase.lower().replace(" ", "_")
    message = str(getattr(exc, "detail", "")) or HTTPStatus(status).description
    return error(status, kind, message, getattr(exc, "headers", None))


def _bad_arguments(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    problems = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in exc.errors()]
    return error(400, Refusal.BAD_ARGUMENTS, "; ".join(problems))


def _bug(_: Request, __: Exception) -> Response:
    return error(500, "bug", "this is a bug; the node's log has it")
