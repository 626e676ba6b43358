"""The stories of sends: what a key stands for, one channel's intent, its end, what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from threadline.core.adapters import Account
from threadline.core.auditing import audit, named
from threadline.core.consenting import stopped
from threadline.core.deliveries import Intent
from threadline.core.draft import Draft
from threadline.core.errors import ConsentRequired, IdempotencyConflict, InvalidInput, NotFound
from threadline.core.ids import number_of, public
from threadline.core.model import (
    About,
    Attachment,
    Caller,
    Conversation,
    ConversationRef,
    Kind,
)
from threadline.core.people import BY_SYSTEM
from threadline.core.planned import end
from threadline.core.ports import (
    ADAPTER,
    CHAIN,
    ENDED_FIRSTS,
    FIRST,
    INTENT,
    SEND,
    SENDS_OF_SCOPE,
    SENDS_OF_SESSION,
    Changes,
    Loaded,
    Needs,
    Page,
    Story,
    fetch,
)
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.pacing import PACE, Pace
from threadline.core.seating import heir, numbers_of, session_named
from threadline.core.sending import write_first
from threadline.core.sends import Asked, Channel, Send, SendState, Tried
from threadline.flows.clocks import next_of
from threadline.flows.outbound import clusters, origin_of
from threadline.flows.registered import account_of
from threadline.flows.send_status import SendStatus, beside, shown

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
LATEST = 1 << 62
SWEEP = 1_000
LONGEST_WAIT = timedelta(days=366)
# A clock may go wrong by so much; what should have been said before that is not said now.
LATE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """What a key stands for."""

    session: str
    scope: str
    key: str | None
    asked: Asked

    def known(self, draft: Draft) -> SendStatus | None:
        """What was sent under it. Raises `IdempotencyConflict` where it was something else."""
        if self.key is None:
            return None
        session = session_named(draft, self.scope, self.session)
        for number in numbers_of(session):
            intent = draft.get(INTENT, (number, draft.id_key("key", self.key)))
            if intent is None:
                continue
            if intent.conversation or intent.digest != self._digest(draft):
                raise IdempotencyConflict(
                    "this key was used for other words or another recipient; take a new key.",
                    key=self.key,
                )
            send = draft.get(SEND, intent.delivery)
            return None if send is None else shown(draft, send, repeated=True)
        return None

    def keep(self, draft: Draft, send: Send, now: datetime) -> None:
        """Write down what it stands for."""
        if self.key is None:
            return
        intent = Intent(
            digest=self._digest(draft), conversation=0, delivery=send.id, created_at=now
        )
        draft.put(INTENT, (send.session, draft.id_key("key", self.key)), intent)

    def _digest(self, draft: Draft) -> bytes:
        return draft.id_key("send", self.asked.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadKnown(Story[SendStatus | None]):
    """What a key stands for already."""

    keyed: Keyed

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SendStatus | None]:
        """None where it is new."""
        return Changes(), self.keyed.known(Draft(loaded))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteScheduled(Story[SendStatus]):
    """Keep a send until its time."""

    keyed: Keyed
    send: Send
    caller: Caller

    @property
    def repeatable(self) -> bool:
        """Only with a key."""
        return self.keyed.key is not None

    def needs(self) -> Needs:
        """The chain, so that two nodes do not both find the key new."""
        return Needs(hold=((CHAIN, self.keyed.scope),))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SendStatus]:
        """Raises `IdempotencyConflict`, `ConsentRequired` where the person said stop, and
        `InvalidInput` for a time past or too far away."""
        draft = Draft(loaded)
        if (known := self.keyed.known(draft)) is not None:
            return draft.changes, known
        at = self.send.at
        if at is None and self.send.repeat is not None:
            at = next_of(self.send.repeat, now)
        assert at is not None
        if now - at > LATE:
            raise InvalidInput(f"at is past: {at:%Y-%m-%d %H:%M}Z.", field="at")
        if at - now > LONGEST_WAIT:
            raise InvalidInput("a send is scheduled for within a year.", field="at")
        if self.send.person is not None and (why := stopped(draft, self.send.person)):
            raise ConsentRequired(why)
        send = replace(self.send, id=draft.fresh(), created_at=now, at=at, due_at=max(at, now))
        draft.put(SEND, send.id, send)
        self.keyed.keep(draft, send, now)
        audit(
            draft,
            send.scope_id,
            named(self.caller),
            "send.scheduled",
            now,
            subject=public(send.id),
            to=send.to,
            at=at.isoformat(),
        )
        return draft.changes, shown(draft, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSend(Story[SendStatus]):
    """One channel of a send, all or nothing (see `core.sending`)."""

    send: Send
    channel: Channel
    left: tuple[Channel, ...]
    ref: ConversationRef
    caller: Caller
    keyed: Keyed | None = None
    copies: Mapping[str, Attachment] = field(default_factory=dict)
    limits: Limits = LIMITS
    pace: Pace = PACE

    @property
    def repeatable(self) -> bool:
        """With a key, or where the send's row tells that the step was taken."""
        return self.keyed is None or self.keyed.key is not None

    def needs(self) -> Needs:
        """The conversation, and the chain of the audit: who counts, and who says first what an
        intent names, does it alone in its scope, on whichever node."""
        return Needs(take=(self.ref.text,), hold=((CHAIN, self.send.scope_id),))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SendStatus]:
        """Raises what `write_first` does."""
        draft = Draft(loaded)
        send = self.send
        if self.keyed is not None and (known := self.keyed.known(draft)) is not None:
            return draft.changes, known
        if send.id:
            row = draft.get(SEND, send.id)
            if row is None or row.step != send.step:
                return draft.changes, shown(draft, row or send)
            send = replace(row, tried=send.tried)
        else:
            send = replace(send, id=draft.fresh(), created_at=now)
        session = heir(draft, send.session)
        if session is None:
            raise NotFound("the session was retired.")
        origin = None
        if send.about is not None:
            origin, _ = origin_of(
                draft, nowhere(self.ref, now), None, send.words, self.caller, session, now
            )
        written = write_first(
            draft,
            session,
            replace(send, left=self.left),
            self.channel,
            self.ref,
            now,
            by=named(self.caller),
            origin=origin,
            limits=self.limits,
            pace=self.pace,
            clusters=clusters,
            copies=self.copies,
        )
        if self.keyed is not None:
            self.keyed.keep(draft, written.send, now)
        return draft.changes, shown(draft, written.send)


def nowhere(ref: ConversationRef, now: datetime) -> Conversation:
    """A send answers nothing, so its conversation is not looked into."""
    return Conversation(0, ref, ref.kind or Kind.DM, About(created_at=now))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEnd(Story[bool]):
    """A send that nothing could carry, or that somebody took back."""

    send: Send
    state: SendState
    reason: str
    tried: tuple[Tried, ...]
    by: str = BY_SYSTEM

    def needs(self) -> Needs:
        """Both, so that no other step is overwritten."""
        return Needs(hold=((CHAIN, self.send.scope_id), (SEND, self.send.id)))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """Whether it ended so; nothing where somebody else took the step."""
        draft = Draft(loaded)
        row = draft.get(SEND, self.send.id)
        own = row is not None and row.step == self.send.step
        if row is not None and own:
            end(draft, replace(row, tried=self.tried), self.state, self.reason, now, self.by)
        return draft.changes, own or (row is not None and row.state is self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRefusal(Story[None]):
    """A send that was refused, for the audit: nothing else of it is kept."""

    scope: str
    by: str
    session: str
    to: str
    code: str
    reason: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """One entry."""
        draft = Draft(loaded)
        audit(
            draft,
            self.scope,
            self.by,
            "send.refused",
            now,
            subject=f"session {self.session}",
            to=self.to,
            code=self.code,
            reason=self.reason,
        )
        return draft.changes, None


@dataclass(frozen=True, slots=True)
class ForgetIntents(Story[int]):
    """Drop what intents were remembered for long enough."""

    limit: int = SWEEP

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Answers how many."""
        changes = Changes()
        rows = loaded.page(Page(ENDED_FIRSTS, ((now - EPOCH) // MICROSECOND, self.limit)))
        keys = [(scope, bytes(key)) for scope, key in rows]
        fetch(loaded, FIRST, keys)
        for one in keys:
            changes.put(FIRST, one, None)
        return changes, len(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSends(Story[list[SendStatus]]):
    """A page of sends, newest first; or one."""

    scope: str
    caller: Caller
    session: str | None = None
    number: int | None = None
    before: str | None = None
    limit: int = 100

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[SendStatus]]:
        """A session sees its own only. Raises `NotFound`."""
        draft = Draft(loaded)
        own: tuple[int, ...] | None = None
        if self.session is not None:
            own = numbers_of(session_named(draft, self.scope, self.session))
        if self.number is not None:
            send = draft.get(SEND, self.number)
            if send is None or not self._may_know(send, own):
                raise NotFound("there is no such send.", send=public(self.number))
            return draft.changes, [shown(draft, send)]
        place = (LATEST, LATEST)
        if self.before is not None:
            number = number_of(self.before)
            row = None if number is None else draft.get(SEND, number)
            if row is None or not self._may_know(row, own):
                raise NotFound("there is no such send.", send=self.before)
            place = ((row.created_at - EPOCH) // MICROSECOND, row.id)
        if own is None:
            rows = draft.page(Page(SENDS_OF_SCOPE, (self.scope, *place, self.limit)))
        else:
            rows = []
            for one in own:
                rows += draft.page(Page(SENDS_OF_SESSION, (one, *place, self.limit)))
            rows.sort(key=lambda it: (it.created_at, it.id), reverse=True)
        rows = rows[: self.limit]
        beside(draft, rows)
        return draft.changes, [shown(draft, one) for one in rows]

    def _may_know(self, send: Send, own: tuple[int, ...] | None) -> bool:
        return send.scope_id == self.scope and (own is None or send.session in own)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAccount(Story[Account | None]):
    """The account of a channel, opened."""

    scope: str
    provider: str
    account_id: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Account | None]:
        """None where nobody speaks for it."""
        row = loaded.get(ADAPTER, (self.scope, self.provider, self.account_id))
        return Changes(), None if row is None else account_of(loaded, row)


@dataclass(frozen=True, slots=True)
class ReadNow(Story[datetime]):
    """The store's clock."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, datetime]:
        """What time it is."""
        return Changes(), now


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSend(Story[Send]):
    """A send's row."""

    number: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Send]:
        """Raises `NotFound`."""
        row = loaded.get(SEND, self.number)
        if row is None:
            raise NotFound("there is no such send.")
        return Changes(), row
