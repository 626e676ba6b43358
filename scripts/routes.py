"""Write docs/reference/http.md anew from the routes themselves: `python scripts/routes.py`."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from litestar import Litestar

from threadline import Threadline
from threadline.entrypoints.http.server import ServerSettings, make_app

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "http.md"
HEAD = """# HTTP

`threadline serve` listens on `http://127.0.0.1:8080` unless [set otherwise](settings.md). This
page is made from the routes: `.venv/bin/python scripts/routes.py` writes it anew. A running server
tells the same as OpenAPI 3.1 at `/openapi.json`.

- **Who is calling** is a bearer token: `Authorization: Bearer tl_…`. `threadline token create`
  makes one. A *controller* may do all in its scope, an *adapter* what its own account needs, a
  *session* what concerns itself, a *guest* reads and writes the room it was invited to.
- **Bodies are JSON.** A field nobody knows is refused by name. A list answers at most `limit`
  (100, at most 500) and says where the next page begins; cursors are exclusive.
- **A refusal** is an RFC 9457 problem: `{"type", "title", "status", "detail", "code", "facts"}`.
  Its `code` is one of [these](errors.md).
- **POST takes `Idempotency-Key`**: the same key and body are done once, another body is refused.
"""


def page() -> str:
    """The whole page."""
    app = asyncio.run(_app())
    document = app.openapi_schema.to_schema()
    sections = []
    for route in sorted(app.routes, key=lambda one: one.path):
        handlers = getattr(route, "route_handlers", [])
        for handler in sorted(handlers, key=lambda one: sorted(one.http_methods)):
            if not handler.fn.__module__.startswith("threadline."):
                continue
            for method in sorted(handler.http_methods):
                sections.append(_section(route.path, method, handler, document))
    return re.sub(r"\n{3,}", "\n\n", "\n".join([HEAD, *sections]))


async def _app() -> Litestar:
    """The application on a store that is empty and gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        async with Threadline.open(f"sqlite:{folder}/empty.db", indexing=False) as tl:
            return make_app(tl, settings=ServerSettings())


def _section(path: str, method: str, handler: Any, document: dict[str, Any]) -> str:
    shown = re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
    kinds = handler.opt.get("callers", ())
    who = "Anybody." if "open" in kinds else f"For: {', '.join(kinds)}."
    lines = [f"## {method} {shown}", "", f"{_prose(handler.fn.__doc__)} {who}", ""]
    told = document["paths"].get(shown, {}).get(method.lower())
    rows = [] if told is None else [*_parameters(told), *_fields(told, document)]
    if rows:
        lines += ["| | | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _prose(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split())


def _parameters(told: dict[str, Any]) -> list[str]:
    return [
        _row(one["name"], _PLACES[one["in"]], one["schema"], required=one["required"])
        for one in told.get("parameters", [])
        if one["in"] != "path"
    ]


_PLACES = {"query": "query", "header": "header", "cookie": "cookie"}


def _fields(told: dict[str, Any], document: dict[str, Any]) -> list[str]:
    content = told.get("requestBody", {}).get("content", {})
    schema = _resolved(content.get("application/json", {}).get("schema", {}), document)
    required = set(schema.get("required", ()))
    return [
        _row(name, "body", _resolved(one, document), required=name in required)
        for name, one in schema.get("properties", {}).items()
    ]


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    ref = schema.get("$ref")
    if ref is None:
        return schema
    found: dict[str, Any] = document["components"]["schemas"][ref.rpartition("/")[2]]
    return found


def _row(name: str, place: str, schema: dict[str, Any], *, required: bool) -> str:
    words = [_type(schema)]
    default = schema.get("default")
    if required:
        words.append("required")
    elif default not in (None, "", [], {}):
        words.append(f"default `{default}`")
    about = _prose(schema.get("description")).replace("|", "\\|")
    return f"| `{name}` | {place} | {'. '.join([', '.join(words), about]).rstrip('. ')} |"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).removesuffix("Body").lower()
    if "oneOf" in schema or "anyOf" in schema:
        kinds = [_type(one) for one in schema.get("oneOf") or schema["anyOf"]]
        return " or ".join(kind for kind in kinds if kind != "null")
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(kind, list):
        return " or ".join(one for one in kind if one != "null")
    return str(schema.get("format", kind) if kind == "string" else kind)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"{PAGE.name} is written.\n")
