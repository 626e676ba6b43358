"""Conversations and their transcripts: ensure, list, change, append, import."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import Request, get, patch, post
from litestar.params import FromQuery, JSONBody, PathParameter

from threadline.core.errors import HydrationConflict, InvalidInput
from threadline.core.model import AdapterCaller, SessionCaller
from threadline.core.rules.binding import KEEP
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import (
    ADAPTER,
    BOUND,
    CONTROLLER,
    SESSION,
    Asker,
    Line,
    callers,
)
from threadline.entrypoints.http.bodies import Body, ConversationBody, MessageBody, scoped
from threadline.entrypoints.http.keys import named, repeated
from threadline.entrypoints.shapes import plain, record_of, taken_of
from threadline.flows.conversations import State, TranscriptPage

Answer = dict[str, Any]
Id = Annotated[str, PathParameter(description="The conversation's opaque id.")]


def conversation_of(state: State) -> Answer:
    """A conversation as it is shown."""
    return {**plain(state), "head": state.head}


@post(
    "/v1/conversations",
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
    responses=answers.shown(answers.Conversation),
)
async def ensure(data: JSONBody[ConversationBody], line: Line, caller: Asker) -> Answer:
    """Make a conversation known, or find it."""
    ref = data.ref(caller)
    state = await line.conversations.ensure(
        ref, title=data.title, metadata=data.metadata, caller=caller
    )
    return conversation_of(state)


@get("/v1/conversations", opt=callers(CONTROLLER), responses=answers.shown(answers.Conversations))
async def page(
    line: Line,
    caller: Asker,
    ref: FromQuery[str | None] = None,
    scope_id: FromQuery[str | None] = None,
    after: FromQuery[str] = "",
    limit: FromQuery[int | None] = None,
) -> Answer:
    """The conversations of a scope by address; with `ref` the one at that address."""
    asked = scoped(caller, scope_id)
    if ref is not None:
        found = await line.conversations.show(ref, caller=asked)
        return {"conversations": [conversation_of(found)], "next": None}
    states, following = await line.conversations.page(after=after, limit=limit, caller=asked)
    return {"conversations": [conversation_of(one) for one in states], "next": following}


@get(
    "/v1/conversations/{conversation:str}",
    opt=callers(CONTROLLER, ADAPTER, SESSION, BOUND),
    responses=answers.shown(answers.Conversation),
)
async def show(conversation: Id, line: Line, caller: Asker) -> Answer:
    """One conversation with its counters."""
    return conversation_of(await line.conversations.show(conversation, caller=caller))


class ChangeBody(Body):
    """What is left out stays; null lifts a bound. `max_age` in seconds."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    max_retained_entries: int | msgspec.UnsetType | None = msgspec.UNSET
    max_age: float | msgspec.UnsetType | None = msgspec.UNSET


@patch(
    "/v1/conversations/{conversation:str}",
    opt=callers(CONTROLLER),
    responses=answers.shown(answers.Conversation),
)
async def change(conversation: Id, data: JSONBody[ChangeBody], line: Line, caller: Asker) -> Answer:
    """Change title, metadata or retention."""
    age: Any = data.max_age
    if isinstance(age, float):
        try:
            age = timedelta(seconds=age)
        except (OverflowError, ValueError):
            raise InvalidInput("max_age is no number of seconds.", field="max_age") from None
    entries: Any = data.max_retained_entries
    state = await line.conversations.change(
        conversation,
        title=data.title,
        metadata=data.metadata,
        max_retained_entries=KEEP if entries is msgspec.UNSET else entries,
        max_age=KEEP if age is msgspec.UNSET else age,
        caller=caller,
    )
    return conversation_of(state)


def transcript_of(page: TranscriptPage, *, folded: bool = False) -> Answer:
    """A page of a transcript; with the messages where they were asked for, also where none is."""
    found: Answer = {
        "conversation": page.conversation,
        "ref": plain(page.ref),
        "records": [record_of(one) for one in page.records],
        "history": page.history.value,
        "reason": page.reason,
        "head": page.head,
        "earliest": page.earliest,
        "next": page.next,
    }
    if folded:
        found["messages"] = [
            {**plain(one), "record": record_of(one.record)} for one in page.messages
        ]
    return found


@get(
    "/v1/conversations/{conversation:str}/transcript",
    opt=callers(CONTROLLER, SESSION, BOUND),
    responses=answers.shown(answers.Transcript),
)
async def transcript(
    conversation: Id,
    line: Line,
    caller: Asker,
    after: FromQuery[int | None] = None,
    before: FromQuery[int | None] = None,
    order: FromQuery[str] = "asc",
    limit: FromQuery[int | None] = None,
    view: FromQuery[str] = "records",
) -> Answer:
    """A page of records, or with `view=messages` of messages with their edits folded in.

    Cursors are exclusive; a session sees the slice its policy allows.
    """
    session = caller.session if isinstance(caller, SessionCaller) else None
    return transcript_of(
        await line.conversations.transcript(
            conversation,
            after=after,
            before=before,
            order=order,
            limit=limit,
            view=view,
            session=session,
            caller=caller,
        ),
        folded=view == "messages",
    )


@post(
    "/v1/conversations/{conversation:str}/transcript",
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
    responses=answers.shown(answers.Taken),
)
async def append(
    conversation: Id, data: JSONBody[MessageBody], line: Line, caller: Asker
) -> Answer:
    """Append one message as the caller says it."""
    state = await line.conversations.show(conversation, caller=caller)
    message = named(line, data.message(state.ref))
    taken = await line.inbound.append(message, caller=caller)
    return taken_of(taken)


class WindowBody(Body):
    """`begin` opens a window; `complete` and `fail` close it under its token."""

    action: str
    mode: str | None = None
    token: str | None = None
    reason: str = ""
    metadata: dict[str, Any] | None = None


@post(
    "/v1/conversations/{conversation:str}/hydration",
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
    responses=answers.shown(answers.Window),
)
async def hydrate(
    conversation: Id,
    data: JSONBody[WindowBody],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
) -> Answer:
    """Open or close an import of history."""
    if data.action == "begin":
        owner = _owner(request, caller)
        opened = await line.hydration.begin(
            conversation, owner=owner, mode=data.mode, metadata=data.metadata, caller=caller
        )
        return {
            "token": opened.token,
            "mode": plain(opened.mode),
            "lease_expires_at": plain(opened.lease_expires_at),
            "hydration": opened.hydration.value,
        }
    if data.token is None:
        raise InvalidInput(f"{data.action} needs the window's token.", field="token")
    about: Any = {"metadata": data.metadata, "caller": caller}
    try:
        if data.action == "complete":
            ended = await line.hydration.complete(conversation, data.token, **about)
        elif data.action == "fail":
            ended = await line.hydration.fail(conversation, data.token, data.reason, **about)
        else:
            raise InvalidInput("action is one of: begin, complete, fail.", field="action")
    except HydrationConflict:
        if not repeated(line):
            raise
        # Closed under this key before: what became of it is the answer.
        state = await line.conversations.show(conversation, caller=caller)
        return {"hydration": state.hydration.value, "reason": state.reason}
    return {"hydration": ended.hydration.value, "reason": ended.reason}


def _owner(request: Request[Any, Any, Any], caller: Asker) -> str:
    """Whose window it is: an adapter's account, or the token of a controller."""
    if isinstance(caller, AdapterCaller):
        return f"{caller.provider}/{caller.account_id}"
    return f"token {request.state.bearer.id}"


class HistoryBody(Body):
    """Records of a history, in the order of the window's mode."""

    token: str
    records: list[MessageBody]


@post(
    "/v1/conversations/{conversation:str}/hydration/records",
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
    responses=answers.shown(answers.Results),
)
async def bring(conversation: Id, data: JSONBody[HistoryBody], line: Line, caller: Asker) -> Answer:
    """Bring a part of the history into the open window; known ids are skipped."""
    state = await line.conversations.show(conversation, caller=caller)
    messages = [named(line, one.message(state.ref), n) for n, one in enumerate(data.records)]
    taken = await line.hydration.records(conversation, data.token, messages, caller=caller)
    return {"results": [taken_of(one) for one in taken]}


ROUTES = [ensure, page, show, change, transcript, append, hydrate, bring]
