"""Who speaks: bindings, groups, participants, default routes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from litestar import delete, get, put
from litestar.params import FromPath, JSONBody

from threadline.core.errors import NotFound
from threadline.core.model import FanOut
from threadline.core.rules.binding import KEEP
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import ADAPTER, CONTROLLER, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.shapes import plain

BINDING = "/v1/conversations/{conversation:str}/binding"
GROUP = "/v1/conversations/{conversation:str}/group"
SEAT = GROUP + "/participants/{handle:str}"
ROUTE = "/v1/routes/{provider:str}/{account:str}"


class BindBody(Body):
    """Left out, `expires_at` stays as it is; null clears it."""

    session_id: str
    expires_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    policy: str | None = None
    n: int | None = None
    metadata: dict[str, Any] | None = None


@put(BINDING, opt=callers(CONTROLLER, ADAPTER), responses=answers.shown(answers.Binding))
async def bind(conversation: Id, data: JSONBody[BindBody], line: Line, caller: Asker) -> Answer:
    """Bind a conversation to a session, with the membership that goes with it."""
    until: Any = data.expires_at
    bound = await line.speakers.bind(
        conversation,
        data.session_id,
        policy=data.policy,
        n=data.n,
        expires_at=KEEP if until is msgspec.UNSET else until,
        metadata=data.metadata,
        caller=caller,
    )
    return dict(plain(bound))


@get(BINDING, opt=callers(CONTROLLER, ADAPTER), responses=answers.shown(answers.Binding))
async def binding(conversation: Id, line: Line, caller: Asker) -> Answer:
    """The binding that holds now."""
    bound = await line.speakers.binding(conversation, caller=caller)
    if bound is None:
        raise NotFound("the conversation is bound to nobody.")
    return dict(plain(bound))


@delete(
    BINDING,
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
    responses=answers.shown(answers.Binding),
)
async def unbind(conversation: Id, line: Line, caller: Asker) -> Answer:
    """End the binding; what was ended is the answer."""
    bound = await line.speakers.unbind(conversation, caller=caller)
    if bound is None:
        raise NotFound("the conversation is bound to nobody.")
    return dict(plain(bound))


class FanOutBody(Body):
    """Whether what a peer publishes may wake the others."""

    enabled: bool = False
    allow_untargeted: bool = False
    max_peer_triggered_publishes: int = 1
    max_total_peer_deliveries: int = 8


class GroupBody(Body):
    """What is left out stays; null clears a handle."""

    mode: str | None = None
    default_handle: str | msgspec.UnsetType | None = msgspec.UNSET
    last_addressed_handle: str | msgspec.UnsetType | None = msgspec.UNSET
    fan_out: FanOutBody | None = None
    metadata: dict[str, Any] | None = None


@put(GROUP, opt=callers(CONTROLLER, ADAPTER), responses=answers.shown(answers.Group))
async def change_group(
    conversation: Id, data: JSONBody[GroupBody], line: Line, caller: Asker
) -> Answer:
    """Make the conversation a group, or change it."""
    default: Any = data.default_handle
    last: Any = data.last_addressed_handle
    fan = None if data.fan_out is None else FanOut(**msgspec.structs.asdict(data.fan_out))
    await line.speakers.group(
        conversation,
        mode=data.mode,
        default_handle=KEEP if default is msgspec.UNSET else default,
        last_addressed_handle=KEEP if last is msgspec.UNSET else last,
        fan_out=fan,
        metadata=data.metadata,
        caller=caller,
    )
    return dict(plain(await line.speakers.show_group(conversation, caller=caller)))


@get(GROUP, opt=callers(CONTROLLER, ADAPTER), responses=answers.shown(answers.Group))
async def group(conversation: Id, line: Line, caller: Asker) -> Answer:
    """The group with its participants."""
    return dict(plain(await line.speakers.show_group(conversation, caller=caller)))


class SeatBody(Body):
    """A session under a handle; `public` may publish without a binding."""

    session_id: str
    public: bool | None = None
    aliases: list[str] | None = None
    metadata: dict[str, Any] | None = None


@put(SEAT, opt=callers(CONTROLLER, ADAPTER), responses=answers.shown(answers.Seat))
async def seat(
    conversation: Id, handle: FromPath[str], data: JSONBody[SeatBody], line: Line, caller: Asker
) -> Answer:
    """Give a session a handle here."""
    seated = await line.speakers.participant(
        conversation,
        handle,
        data.session_id,
        public=data.public,
        aliases=None if data.aliases is None else tuple(data.aliases),
        metadata=data.metadata,
        caller=caller,
    )
    return dict(plain(seated))


@delete(
    SEAT, status_code=200, opt=callers(CONTROLLER, ADAPTER), responses=answers.shown(answers.Seat)
)
async def unseat(conversation: Id, handle: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Take a handle away."""
    ended = await line.speakers.remove_participant(conversation, handle, caller=caller)
    return dict(plain(ended))


class RouteBody(Body):
    """Who gets the account's new direct messages."""

    session_id: str


@put(ROUTE, opt=callers(CONTROLLER), responses=answers.shown(answers.Route))
async def route(
    provider: FromPath[str],
    account: FromPath[str],
    data: JSONBody[RouteBody],
    line: Line,
    caller: Asker,
) -> Answer:
    """Give an account's new direct messages to a session."""
    await line.speakers.default_route(provider, account, data.session_id, caller=caller)
    return {"provider": provider, "account_id": account, "session_id": data.session_id}


@delete(ROUTE, status_code=200, opt=callers(CONTROLLER), responses=answers.shown(answers.Route))
async def unroute(
    provider: FromPath[str], account: FromPath[str], line: Line, caller: Asker
) -> Answer:
    """Give an account's new direct messages to nobody."""
    await line.speakers.default_route(provider, account, None, caller=caller)
    return {"provider": provider, "account_id": account, "session_id": None}


ROUTES = [bind, binding, unbind, change_group, group, seat, unseat, route, unroute]
