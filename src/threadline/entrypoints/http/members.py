"""Who reads: memberships, backfill, acknowledgement."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import delete, get, patch, post, put
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.errors import InvalidInput
from threadline.core.model import Policy, Reason
from threadline.core.rules.binding import KEEP
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import BOUND, CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.shapes import handed_of, plain
from threadline.flows.members import Member
from threadline.flows.replay import Backfill

ROOT = "/v1/conversations/{conversation:str}/members"
ONE = ROOT + "/{session:str}"


def policy_of(policy: Policy | None) -> Answer | None:
    """A policy with its number where it has one."""
    return None if policy is None else {"policy": policy.backfill.value, "n": policy.n}


def member_of(member: Member) -> Answer:
    """A membership as it is shown."""
    return {
        **plain(member),
        **(policy_of(member.policy) or {}),
        "override": policy_of(member.override),
        "grants": {reason: policy_of(one) for reason, one in member.grants.items()},
    }


def backfill_of(page: Backfill) -> Answer:
    """A page of what a member has not read."""
    return {
        "conversation": page.conversation,
        "ref": plain(page.ref),
        "records": [handed_of(one) for one in page.records],
        "history": page.history.value,
        "reason": page.reason,
        "head": page.head,
        "earliest": page.earliest,
        "last_read": page.last_read,
        "visible_from": page.visible_from,
        "more": page.more,
        "gap": None if page.gap is None else {"first": page.gap.first, "last": page.gap.last},
    }


@get(ROOT, opt=callers(CONTROLLER), responses=answers.shown(answers.Members))
async def page(
    conversation: Id,
    line: Line,
    caller: Asker,
    after: FromQuery[int] = -1,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """The members of a conversation."""
    members, following = await line.members.of(
        conversation, after=after, limit=limit, caller=caller
    )
    return {"members": [member_of(one) for one in members], "next": following}


class JoinBody(Body):
    """How much of the past the member reads: `all`, `since_join`, or `last_n` with `n`."""

    policy: str = "all"
    n: int | None = None
    reason: str = "manual"
    metadata: dict[str, Any] | None = None


@put(ONE, opt=callers(CONTROLLER), responses=answers.shown(answers.Member))
async def join(
    conversation: Id, session: FromPath[str], data: JSONBody[JoinBody], line: Line, caller: Asker
) -> Answer:
    """Make a session a member; an unknown session is created."""
    if Reason.of(data.reason) is not Reason.MANUAL:
        raise InvalidInput(
            "a membership by binding or group comes with the binding or the handle.",
            field="reason",
        )
    member = await line.members.join(
        conversation,
        session,
        policy=data.policy,
        n=data.n,
        metadata=data.metadata,
        caller=caller,
    )
    return member_of(member)


class OverrideBody(Body):
    """The policy that counts instead of what is granted; null lifts it, left out it stays."""

    override: str | msgspec.UnsetType | None = msgspec.UNSET
    n: int | None = None
    metadata: dict[str, Any] | None = None


@patch(ONE, opt=callers(CONTROLLER), responses=answers.shown(answers.Member))
async def override(
    conversation: Id,
    session: FromPath[str],
    data: JSONBody[OverrideBody],
    line: Line,
    caller: Asker,
) -> Answer:
    """Set or lift a member's override."""
    chosen: Any = data.override
    member = await line.members.update(
        conversation,
        session,
        override=KEEP if chosen is msgspec.UNSET else chosen,
        n=data.n,
        metadata=data.metadata,
        caller=caller,
    )
    return member_of(member)


@delete(
    ONE, status_code=200, opt=callers(CONTROLLER, SESSION), responses=answers.shown(answers.Member)
)
async def leave(
    conversation: Id,
    session: FromPath[str],
    line: Line,
    caller: Asker,
    reason: FromQuery[str | None] = None,
    evict: FromQuery[bool] = False,
) -> Answer:
    """Take one reason away, or all of them; `evict` keeps the session out."""
    member = await line.members.leave(
        conversation, session, reason=reason, evict=evict, caller=caller
    )
    return member_of(member)


@get(ONE, opt=callers(CONTROLLER, SESSION, BOUND), responses=answers.shown(answers.Member))
async def show(conversation: Id, session: FromPath[str], line: Line, caller: Asker) -> Answer:
    """One membership."""
    return member_of(await line.members.show(conversation, session, caller=caller))


@get(
    ONE + "/backfill",
    opt=callers(CONTROLLER, SESSION, BOUND),
    responses=answers.shown(answers.Backfill),
)
async def backfill(
    conversation: Id,
    session: FromPath[str],
    line: Line,
    caller: Asker,
    limit: FromQuery[int | None] = None,
    own: FromQuery[bool] = False,
) -> Answer:
    """A page of what the member has not read; `own` shows its own words as well."""
    return backfill_of(
        await line.replay.backfill(conversation, session, limit=limit, own=own, caller=caller)
    )


class AckBody(Body):
    """Read up to and with this sequence."""

    sequence: int


@post(
    ONE + "/ack",
    status_code=200,
    opt=callers(CONTROLLER, SESSION, BOUND),
    responses=answers.shown(answers.Cursor),
)
async def ack(
    conversation: Id, session: FromPath[str], data: JSONBody[AckBody], line: Line, caller: Asker
) -> Answer:
    """Move the cursor forward; under it nothing happens."""
    member = await line.replay.ack(conversation, session, data.sequence, caller=caller)
    return {"conversation": conversation, "session_id": session, "last_read": member.last_read}


ROUTES = [page, join, override, leave, show, backfill, ack]
