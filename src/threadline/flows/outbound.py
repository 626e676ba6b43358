"""What sessions say: intent, right, record and proof in one transaction where the place is ours.

`web` and `internal` have no network in between, so the commit that writes the record is the proof
(law 9): such a delivery is born delivered or failed. Every other account needs an adapter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from threadline.core.consenting import silenced
from threadline.core.deliveries import OPEN_STATES, Words
from threadline.core.draft import Draft
from threadline.core.errors import ConsentRequired, InvalidInput, Unauthorized
from threadline.core.ids import number_of, public
from threadline.core.model import (
    ALL,
    CONTROLLER,
    Attachment,
    Caller,
    Conversation,
    ConversationRef,
    Kind,
    Membership,
    Origin,
    Reason,
    Session,
)
from threadline.core.places import create
from threadline.core.ports import (
    CONVERSATION,
    INTENT,
    MEMBER,
    OLD_INTENTS,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.publishing import answered, known_under, right_of, thread_of
from threadline.core.rules import admission, authority, binding, delivery, pacing
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.pacing import PACE, Pace
from threadline.core.saying import say
from threadline.core.seating import numbers_of, seat, session_named
from threadline.core.threads import parent_of
from threadline.core.voices import stage
from threadline.flows.deliveries import EPOCH, Deliveries
from threadline.flows.keys import checked_key
from threadline.flows.looking import found, member_of, taking, where_of
from threadline.flows.statuses import DeliveryStatus, status_of
from threadline.flows.uploads import RecordFile, Uploads, reference

KEPT = timedelta(days=30)
SWEEP = 1_000
WAIT_SECONDS = 30.0


def clusters(text: str) -> list[str]:
    """A text as the characters people see, by the Unicode rules for grapheme clusters."""
    import regex

    found: list[str] = regex.findall(r"\X", text)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Story[DeliveryStatus]):
    """One intent, with what becomes of it at a local provider."""

    where: Where
    session: str
    scope: str
    caller: Caller
    words: Words
    key: str | None = None
    generation: int | None = None
    copies: Mapping[str, Attachment] = field(default_factory=dict)
    limits: Limits = LIMITS
    pace: Pace = PACE

    @property
    def repeatable(self) -> bool:
        """Only with a key: without one a second time would be said twice."""
        return self.key is not None

    def needs(self) -> Needs:
        """The conversation, locked, and the session's name."""
        return taking(self.where, (self.scope, self.session))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, DeliveryStatus]:
        """Known key, right, generation, then the record; a refusal writes nothing."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        session = session_named(draft, conversation.ref.scope_id, self.session)
        before = known_under(draft, session, self.key, conversation, self.words)
        if before is not None:
            place = draft.get(CONVERSATION, before.conversation) or conversation
            return draft.changes, status_of(before, place, session.name, repeated=True)
        member, right = self._allowed(draft, conversation, session, now)
        origin, replied = origin_of(
            draft, conversation, member, self.words, self.caller, session, now
        )
        answers = None if replied is None else replied[0]
        if reason := silenced(draft, conversation, session, answers):
            raise ConsentRequired(reason, conversation=public(conversation.id))
        place = conversation
        if replied is not None and (thread := thread_of(draft, conversation, replied[1])):
            place = draft.taken(thread.text) or create(
                draft, thread, now, parent=conversation.ref, root=replied[1]
            )
            replied = (None, replied[1])
        sent = say(
            draft,
            place,
            session,
            right,
            self.words,
            now,
            origin=origin,
            replied=replied,
            key=self.key,
            asked=conversation,
            limits=self.limits,
            pace=self.pace,
            clusters=clusters,
            copies=self.copies,
        )
        return draft.changes, status_of(sent, place, session.name)

    def _allowed(
        self, draft: Draft, conversation: Conversation, session: Session, now: datetime
    ) -> tuple[Membership | None, str]:
        """The membership and the right. Raises what tells the session that it may not speak.

        A thread that nobody said anything in has no members yet; there its room's right is enough.
        Who was a member and is none any more says nothing, whatever the room allows.
        """
        right = right_of(draft, conversation, session, now)
        rows = fetch(draft, MEMBER, [(conversation.id, one) for one in numbers_of(session)])
        member = None
        if right is None or any(row is not None for row in rows):
            _, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        if right is None:
            raise Unauthorized(
                f"{self.session!r} reads {conversation.ref} and does not speak there. Bind the "
                "conversation to it, or make it a public participant.",
                session_id=self.session,
            )
        if self.generation is not None:
            room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
            _, holder = stage(conversation, room, now)
            delivery.check_generation(binding.current(holder.about, now), self.generation)
        return member, right


def origin_of(
    draft: Draft,
    conversation: Conversation,
    member: Membership | None,
    words: Words,
    caller: Caller,
    session: Session,
    now: datetime,
) -> tuple[Origin | None, tuple[int | None, str | None] | None]:
    """What the words are about, and which record they answer: sequence and message id."""
    origin: Origin | None = None
    replied: tuple[int | None, str | None] | None = None
    if words.reply_to is not None:
        there = answered(draft, conversation, member, words.reply_to, now)
        origin = there.origin
        replied = (there.record.sequence, there.record.message_id)
    if words.about is not None:
        where, sequence = words.about
        elsewhere = found(draft, where_of(where), caller)
        _, reader = member_of(draft, elsewhere, session.name, now, caller=caller)
        origin = answered(draft, elsewhere, reader, sequence, now).origin
    return origin, replied


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Story[DeliveryStatus]):
    """One session's words to another, in the conversation of the two."""

    session: str
    to: str
    scope: str
    caller: Caller
    words: Words
    key: str | None = None
    copies: Mapping[str, Attachment] = field(default_factory=dict)
    limits: Limits = LIMITS

    @property
    def repeatable(self) -> bool:
        """Only with a key, as for `Publish`."""
        return self.key is not None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, DeliveryStatus]:
        """The conversation of the two is made at the first word, with both as members."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        other = session_named(draft, self.scope, self.to)
        if other.id == session.id:
            raise InvalidInput("a session does not write to itself.", to=self.to)
        ref = ConversationRef(
            delivery.INTERNAL,
            delivery.ACCOUNT,
            delivery.pair_id(session.id, other.id),
            scope_id=self.scope,
            kind=Kind.DM,
        )
        conversation = draft.taken(ref.text)
        before = known_under(draft, session, self.key, conversation, self.words)
        if before is not None and conversation is not None:
            return draft.changes, status_of(before, conversation, session.name, repeated=True)
        if conversation is None:
            conversation = create(draft, ref, now)
        member = None
        for one in (other, session):
            row = draft.get(MEMBER, (conversation.id, one.id))
            if row is not None and row.evicted:
                raise Unauthorized(f"{one.name!r} was removed from this conversation.")
            conversation, member = seat(
                draft, conversation, one.id, by=Reason.MANUAL, policy=ALL, now=now
            )
        origin, replied = origin_of(
            draft, conversation, member, self.words, self.caller, session, now
        )
        sent = say(
            draft,
            conversation,
            session,
            delivery.MEMBER,
            self.words,
            now,
            origin=origin,
            replied=replied,
            key=self.key,
            asked=conversation,
            limits=self.limits,
            pace=PACE,
            clusters=clusters,
            copies=self.copies,
        )
        return draft.changes, status_of(sent, conversation, session.name)


@dataclass(frozen=True, slots=True)
class ForgetKeys(Story[int]):
    """Drop keys that are older than they are kept."""

    limit: int = SWEEP

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """By the store's clock; answers how many went."""
        changes = Changes()
        until = (now - KEPT - EPOCH) // timedelta(microseconds=1)
        rows = loaded.page(Page(OLD_INTENTS, (until, self.limit)))
        fetch(loaded, INTENT, [(row[0], bytes(row[1])) for row in rows])
        for session, key in rows:
            changes.put(INTENT, (session, bytes(key)), None)
        return changes, len(rows)


class Outbound:
    """What sessions say, and what became of it."""

    def __init__(
        self,
        store: Store,
        deliveries: Deliveries,
        limits: Limits = LIMITS,
        pace: Pace = PACE,
        *,
        uploads: Uploads | None = None,
    ) -> None:
        self._uploads = uploads
        self._store = store
        self._deliveries = deliveries
        self._limits = limits
        self._pace = pace

    async def publish(
        self,
        where: ConversationRef | str,
        session: str,
        text: str,
        *,
        key: str | None = None,
        reply_to: int | str | None = None,
        about: tuple[str, int] | None = None,
        generation: int | None = None,
        explicit_target: str | None = None,
        attachments: Sequence[Attachment | RecordFile] = (),
        metadata: Mapping[str, Any] | None = None,
        time_to_live: timedelta | None = None,
        caller: Caller = CONTROLLER,
    ) -> DeliveryStatus:
        """Say something in a conversation (DESIGN section 3, Publishing).

        `key` makes it safe to ask again: the same key and words give the same delivery. `reply_to`
        is a sequence or a message id of this conversation, `about` the conversation and sequence
        of a record elsewhere, `generation` the binding's that the words were made under.
        `attachments` are files that were given to `uploads` before, or `RecordFile`s, which are
        said once more. What could not be said within `time_to_live` (an hour where that is left
        out, a second to 30 days) expires.

        Raises `NotFound` and `Unauthorized` (no right to speak), `BindingMismatch`,
        `IdempotencyConflict`, `NoAdapter`, `FileNotCarried`, `InvalidInput`, `TooLarge`.
        """
        authority.may_say(caller, session, "publish")
        words = self._words(text, reply_to, about, explicit_target, attachments, metadata)
        copies = await self._copies(attachments, session, caller)
        return await self._store.run(
            Publish(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                words=words,
                key=checked_key(key),
                generation=generation,
                copies=copies,
                limits=self._limits,
                pace=pacing.lifetime(time_to_live, self._pace),
            )
        )

    async def tell(
        self,
        session: str,
        to: str,
        text: str,
        *,
        key: str | None = None,
        reply_to: int | str | None = None,
        about: tuple[str, int] | None = None,
        attachments: Sequence[Attachment | RecordFile] = (),
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> DeliveryStatus:
        """Say something to another session, in the one conversation of the two.

        Raises what `publish` raises, and `SessionNotFound`.
        """
        authority.may_say(caller, session, "send")
        authority.unbound(caller)
        words = self._words(text, reply_to, about, None, attachments, metadata)
        copies = await self._copies(attachments, session, caller)
        return await self._store.run(
            Tell(
                session=session,
                to=to,
                scope=authority.scope_of(caller),
                caller=caller,
                words=words,
                key=checked_key(key),
                copies=copies,
                limits=self._limits,
            )
        )

    async def settled(
        self, sent: DeliveryStatus, *, patience: float = WAIT_SECONDS, caller: Caller = CONTROLLER
    ) -> DeliveryStatus:
        """The delivery once nothing more happens to it by itself, or after `patience` seconds."""
        number = number_of(sent.conversation)
        if sent.state not in OPEN_STATES or sent.parked or number is None:
            return sent
        bell = self._store.bell(conversations=(number,))
        try:
            async with asyncio.timeout(patience):
                while True:
                    found = await self._deliveries.show(sent.id, caller=caller)
                    if found.state not in OPEN_STATES or found.parked:
                        return found
                    await bell.wait(patience)
        except TimeoutError:
            return await self._deliveries.show(sent.id, caller=caller)
        finally:
            bell.close()

    def _words(
        self,
        text: str,
        reply_to: int | str | None,
        about: tuple[str, int] | None,
        explicit_target: str | None,
        attachments: Sequence[Attachment | RecordFile],
        metadata: Mapping[str, Any] | None,
    ) -> Words:
        delivery.check_words(text, len(attachments))
        if about is not None:
            where_of(about[0])
        return Words(
            text=text,
            reply_to=reply_to,
            about=about,
            explicit_target=explicit_target,
            attachments=tuple(
                reference(one) if isinstance(one, RecordFile) else one for one in attachments
            ),
            metadata=admission.metadata(metadata or {}, self._limits),
        )

    async def _copies(
        self, attachments: Sequence[Attachment | RecordFile], session: str, caller: Caller
    ) -> Mapping[str, Attachment]:
        """The files of records that are to be said once more, taken in."""
        found: dict[str, Attachment] = {}
        for one in attachments:
            if isinstance(one, RecordFile):
                assert self._uploads is not None
                copied = await self._uploads.copy(one, session=session, caller=caller)
                found[reference(one).id] = copied.attachment
        return found

    async def forget_keys(self) -> int:
        """Drop keys older than 30 days; answers how many. RecordFile of upkeep."""
        forgotten = 0
        while dropped := await self._store.run(ForgetKeys()):
            forgotten += dropped
        return forgotten
