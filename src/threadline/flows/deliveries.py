"""What became of what sessions said, one by one and in pages, and where a right still holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from threadline.core.adapters import Channels
from threadline.core.deliveries import Delivery, DeliveryState, Step
from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput
from threadline.core.ids import LENGTH, number_of, public
from threadline.core.model import (
    CONTROLLER,
    MAX_ID_BYTES,
    Caller,
    ConversationRef,
    SessionCaller,
)
from threadline.core.ports import (
    CONVERSATION,
    DELIVERIES_IN_STATE,
    DELIVERIES_OF,
    DELIVERIES_OF_SCOPE,
    DELIVERIES_OF_SESSION,
    LATEST_DELIVERED,
    SESSION,
    Changes,
    Loaded,
    Needs,
    Page,
    Query,
    Store,
    Story,
    fetch,
)
from threadline.core.publishing import right_of
from threadline.core.rules import authority
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.rules.pacing import PACE, Pace
from threadline.core.seating import numbers_of, session_named
from threadline.flows.looking import found, member_of, peeking, where_of
from threadline.flows.settling import Act, Action, FindDelivery, ReadTrail
from threadline.flows.statuses import (
    DeliveryStatus,
    id_of,
    key_of_id,
    known_delivery,
    name_of,
    status_of,
)

END = 18
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# When a delivery was made in microseconds, its conversation, its number there.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPage:
    """Deliveries, newest first. `next` is the cursor of the following page, None at the end."""

    deliveries: list[DeliveryStatus]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext:
    """Where a session last spoke in a conversation, as long as the right it spoke by holds."""

    delivery: str
    conversation: str
    session_id: str
    generation: int | None
    sequence: int | None
    message_ids: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDelivery(Story[DeliveryStatus]):
    """One delivery, for a controller or for the session whose words it is about."""

    conversation: int
    delivery: int
    caller: Caller

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, DeliveryStatus]:
        """What is another's does not exist for a session."""
        draft = Draft(loaded)
        conversation = draft.get(CONVERSATION, self.conversation)
        row = known_delivery(draft, conversation, self.delivery, self.caller)
        assert conversation is not None
        return Changes(), status_of(row, conversation, name_of(draft, row.session))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDeliveries(Story[DeliveryPage]):
    """Deliveries of a conversation, of a session, or of a scope, newest first."""

    caller: Caller
    scope: str
    where: Where | None
    session: str | None
    state: DeliveryState | None
    before: Place
    limit: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, DeliveryPage]:
        """What was said by a predecessor is its successor's."""
        draft = Draft(loaded)
        questions: list[tuple[Query[Delivery], Any]] = []
        own: set[int] | None = None
        if self.session is not None:
            own = set(numbers_of(session_named(draft, self.scope, self.session)))
        if self.where is not None:
            conversation = found(loaded, self.where, self.caller)
            if isinstance(self.caller, SessionCaller):
                member_of(draft, conversation, self.caller.session, now, caller=self.caller)
            questions = [(DELIVERIES_OF, (conversation.id,))]
        elif own is not None:
            questions = [(DELIVERIES_OF_SESSION, (one,)) for one in sorted(own)]
        elif self.state is not None:
            questions = [(DELIVERIES_IN_STATE, (self.scope, self.state.value))]
        else:
            questions = [(DELIVERIES_OF_SCOPE, (self.scope,))]
        rows: list[Delivery] = []
        for query, which in questions:
            rows += self._rows(loaded, query, which, own if self.where is not None else None)
        rows.sort(key=_place, reverse=True)
        page = rows[: self.limit]
        fetch(loaded, CONVERSATION, [row.conversation for row in page])
        fetch(loaded, SESSION, [row.session for row in page])
        shown = []
        for row in page:
            place = draft.get(CONVERSATION, row.conversation)
            if place is not None:
                shown.append(status_of(row, place, name_of(draft, row.session)))
        return Changes(), DeliveryPage(
            deliveries=shown, next=_cursor(page[-1]) if len(rows) > self.limit else None
        )

    def _rows(
        self,
        loaded: Loaded,
        query: Query[Delivery],
        which: tuple[Any, ...],
        own: set[int] | None,
    ) -> list[Delivery]:
        """A row more than the page holds: the session's own, those in the state asked for."""
        before = self.before
        found_rows: list[Delivery] = []
        while True:
            page = loaded.page(Page(query, (*which, *before, self.limit + 1)))
            found_rows += [
                row
                for row in page
                if (own is None or row.session in own)
                and (self.state is None or row.state is self.state)
            ]
            if len(page) <= self.limit or len(found_rows) > self.limit:
                return found_rows
            before = _place(page[-1])


def _place(row: Delivery) -> Place:
    return (row.created_at - EPOCH) // timedelta(microseconds=1), row.conversation, row.id


def _cursor(row: Delivery) -> str:
    at, conversation, number = _place(row)
    return f"{at}.{public(conversation)}.{public(number)}"


def _read_cursor(text: str | None) -> Place:
    if text is None:
        return (1 << 62, 0, 0)
    at, _, rest = text.partition(".")
    conversation, number = (number_of(one) for one in (rest[:LENGTH], rest[LENGTH + 1 :]))
    if not at.isdecimal() or len(at) > END or conversation is None or number is None:
        raise InvalidInput("the cursor is not one a page gave.", after=text[:64])
    return int(at), conversation, number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext(Story[DeliveryContext | None]):
    """The newest delivery of a session in a conversation whose right still holds (E4, E5)."""

    where: Where
    session: str
    scope: str
    caller: Caller

    def needs(self) -> Needs:
        """The conversation and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, DeliveryContext | None]:
        """A later generation is another right, so nothing of an old one comes back."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        session = session_named(draft, conversation.ref.scope_id, self.session)
        right = right_of(draft, conversation, session, now)
        if right is None and isinstance(self.caller, SessionCaller):
            member_of(draft, conversation, session.name, now, caller=self.caller)
        rows: list[Delivery] = []
        for number in numbers_of(session) if right is not None else ():
            rows += loaded.page(Page(LATEST_DELIVERED, (conversation.id, number)))
        row = max(rows, key=_place, default=None)
        if row is None or row.right != right:
            return Changes(), None
        bound = right is not None and right.startswith("binding:")
        return Changes(), DeliveryContext(
            delivery=id_of(row),
            conversation=public(conversation.id),
            session_id=session.name,
            generation=int(row.right.partition(":")[2]) if bound else None,
            sequence=row.sequence,
            message_ids=row.message_ids,
            at=row.settled_at or row.created_at,
        )


class Deliveries:
    """What sessions said, and what became of it."""

    def __init__(
        self,
        store: Store,
        limits: Limits = LIMITS,
        pace: Pace = PACE,
        channels: Channels | None = None,
    ) -> None:
        self._store = store
        self._channels = channels
        self._limits = limits
        self._pace = pace

    async def show(self, delivery_id: str, *, caller: Caller = CONTROLLER) -> DeliveryStatus:
        """One delivery. Raises `NotFound`, also where it is another session's."""
        authority.may_see_deliveries(caller, None)
        conversation, number = key_of_id(delivery_id)
        return await self._store.read(
            ReadDelivery(conversation=conversation, delivery=number, caller=caller)
        )

    async def confirm(
        self, delivery_id: str, message_id: str | None = None, *, caller: Caller = CONTROLLER
    ) -> DeliveryStatus:
        """It was said: a person saw it. `message_id` is the platform's, where they know it.

        Settles an uncertain delivery (or one that ended otherwise) with its record; of several
        parts the one in doubt. Raises `DeliveryConflict`, `NotFound`, `Unauthorized`.
        """
        if message_id is not None and not (
            0 < len(message_id) <= 1024 and message_id.isprintable()
        ):
            raise InvalidInput(f"a message id has 1 to {MAX_ID_BYTES} printable characters.")
        return await self._act(Action.CONFIRM, delivery_id, caller, message_id=message_id or "")

    async def resend(self, delivery_id: str, *, caller: Caller = CONTROLLER) -> DeliveryStatus:
        """Say it again, at the tail of its lane, marked as resent; it may be there twice.

        For what is uncertain, failed, expired or cancelled. Raises `DeliveryConflict`, `NotFound`,
        `Unauthorized`.
        """
        return await self._act(Action.RESEND, delivery_id, caller)

    async def drop(self, delivery_id: str, *, caller: Caller = CONTROLLER) -> DeliveryStatus:
        """Give an uncertain delivery up: `cancelled`; what of it is known to be out is recorded.

        Raises `DeliveryConflict`, `NotFound`, `Unauthorized`.
        """
        return await self._act(Action.DROP, delivery_id, caller)

    async def cancel(self, delivery_id: str, *, caller: Caller = CONTROLLER) -> DeliveryStatus:
        """Take a pending delivery back; a session its own.

        Raises `DeliveryConflict` for one that is being sent or was, `NotFound`.
        """
        return await self._act(Action.CANCEL, delivery_id, caller)

    async def _act(
        self, action: Action, delivery_id: str, caller: Caller, *, message_id: str = ""
    ) -> DeliveryStatus:
        if action is Action.CANCEL:
            authority.may_see_deliveries(caller, None)
        else:
            authority.may_control(caller)
        conversation, number = key_of_id(delivery_id)
        return await self._store.run(
            Act(
                action=action,
                conversation=conversation,
                delivery=number,
                caller=caller,
                message_id=message_id,
                channels=self._channels,
                limits=self._limits,
                pace=self._pace,
            )
        )

    async def why(
        self, delivery_id: str, *, caller: Caller = CONTROLLER
    ) -> tuple[DeliveryStatus, tuple[Step, ...]]:
        """A delivery and every step it took, in order. Raises `NotFound`."""
        authority.may_see_deliveries(caller, None)
        conversation, number = key_of_id(delivery_id)
        return await self._store.read(
            ReadTrail(conversation=conversation, delivery=number, caller=caller)
        )

    async def of_record(
        self, where: ConversationRef | str, sequence: int, *, caller: Caller = CONTROLLER
    ) -> str | None:
        """The id of the delivery that said a record, None where it was not said by a session."""
        authority.may_see_deliveries(caller, None)
        return await self._store.read(
            FindDelivery(where=where_of(where), sequence=sequence, caller=caller)
        )

    async def page(
        self,
        *,
        where: ConversationRef | str | None = None,
        session: str | None = None,
        state: DeliveryState | str | None = None,
        after: str | None = None,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> DeliveryPage:
        """A page of deliveries, newest first; a session sees its own.

        `state` keeps those in one state, such as `uncertain`: what may wait for a person. `after`
        is an earlier page's `next`. Raises `InvalidInput`, `NotFound`, `Unauthorized`.
        """
        if isinstance(caller, SessionCaller) and session is None:
            session = caller.session
        authority.may_see_deliveries(caller, session)
        if where is None:
            authority.unbound(caller)
        return await self._store.read(
            ReadDeliveries(
                caller=caller,
                scope=authority.scope_of(caller),
                where=None if where is None else where_of(where),
                session=session,
                state=None if state is None else DeliveryState.of(state),
                before=_read_cursor(after),
                limit=clamp(limit, self._limits),
            )
        )

    async def context(
        self, where: ConversationRef | str, session: str, *, caller: Caller = CONTROLLER
    ) -> DeliveryContext | None:
        """Where the session last spoke here by a right that it still has, else None."""
        authority.may_see_deliveries(caller, session)
        return await self._store.read(
            ReadContext(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
            )
        )
