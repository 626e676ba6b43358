"""Finding what a caller names: a conversation by ref or id, a session by name."""

from __future__ import annotations

from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import MembershipNotFound, NotFound
from threadline.core.ids import number_of
from threadline.core.model import (
    Caller,
    Conversation,
    ConversationRef,
    Membership,
    Session,
    SessionCaller,
)
from threadline.core.places import refuse_other_kind
from threadline.core.ports import CONVERSATION, MEMBER, NAME, SESSION, Key, Loaded, Needs
from threadline.core.rules import authority
from threadline.core.rules.authority import Where
from threadline.core.seating import active_member, session_named


def where_of(given: ConversationRef | str) -> Where:
    """What a caller wrote: a ref, a ref's text, or a conversation's id.

    Raises `InvalidConversation` for a malformed ref, `NotFound` for what is no id.
    """
    if isinstance(given, ConversationRef):
        return given
    if "/" in given:
        return ConversationRef.parse(given)
    number = number_of(given.strip())
    if number is None:
        raise NotFound(f"there is no conversation {given!r}.", conversation=given)
    return number


def key_of(where: Where) -> str | int:
    """How a store is asked for it."""
    return where.text if isinstance(where, ConversationRef) else where


def taking(where: Where, *names: tuple[str, str]) -> Needs:
    """The needs of a story that changes this conversation."""
    rows = [(NAME, name) for name in names]
    if isinstance(where, ConversationRef):
        return Needs(take=(where.text,), rows=list(rows))
    return Needs(take_ids=(where,), rows=list(rows))


def peeking(where: Where, *names: tuple[str, str]) -> Needs:
    """The needs of a story that only looks at this conversation."""
    rows: list[Key] = [(NAME, name) for name in names]
    if isinstance(where, ConversationRef):
        return Needs(peek=(where.text,), rows=rows)
    return Needs(rows=[*rows, (CONVERSATION, where)])


def found(
    loaded: Loaded, where: Where, caller: Caller, *, take: bool = False, strict: bool = True
) -> Conversation:
    """The conversation, if the caller may know it. Raises `NotFound` or `Unauthorized`.

    What is taken is going to be changed: then a ref of another kind is a `KindMismatch`, unless
    not `strict`, as for an import, whose kind is a provider's word.
    """
    key = key_of(where)
    conversation = loaded.taken(key) if take else loaded.peeked(key)
    if conversation is None:
        if isinstance(where, ConversationRef):
            authority.known_to(caller, where, where)
        if isinstance(caller, SessionCaller):
            raise NotFound("there is no such conversation.")
        raise NotFound(f"there is no conversation {where}.", conversation=str(where))
    authority.known_to(caller, conversation.ref, where)
    authority.within(caller, conversation.id)
    if take and strict and isinstance(where, ConversationRef):
        refuse_other_kind(conversation, where.kind)
    return conversation


def membership_rows(loaded: Loaded, where: Where, session: str) -> Needs:
    """The session's rows in this conversation, its predecessors' included."""
    conversation = loaded.peeked(key_of(where))
    if conversation is None:
        return Needs()
    number = loaded.get(NAME, (conversation.ref.scope_id, session))
    if number is None:
        return Needs()
    return Needs(rows=[(SESSION, number)], hold=[(MEMBER, (conversation.id, number))])


def member_of(
    draft: Draft, conversation: Conversation, name: str, now: datetime, *, caller: Caller
) -> tuple[Session, Membership]:
    """A session of the conversation's scope, and its active membership.

    While a `reassign` moves its rows, the predecessor's membership counts. Raises
    `MembershipNotFound`; to a session that never was a member there is no such conversation, else
    it could try out which there are (law 5).
    """
    session = session_named(draft, conversation.ref.scope_id, name)
    numbers = (session.id, *session.predecessors)
    for number in numbers:
        member = active_member(draft, conversation, number, now)
        if member is not None:
            return session, member
    never = all(draft.get(MEMBER, (conversation.id, number)) is None for number in numbers)
    if never and isinstance(caller, SessionCaller):
        raise NotFound("there is no such conversation.")
    raise MembershipNotFound(f"({name!r} in {conversation.ref})", session_id=name)
