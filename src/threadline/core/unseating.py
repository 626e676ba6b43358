"""Taking a session's voice away: its handles and its binding, with what points at them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.model import Conversation, Membership, Reason
from threadline.core.ports import MEMBER, PARTICIPANT
from threadline.core.rules import binding, membership
from threadline.core.rules.speaking import fold
from threadline.core.seating import unseat


def drop_handle(draft: Draft, conversation: Conversation, handle: str) -> Conversation:
    """Remove a participant with its aliases. A cursor or default on it is cleared (F4)."""
    seat = draft.get(PARTICIPANT, (conversation.id, fold(handle)))
    if seat is None:
        return conversation
    for name in (seat.handle, *seat.aliases):
        draft.put(PARTICIPANT, (conversation.id, fold(name)), None)
    about = conversation.about
    gone = fold(seat.handle)
    if about.last_addressed_handle == gone:
        about = replace(about, last_addressed_handle=None)
    if about.group is not None and fold(about.group.default_handle or "") == gone:
        about = replace(about, group=replace(about.group, default_handle=None))
    conversation = replace(conversation, about=replace(about, roster=about.roster + 1))
    draft.save(conversation)
    return conversation


def drop_handles(
    draft: Draft, conversation: Conversation, member: Membership
) -> tuple[Conversation, Membership]:
    """Remove every handle of a member."""
    for handle in member.handles:
        conversation = drop_handle(draft, conversation, handle)
    return conversation, replace(member, handles=()) if member.handles else member


def drop_binding(draft: Draft, conversation: Conversation, session: int) -> Conversation:
    """End the conversation's binding if it is this session's."""
    bound = conversation.about.binding
    if bound is None or bound.session != session:
        return conversation
    about = binding.unbind(conversation.about)
    conversation = replace(conversation, about=replace(about, roster=about.roster + 1))
    draft.save(conversation)
    return conversation


def end_grant(
    draft: Draft, conversation: Conversation, session: int, now: datetime
) -> Conversation:
    """Take the membership away that a binding granted."""
    member = draft.get(MEMBER, (conversation.id, session))
    if member is None or Reason.BINDING not in member.grants:
        return conversation
    after = membership.revoke(member, Reason.BINDING, now)
    conversation, _ = unseat(draft, conversation, after)
    return conversation
