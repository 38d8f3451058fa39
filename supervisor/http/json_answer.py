"""An answer of the application that is a value."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from supervisor.http.answers import encoded


class Json(JSONResponse):
    """A value, as ``answers.py`` writes it."""

    def render(self, content: Any) -> bytes:
        return encoded(content)
