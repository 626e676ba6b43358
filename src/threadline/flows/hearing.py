"""What a provider brings becomes records: one path for webhooks, listeners and read history.

The dialect says what an account hears in a request. Everything of one call is appended together,
in its order, before anybody answers the provider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from threadline.core.adapters import Account, Adapter
from threadline.core.draft import Draft
from threadline.core.errors import ThreadlineError
from threadline.core.model import AdapterCaller, InboundMessage
from threadline.core.ports import Changes, Loaded, Needs, Store, Story
from threadline.core.receipts import hear
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.recordable import recordable
from threadline.core.wire import Receipt, Request
from threadline.flows.inbound import Inbound


@dataclass(slots=True)
class Tally:
    """What came of it. `skipped` counts by the dialect's words, `refused` by our codes."""

    recorded: int = 0
    duplicates: int = 0
    receipts: int = 0
    foreign: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class HearReceipt(Story[bool]):
    """What a platform says about one message of ours; whether it is about one of ours."""

    receipt: Receipt
    limits: Limits = LIMITS

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take=(self.receipt.conversation.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """See `core.receipts.hear`."""
        draft = Draft(loaded)
        conversation = draft.taken(self.receipt.conversation.text)
        if conversation is None:
            return draft.changes, False
        found = hear(draft, conversation, self.receipt, now, self.limits)
        return draft.changes, found is not None


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
        shown = [recordable(message, self._limits) for message in messages]
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
