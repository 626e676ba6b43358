"""One message in: webhook, poll, gap repair, API and command line are one path.

Checked, appended, routed and committed in one story; only then answered. What must wait for a
gated import is answered as held, which is as durable as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.echoes import hear_echo
from threadline.core.errors import ThreadlineError
from threadline.core.model import (
    CONTROLLER,
    AdapterCaller,
    Caller,
    Controller,
    Direction,
    Event,
    InboundMessage,
)
from threadline.core.places import resolve
from threadline.core.ports import Changes, Loaded, Needs, Store, Story
from threadline.core.quick import quick
from threadline.core.recording import Door, Taken, first_needs, more_needs, take
from threadline.core.rules import admission, authority
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.seating import session_named
from threadline.flows.hydration import Hydration


@quick
@dataclass(frozen=True, slots=True)
class Append(Story[Taken]):
    """Record one message. `said_by` is the session whose confirmed words these are.

    An `echo` is one of our own as the provider shows it: it may be proof of a delivery (A10).
    What is not `vouched` for grants nothing in the name of the person who is said to have said it.
    """

    message: InboundMessage
    door: Door = Door.HEARD
    limits: Limits = LIMITS
    said_by: str | None = None
    echo: bool = False
    vouched: bool = True

    @property
    def repeatable(self) -> bool:
        """Only with an id: without one a second time would be a second record."""
        return self.message.message_id is not None

    @property
    def payload(self) -> InboundMessage | None:
        """A message that was heard must not be lost, even where it cannot be saved."""
        return self.message if self.door is Door.HEARD else None

    def needs(self) -> Needs:
        """The conversation, under every address the message gives it."""
        return first_needs(self.message)

    def more(self, loaded: Loaded) -> Needs:
        """Ids, speakers and held entries."""
        return more_needs(loaded, self.message)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Taken]:
        """See `core.recording.take`."""
        draft = Draft(loaded)
        said_by = None
        if self.said_by is not None:
            said_by = session_named(draft, self.message.conversation.scope_id, self.said_by)
        if self.echo:
            conversation = resolve(draft, self.message, now, strict=self.door is Door.DIRECT)
            waiting = hear_echo(draft, conversation, self.message, now, self.limits)
            if waiting is not None:
                return draft.changes, waiting
        taken = take(
            draft,
            self.message,
            now,
            door=self.door,
            limits=self.limits,
            said_by=said_by,
            vouched=self.vouched,
        )
        return draft.changes, taken


class Inbound:
    """What adapters, callers and people bring in."""

    def __init__(self, store: Store, hydration: Hydration, limits: Limits = LIMITS) -> None:
        self._store = store
        self._hydration = hydration
        self._limits = limits

    async def append(self, message: InboundMessage, *, caller: Caller = CONTROLLER) -> Taken:
        """Append a message as a caller says it.

        Raises `HydrationPending` while a gated import is under way, `KindMismatch` where the
        conversation is known as another kind, `InvalidInput`, `TooLarge`, `Unauthorized`.
        """
        story = self._story(message, caller, Door.DIRECT)
        taken = await self._store.run(story)
        while taken.draining:
            await self._hydration.drain(taken.conversation)
            taken = await self._store.run(story)
        return taken

    async def receive(self, message: InboundMessage, *, caller: Caller = CONTROLLER) -> Taken:
        """Take a message a provider delivered: recorded, held or known already, never refused
        for an import that is under way."""
        story = self._story(message, caller, Door.HEARD)
        return await self._drained(await self._store.run(story))

    async def receive_all(
        self, messages: Iterable[InboundMessage], *, caller: Caller = CONTROLLER
    ) -> Sequence[Taken | ThreadlineError]:
        """Take a batch in its order; each message has its own answer or its own error."""
        stories: list[Append | ThreadlineError] = []
        for message in messages:
            try:
                stories.append(self._story(message, caller, Door.HEARD))
            except ThreadlineError as refusal:
                stories.append(refusal)
        good = [story for story in stories if isinstance(story, Append)]
        answers = iter(await self._store.run_all(good))
        result: list[Taken | ThreadlineError] = []
        for story in stories:
            answer = next(answers) if isinstance(story, Append) else story
            if isinstance(answer, Taken):
                answer = await self._drained(answer)
            elif not isinstance(answer, ThreadlineError):
                raise answer
            result.append(answer)
        return result

    def _story(self, message: InboundMessage, caller: Caller, door: Door) -> Append:
        authority.may_bring(caller, message)
        own = message.direction is Direction.OUTBOUND or message.actor.is_self
        # A platform's words come from its adapter; a controller that writes them down grants no
        # more by that than it may by itself.
        own_word = isinstance(caller, Controller) and door is Door.DIRECT and not caller.human
        return Append(
            admission.checked(message, self._limits),
            door,
            self._limits,
            vouched=not own_word,
            echo=own and message.event is Event.MESSAGE and isinstance(caller, AdapterCaller),
        )

    async def _drained(self, taken: Taken) -> Taken:
        if taken.draining:
            await self._hydration.drain(taken.conversation)
        return taken
