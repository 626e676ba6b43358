"""What comes to a simulator and what it answers, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of a form."""

    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request to the platform's API. Header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    origin: str

    def json(self) -> Any:
        """The body as JSON. Raises `ValueError`."""
        return json.loads(self.body)

    def fields(self) -> dict[str, Any]:
        """Query, and body as JSON object, form or multipart. Raises `ValueError`."""
        kind = Message()
        kind["content-type"] = self.headers.get("content-type", "")
        found: dict[str, Any] = dict(self.query)
        match kind.get_content_type():
            case "application/json" if self.body:
                said = json.loads(self.body)
                if not isinstance(said, dict):
                    raise ValueError("the body is no JSON object")
                found |= said
            case "application/x-www-form-urlencoded":
                found |= parse_qsl(self.body.decode(), keep_blank_values=True)
            case "multipart/form-data":
                found |= _parts(self.body, str(kind.get_param("boundary")))
        return found

    def form(self) -> list[tuple[str, str]]:
        """The fields of a form in their order, for platforms that name one twice."""
        return parse_qsl(self.body.decode(), keep_blank_values=True)


def _parts(body: bytes, boundary: str) -> dict[str, str | File]:
    found: dict[str, str | File] = {}
    for part in body.split(f"--{boundary}".encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").removesuffix(b"\r\n").partition(b"\r\n\r\n")
        about = Message()
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(":")
            about[name] = value.strip()
        name = str(about.get_param("name", header="content-disposition"))
        file = about.get_filename()
        found[name] = (
            content.decode()
            if file is None
            else File(name=file, content_type=about.get_content_type(), content=content)
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the platform answers."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON; a header's underscores are dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Answer(
        status=status, body=raw, headers={"content-type": "application/json; charset=utf-8"} | named
    )


@dataclass(frozen=True, kw_only=True)
class Push:
    """A signed request to somebody's webhook."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    method: str = "POST"


@dataclass(frozen=True, kw_only=True)
class Event:
    """What happened on the platform and has to reach whoever listens.

    `state` is `waiting`, `done`, `lost` (never to arrive) or `given_up`; `place` is the queue it
    stands in; `due` and `at` are in seconds since 1970; `attempts` counts those already made.
    """

    number: int
    place: str
    what: Any
    at: float
    due: float
    state: str = "waiting"
    attempts: int = 0
    url: str = ""
    error: str = ""
