"""What sessions say on their own initiative: planned, opened, written first, tried elsewhere.

A send is a row of its own from its first moment on, so that its time, its second channel and its
end survive whoever works on it. The conversation with a person is opened before the intent is
written: opening says nothing to anybody and gives the same place again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from threadline.core.adapters import Channels
from threadline.core.auditing import named
from threadline.core.deliveries import DeliveryState, Words
from threadline.core.errors import (
    DeliveryConflict,
    IdempotencyConflict,
    InvalidInput,
    ThreadlineError,
)
from threadline.core.ids import number_of
from threadline.core.model import CONTROLLER, Attachment, Caller, SessionCaller
from threadline.core.ports import Store
from threadline.core.rules import admission, authority, delivery
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.rules.pacing import PACE, Pace
from threadline.core.sends import (
    AUTO,
    WAITING,
    Asked,
    Repeat,
    Send,
    SendState,
)
from threadline.flows.attempts import Attempts
from threadline.flows.clocks import checked_repeat
from threadline.flows.deliveries import Deliveries
from threadline.flows.due import DueSends
from threadline.flows.keys import checked_key
from threadline.flows.looking import where_of
from threadline.flows.planning import ReadPlan, Recipient
from threadline.flows.send_status import SendStatus
from threadline.flows.sends import (
    LONGEST_WAIT,
    ForgetIntents,
    Keyed,
    ReadKnown,
    ReadSend,
    ReadSends,
    WriteEnd,
    WriteRefusal,
    WriteScheduled,
)
from threadline.flows.uploads import RecordFile, Uploads, reference

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
POLL_SECONDS = 5.0
INTENT_FOR = timedelta(hours=24)
MAX_INTENT = 200
PENDING = DeliveryState.PENDING.value


class Initiative:
    """What sessions say on their own initiative (DESIGN section 3)."""

    def __init__(
        self,
        store: Store,
        deliveries: Deliveries,
        channels: Channels | None,
        limits: Limits = LIMITS,
        pace: Pace = PACE,
        *,
        uploads: Uploads | None = None,
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._limits = limits
        self._pace = pace
        self._attempts = Attempts(store, channels, uploads, limits, pace)
        self._due = DueSends(store, self._attempts, pace)

    async def send(
        self,
        session: str,
        to: str,
        text: str,
        *,
        via: str = AUTO,
        key: str | None = None,
        at: datetime | None = None,
        repeat: Repeat | None = None,
        intent: str = "",
        intent_for: timedelta = INTENT_FOR,
        about: tuple[str, int] | None = None,
        attachments: Sequence[Attachment | RecordFile] = (),
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> SendStatus:
        """Write first: to a person, an address or a place, through one account or `auto`.

        `to` is `person:ID`, `PROVIDER:ADDRESS`, `email:…`, `alias:…`, or a conversation's address
        or id; `via` a provider, `PROVIDER/ACCOUNT` or `auto`. `at` keeps it until then, `repeat`
        sends it every day. The same `intent` to the same recipient is not said again within
        `intent_for`, by whichever session. `key` makes it safe to ask again. `attachments` are
        files that were given to `uploads` before, which wait a day, or `RecordFile`s, which are
        said once more, whenever that is.

        Raises `Unauthorized` (no account granted), `ConsentRequired`, `LimitReached`,
        `ReplyRouteConflict`, `NoAddress`, `WindowClosed`, `NotSent` (with what became of each
        channel), `NoAdapter`, `FileNotCarried`, `IdempotencyConflict`, `InvalidInput`, `TooLarge`.
        """
        authority.may_say(caller, session, "send")
        authority.unbound(caller)
        delivery.check_words(text, len(attachments))
        at = None if at is None else admission.aware(at, "at")
        if at is not None and repeat is not None:
            raise InvalidInput("at and repeat exclude each other.", field="repeat")
        if not timedelta() < intent_for <= LONGEST_WAIT:
            raise InvalidInput(
                "intent_for is more than nothing, at most a year.", field="intent_for"
            )
        if len(intent) > MAX_INTENT:
            raise InvalidInput(f"an intent has at most {MAX_INTENT} characters.", field="intent")
        if repeat is not None:
            checked_repeat(repeat)
        if about is not None:
            where_of(about[0])
        words = Words(
            text=text,
            about=about,
            attachments=tuple(
                reference(one) if isinstance(one, RecordFile) else one for one in attachments
            ),
            metadata=admission.metadata(metadata or {}, self._limits),
        )
        keyed = Keyed(
            session=session,
            scope=authority.scope_of(caller),
            key=checked_key(key),
            asked=Asked(
                to=to,
                via=via,
                words=words,
                at=at,
                intent=intent,
                intent_for=intent_for,
                repeat=repeat,
            ),
        )
        if keyed.key and (known := await self._store.read(ReadKnown(keyed=keyed))) is not None:
            return known
        try:
            return await self._begin(keyed, intent_for, caller)
        except ThreadlineError as error:
            if error.status < 500 and not isinstance(error, InvalidInput | IdempotencyConflict):
                await self._refused(keyed, caller, error)
            raise

    async def _begin(self, keyed: Keyed, intent_for: timedelta, caller: Caller) -> SendStatus:
        asked = keyed.asked
        plan = await self._store.read(
            ReadPlan(
                session=keyed.session,
                scope=keyed.scope,
                to=Recipient.of(asked.to),
                via=asked.via,
                caller=caller,
            )
        )
        send = Send(
            id=0,
            scope_id=keyed.scope,
            session=plan.session.id,
            to=asked.to,
            via=asked.via,
            text=asked.words.text,
            created_at=EPOCH,
            person=None if plan.person is None else plan.person.id,
            attachments=asked.words.attachments,
            metadata=dict(asked.words.metadata),
            about=asked.words.about,
            intent=asked.intent,
            intent_for=intent_for if asked.intent else None,
            at=asked.at,
            repeat=asked.repeat,
        )
        if asked.at is not None or asked.repeat is not None:
            send = replace(send, state=SendState.SCHEDULED)
            await self._attempts.check(send, keyed.session, caller)
            return await self._store.run(WriteScheduled(keyed=keyed, send=send, caller=caller))
        copies = await self._attempts.copies(send, keyed.session, caller)
        answer = await self._attempts.make(send, plan.channels, caller, keyed, copies)
        if isinstance(answer, SendStatus):
            return answer
        raise answer.error

    async def _refused(self, keyed: Keyed, caller: Caller, error: ThreadlineError) -> None:
        await self._store.run(
            WriteRefusal(
                scope=keyed.scope,
                by=named(caller),
                session=keyed.session,
                to=keyed.asked.to[:200],
                code=error.code,
                reason=error.detail[:500],
            )
        )

    # --- afterwards --------------------------------------------------------------------------

    async def show(self, send_id: str, *, caller: Caller = CONTROLLER) -> SendStatus:
        """One send. Raises `NotFound` where the caller may not know it."""
        found = await self._store.read(self._reading(caller, number=number_of(send_id) or 0))
        return found[0]

    async def list(
        self,
        *,
        session: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> Sequence[SendStatus]:
        """Sends, newest first; `before` is the id of the last one of the page before."""
        return await self._store.read(
            self._reading(caller, session=session, before=before, limit=clamp(limit, self._limits))
        )

    def _reading(self, caller: Caller, session: str | None = None, **how: Any) -> ReadSends:
        authority.may_see_deliveries(caller, session)
        if isinstance(caller, SessionCaller):
            session = caller.session
        return ReadSends(scope=authority.scope_of(caller), caller=caller, session=session, **how)

    async def cancel(self, send_id: str, *, caller: Caller = CONTROLLER) -> SendStatus:
        """Take back what was not sent yet: its time has not come, or its delivery still waits.

        Raises `NotFound`, `DeliveryConflict` where it may have left, and `Unauthorized` for a
        session whose token does not send.
        """
        if isinstance(caller, SessionCaller):
            authority.may_say(caller, caller.session, "send")
        while True:
            before = await self.show(send_id, caller=caller)
            row = await self._store.read(ReadSend(number=number_of(send_id) or 0))
            if row.state in WAITING and row.due_at is not None:
                # Its time, or its next channel, has not come yet.
                end = WriteEnd(
                    send=row,
                    state=SendState.CANCELLED,
                    reason="taken back.",
                    tried=row.tried,
                    by=named(caller),
                )
                if await self._store.run(end):
                    break
                # Somebody took a step meanwhile, so it is another one that is taken back.
                continue
            try:
                await self._cancel(before, caller)
                break
            except DeliveryConflict:
                after = await self._store.read(ReadSend(number=row.id))
                if after.step == row.step:
                    raise
        return await self.show(send_id, caller=caller)

    async def _cancel(self, sent: SendStatus, caller: Caller) -> None:
        """Take back every delivery that waits: one may have been resent beside another."""
        waiting = [one["delivery"] for one in sent.tried if one["outcome"] == PENDING]
        if not waiting and sent.delivery is not None:
            waiting = [sent.delivery.id]
        left: DeliveryConflict | None = None
        for one in waiting:
            try:
                await self._deliveries.cancel(one, caller=caller)
            except DeliveryConflict as conflict:
                left = conflict
        if left is not None:
            raise left

    async def settled(
        self, sent: SendStatus, *, patience: float = 30.0, caller: Caller = CONTROLLER
    ) -> SendStatus:
        """The send once nothing more happens to it by itself, or after `patience` seconds."""
        bell = self._store.bell(everything=True)
        try:
            async with asyncio.timeout(patience):
                while True:
                    found = await self.show(sent.id, caller=caller)
                    if found.state not in WAITING:
                        return found
                    await bell.wait(patience)
        except TimeoutError:
            return await self.show(sent.id, caller=caller)
        finally:
            bell.close()

    async def forget_intents(self) -> int:
        """Drop what intents were remembered for long enough; answers how many. Part of upkeep."""
        dropped = 0
        while found := await self._store.run(ForgetIntents()):
            dropped += found
        return dropped

    # --- the worker --------------------------------------------------------------------------

    async def round(self) -> int:
        """Do what is due now: scheduled sends, and the next channel of those that failed.

        Answers how many were looked at.
        """
        return await self._due.round()

    async def run(self, stopping: asyncio.Event, well: Callable[[], None] = lambda: None) -> None:
        """Work until told to stop. `well` is called after each look that the store answered."""
        await self._due.run(stopping, well)
