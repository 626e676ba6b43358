"""The OpenAPI document: what the framework knows of the routes, and what they all have in common.

Every route may refuse, with a problem; every POST takes a key; request bodies take no field that is
not named. It is said here once instead of at each route.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Litestar, Request, get
from litestar.routes import HTTPRoute

from threadline.entrypoints.http import answers, auth, keys
from threadline.entrypoints.http.bodies import Body

MEDIA_TYPE = "application/problem+json"
ALWAYS = (400, 401, 403, 404, 405, 421, 503)
READING = (409, 410)
WRITING = (409, 410, 413, 415, 507)
# What people without a token may ask for is bounded.
BOUNDED = {auth.OPEN, auth.GUEST}
TEMPLATE = "#/components/schemas/{name}"
KEY: dict[str, Any] = {
    "name": keys.HEADER,
    "in": "header",
    "description": "With it the same request is done once, for 30 days; another payload under the "
    "same key is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "required": False,
}
# The guard reads it, so no handler has it.
WHICH: dict[str, Any] = {
    "name": auth.WHICH,
    "in": "query",
    "description": "Which of the browser's guests asks, as coming in answered it; it may be left "
    "out where there is one",
    "schema": {"type": "string"},
    "required": False,
}


@get("/openapi.json", opt=auth.callers(auth.OPEN), include_in_schema=False)
async def openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The API as an OpenAPI 3.1 document."""
    state = request.app.state
    if "document" not in state:
        state.document = document(request.app)
    found: dict[str, Any] = state.document
    return found


def document(app: Litestar) -> dict[str, Any]:
    """The whole document."""
    found: dict[str, Any] = app.openapi_schema.to_schema()
    # Bodies as what decodes them describes them: it knows that no further field is taken.
    exact = [answers.Problem, *_below(Body)]
    _, schemas = msgspec.json.schema_components(exact, ref_template=TEMPLATE)
    found["components"]["schemas"].update(schemas)
    found["components"]["responses"] = {
        _phrase(status): _problem(status) for status in {*ALWAYS, *READING, *WRITING, 429}
    }
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path_format in found["paths"]:
            for method, (handler, _) in route.route_handler_map.items():
                operation = found["paths"][route.path_format].get(method.lower())
                if operation is not None:
                    _complete(operation, method, handler.opt)
    return found


def _below(kind: type[Any]) -> list[type[Any]]:
    return [one for below in kind.__subclasses__() for one in (below, *_below(below))]


def _complete(operation: dict[str, Any], method: str, opt: dict[str, Any]) -> None:
    """What a route has by its method and by whom it is for."""
    statuses = (*ALWAYS, *(READING if method == "GET" else WRITING))
    if BOUNDED & set(opt.get("callers", ())):
        statuses = (*statuses, 429)
    for status in statuses:
        reference = f"#/components/responses/{_phrase(status)}"
        operation["responses"][str(status)] = {"$ref": reference}
    if auth.OPEN in opt.get("callers", ()):
        operation["security"] = []
    for content in operation["responses"].values():
        if stream := content.get("content", {}).get("text/event-stream"):
            stream["schema"] = {"type": "string"}
    if "body" in opt:
        operation["requestBody"]["content"]["application/json"]["schema"] = opt["body"]
    parameters = operation.setdefault("parameters", [])
    for one in parameters:
        if one["in"] != "path":
            one["schema"] = _given(one["schema"])
            for word in ("allowEmptyValue", "allowReserved"):
                one.pop(word, None)
    if method == "POST":
        parameters[:] = [one for one in parameters if one["name"] != keys.HEADER]
        parameters.append(KEY)
    if auth.for_guests(opt):
        parameters.append(WHICH)
    if not parameters:
        del operation["parameters"]


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is there or is left out; in an address there is no null."""
    kinds = [one for one in schema.get("oneOf", ()) if one != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def _problem(status: int) -> dict[str, Any]:
    reference = TEMPLATE.format(name=answers.Problem.__name__)
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": reference}}},
    }
