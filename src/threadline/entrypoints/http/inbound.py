"""What adapters bring: one message, or a batch whose items each have their own answer."""

from __future__ import annotations

from typing import Any

from litestar import post
from litestar.params import JSONBody

from threadline.core.errors import InvalidInput, ThreadlineError
from threadline.core.model import AdapterCaller, InboundMessage
from threadline.core.recording import Taken
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import ADAPTER, Asker, Line, callers
from threadline.entrypoints.http.bodies import InboundBody, converted
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.keys import named
from threadline.entrypoints.shapes import plain, taken_of

AT_ONCE = 1_000


def message_of(item: Any, caller: AdapterCaller) -> InboundMessage:
    """An item inside the adapter's own account, whatever it claims (law 13)."""
    body: InboundBody = converted(item, InboundBody)
    own = (caller.scope_id, caller.provider, caller.account_id)
    return body.message(
        body.conversation.ref(*own),
        parent=None if body.parent is None else body.parent.ref(*own),
        same_as=tuple(one.ref(*own) for one in body.same_as),
        token=body.token,
    )


def error_of(error: ThreadlineError) -> Answer:
    """An item's refusal, as short as a problem."""
    return {"code": error.code, "detail": str(error), "facts": plain(error.facts)}


NOTHING: Answer = {
    "record": None,
    "sequence": None,
    "duplicate": False,
    "held": False,
    "target_session_id": None,
    "route": None,
    "readers": 0,
}


BODY = {"anyOf": [{"$ref": f"#/components/schemas/{one}"} for one in ("InboundBody", "BatchBody")]}


@post(
    "/v1/inbound",
    status_code=200,
    opt={**callers(ADAPTER), "body": BODY},
    responses=answers.shown(answers.TAKEN),
)
async def receive(data: JSONBody[dict[str, Any]], line: Line, caller: Asker) -> Answer:
    """Take what was heard: durable, held or known already when this answers.

    `{"messages": [...]}` answers 200 with an answer or an error for each; a single message
    answers with its own problem.
    """
    assert isinstance(caller, AdapterCaller)
    if "messages" not in data:
        message = named(line, message_of(data, caller))
        taken = await line.inbound.receive(message, caller=caller)
        return taken_of(taken)
    if set(data) != {"messages"} or not isinstance(data["messages"], list):
        raise InvalidInput('a batch is {"messages": [...]} and nothing beside it.')
    items = data["messages"]
    if len(items) > AT_ONCE:
        raise InvalidInput(f"a batch has at most {AT_ONCE} messages.", limit=AT_ONCE)
    read: list[InboundMessage | ThreadlineError] = []
    for number, item in enumerate(items):
        try:
            read.append(named(line, message_of(item, caller), number))
        except ThreadlineError as refusal:
            read.append(refusal)
    good = [one for one in read if isinstance(one, InboundMessage)]
    answers = iter(await line.inbound.receive_all(good, caller=caller))
    results: list[Answer] = []
    for one in read:
        answer = next(answers) if isinstance(one, InboundMessage) else one
        if isinstance(answer, Taken):
            results.append(taken_of(answer))
        else:
            results.append({**NOTHING, "error": error_of(answer)})
    return {"results": results}


ROUTES = [receive]
