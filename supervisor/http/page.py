"""Serves the page's files. Everybody who reaches the address may have them: they hold nothing of the node."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response

from supervisor.http.page_files import INDEX, read_page


def routes() -> APIRouter:
    """``/`` is the page, and what it is made of is below ``/assets/``."""
    router = APIRouter(include_in_schema=False)
    files = read_page()

    def answer(request: Request, name: str) -> Response:
        file = files.get(name)
        if file is None:
            raise HTTPException(404, "there is no such file")
        headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.data, media_type=file.media_type, headers=headers)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return answer(request, INDEX)

    @router.api_route("/assets/{name:path}", methods=["GET", "HEAD"])
    async def asset(request: Request, name: str) -> Response:
        return answer(request, name)

    return router
