"""The form of all answers: their headers, and how values and errors are written."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse

# Each answer has these. Nothing but this server's own files is loaded, run or shown in a frame by what it sends.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def encoded(value: Any) -> bytes:
    """``value`` as JSON, on a line of its own, as it is wanted at a terminal."""
    return (json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n").encode(errors="replace")


class JsonAnswer(JSONResponse):
    """An answer of the application that is a value."""

    def render(self, content: Any) -> bytes:
        return encoded(content)


def error_body(kind: str, message: str) -> bytes:
    """The body of an error: ``{"error": {"kind", "message"}}``. kind: for programs; message: for people."""
    return encoded({"error": {"kind": kind, "message": message}})


_MALFORMED_BODY = error_body("malformed", "this is no HTTP/1.1 request")
MALFORMED = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    + b"".join(f"{name}: {value}\r\n".encode() for name, value in SECURITY_HEADERS.items())
    + b"Content-Length: %d\r\n\r\n" % len(_MALFORMED_BODY)
    + _MALFORMED_BODY
)
