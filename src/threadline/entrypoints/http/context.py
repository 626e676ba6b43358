"""What a session is told of a conversation, ready for a model."""

from __future__ import annotations

from litestar import get
from litestar.params import FromQuery

from threadline.entrypoints.http.auth import BOUND, CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.shapes import context_of


@get("/v1/conversations/{conversation:str}/context", opt=callers(CONTROLLER, SESSION, BOUND))
async def context(
    conversation: Id,
    line: Line,
    caller: Asker,
    session: FromQuery[str | None] = None,
    budget: FromQuery[int | None] = None,
    budget_unit: FromQuery[str] = "characters",
    format: FromQuery[str] = "messages",
) -> Answer:
    """The newest records that fit into `budget` characters or tokens, as `messages` or `text`.

    What others said stands in blocks that nothing in them can end; a session gets its own.
    """
    return context_of(
        await line.context.read(
            conversation,
            session,
            budget=budget,
            unit=budget_unit,
            form=format,
            caller=caller,
        )
    )


ROUTES = [context]
