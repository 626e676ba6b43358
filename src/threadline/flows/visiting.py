"""What a guest does in its room: read, speak, leave.

The guest's row and its link are read in the same transaction as whatever it asks for, so that
nothing is read or said by a link that was revoked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, NotFound, Unauthenticated, Unauthorized
from threadline.core.files import Upload
from threadline.core.guests import Link, Visitor, opens, slice_of, visitor_of
from threadline.core.ids import public
from threadline.core.model import (
    Attachment,
    Conversation,
    Guest,
    InboundMessage,
    Provenance,
    TranscriptRecord,
)
from threadline.core.ports import (
    GUEST,
    HELD,
    KNOWN,
    LINK,
    RECORD,
    RECORDS_AFTER,
    RECORDS_BEFORE,
    Changes,
    Loaded,
    Needs,
    Page,
    Story,
)
from threadline.core.recording import Door, Taken, take
from threadline.core.rules import admission, authority, hydration
from threadline.core.rules.limits import Limits
from threadline.core.uploads import named, own, said
from threadline.flows.conversations import TranscriptPage, folded
from threadline.flows.replay import FAR

SPOKEN = "web"
SHOWN = frozenset({"guest", "verified"})


class Revoked(Unauthenticated):
    """The guest has left, or its room link was revoked or is over."""


def present(loaded: Loaded, caller: Guest, now: datetime) -> tuple[Visitor, Link, Conversation]:
    """The guest who calls, in its room. Raises `Revoked`."""
    number = visitor_of(caller.actor.id)
    visitor = None if number is None else loaded.get(GUEST, number)
    link = None if visitor is None else loaded.get(LINK, visitor.link)
    if visitor is None or link is None or not opens(link, now):
        raise Revoked
    room = loaded.peeked(visitor.conversation)
    if room is None:
        raise Revoked
    authority.may_watch(caller, room.ref)
    return visitor, link, room


@dataclass(frozen=True, slots=True)
class Leave(Story[None]):
    """Give up the place and the name."""

    caller: Guest

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Raises `Revoked` where it is gone already."""
        draft = Draft(loaded)
        visitor, _, _ = present(loaded, self.caller, now)
        draft.put(GUEST, visitor.id, None)
        return draft.changes, None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRoom(Story[TranscriptPage]):
    """A page of what the guest may read. `after` None is the beginning of its slice."""

    caller: Guest
    after: int | None = None
    before: int | None = None
    newest_first: bool = False
    folded: bool = False
    limit: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, TranscriptPage]:
        """Raises `Revoked`, and `HydrationPending` while an import hides the room."""
        visitor, link, room = present(loaded, self.caller, now)
        hydration.refuse_gated(room)
        first, live_only = slice_of(visitor, link, room)
        after = max(first - 1, -FAR if self.after is None else self.after)
        before = FAR if self.before is None else self.before
        query = RECORDS_BEFORE if self.newest_first else RECORDS_AFTER
        args = (room.id, after, before, 1 if live_only else 0, -1, self.limit + 1)
        rows = loaded.page(Page(query, args))
        records = rows[: self.limit]
        messages = folded(loaded, room, records) if self.folded else []
        history, reason = hydration.history(room)
        return Changes(), TranscriptPage(
            conversation=public(room.id),
            ref=room.ref,
            records=[_outward(one) for one in records],
            messages=[replace(one, record=_outward(one.record)) for one in messages],
            history=history,
            reason=reason,
            head=room.head,
            earliest=max(first, room.earliest_sequence),
            next=records[-1].sequence if len(rows) > self.limit else None,
        )


def _outward(record: TranscriptRecord) -> TranscriptRecord:
    """What somebody from outside is shown: what was said and by whom, not how it is worked on.

    An attachment's address may be good for whoever has it, an origin names other conversations.
    """
    kept = {name: value for name, value in record.metadata.items() if name in SHOWN}
    return replace(
        record,
        wakes=(),
        origin=None,
        person_id=None,
        metadata=kept,
        attachments=tuple(replace(one, url="") for one in record.attachments),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Say(Story[Taken]):
    """Record what a guest says in its room. A repeat under the same `client_id` is a duplicate."""

    caller: Guest
    text: str
    client_id: str
    reply_to: int | str | None
    files: tuple[str, ...] = ()
    limits: Limits

    def needs(self) -> Needs:
        """The room, locked."""
        return Needs(take=(self.caller.conversation.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Taken]:
        """Raises `Revoked`, `NotFound` for a record it cannot read, `Unauthorized` where a guest
        only reads."""
        draft = Draft(loaded)
        visitor, link, room = present(loaded, self.caller, now)
        if room.ref.provider != SPOKEN:
            raise Unauthorized(f"guests only read in conversations of {room.ref.provider}.")
        replied = self.reply_to
        if isinstance(replied, int):
            first, live_only = slice_of(visitor, link, room)
            record = loaded.get(RECORD, (room.id, replied)) if replied >= first else None
            if record is None or (live_only and record.provenance is Provenance.HYDRATED):
                raise NotFound(f"there is no record {replied} here.", field="reply_to")
            replied = record.message_id
        message_id = f"{visitor.actor.id}/{self.client_id}"
        key = (room.id, loaded.id_key("", message_id))
        # Also what waits for the end of an import was said.
        known = loaded.get(KNOWN, key) or loaded.get(HELD, key)
        given = [Attachment(id=one) for one in self.files]
        # What was said before is a duplicate, with the files it had then.
        uploads: list[Upload | None] = []
        if known is None:
            uploads = own(draft, given, (visitor.id,), room.ref.scope_id, guest=True)
            if None in uploads:
                raise InvalidInput("a file is named by the id it was given.", field="files")
        message = InboundMessage(
            conversation=room.ref,
            text=self.text,
            actor=visitor.actor,
            message_id=message_id,
            attachments=() if known else named(given, uploads),
            reply_to=replied,
            metadata={"guest": True, "verified": False},
        )
        message = admission.checked(message, self.limits)
        taken = take(draft, message, now, door=Door.HEARD, limits=self.limits)
        if not taken.duplicate:
            said(draft, uploads, room.id, sequence=taken.sequence, local=True)
        shown = None if taken.record is None else _outward(taken.record)
        return draft.changes, replace(taken, record=shown)


@dataclass(frozen=True, slots=True)
class Place(Story[tuple[int, int]]):
    """Which room a guest is in, and its head."""

    caller: Guest

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, tuple[int, int]]:
        """Raises `Revoked`."""
        _, _, room = present(loaded, self.caller, now)
        return Changes(), (room.id, room.head)
