"""What is asked fits the route: no parameter it does not know, no body it would have to guess.

A misspelt `limti=5` that is passed over in silence answers another question than the one asked.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from litestar import Litestar, Request
from litestar.handlers.base import BaseRouteHandler
from litestar.routes import HTTPRoute

from threadline.core.errors import InvalidInput
from threadline.entrypoints.http.auth import OPEN, WHICH, Connection, for_guests

JSON = ("application/json", "+json")


class UnsupportedMediaType(InvalidInput):
    """The body is not JSON, or does not say that it is."""

    status = 415


def parameters(app: Litestar) -> dict[tuple[str, str], frozenset[str]]:
    """The query parameters each route knows, by its path and method."""
    return {
        (route.path_format, method): frozenset(
            (
                *(one.field_alias for one in model.expected_query_params),
                *((WHICH,) if for_guests(handler.opt) else ()),
            )
        )
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (handler, model) in route.route_handler_map.items()
    }


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Refuse what the route would not look at. Raises `InvalidInput`, `UnsupportedMediaType`.

    What is open to everybody speaks others' languages: a provider says what it likes.
    """
    if OPEN in handler.opt.get("callers", ()):
        return
    scope: Any = connection.scope
    place = (scope["path_template"], scope["method"])
    known = connection.app.state.parameters.get(place, frozenset())
    if unknown := sorted(set(connection.query_params) - known):
        there = f"there are: {', '.join(sorted(known))}" if known else "there are none"
        raise InvalidInput(f"there is no parameter {unknown[0][:64]!r} here, {there}.")
    for name, value in connection.query_params.items():
        # The framework would read the word as "left out" where a number is expected.
        shape = handler.parsed_fn_signature.parameters.get(name)
        if (
            value.casefold() == "null"
            and shape is not None
            and str not in get_args(shape.annotation)
        ):
            raise InvalidInput(f"{name} is a number.", field=name)
    given = connection.headers.get("content-type")
    if given is None or "data" not in handler.parsed_fn_signature.parameters:
        return
    if not given.partition(";")[0].strip().casefold().endswith(JSON):
        raise UnsupportedMediaType("send it as `Content-Type: application/json`.")


class Asked(Request[Any, Any, Any]):
    """A request whose body is read as the route says it, without guessing: `"3"` is no number."""

    async def json(self) -> Any:
        """The body. Raises `InvalidInput` naming what does not fit."""
        shape = self.route_handler.parsed_data_field
        if shape is None:
            return await super().json()
        try:
            return msgspec.json.decode(await self.body(), type=shape.annotation)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{error}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the body is no JSON: {error}.") from None
