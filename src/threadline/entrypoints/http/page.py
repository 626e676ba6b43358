"""The page: what a person sees in a browser. Files from a fixed list, under a strict policy.

There is no build step and nothing comes from elsewhere: the documents name their modules and style
sheets under `/assets/`, and the policy lets nothing else run, so that words from outside stay
words (law 14).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, HeaderParameter

from threadline.core.errors import NotFound, ThreadlineError
from threadline.entrypoints.http.auth import OPEN, callers

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
GUARDS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
SCRIPT = "text/javascript"
STYLE = "text/css"
DOCUMENT = "text/html"
ASSETS = {
    "mark.svg": "image/svg+xml",
    **dict.fromkeys(("base.css", "transcript.css", "operator.css", "chat.css", "docs.css"), STYLE),
    **dict.fromkeys(
        (
            "api.js",
            "audit.js",
            "chat.js",
            "consent.js",
            "deliveries.js",
            "dialogs.js",
            "docs.js",
            "dom.js",
            "format.js",
            "health.js",
            "limits.js",
            "list.js",
            "login.js",
            "model.js",
            "more.js",
            "outbox.js",
            "operator.js",
            "palette.js",
            "panel.js",
            "people.js",
            "person.js",
            "prose.js",
            "room.js",
            "rooms.js",
            "row.js",
            "sends.js",
            "sessions.js",
            "stream.js",
            "tokens.js",
            "transcript.js",
        ),
        SCRIPT,
    ),
}
ERRORS = "<!-- errors -->"

Known = Annotated[str | None, HeaderParameter(name="If-None-Match")]


@cache
def _read(name: str) -> tuple[bytes, str]:
    """A file of the page and its tag."""
    body = (files("threadline.entrypoints.http") / "page" / name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _document(body: bytes) -> Response[bytes]:
    return Response(body, media_type=DOCUMENT, headers={**GUARDS, "Cache-Control": "no-store"})


def _refusals(root: type[ThreadlineError] = ThreadlineError) -> Iterator[type[ThreadlineError]]:
    """Every refusal that is known by now, each once."""
    yield root
    for below in root.__subclasses__():
        if below.__module__.startswith("threadline."):
            yield from _refusals(below)


def _errors() -> str:
    """The list of error codes, so that a problem's `type` leads to its explanation."""
    known = {one.code: one for one in _refusals()}
    found = []
    for code, error in sorted(known.items()):
        sentence, _, more = (error.__doc__ or "").strip().partition("\n")
        rest = " ".join(more.split())
        found.append(
            f'<section class="error" id="error-{escape(code)}">'
            f'<h3><a href="#error-{escape(code)}"><code>{escape(code)}</code></a>'
            f' <span class="status">{error.status}</span></h3>'
            f"<p>{escape(sentence)}</p>" + (f"<p>{escape(rest)}</p>" if rest else "") + "</section>"
        )
    return "\n".join(found)


@get("/", opt=callers(OPEN), include_in_schema=False)
async def operator() -> Response[bytes]:
    """The operator's page."""
    return _document(_read("index.html")[0])


@get("/chat", opt=callers(OPEN), include_in_schema=False)
async def chat() -> Response[bytes]:
    """The web chat of a guest who joined before."""
    return _document(_read("chat.html")[0])


@get("/chat/{link:str}", opt=callers(OPEN), include_in_schema=False)
async def invitation(link: FromPath[str]) -> Response[bytes]:
    """The web chat, for whoever holds a link; whether it holds is asked when they join."""
    return _document(_read("chat.html")[0])


@get("/docs", opt=callers(OPEN), include_in_schema=False)
async def docs() -> Response[bytes]:
    """The reference of the API and of every error code."""
    text = _read("docs.html")[0].decode().replace(ERRORS, _errors())
    return _document(text.encode())


@get("/assets/{file:str}", opt=callers(OPEN), include_in_schema=False)
async def asset(file: FromPath[str], known: Known = None) -> Response[bytes]:
    """A script, a style sheet or the mark. Raises `NotFound` for what is not on the list."""
    media = ASSETS.get(file)
    if media is None:
        raise NotFound("there is no such file.")
    body, tag = _read(file)
    headers = {**GUARDS, "Cache-Control": "no-cache", "ETag": tag}
    if known is not None and tag in (one.strip() for one in known.split(",")):
        return Response(b"", status_code=304, media_type=media, headers=headers)
    return Response(body, media_type=media, headers=headers)


ROUTES = [operator, chat, invitation, docs, asset]
