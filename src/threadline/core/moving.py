"""Two addresses that turn out to be one place, when both have transcripts already.

Nothing is merged: each keeps its sequence. A notice in each links them, and binding, group,
participants, members and what was decided about writing here belong to the newer from then on.
Members keep the older one as well, so that nobody loses what it has not read there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.joining import carry, count_together
from threadline.core.model import (
    SYSTEM,
    Conversation,
    Direction,
    Event,
    Grant,
    Reason,
    TranscriptRecord,
)
from threadline.core.ports import MEMBER, PARTICIPANT, fetch
from threadline.core.rules import visibility
from threadline.core.seating import members_of, seats_of, unseat


def link(draft: Draft, one: Conversation, other: Conversation, now: datetime) -> Conversation:
    """Link both, once. Returns the conversation the message goes on in, which is `other`."""
    if one.about.moved_to is not None or other.about.moved_to is not None:
        return other
    old, new = sorted((one, other), key=lambda it: (it.about.created_at, it is other))
    was, becomes = old.about, new.about
    kept = replace(
        becomes,
        binding=becomes.binding or was.binding,
        generation=max(becomes.generation, was.generation),
        group=becomes.group or was.group,
        roster=becomes.roster + 1,
        last_addressed_handle=becomes.last_addressed_handle or was.last_addressed_handle,
    )
    gone = replace(was, binding=None, group=None, last_addressed_handle=None, moved_to=new.id)
    old, new = replace(old, about=gone), replace(new, about=kept)
    old = notice(draft, old, f"This conversation goes on as {new.ref}.", now, moved_to=new.id)
    new = notice(draft, new, f"This conversation was {old.ref} before.", now, moved_from=old.id)
    carry(draft, old.id, new.id)
    count_together(draft, new.ref.scope_id, old.id, new.id)
    new = _settle(draft, old, new, now)
    return old if old.id == other.id else new


def _settle(draft: Draft, old: Conversation, new: Conversation, now: datetime) -> Conversation:
    """Make members and participants of the older those of the newer, as from its beginning."""
    names = [name for name, _ in seats_of(draft, old.id)]
    seats = fetch(draft, PARTICIPANT, [(old.id, name) for name in names])
    taken = fetch(draft, PARTICIPANT, [(new.id, name) for name in names])
    for name, seat, other in zip(names, seats, taken, strict=True):
        if seat is not None and other is None:
            draft.put(PARTICIPANT, (new.id, name), replace(seat, conversation=new.id))
        draft.put(PARTICIPANT, (old.id, name), None)
    members = [one for one in members_of(draft, old.id) if visibility.is_active(one, now)]
    there = fetch(draft, MEMBER, [(new.id, one.session) for one in members], hold=True)
    for member, known in zip(members, there, strict=True):
        if known is None:
            moved = replace(
                member,
                conversation=new.id,
                joined_at=now,
                joined_sequence=new.lowest_sequence - 1,
                last_read=None,
                gate=None,
            )
            new, _ = unseat(draft, new, moved)
        until = [grant.expires_at for grant in visibility.valid_grants(member, now).values()]
        ends = max((at for at in until if at is not None), default=None)
        kept = Grant(visibility.effective(member, old, now), None if None in until else ends)
        reader = replace(member, handles=(), grants={Reason.MANUAL: kept})
        draft.put(MEMBER, (old.id, member.session), reader)
    return new


def notice(
    draft: Draft, conversation: Conversation, text: str, now: datetime, **facts: object
) -> Conversation:
    """Append a record by the system; it wakes nobody."""
    shown = {name: public(it) if isinstance(it, int) else it for name, it in facts.items()}
    record = TranscriptRecord(
        sequence=conversation.next_sequence,
        direction=Direction.OUTBOUND,
        event=Event.NOTICE,
        actor=SYSTEM,
        text=text,
        recorded_at=now,
        metadata=shown,
    )
    draft.append(conversation.id, record)
    advanced = replace(conversation, next_sequence=conversation.next_sequence + 1)
    draft.save(advanced)
    return advanced
