"""Who may do what: judged by the caller alone, before anything is looked up.

A ref that names a foreign (scope, provider, account) is `unauthorized`; an id the caller may not
know is `not_found`, whoever calls (law 5).
"""

from __future__ import annotations

from threadline.core.errors import NotFound, Unauthorized
from threadline.core.model import (
    AdapterCaller,
    Caller,
    Controller,
    ConversationRef,
    Guest,
    InboundMessage,
    SessionCaller,
)

Where = ConversationRef | int


def owns(caller: Caller, ref: ConversationRef) -> bool:
    """Whether the ref lies in what the caller's token covers."""
    match caller:
        case Controller(scope):
            return scope is None or scope == ref.scope_id
        case AdapterCaller(scope, provider, account):
            return (scope, provider, account) == (ref.scope_id, ref.provider, ref.account_id)
        case SessionCaller():
            return caller.scope_id == ref.scope_id
        case Guest(room):
            return room == ref


def may_write(caller: Caller, where: Where) -> None:
    """Append, hydrate, bind, group, state: controllers and the account's own adapter."""
    if not isinstance(caller, Controller | AdapterCaller):
        raise Unauthorized("a session or guest does not write to transcripts this way.")
    if isinstance(where, ConversationRef) and not owns(caller, where):
        raise Unauthorized(f"{where} is outside what this token covers.", ref=str(where))


def may_bring(caller: Caller, message: InboundMessage) -> None:
    """A message reaches no further than the token, by none of the addresses in it."""
    may_write(caller, message.conversation)
    for other in message.same_as:
        may_write(caller, other)
    if message.parent is not None:
        may_write(caller, message.parent)
    if message.origin is not None and isinstance(caller, AdapterCaller):
        raise Unauthorized("an adapter does not set the origin.", field="origin")


def may_control(caller: Caller) -> None:
    """Membership and sessions: controllers only."""
    if not isinstance(caller, Controller):
        raise Unauthorized("this needs a controller.")


def human(caller: Caller, deed: str) -> None:
    """Raise `Unauthorized` unless a controller marked human asks: agents grant nothing."""
    if not isinstance(caller, Controller) or not caller.human:
        raise Unauthorized(
            f"only a human {deed}: use a controller's token that is marked human.", human=True
        )


def may_read(caller: Caller, session: str | None = None) -> None:
    """Replay and ack: controllers for anybody, a session for itself; adapters never."""
    match caller:
        case Controller():
            return
        case SessionCaller(name) if session is None or session == name:
            if "read" not in caller.scopes:
                raise Unauthorized("this token does not have the scope `read`.", scope="read")
            return
        case SessionCaller():
            raise Unauthorized("a session reaches only itself.")
        case AdapterCaller() | Guest():
            raise Unauthorized("this token does not read transcripts.")


def may_watch(caller: Caller, where: Where) -> None:
    """Follow a conversation as it is: controllers, and a guest its own room."""
    match caller:
        case Controller():
            return
        case Guest(room) if where == room:
            return
        case Guest():
            raise NotFound("there is no such conversation.")
        case AdapterCaller() | SessionCaller():
            raise Unauthorized("this token follows as a session or not at all.")


def may_say(caller: Caller, session: str, scope: str) -> None:
    """Publish and send: controllers for anybody, a session for itself where its token says so."""
    match caller:
        case Controller():
            return
        case SessionCaller(name) if session == name:
            if scope not in caller.scopes:
                raise Unauthorized(f"this token does not have the scope `{scope}`.", scope=scope)
        case SessionCaller():
            raise Unauthorized("a session speaks only for itself.")
        case AdapterCaller() | Guest():
            raise Unauthorized("this token does not speak for a session.")


def may_push(caller: Caller, session: str) -> None:
    """Say where a session is pushed to: controllers, a session for itself with `push`."""
    may_say(caller, session, "push")


def may_see_deliveries(caller: Caller, session: str | None) -> None:
    """Controllers all in their scope, a session its own, others none."""
    if isinstance(caller, SessionCaller):
        if session not in (None, caller.session):
            raise Unauthorized("a session sees only its own deliveries.")
    elif not isinstance(caller, Controller):
        raise Unauthorized("this token does not see deliveries.")


def known_to(caller: Caller, ref: ConversationRef, where: Where) -> None:
    """Refuse a conversation that was found by id but is not the caller's to know."""
    if not owns(caller, ref):
        if isinstance(where, ConversationRef):
            raise Unauthorized(f"{where} is outside what this token covers.", ref=str(where))
        raise NotFound("there is no such conversation.")


def within(caller: Caller, conversation: int) -> None:
    """To a token of one conversation there is no other."""
    if isinstance(caller, SessionCaller) and caller.conversation not in (None, conversation):
        raise NotFound("there is no such conversation.")


def unbound(caller: Caller) -> None:
    """What reaches beyond one conversation is not for a token that is bound to one."""
    if isinstance(caller, SessionCaller) and caller.conversation is not None:
        raise Unauthorized("this token is for one conversation.")


def scope_of(caller: Caller) -> str:
    """The scope names are looked up in."""
    match caller:
        case Controller(scope):
            return scope or "default"
        case AdapterCaller(scope, _, _):
            return scope
        case SessionCaller():
            return caller.scope_id
        case Guest(room, _):
            return room.scope_id
