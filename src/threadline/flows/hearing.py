"""What a provider brings becomes records: one path for webhooks, listeners and read history.

The dialect says what an account hears in a request. Everything of one call is appended together,
in its order, before anybody answers the provider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from threadline.core.adapters import Account, Adapter
from threadline.core.deliveries import DeliveryState
from threadline.core.draft import Draft
from threadline.core.errors import ThreadlineError
from threadline.core.model import AdapterCaller, Event, InboundMessage
from threadline.core.ports import (
    CONVERSATIONS,
    KNOWN,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    together,
)
from threadline.core.receipts import hear
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.recordable import recordable
from threadline.core.wire import Receipt, Request
from threadline.flows.inbound import Inbound

REVISING = frozenset({Event.EDIT, Event.DELETE, Event.REACTION})
THREADS = 500
THREAD_PAGES = 10


@dataclass(slots=True)
class Tally:
    """What came of it. `skipped` counts by the dialect's words, `refused` by our codes."""

    recorded: int = 0
    duplicates: int = 0
    receipts: int = 0
    foreign: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class About(NamedTuple):
    """Whether it is about a message of ours, and whether that failed by it."""

    ours: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HearReceipt(Story[About]):
    """What a platform says about one message of ours."""

    receipt: Receipt
    limits: Limits = LIMITS

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take=(self.receipt.conversation.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, About]:
        """See `core.receipts.hear`."""
        draft = Draft(loaded)
        conversation = draft.taken(self.receipt.conversation.text)
        if conversation is None:
            return draft.changes, About(False, False)
        found = hear(draft, conversation, self.receipt, now, self.limits)
        if found is None:
            return draft.changes, About(False, False)
        failed = found.state is DeliveryState.FAILED and found.settled_at == now
        return draft.changes, About(True, failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging(Story[InboundMessage]):
    """Where an edit, a delete or a reaction belongs: to the thread that holds what it is about.

    Some platforms say of these only in which room they happened. What the room does not know is
    looked up in its threads; what none of them knows stays in the room.
    """

    message: InboundMessage

    def needs(self) -> Needs:
        """The room, only read."""
        return Needs(peek=(self.message.conversation.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, InboundMessage]:
        """The message, in its thread where that is known."""
        message, ref = self.message, self.message.conversation
        room = loaded.peeked(ref.text)
        if room is None or message.revises is None:
            return Changes(), message
        key = loaded.id_key(message.id_space, message.revises)
        known = loaded.get(KNOWN, (room.id, key))
        if known is not None and known.sequence is not None:
            return Changes(), message
        below = after = ref.text.partition("?")[0] + "/"
        for _ in range(THREAD_PAGES):
            rows = loaded.page(Page(CONVERSATIONS, (ref.scope_id, after, THREADS)))
            threads = [one for one in rows if one.ref.text.startswith(below)]
            together(loaded, [(KNOWN, (one.id, key)) for one in threads])
            for thread in threads:
                known = loaded.get(KNOWN, (thread.id, key))
                if known is not None and known.sequence is not None:
                    root = thread.about.thread_root
                    return Changes(), replace(
                        message, conversation=thread.ref, parent=ref, thread_root=root
                    )
            if len(threads) < THREADS:
                break
            after = threads[-1].ref.text
        return Changes(), message


class Hearing:
    """The ears of connected accounts."""

    def __init__(self, store: Store, inbound: Inbound, limits: Limits = LIMITS) -> None:
        self._store = store
        self._inbound = inbound
        self._limits = limits

    async def requests(
        self, account: Account, dialect: Adapter, requests: Iterable[Request]
    ) -> Tally:
        """Record what an account hears in these requests; it is durable when this returns.

        What may not be recorded as it came is bent (`rules.recordable`): the provider would not
        send it in another form. What nobody said is counted as refused. Raises what a later try
        may cure, such as `StoreUnavailable`: then the provider is to send all of it again.
        """
        tally = Tally()
        messages: list[InboundMessage] = []
        receipts: list[Receipt] = []
        for request in requests:
            heard = dialect.parse(request)
            messages += heard.messages
            receipts += heard.receipts
            tally.skipped.update(heard.skipped)
            tally.foreign += heard.foreign
        await self.messages(account, messages, tally)
        for receipt in receipts:
            await self._store.run(HearReceipt(receipt=receipt, limits=self._limits))
        tally.receipts = len(receipts)
        return tally

    async def messages(
        self, account: Account, messages: Sequence[InboundMessage], tally: Tally | None = None
    ) -> Tally:
        """Record messages of an account in their order; see `requests`."""
        tally = tally or Tally()
        if not messages:
            return tally
        caller = AdapterCaller(account.scope_id, account.provider, account.account_id)
        bent = [recordable(message, self._limits) for message in messages]
        # What is about a message that comes in the same call is where that one is.
        beside = {(one.id_space, one.message_id): one for one in bent if one.event is Event.MESSAGE}
        shown = [await self._placed(message, beside) for message in bent]
        for answer in await self._inbound.receive_all(shown, caller=caller):
            if not isinstance(answer, ThreadlineError):
                tally.duplicates += answer.duplicate
                tally.recorded += not answer.duplicate
            elif answer.status < 500 or "parked" in answer.facts:
                # Parked is durable: somebody looks at it, and the provider need not send it again.
                tally.refused[answer.code] += 1
            else:
                raise answer
        return tally

    async def _placed(
        self, message: InboundMessage, beside: Mapping[tuple[str, str | None], InboundMessage]
    ) -> InboundMessage:
        """The message where it belongs; see `Belonging`."""
        ref = message.conversation
        in_room = ref.parent_conversation_id is None and message.thread_root is None
        if message.event not in REVISING or message.revises is None or not in_room:
            return message
        about = beside.get((message.id_space, message.revises))
        if about is not None and about.conversation.parent == ref:
            return replace(
                message,
                conversation=about.conversation,
                parent=ref,
                thread_root=about.thread_root,
            )
        return await self._store.read(Belonging(message=message))
