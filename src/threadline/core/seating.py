"""Giving a session a place in a conversation, and taking it, with the count that goes with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, SessionNotFound, SessionRetired
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Controller,
    Conversation,
    Membership,
    Policy,
    Reason,
    Session,
)
from threadline.core.ports import MEMBER, MEMBERS_OF, NAME, SEATS_OF, SESSION, Page
from threadline.core.rules import membership, visibility

MAX_NAME = 200
PAGE = 1_000


def checked_name(name: object) -> str:
    """A session's name. Raises `InvalidInput` for one that is blank, long or unprintable."""
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        raise InvalidInput(
            f"a session's name has 1 to {MAX_NAME} characters.", session_id=str(name)[:MAX_NAME]
        )
    if not name.isprintable() or "/" in name or name != name.strip():
        raise InvalidInput(
            "a session's name holds no '/', no control character and no space at its ends.",
            session_id=name,
        )
    return name


def session_named(draft: Draft, scope: str, name: str) -> Session:
    """The session behind a name. Raises `SessionNotFound` or `SessionRetired`."""
    number = draft.get(NAME, (scope, checked_name(name)))
    session = None if number is None else draft.get(SESSION, number)
    if session is None:
        raise SessionNotFound(f"({name!r} in scope {scope!r})", session_id=name)
    if session.retired_at is not None:
        raise SessionRetired(f"({name!r}) Create it anew to use the name again.", session_id=name)
    return session


def ensure_session(
    draft: Draft, scope: str, name: str, now: datetime, *, caller: Caller = CONTROLLER
) -> Session:
    """The session behind a name; where the name is unknown a controller's call creates it.

    Raises `SessionNotFound` for any other caller, and `SessionRetired`.
    """
    number = draft.get(NAME, (scope, checked_name(name)))
    if number is not None or not isinstance(caller, Controller):
        return session_named(draft, scope, name)
    made = Session(id=draft.fresh(), scope_id=scope, name=name, created_at=now)
    draft.put(SESSION, made.id, made)
    draft.put(NAME, (scope, name), made.id)
    return made


def numbers_of(session: Session) -> tuple[int, ...]:
    """A session and those it took over from: rows of any of them are its own."""
    return (session.id, *session.predecessors)


def heir(draft: Draft, session: int | None) -> Session | None:
    """The session behind an id, or who took over from it; None where it is retired or unknown."""
    seen = 0
    while session is not None and seen < 16:
        found = draft.get(SESSION, session)
        if found is None:
            return None
        if found.successor is None:
            return found if found.retired_at is None else None
        session, seen = found.successor, seen + 1
    return None


def seat(
    draft: Draft,
    conversation: Conversation,
    session: int,
    *,
    by: Reason,
    policy: Policy,
    now: datetime,
    expires_at: datetime | None = None,
    replace_grant: bool = False,
    head: int | None = None,
) -> tuple[Conversation, Membership]:
    """Grant membership and count it. The conversation is saved where its count changed."""
    before = draft.get(MEMBER, (conversation.id, session))
    after = membership.join(
        before,
        conversation,
        session,
        by=by,
        policy=policy,
        now=now,
        expires_at=expires_at,
        replace_grant=replace_grant,
        head=head,
    )
    return _settle(draft, conversation, before, after)


def unseat(
    draft: Draft, conversation: Conversation, after: Membership
) -> tuple[Conversation, Membership]:
    """Write a membership that lost grants, and count it."""
    before = draft.get(MEMBER, (conversation.id, after.session))
    return _settle(draft, conversation, before, after)


def _settle(
    draft: Draft, conversation: Conversation, before: Membership | None, after: Membership
) -> tuple[Conversation, Membership]:
    if after is before:
        return conversation, after
    draft.put(MEMBER, (conversation.id, after.session), after)
    draft.changes.sessions.add(after.session)
    was = before is not None and before.closed_at is None
    change = (after.closed_at is None) - was
    if change:
        about = replace(conversation.about, members=conversation.about.members + change)
        conversation = replace(conversation, about=about)
        draft.save(conversation)
    return conversation, after


def seats_of(draft: Draft, conversation: int) -> Iterator[tuple[str, int]]:
    """Every name that means somebody here, folded, with the session behind it."""
    after = ""
    while True:
        rows = draft.page(Page(SEATS_OF, (conversation, after, PAGE)))
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def members_of(draft: Draft, conversation: int) -> Iterator[Membership]:
    """Every open membership, as it was before this story."""
    after = -1
    while True:
        rows = draft.page(Page(MEMBERS_OF, (conversation, after, PAGE)))
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1].session


def active_member(
    draft: Draft, conversation: Conversation, session: int, now: datetime
) -> Membership | None:
    """The membership as it counts at this instant, None where there is none."""
    member = draft.get(MEMBER, (conversation.id, session))
    return member if member is not None and visibility.is_active(member, now) else None
