"""Stories that wait for their batch, and what becomes of one whose data cannot be saved."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from threadline.core.ports import Story, Witness
from threadline.stores.bodies import micros
from threadline.stores.codec import Row


class Waiting:
    """A story and where its answer goes. `mark` is what a witness wants to know it by."""

    __slots__ = ("answer", "future", "mark", "story")

    def __init__(
        self, story: Story[Any], future: asyncio.Future[Any], witness: Witness | None = None
    ) -> None:
        self.story = story
        self.future = future
        self.answer: Any = None
        self.mark: Any = None if witness is None else witness.asked(story)


def settle(items: Iterable[Waiting]) -> None:
    """Hand out the answers; whoever no longer waits is passed over."""
    for item in items:
        if item.future.done():
            continue
        if isinstance(item.answer, Exception):
            item.future.set_exception(item.answer)
        else:
            item.future.set_result(item.answer)


def parked(story: Story[Any], error: Exception, at: datetime) -> Row:
    """The row under which a story's payload is kept until an operator looks at it."""
    return (
        int.from_bytes(os.urandom(7), "big"),
        micros(at),
        type(story).__name__,
        _storable(f"{type(error).__name__}: {error}"[:1000]),
        msgspec.json.encode(_json(story.payload)).decode(),
        1,
    )


def _storable(text: str) -> str:
    """Text that any database keeps: what it refuses (NUL, half a surrogate pair) is escaped."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def _json(payload: Any) -> Any:
    """A payload whose strings can be encoded."""
    match msgspec.to_builtins(payload):
        case str() as text:
            return text.encode("utf-8", "backslashreplace").decode()
        case dict() as found:
            return {_json(name): _json(value) for name, value in found.items()}
        case list() | tuple() as found:
            return [_json(value) for value in found]
        case found:
            return found
