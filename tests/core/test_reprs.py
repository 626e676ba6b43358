"""Nothing that is shown by accident, in a log or a traceback, holds what opens anything."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import threadline
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.webhooks import AccountBody

NAMES = frozenset({"credentials", "given", "secret", "secrets", "token"})
# These open nothing: whether an answer is secret; the key of a delivery, which platforms repeat.
HARMLESS = frozenset({"Ask.secret", "InboundMessage.token", "Receipt.token"})


def classes() -> Iterator[type[Any]]:
    """Every class of ours."""
    for found in pkgutil.walk_packages(threadline.__path__, "threadline."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            for one in vars(module).values():
                if isinstance(one, type) and one.__module__ == found.name:
                    yield one


def test_no_value_shows_a_secret() -> None:
    """Of a token that is bytes only its hash is kept; a number is no token but its row."""
    shown = {
        f"{one.__qualname__}.{field.name}"
        for one in classes()
        if dataclasses.is_dataclass(one)
        for field in dataclasses.fields(one)
        if field.name in NAMES and field.repr and field.type not in ("bytes", "int")
    }
    assert shown == HARMLESS


def test_no_request_body_shows_what_it_holds() -> None:
    body = AccountBody(provider="telegram", given={"token": "hush"})
    assert repr(body) == "<AccountBody>"
    kinds = [one for one in classes() if issubclass(one, Body)]
    assert len(kinds) > 10
    assert {one.__repr__ for one in kinds} == {Body.__repr__}
