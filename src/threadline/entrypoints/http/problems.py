"""Every refusal as an RFC 9457 problem with a stable code.

`{"type", "title", "status", "detail", "code", "facts"}`; the code is the error's, and the type is
where the reference page explains it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import (
    ClientException,
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from litestar.types import ExceptionHandlersMap

from threadline.core.errors import (
    InvalidInput,
    NotFound,
    ThreadlineError,
    TooLarge,
    Unauthenticated,
)
from threadline.entrypoints.logs import logger, told
from threadline.entrypoints.shapes import plain

MEDIA_TYPE = "application/problem+json"
PAGE = "/docs#error-"

_log = logger("server")


class MethodNotAllowed(InvalidInput):
    """The route does not take this method."""

    status = 405


class Defect(ThreadlineError):
    """This is a defect of threadline; the server's log says more."""


def problem_of(error: ThreadlineError) -> dict[str, Any]:
    """A refusal as data."""
    return {
        "type": PAGE + error.code,
        "title": (type(error).__doc__ or "").strip().split("\n")[0],
        "status": error.status,
        "detail": str(error),
        "code": error.code,
        "facts": plain(error.facts),
    }


def problem(error: ThreadlineError) -> Response[dict[str, Any]]:
    """The answer that says what was refused and why."""
    body = problem_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else {}
    if error.status == 503:
        headers["Retry-After"] = "1"
    if error.status == 429 and "retry_after" in error.facts:
        headers["Retry-After"] = str(error.facts["retry_after"])
    return Response(body, status_code=error.status, media_type=MEDIA_TYPE, headers=headers)


async def refuse(send: Any, error: ThreadlineError) -> None:
    """Refuse before the application has seen the request."""
    body = msgspec.json.encode(problem_of(error))
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _ours(_: Request[Any, Any, Any], error: ThreadlineError) -> Response[dict[str, Any]]:
    return problem(error)


def _theirs(_: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, Any]]:
    """What the framework refused, in our words."""
    return problem(_translated(error))


def _translated(error: HTTPException) -> ThreadlineError:
    match error:
        case ValidationException():
            return InvalidInput(_about(error) or "the request does not fit the route.")
        case NotFoundException():
            return NotFound("there is no such route.")
        case MethodNotAllowedException():
            return MethodNotAllowed()
        case _ if error.status_code == 413:
            return TooLarge("the body is larger than the server takes.")
        case ClientException():
            return InvalidInput(error.detail or "the request cannot be read.")
        case _:
            return Defect()


def _about(error: ValidationException) -> str:
    """Which field is wrong, and how; never the value, which may be a secret."""
    found: list[str] = []
    for one in error.extra if isinstance(error.extra, list) else ():
        if isinstance(one, dict):
            key, message = one.get("key"), one.get("message", "")
            found.append(f"{key}: {message}" if key else str(message))
    return "; ".join(found)


def _defect(_: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """What nobody expected: where it happened is logged, never what was said or who asked."""
    _log.error("defect", **told(error))
    return problem(Defect())


HANDLERS: ExceptionHandlersMap = {
    ThreadlineError: _ours,
    HTTPException: _theirs,
    Exception: _defect,
}
