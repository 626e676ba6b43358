"""Each channel of a send in its turn, until one takes the intent.

The place is opened before the intent is written. What every attempt came to is kept in its order,
whichever way the send ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from threadline.core.adapters import Account, Channels, Direct, Opening
from threadline.core.deliveries import Failure
from threadline.core.errors import (
    ConsentRequired,
    FileNotCarried,
    InvalidInput,
    LimitReached,
    NoAdapter,
    NoAddress,
    NotFound,
    NotSent,
    OutcomeUnknown,
    ReplyRouteConflict,
    StoreFull,
    StoreUnavailable,
    ThreadlineError,
    WindowClosed,
)
from threadline.core.model import Attachment, Caller, ConversationRef
from threadline.core.ports import Store
from threadline.core.rules.limits import Limits
from threadline.core.rules.pacing import Pace
from threadline.core.sends import AUTO, Channel, Send, Tried
from threadline.core.uploads import UNSAID, upload_of
from threadline.core.wire import ApiCall, Doubt, Lost, Refused, Unsent
from threadline.flows.send_status import SendStatus, told
from threadline.flows.sends import Keyed, ReadAccount, ReadNow, WriteSend
from threadline.flows.uploads import Uploads, record_file, reference

STEPS = 12
OPEN_SECONDS = 20.0
# What a person, the settings or a platform's ways decided: another channel may be open.
PASSED_ON = (
    ConsentRequired,
    FileNotCarried,
    LimitReached,
    NoAdapter,
    NoAddress,
    NotFound,
    ReplyRouteConflict,
    WindowClosed,
)
AccountKey = tuple[str, str, str]
# What a platform answers while it is away or busy.
PASSING = (Failure.TRANSIENT, Failure.RATE_LIMITED)
# Nothing is known, so nothing may be concluded; who works on it comes again.
UNKNOWN = (StoreFull, StoreUnavailable, OutcomeUnknown)


@dataclass(frozen=True, slots=True)
class Unable:
    """No channel took it: why, and what was tried in all."""

    error: ThreadlineError
    tried: tuple[Tried, ...]

    @property
    def passes(self) -> bool:
        """Whether it may be taken later: a channel could not be asked."""
        return any(one.outcome == NoAdapter.code for one in self.tried)


class Attempts:
    """One send through its channels."""

    def __init__(
        self,
        store: Store,
        channels: Channels | None,
        uploads: Uploads | None,
        limits: Limits,
        pace: Pace,
    ) -> None:
        self._store = store
        self._channels = channels
        self._uploads = uploads
        self._limits = limits
        self._pace = pace
        self._turns: dict[AccountKey, asyncio.Semaphore] = {}

    async def make(
        self,
        send: Send,
        channels: tuple[Channel, ...],
        caller: Caller,
        keyed: Keyed | None,
        copies: Mapping[str, Attachment],
    ) -> SendStatus | Unable:
        """Each channel until one takes the intent. What nobody took is answered with why.

        Raises what leaves open whether anything was written.
        """
        error: ThreadlineError = NoAddress()
        for place, channel in enumerate(channels):
            now = await self._store.read(ReadNow())
            left = channels[place + 1 :] if send.via == AUTO else ()
            try:
                ref = await self._open(send.scope_id, channel)
                return await self._store.run(
                    WriteSend(
                        send=send,
                        channel=channel,
                        left=left,
                        ref=ref,
                        caller=caller,
                        keyed=keyed,
                        copies=copies,
                        limits=self._limits,
                        pace=self._pace,
                    )
                )
            except UNKNOWN:
                raise
            except ThreadlineError as refusal:
                error = refusal
                tried = Tried(channel=channel, outcome=error.code, at=now, reason=str(error))
                send = replace(send, tried=(*send.tried, tried))
                if not isinstance(error, PASSED_ON):
                    return Unable(error, send.tried)
        if len(send.tried) > 1:
            error = NotSent(
                "each was refused: "
                + "; ".join(f"{one.channel.provider}: {one.reason}" for one in send.tried),
                tried=[dict(told(one), at=one.at.isoformat()) for one in send.tried],
            )
        return Unable(error, send.tried)

    # --- files -------------------------------------------------------------------------------

    async def copies(self, send: Send, session: str, caller: Caller) -> Mapping[str, Attachment]:
        """The files of records that are to be said once more, taken in.

        Raises what `uploads.copy` does.
        """
        found: dict[str, Attachment] = {}
        for one in send.attachments:
            part = record_file(one)
            if part is not None:
                assert self._uploads is not None
                copied = await self._uploads.copy(part, session=session, caller=caller)
                found[reference(part).id] = copied.attachment
        return found

    async def check(self, send: Send, session: str, caller: Caller) -> None:
        """Refuse now what a send that is kept could not say when it is due.

        Raises `InvalidInput` for a file that does not wait so long, and for one of a record what
        reading it does.
        """
        now = await self._store.read(ReadNow())
        for one in send.attachments:
            part = record_file(one)
            if part is not None:
                assert self._uploads is not None
                await self._uploads.readable(part, session=session, caller=caller)
            elif upload_of(one) is not None:
                if send.repeat is not None:
                    raise InvalidInput(
                        "a file that was given is said once, and this is said every day. Name the "
                        "file of a record: its conversation, sequence and number.",
                        field="attachments",
                    )
                if send.at is not None and send.at - now >= UNSAID:
                    raise InvalidInput(
                        "a file that was given waits a day, and this leaves later. Name the file "
                        "of a record: its conversation, sequence and number.",
                        field="attachments",
                    )

    # --- places ------------------------------------------------------------------------------

    async def _open(self, scope: str, channel: Channel) -> ConversationRef:
        """Where the conversation is: the place that was named, or the one with a person.

        Raises `NoAdapter`, and `NoAddress` where the platform knows nobody by that address.
        """
        if channel.place:
            return ConversationRef.parse(channel.place)
        account = await self._store.read(
            ReadAccount(scope=scope, provider=channel.provider, account_id=channel.account_id)
        )
        try:
            return await self._opened(scope, channel, account)
        except ThreadlineError:
            raise
        except Exception as defect:
            # A dialect's defect closes one channel, for now, and what is next is asked.
            why = f"what {channel.provider} answers could not be read ({type(defect).__name__})."
            raise NoAdapter(f"{why} Try again.") from defect

    async def _opened(
        self, scope: str, channel: Channel, account: Account | None
    ) -> ConversationRef:
        dialect: Any = None
        if account is not None and self._channels is not None:
            dialect = self._channels.dialect(account)
        if dialect is None:
            raise NoAdapter(f"nothing speaks for {channel.provider}/{channel.account_id}.")
        if isinstance(dialect, Direct):
            return dialect.direct(channel.address)
        if not isinstance(dialect, Opening):
            raise NoAddress(f"{channel.provider} opens no conversations with a person.")
        assert self._channels is not None
        wire = self._channels.transport(channel.provider)
        key = f"open-{random.getrandbits(64):x}"
        call = dialect.open_direct(channel.address, key)
        whose = (scope, channel.provider, channel.account_id)
        turn = self._turns.setdefault(whose, asyncio.Semaphore(dialect.opens_at_once))
        try:
            async with asyncio.timeout(OPEN_SECONDS), turn:
                for _ in range(STEPS):
                    step = dialect.read_direct(channel.address, call, await wire.perform(call))
                    if isinstance(step, ConversationRef):
                        return step
                    if isinstance(step, Doubt) or (
                        isinstance(step, Refused) and step.failure in PASSING
                    ):
                        # Opening says nothing to anybody, so it is asked for once more.
                        raise NoAdapter(f"{channel.provider} answered: {step.reason}. Try again.")
                    if isinstance(step, Refused):
                        raise NoAddress(f"{channel.provider} answered: {step.reason}")
                    assert isinstance(step, ApiCall)
                    call = step
        except (Unsent, Lost, TimeoutError) as error:
            raise NoAdapter(f"{channel.provider} does not answer ({error}). Try again.") from None
        raise NoAddress(f"{channel.provider} asks for ever more calls.")
