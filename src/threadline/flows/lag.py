"""How far a session is behind in a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.model import Caller, ConversationRef
from threadline.core.ports import LAG, Changes, Loaded, Needs, Page, Story
from threadline.core.rules import visibility
from threadline.core.rules.authority import Where
from threadline.flows.looking import found, member_of, peeking


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a member is behind: others' records after its cursor, counted up to 1,000."""

    conversation: str
    ref: ConversationRef
    cursor: int
    head: int
    unread: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLag(Story[Lag]):
    """Count what a member has not read."""

    where: Where
    session: str
    scope: str
    caller: Caller

    def needs(self) -> Needs:
        """The conversation and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Lag]:
        """One bounded count."""
        conversation = found(loaded, self.where, self.caller)
        draft = Draft(loaded)
        _, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        cursor = visibility.cursor(member, conversation, now)
        live_only = 1 if visibility.live_only(member, conversation, now) else 0
        [(unread,)] = loaded.page(Page(LAG, (conversation.id, cursor, live_only, member.session)))
        return Changes(), Lag(
            conversation=public(conversation.id),
            ref=conversation.ref,
            cursor=cursor,
            head=conversation.head,
            unread=unread,
        )
