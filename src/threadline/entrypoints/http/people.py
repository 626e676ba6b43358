"""People over HTTP: who is who, whether they may be written to, through what and how often."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import delete, get, patch, post, put
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from threadline.core.rules.limits import clamp
from threadline.entrypoints.http import answers, replies
from threadline.entrypoints.http.auth import CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.keys import ONCE
from threadline.entrypoints.shapes import plain

ROOT = "/v1/people"
ONE = ROOT + "/{person:str}"
ACCOUNTS = "/v1/sessions/{session:str}/accounts"
By = Annotated[
    str, QueryParameter(description="`PROVIDER:ADDRESS`, `email:ADDRESS` or `alias:NAME`.")
]


@get(ROOT, opt=callers(CONTROLLER), responses=answers.shown(replies.People))
async def page(
    line: Line,
    caller: Asker,
    name: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """People, all or those of a name."""
    found = await line.people.list(name=name, after=after, limit=limit, caller=caller)
    full = len(found) == clamp(limit, line.limits)
    return {"people": plain(found), "next": found[-1].id if found and full else None}


class PersonBody(Body):
    """Who somebody is. `contacts` are written `PROVIDER:ADDRESS`, `email:ADDRESS` or `alias:NAME`;
    `verified` vouches for them, which only a human does."""

    name: str
    contacts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    verified: bool = False


@post(ROOT, status_code=200, opt=callers(CONTROLLER), responses=answers.shown(replies.Person))
async def make(data: JSONBody[PersonBody], line: Line, caller: Asker) -> Answer:
    """Make a person known before they write."""
    made = await line.people.make(
        data.name,
        contacts=data.contacts,
        languages=data.languages,
        metadata=data.metadata,
        verified=data.verified,
        caller=caller,
    )
    return dict(plain(made))


@get(ROOT + "/find", opt=callers(CONTROLLER), responses=answers.shown(replies.Person))
async def find(line: Line, caller: Asker, by: By) -> Answer:
    """The person behind an address."""
    who = by if ":" in by else f"{by}:"
    return dict(plain(await line.people.show(who, caller=caller)))


@get(ONE, opt=callers(CONTROLLER), responses=answers.shown(replies.Person))
async def show(person: FromPath[str], line: Line, caller: Asker) -> Answer:
    """One person with every way to them."""
    return dict(plain(await line.people.show(person, caller=caller)))


class ChangedBody(Body):
    """What changes of a person; `contacts` are added, `without` are taken away. `realm` is where
    an address is unique: the team, for Slack."""

    name: str | None = None
    languages: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    contacts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    realm: str = ""
    verified: bool = False


@patch(ONE, opt=callers(CONTROLLER), responses=answers.shown(replies.Person))
async def change(
    person: FromPath[str], data: JSONBody[ChangedBody], line: Line, caller: Asker
) -> Answer:
    """Change a person, add contacts and take some away."""
    changed = await line.people.change(
        person,
        name=data.name,
        languages=data.languages,
        metadata=data.metadata,
        contacts=data.contacts,
        without=data.without,
        realm=data.realm,
        verified=data.verified,
        caller=caller,
    )
    return dict(plain(changed))


class MergeBody(Body):
    """Who turned out to be the same person."""

    other: str


@post(
    ONE + "/merge",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(replies.Person),
)
async def merge(
    person: FromPath[str], data: JSONBody[MergeBody], line: Line, caller: Asker
) -> Answer:
    """Two persons are one: this one keeps what is known of either, and OFF wins."""
    return dict(plain(await line.people.merge(person, data.other, caller=caller)))


class SplitBody(Body):
    """The contact that is somebody else's, and what they are called."""

    contact: str
    realm: str = ""
    name: str = ""


@post(
    ONE + "/split",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(replies.Person),
)
async def split(
    person: FromPath[str], data: JSONBody[SplitBody], line: Line, caller: Asker
) -> Answer:
    """A contact is somebody else's: the new person who has it is answered."""
    made = await line.people.split(
        person, data.contact, realm=data.realm, name=data.name, caller=caller
    )
    return dict(plain(made))


class CodeBody(Body):
    """Where the code counts; empty is anywhere."""

    provider: str = ""


@post(
    ONE + "/code",
    status_code=200,
    opt=callers(CONTROLLER, key=ONCE),
    responses=answers.shown(replies.Code),
)
async def code(
    person: FromPath[str], data: JSONBody[CodeBody], line: Line, caller: Asker
) -> Answer:
    """A code for a person to say in a channel of theirs, which is verified by that. Shown once."""
    return dict(plain(await line.people.code(person, provider=data.provider, caller=caller)))


class ConsentBody(Body):
    """Whether a person, or everybody in a room, may be written to first: `on` or `off`.

    `about` narrows it to a provider or to `session:NAME`. Only a human turns something on.
    """

    state: str
    person: str | None = None
    conversation: str | None = None
    about: str = ""
    why: str = ""


@put("/v1/consent", opt=callers(CONTROLLER), responses=answers.shown(replies.Consent))
async def decide(data: JSONBody[ConsentBody], line: Line, caller: Asker) -> Answer:
    """Turn writing first to a person, or in a room, on or off."""
    made = await line.consents.set(
        data.state,
        person=data.person,
        room=data.conversation,
        about=data.about,
        why=data.why,
        caller=caller,
    )
    return dict(plain(made))


@get("/v1/consent", opt=callers(CONTROLLER), responses=answers.shown(replies.Consents))
async def consents(
    line: Line,
    caller: Asker,
    person: FromQuery[str | None] = None,
    conversation: FromQuery[str | None] = None,
) -> Answer:
    """What was decided about writing to a person or in a room."""
    found = await line.consents.list(person=person, room=conversation, caller=caller)
    return {"consents": plain(found)}


@get(ACCOUNTS, opt=callers(CONTROLLER, SESSION), responses=answers.shown(replies.Grants))
async def accounts(session: FromPath[str], line: Line, caller: Asker) -> Answer:
    """The accounts through which a session may start conversations; a session sees its own."""
    return {"accounts": plain(await line.consents.granted(session, caller=caller))}


@put(
    ACCOUNTS + "/{provider:str}/{account:str}",
    opt=callers(CONTROLLER),
    responses=answers.shown(replies.Grant),
)
async def grant(
    session: FromPath[str],
    provider: FromPath[str],
    account: FromPath[str],
    line: Line,
    caller: Asker,
) -> Answer:
    """Let a session start conversations through an account."""
    return dict(plain(await line.consents.grant(session, provider, account, caller=caller)))


@delete(ACCOUNTS + "/{provider:str}/{account:str}", status_code=200, opt=callers(CONTROLLER))
async def withdraw(
    session: FromPath[str],
    provider: FromPath[str],
    account: FromPath[str],
    line: Line,
    caller: Asker,
) -> Answer:
    """Take an account away from a session; what is not sent yet is cancelled."""
    await line.consents.withdraw(session, provider, account, caller=caller)
    return {"session_id": session, "provider": provider, "account_id": account}


@get("/v1/limits", opt=callers(CONTROLLER), responses=answers.shown(replies.Allowances))
async def limits(line: Line, caller: Asker) -> Answer:
    """How often something may be said first."""
    return dict(plain(await line.consents.limits(caller=caller)))


class LimitsBody(Body):
    """How many sends in a sliding window; 0 is unlimited, what is left out stays."""

    recipient_per_hour: int | None = None
    recipient_per_day: int | None = None
    session_per_hour: int | None = None
    session_per_day: int | None = None
    account_per_hour: int | None = None
    account_per_day: int | None = None


@put("/v1/limits", opt=callers(CONTROLLER), responses=answers.shown(replies.Allowances))
async def set_limits(data: JSONBody[LimitsBody], line: Line, caller: Asker) -> Answer:
    """Change limits, at once and for every server on the store."""
    given = {name: getattr(data, name) for name in data.__struct_fields__}
    given = {name: value for name, value in given.items() if value is not None}
    return dict(plain(await line.consents.set_limits(given, caller=caller)))


ROUTES = [
    page,
    make,
    find,
    show,
    change,
    merge,
    split,
    code,
    decide,
    consents,
    accounts,
    grant,
    withdraw,
    limits,
    set_limits,
]
