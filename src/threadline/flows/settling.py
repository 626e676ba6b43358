"""What a person does with a delivery, and the steps it took.

Nothing is repeated by itself once it may have been said: whoever can look confirms it, sends it
once more at the tail of its lane, or gives it up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from threadline.core.adapters import Channels, Spacing
from threadline.core.claims import reopen
from threadline.core.deliveries import Delivery, DeliveryState, Step
from threadline.core.draft import Draft
from threadline.core.errors import ConfigError, DeliveryConflict
from threadline.core.lanes import give_up, prove, registration_of, save
from threadline.core.model import Caller, Conversation, ConversationRef, SessionCaller, Word
from threadline.core.ports import (
    CONVERSATION,
    DELIVERIES_OF,
    DELIVERY,
    Changes,
    Loaded,
    Needs,
    Page,
    Story,
)
from threadline.core.rules import pacing
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.pacing import PACE, Pace
from threadline.flows.looking import found, member_of
from threadline.flows.registered import account_of
from threadline.flows.statuses import DeliveryStatus, id_of, known_delivery, name_of, status_of

ENDED = frozenset({DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.CANCELLED})


class Action(Word):
    """What can be done to a delivery by hand."""

    CONFIRM = "confirm"
    RESEND = "resend"
    DROP = "drop"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Story[DeliveryStatus]):
    """One action of a person on one delivery."""

    action: Action
    conversation: int
    delivery: int
    caller: Caller
    message_id: str = ""
    channels: Channels | None = None
    limits: Limits = LIMITS
    pace: Pace = PACE

    @property
    def repeatable(self) -> bool:
        """A second resend would be a second message."""
        return self.action is not Action.RESEND

    def needs(self) -> Needs:
        """The conversation, locked, and the delivery."""
        return Needs(
            take_ids=(self.conversation,), rows=[(DELIVERY, (self.conversation, self.delivery))]
        )

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, DeliveryStatus]:
        """Raises `DeliveryConflict` where its state does not allow it; then nothing changes."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        row = known_delivery(draft, conversation, self.delivery, self.caller)
        assert conversation is not None
        match self.action:
            case Action.CONFIRM:
                self._confirm(draft, conversation, row, now)
            case Action.RESEND:
                self._resend(draft, conversation, row, now)
            case Action.DROP:
                self._only(row, DeliveryState.UNCERTAIN)
                note = "given up by a person; it may have been said."
                ended = pacing.ended(row, DeliveryState.CANCELLED, now, note)
                give_up(draft, conversation, ended, now, self.limits)
            case Action.CANCEL:
                self._only(row, DeliveryState.PENDING)
                ended = pacing.ended(row, DeliveryState.CANCELLED, now, "taken back.")
                give_up(draft, conversation, ended, now, self.limits)
        after = draft.get(DELIVERY, (self.conversation, self.delivery)) or row
        return draft.changes, status_of(after, conversation, name_of(draft, row.session))

    def _only(self, row: Delivery, *states: DeliveryState) -> None:
        if row.state not in states:
            allowed = " or ".join(state.value for state in states)
            raise DeliveryConflict(
                f"({self.action.value} is for {allowed}; this one is {row.state.value})",
                state=row.state.value,
            )

    def _confirm(
        self, draft: Draft, conversation: Conversation, row: Delivery, now: datetime
    ) -> None:
        self._only(row, DeliveryState.UNCERTAIN, *ENDED)
        if not row.attempts or row.part > row.parts:
            raise DeliveryConflict("(it was never sent)", state=row.state.value)
        note = "confirmed by a person"
        space = self._space(draft, conversation.ref) if self.message_id else ""
        prove(
            draft,
            conversation,
            row,
            row.part,
            self.message_id,
            now,
            self.limits,
            space=space,
            note=note,
        )

    def _space(self, draft: Draft, ref: ConversationRef) -> str:
        """Where the platform counts its ids: the one that was given is heard again as such."""
        registration = registration_of(draft, ref)
        if registration is None or self.channels is None:
            return ""
        try:
            dialect: object = self.channels.dialect(account_of(draft, registration))
        except ConfigError:
            return ""
        return dialect.id_space(ref) if isinstance(dialect, Spacing) else ""

    def _resend(
        self, draft: Draft, conversation: Conversation, row: Delivery, now: datetime
    ) -> None:
        self._only(row, DeliveryState.UNCERTAIN, *ENDED)
        if row.sequence is not None:
            raise DeliveryConflict(
                f"(part of it is record {row.sequence} already; publish the rest anew)",
                sequence=row.sequence,
            )
        about = replace(conversation.about, deliveries=conversation.about.deliveries + 1)
        draft.save(replace(conversation, about=about))
        doubtful = row.state is DeliveryState.UNCERTAIN
        note = "resent by a person"
        if doubtful:
            note += f"; attempt {row.attempts} may have been said, so it may be there twice"
        again = replace(
            pacing.stepped(row, DeliveryState.PENDING, now, note),
            turn=about.deliveries,
            resent=row.resent + 1,
            edition=row.edition if doubtful else row.edition + 1,
            expires_at=now + (row.lives or self.pace.time_to_live),
            due_at=None,
            failures=0,
            failure=None,
            reason="",
            settled_at=None,
            called_at=None,
            uncertain_at=None,
            looks=0,
            parked=False,
        )
        save(draft, again, now)
        reopen(draft, draft.taken(conversation.id) or conversation, again, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrail(Story[tuple[DeliveryStatus, tuple[Step, ...]]]):
    """A delivery and its steps."""

    conversation: int
    delivery: int
    caller: Caller

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[DeliveryStatus, tuple[Step, ...]]]:
        """One at a place of ours has one step: it was born settled."""
        draft = Draft(loaded)
        conversation = draft.get(CONVERSATION, self.conversation)
        row = known_delivery(draft, conversation, self.delivery, self.caller)
        assert conversation is not None
        shown = status_of(row, conversation, name_of(draft, row.session))
        trail = row.trail or (Step(row.settled_at or row.created_at, row.state, row.reason),)
        return Changes(), (shown, trail)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindDelivery(Story[str | None]):
    """The delivery behind a record, among the newest of its conversation."""

    where: Where
    sequence: int
    caller: Caller
    limit: int = 500

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, str | None]:
        """A session finds its own only, where it is a member."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        if isinstance(self.caller, SessionCaller):
            member_of(draft, conversation, self.caller.session, now, caller=self.caller)
        page = Page(DELIVERIES_OF, (conversation.id, 1 << 62, 0, 0, self.limit))
        for row in loaded.page(page):
            if row.sequence == self.sequence:
                known_delivery(draft, conversation, row.id, self.caller)
                return Changes(), id_of(row)
        return Changes(), None
