"""A machine that does at random what the ledger can do, to the real thing and to the reference.

After every step everything that can be read is compared with what the laws say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import Store
from tests.model import reference
from tests.model.reference import (
    ALL,
    BOT_WAKES,
    GATE,
    HOLD,
    LEASE,
    SINCE_JOIN,
    WAKE_WITHIN,
    Message,
    Policy,
    Reference,
    Refused,
)
from threadline import Threadline
from threadline.core.errors import ThreadlineError
from threadline.core.ids import number_of
from threadline.core.model import (
    Actor,
    Controller,
    ConversationRef,
    Direction,
    Event,
    Hydration,
    InboundMessage,
    Provenance,
)
from threadline.core.recording import Door, Taken
from threadline.core.rules.binding import KEEP
from threadline.core.rules.limits import Limits
from threadline.flows.inbound import Append
from threadline.flows.replay import CaughtUp, Gap, Handed
from threadline.testing.clock import StillClock

T = TypeVar("T")
M = TypeVar("M")

ROOMS = 2
LIMITS = Limits(
    wake_within=timedelta(minutes=WAKE_WITHIN),
    max_bot_wakes=BOT_WAKES,
    hold_entries=HOLD,
    lease=timedelta(minutes=LEASE),
    gate=timedelta(minutes=GATE),
    page=3,
    chunk=2,
)
ACTORS = {
    "human": Actor("U1", "Ada"),
    "other": Actor("U2", "Ada"),
    "bot": Actor("B9", "helper", is_bot=True),
    "self": Actor("B1", "us", is_bot=True, is_self=True),
}

rooms = st.integers(0, ROOMS - 1)
names = st.sampled_from(["ann", "bob", "cyd"])
handles = st.sampled_from(["alpha", "beta"])
ids = st.sampled_from([None, *(f"m{n}" for n in range(9))])
known_ids = st.sampled_from([f"m{n}" for n in range(9)])
event_ids = st.sampled_from([None, *(f"e{n}" for n in range(5))])
policies: st.SearchStrategy[Policy] = st.sampled_from(
    [ALL, SINCE_JOIN, ("last_n", 1), ("last_n", 3)]
)
owners = st.sampled_from(["importer", "other"])
messages = st.builds(
    Message,
    id=ids,
    actor=st.sampled_from(["human", "human", "human", "other", "bot"]),
    target=st.sampled_from([None, None, None, "alpha", "beta", "ann", "nobody"]),
    names=st.sampled_from([(), (), (), ("alpha",), ("beta", "alpha"), ("nobody",)]),
    reply_to=st.sampled_from([None, None, "m1", "m2", "m3"]),
    old=st.sampled_from([False, False, False, True]),
)
revisions = st.builds(
    Message,
    id=event_ids,
    event=st.sampled_from(["edit", "edit", "delete"]),
    revises=known_ids,
    actor=st.sampled_from(["human", "human", "other"]),
    signed=st.sampled_from([False, False, True]),
)
anything = st.one_of(messages, messages, revisions)
history = st.lists(
    st.one_of(
        st.builds(Message, id=ids, actor=st.sampled_from(["human", "other"])),
        st.builds(Message, id=known_ids),
        revisions,
    ),
    min_size=1,
    max_size=4,
)


F = TypeVar("F", bound=Callable[..., None])
ACTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {}
ONLY: dict[str, Callable[[Any], object]] = {}


def action(**arguments: st.SearchStrategy[Any]) -> Callable[[F], F]:
    """Something that can be done, and what to draw for it.

    Not one rule each: Hypothesis switches most rules of an example off, and what is worth seeing
    here takes several of them together.
    """

    def known(method: F) -> F:
        ACTIONS[method.__name__] = arguments
        return method

    return known


def only(possible: Callable[[Any], object]) -> Callable[[F], F]:
    """When it can be done."""

    def known(method: F) -> F:
        ONLY[method.__name__] = possible
        return method

    return known


async def _settled(work: Awaitable[T]) -> T | ThreadlineError:
    try:
        return await work
    except ThreadlineError as refusal:
        return refusal


class Ledger(RuleBasedStateMachine):
    """One example: two rooms and a handful of sessions in a scope of their own."""

    runner: asyncio.Runner
    store: Store
    clock: StillClock
    examples = 0
    actions = 0
    seen: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        scope = f"scope-{self.examples}"
        self.controller = Controller(scope)
        self.line: Any = self.subject(scope)
        self.refs = [ConversationRef("slack", "T1", f"C{n}", None, scope) for n in range(ROOMS)]
        self.began = self.clock.at
        self.model = Reference(ROOMS, self.seen)
        self.ids: list[str] = []
        self.public: dict[str, int] = {}
        self.tokens: dict[tuple[int, int], str] = {}
        self.said = 0

    def subject(self, scope: str) -> Any:
        """What the laws are held against in this scope: the flows, or something before them."""
        return Threadline(self.store, LIMITS)

    # --- doing the same twice ------------------------------------------------------------------

    def wait(self, work: Awaitable[T]) -> T:
        """The answer of the real thing."""

        async def awaited() -> T:
            return await work

        return self.runner.run(awaited())

    def both(self, model: Callable[[], M], real: Callable[[], Awaitable[T]]) -> tuple[M, T] | None:
        """Do it to both; None where both refuse, with the same code."""
        want: M | Refused
        try:
            want = model()
        except Refused as refused:
            want = refused
        type(self).actions += 1
        got = self.wait(_settled(real()))
        if isinstance(want, Refused):
            assert isinstance(got, ThreadlineError), f"not refused, expected {want.codes}"
            assert got.code in want.codes
            return None
        assert not isinstance(got, ThreadlineError), f"refused: {got}, expected {want}"
        self._learn()
        return want, got

    def _learn(self) -> None:
        for session in self.model.sessions.values():
            if session.id not in self.public.values():
                shown = self.wait(self.line.sessions.show(session.name, caller=self.controller))
                self.public[shown.id] = session.id

    def _text(self, message: Message) -> Message:
        self.said += 1
        text = " ".join([f"t{self.said}", *(f"@{name}" for name in message.names)])
        return replace(message, text=text)

    def _real(self, at: int, message: Message) -> InboundMessage:
        return InboundMessage(
            conversation=self.refs[at],
            text=message.text,
            actor=ACTORS["self" if message.outbound else message.actor],
            message_id=message.id,
            direction=Direction.OUTBOUND if message.outbound else Direction.INBOUND,
            event=Event(message.event),
            explicit_target=message.target,
            reply_to=message.reply_to,
            revises=message.revises,
            signed=message.signed,
            sent_at=self.clock.at - timedelta(hours=2) if message.old else None,
        )

    def _heard(self, at: int, want: reference.Answer, got: Taken) -> None:
        assert (got.sequence, got.duplicate, got.held) == (
            want.sequence,
            want.duplicate,
            want.held,
        )
        kept = (
            self.model.rooms[at].records.get(want.sequence) if want.sequence is not None else None
        )
        assert (got.record is None) == (kept is None), "a record, unless held or swept"
        self.model.drain(self.model.rooms[at])

    @initialize(
        already=st.lists(st.tuples(rooms, names, policies), min_size=2, max_size=5),
        said=st.lists(st.tuples(rooms, messages), min_size=5, max_size=9),
        seated=st.lists(st.tuples(rooms, handles, names), max_size=2),
        bound=st.lists(st.tuples(rooms, names), max_size=2),
    )
    def begin_somewhere(
        self,
        already: list[tuple[int, str, Policy]],
        said: list[tuple[int, Message]],
        seated: list[tuple[int, str, str]],
        bound: list[tuple[int, str]],
    ) -> None:
        """Both rooms are known; somebody may sit there and something may have been said."""
        made = [self.line.conversations.ensure(ref, caller=self.controller) for ref in self.refs]
        self.ids = [self.wait(one).id for one in made]
        for at, handle, name in seated:
            self.sit(at, handle, name)
        for at, name in bound:
            self.bind(at, name, None, 5, False)
        for at, message in said:
            self.say(at, message, False)
        for at, name, policy in already:
            self.join(at, name, policy)

    @rule(data=st.data())
    def something(self, data: st.DataObject) -> None:
        """One action that is possible now."""
        names = [name for name in ACTIONS if name not in ONLY or ONLY[name](self)]
        name = data.draw(st.sampled_from(names), "action")
        drawn = ACTIONS[name]
        given = {one: it for one, it in drawn.items() if one != "data"}
        facts = data.draw(st.fixed_dictionaries(given), name) if given else {}
        getattr(self, name)(**facts, **({"data": data} if "data" in drawn else {}))

    # --- saying --------------------------------------------------------------------------------

    @action(at=rooms, message=anything, direct=st.booleans())
    def say(self, at: int, message: Message, direct: bool) -> None:
        """A message by a caller or from a provider."""
        message = self._text(message)
        way = self.line.inbound.append if direct else self.line.inbound.receive
        done = self.both(
            lambda: self.model.hear(at, message, direct=direct),
            lambda: way(self._real(at, message), caller=self.controller),
        )
        if done is not None:
            self._heard(at, *done)

    @action(batch=st.lists(st.tuples(rooms, anything), min_size=2, max_size=10))
    def say_many(self, batch: list[tuple[int, Message]]) -> None:
        """A batch over both rooms."""
        batch = [(at, self._text(message)) for at, message in batch]
        done = self.both(
            lambda: [self.model.hear(at, message, direct=False) for at, message in batch],
            lambda: self.line.inbound.receive_all(
                [self._real(at, message) for at, message in batch], caller=self.controller
            ),
        )
        assert done is not None
        for (at, _), want, got in zip(batch, *done, strict=True):
            assert isinstance(got, Taken), got
            if got.record is None and not got.held and not want.held:
                continue
            assert (got.sequence, got.duplicate, got.held) == (
                want.sequence,
                want.duplicate,
                want.held,
            )
            self.model.drain(self.model.rooms[at])

    @action(
        at=rooms,
        one=known_ids,
        actor=st.sampled_from(["human", "other"]),
        kinds=st.lists(
            st.sampled_from(["message", "edit", "edit", "delete"]), min_size=2, max_size=5
        ),
    )
    def revise_in_one_batch(self, at: int, one: str, actor: str, kinds: list[str]) -> None:
        """A message and what becomes of it, in any order, within one transaction."""
        self.say_many(
            [
                (at, Message(id=one, actor=actor))
                if kind == "message"
                else (
                    at,
                    Message(id=f"{one}-{self.said}-{n}", event=kind, revises=one, actor=actor),
                )
                for n, kind in enumerate(kinds)
            ]
        )

    @action(at=rooms, name=names, message_id=ids)
    def speak(self, at: int, name: str, message_id: str | None) -> None:
        """A session's confirmed words."""
        said = self._text(Message(id=message_id, actor="self"))

        def model() -> reference.Answer:
            author = self.model.named(name)
            return self.model.hear(at, replace(said, said_by=author.id), direct=False)

        def real() -> Awaitable[Taken]:
            message = self._real(at, replace(said, said_by=0))
            story = Append(message, Door.HEARD, LIMITS, said_by=name)
            return self.store.run(story)

        done = self.both(model, real)
        if done is not None:
            self.wait(self.line.hydration.drain(number_of(self.ids[at]) or 0))
            self._heard(at, *done)

    # --- reading -------------------------------------------------------------------------------

    @action(at=rooms, name=names, policy=policies)
    def join(self, at: int, name: str, policy: Policy) -> None:
        """By hand."""
        self.both(
            lambda: self.model.join(at, name, policy),
            lambda: self.line.members.join(
                self.refs[at], name, policy=policy[0], n=policy[1], caller=self.controller
            ),
        )

    @only(lambda self: any(room.gated for room in self.model.rooms))
    @action(name=names, policy=policies)
    def join_while_gated(self, name: str, policy: Policy) -> None:
        """Where an import is under way: computed again when it closes."""
        for at, room in enumerate(self.model.rooms):
            if room.gated:
                self.join(at, name, policy)

    def members(self) -> list[tuple[int, str]]:
        """Who has an open membership where, expired or not."""
        return [
            (at, name)
            for at, room in enumerate(self.model.rooms)
            for name, number in sorted(self.model.names.items())
            if number in room.members and not room.members[number].closed
        ]

    @only(lambda self: self.members())
    @action(
        data=st.data(),
        reason=st.sampled_from([None, "manual", "binding", "group"]),
        evict=st.sampled_from([False, False, True]),
    )
    def leave(self, data: st.DataObject, reason: str | None, evict: bool) -> None:
        """One reason, all of them, or for good."""
        at, name = data.draw(st.sampled_from(self.members()), "member")
        self._leave(at, name, reason, evict)

    @only(lambda self: self.members())
    @action(data=st.data(), policy=st.one_of(st.none(), policies))
    def override(self, data: st.DataObject, policy: Policy | None) -> None:
        """Set or clear it."""
        at, name = data.draw(st.sampled_from(self.members()), "member")
        self._override(at, name, policy)

    @action(
        at=rooms, name=names, policy=policies, what=st.sampled_from(["leave", "override", "ack"])
    )
    def anybody(self, at: int, name: str, policy: Policy, what: str) -> None:
        """Members, strangers, unknown and retired ones."""
        match what:
            case "leave":
                self._leave(at, name, None, False)
            case "override":
                self._override(at, name, policy)
            case _:
                self._ack(at, name, policy[1] or 0)

    def _leave(self, at: int, name: str, reason: str | None, evict: bool) -> None:
        self.both(
            lambda: self.model.leave(at, name, reason, evict),
            lambda: self.line.members.leave(
                self.refs[at], name, reason=reason, evict=evict, caller=self.controller
            ),
        )

    def _override(self, at: int, name: str, policy: Policy | None) -> None:
        kind, n = policy or (None, None)
        self.both(
            lambda: self.model.override(at, name, policy),
            lambda: self.line.members.update(
                self.refs[at], name, override=kind, n=n, caller=self.controller
            ),
        )

    def readers(self) -> list[tuple[int, str]]:
        """Who may read where, at this minute."""
        return [
            (at, name)
            for at in range(ROOMS)
            for name in sorted(self.model.names)
            if self._slice(at, name) is not None
        ]

    @only(lambda self: self.readers())
    @action(data=st.data(), limit=st.integers(1, 4))
    def read_on(self, data: st.DataObject, limit: int) -> None:
        """A page and its acknowledgement, as every client does it."""
        self._read_on(*data.draw(st.sampled_from(self.readers()), "reader"), limit)

    def _read_on(self, at: int, name: str, limit: int) -> None:
        self._page(at, name, limit, False)
        got = self.model.slice(at, name, limit, own=False)
        if got.records:
            self._ack(at, name, got.records[-1][0])

    @only(lambda self: self.readers())
    @action(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        """Anywhere, also where it is refused."""
        at, name = data.draw(st.sampled_from(self.readers()), "reader")
        room = self.model.rooms[at]
        low, high = min(0, room.lowest) - 2, room.head + 1
        self._ack(at, name, data.draw(st.integers(low, high), "sequence"))

    def _ack(self, at: int, name: str, sequence: int) -> None:
        done = self.both(
            lambda: self.model.ack(at, name, sequence),
            lambda: self.line.replay.ack(self.refs[at], name, sequence, caller=self.controller),
        )
        if done is not None:
            assert done[1].last_read == done[0]

    @action(at=rooms, name=names, limit=st.integers(1, 4), own=st.booleans())
    def backfill(self, at: int, name: str, limit: int, own: bool) -> None:
        """One page of any size, with or without the own records."""
        self._page(at, name, limit, own)

    def _page(self, at: int, name: str, limit: int, own: bool) -> None:
        room = self.model.rooms[at]
        done = self.both(
            lambda: self.model.slice(at, name, limit, own),
            lambda: self.line.replay.backfill(
                self.refs[at], name, limit=limit, own=own, caller=self.controller
            ),
        )
        if done is None:
            return
        want, page = done
        got = tuple((one.record.sequence, one.speaker, one.wake) for one in page.records)
        assert got == want.records
        assert (page.more, page.last_read, page.visible_from) == (
            want.more,
            want.last_read,
            want.visible_from,
        )
        assert (None if page.gap is None else (page.gap.first, page.gap.last)) == want.gap
        assert (page.head, page.earliest, page.history) == (room.head, room.earliest, room.history)

    @action(name=names)
    def follow(self, name: str) -> None:
        """One connection until it is dry, over all conversations."""

        def model() -> dict[str, list[Any]]:
            self.model.named(name)
            return {
                self.ids[at]: [*([found.gap] if found.gap else []), *found.records, "caught up"]
                for at in range(ROOMS)
                if (found := self._slice(at, name)) is not None
            }

        async def real() -> dict[str, list[Any]]:
            got: dict[str, list[Any]] = {}
            async for item in self.line.replay.follow(name, once=True, caller=self.controller):
                told = got.setdefault(item.conversation, [])
                match item:
                    case Handed():
                        told.append((item.record.sequence, item.speaker, item.wake))
                    case Gap():
                        told.append((item.first, item.last))
                    case CaughtUp():
                        told.append("caught up")
            return got

        done = self.both(model, real)
        if done is not None:
            assert done[1] == done[0]

    def _slice(self, at: int, name: str) -> reference.Slice | None:
        try:
            return self.model.slice(at, name, 1_000_000, own=False)
        except Refused:
            return None

    # --- importing -----------------------------------------------------------------------------

    @action(at=rooms, owner=owners, mode=st.sampled_from([None, "gated", "prepending"]))
    def begin(self, at: int, owner: str, mode: str | None) -> None:
        """Open a window, or ask for the open one."""
        done = self.both(
            lambda: self.model.begin(at, owner, mode),
            lambda: self.line.hydration.begin(
                self.refs[at], owner=owner, mode=mode, caller=self.controller
            ),
        )
        if done is None:
            return
        (number, want), state = done
        assert (state.mode, state.hydration) == (want, Hydration.PENDING)
        assert state.token is not None
        assert self.tokens.setdefault((at, number), state.token) == state.token

    def _token(self, at: int, late: bool) -> tuple[int, str]:
        """The newest window's number and token, or those of the one before."""
        number = self.model.rooms[at].windows - late
        return number, self.tokens.get((at, number), "none")

    @action(
        at=rooms,
        batch=history,
        mode=st.sampled_from([None, "gated", "prepending"]),
        late=st.sampled_from([False] * 7 + [True]),
    )
    def imports(self, at: int, batch: list[Message], mode: str | None, late: bool) -> None:
        """A chunk through the window, opened where none is, or through a former one."""
        if self.model.rooms[at].window is None and not late:
            self.begin(at, "importer", mode)
        number, token = self._token(at, late)
        batch = [self._text(message) for message in batch]
        done = self.both(
            lambda: self.model.imports(at, number, batch),
            lambda: self.line.hydration.records(
                self.refs[at],
                token,
                [self._real(at, message) for message in batch],
                caller=self.controller,
            ),
        )
        if done is not None:
            want, got = done
            assert [(one.sequence, one.duplicate) for one in got] == [
                (one.sequence, one.duplicate) for one in want
            ]

    @only(lambda self: any(room.windows for room in self.model.rooms))
    @action(
        at=rooms, how=st.sampled_from(["complete", "failed"]), late=st.sampled_from([0, 0, 0, 1])
    )
    def end(self, at: int, how: str, late: int) -> None:
        """Complete or fail it."""
        number, token = self._token(at, bool(late))

        def real() -> Any:
            ref, caller = self.refs[at], self.controller
            if how == "complete":
                return self.line.hydration.complete(ref, token, caller=caller)
            return self.line.hydration.fail(ref, token, "so it goes", caller=caller)

        done = self.both(lambda: self.model.end(at, number, how), real)
        if done is not None:
            assert done[1].hydration == how

    @action(
        at=rooms,
        mode=st.sampled_from([None, "gated", "gated"]),
        joining=st.lists(st.tuples(names, policies), max_size=2),
        batch=history,
        live=st.lists(anything, max_size=3),
        how=st.sampled_from(["complete", "failed"]),
    )
    def a_whole_import(
        self,
        at: int,
        mode: str | None,
        joining: list[tuple[str, Policy]],
        batch: list[Message],
        live: list[Message],
        how: str,
    ) -> None:
        """Begun, joined meanwhile, written through, talked over, ended."""
        self.begin(at, "importer", mode)
        for name, policy in joining:
            self.join(at, name, policy)
        self.imports(at, batch, mode, False)
        for message in live:
            self.say(at, message, False)
        self.everything_agrees()
        self.end(at, how, 0)

    @action(
        at=rooms, name=names, policy=policies, back=policies, batch=st.lists(messages, max_size=3)
    )
    def left_and_back(
        self, at: int, name: str, policy: Policy, back: Policy, batch: list[Message]
    ) -> None:
        """Reads a little, leaves, hears of nothing, joins again."""
        self.join(at, name, policy)
        if (at, name) in self.readers():
            self._read_on(at, name, 2)
            self._leave(at, name, None, False)
        for message in batch:
            self.say(at, message, False)
        self.join(at, name, back)

    # --- speaking ------------------------------------------------------------------------------

    @action(
        at=rooms,
        name=names,
        policy=st.one_of(st.none(), policies),
        minutes=st.sampled_from([None, 5, 5, 30]),
        keep=st.sampled_from([False, False, True]),
    )
    def bind(
        self, at: int, name: str, policy: Policy | None, minutes: int | None, keep: bool
    ) -> None:
        """Bind, renew, re-bind after an expiry."""
        ends = None if minutes is None else self.clock.at + timedelta(minutes=minutes)
        kind, n = policy or (None, None)
        done = self.both(
            lambda: self.model.bind(at, name, policy, minutes, keep),
            lambda: self.line.speakers.bind(
                self.refs[at],
                name,
                policy=kind,
                n=n,
                expires_at=KEEP if keep else ends,
                caller=self.controller,
            ),
        )
        if done is not None:
            (generation, end), bound = done
            assert (bound.generation, bound.session_id) == (generation, name)
            assert bound.expires_at == self._time(end)

    def _time(self, minute: int | None) -> Any:
        return None if minute is None else self.began + timedelta(minutes=minute)

    @action(at=rooms)
    def unbind(self, at: int) -> None:
        """End the binding."""
        done = self.both(
            lambda: self.model.unbind(at),
            lambda: self.line.speakers.unbind(self.refs[at], caller=self.controller),
        )
        assert done is not None
        assert (done[1].generation if done[1] else None) == done[0]

    @action(at=rooms, handle=handles, name=names)
    def sit(self, at: int, handle: str, name: str) -> None:
        """Give a session a handle."""
        self.both(
            lambda: self.model.sit(at, handle, name),
            lambda: self.line.speakers.participant(
                self.refs[at], handle, name, caller=self.controller
            ),
        )

    @action(at=rooms, handle=handles)
    def stand_up(self, at: int, handle: str) -> None:
        """Take it away."""
        self.both(
            lambda: self.model.stand_up(at, handle),
            lambda: self.line.speakers.remove_participant(
                self.refs[at], handle, caller=self.controller
            ),
        )

    @action(
        at=rooms,
        mode=st.sampled_from([None, "open", "mention"]),
        default=st.one_of(st.none(), handles),
    )
    def group(self, at: int, mode: str | None, default: str | None) -> None:
        """Make or change the group."""
        self.both(
            lambda: self.model.group(at, mode, default),
            lambda: self.line.speakers.group(
                self.refs[at],
                mode=mode,
                default_handle=KEEP if default is None else default,
                caller=self.controller,
            ),
        )

    # --- lives of sessions, time ---------------------------------------------------------------

    @only(lambda self: any(one.retired for one in self.model.sessions.values()))
    @action(name=names)
    def create(self, name: str) -> None:
        """A session under a new or a retired name."""
        self.both(
            lambda: self.model.create(name),
            lambda: self.line.sessions.create(name, caller=self.controller),
        )

    @action(old=names, new=names)
    def reassign(self, old: str, new: str) -> None:
        """All of the old one's is the new one's, whoever has read further."""
        for at, name in self.readers():
            if name == old:
                self._read_on(at, name, 3)
        self.both(
            lambda: self.model.reassign(old, new),
            lambda: self.line.sessions.reassign(old, new, caller=self.controller),
        )

    @action(name=names)
    def retire(self, name: str) -> None:
        """End everything of it."""
        self.both(
            lambda: self.model.retire(name),
            lambda: self.line.sessions.retire(name, caller=self.controller),
        )

    @only(lambda self: self._endings())
    @action(data=st.data(), tidy=st.booleans(), at=rooms, name=names)
    def a_binding_ends(self, data: st.DataObject, tidy: bool, at: int, name: str) -> None:
        """To the minute; the next one may bind before or after the round."""
        self.time_passes(data.draw(st.sampled_from(self._endings()), "minutes"), tidy)
        if data.draw(st.booleans(), "bind"):
            self.bind(at, name, None, 5, False)

    @action(
        at=rooms, name=names, narrow=policies, wide=policies, batch=st.lists(messages, max_size=2)
    )
    def a_binding_ends_beside_another_grant(
        self, at: int, name: str, narrow: Policy, wide: Policy, batch: list[Message]
    ) -> None:
        """What it showed is shown no more, what the other one shows still is."""
        self.join(at, name, narrow)
        self.bind(at, name, wide, 5, False)
        for message in batch:
            self.say(at, message, False)
        self.everything_agrees()
        self.time_passes(6, False)

    def _endings(self) -> list[int]:
        ends = [room.binding.ends for room in self.model.rooms if room.binding is not None]
        return [end - self.model.now for end in ends if end is not None and end > self.model.now]

    @only(lambda self: any(room.seats for room in self.model.rooms))
    @action(data=st.data(), count=st.integers(1, 4), people=st.booleans())
    def machines_answer_each_other(self, data: st.DataObject, count: int, people: bool) -> None:
        """Until the bound; a human's word resets it."""
        seats = [(at, handle) for at, room in enumerate(self.model.rooms) for handle in room.seats]
        at, handle = data.draw(st.sampled_from(seats), "seat")
        if people:
            self.say(at, Message(actor="human"), False)
        for _ in range(count):
            self.say(at, Message(actor="bot", names=(handle,)), False)

    @action(minutes=st.sampled_from([1, 6, 11, 40]), tidy=st.booleans())
    def time_passes(self, minutes: int, tidy: bool) -> None:
        """Windows run out; a round of upkeep may come, or be late."""
        self.clock.move(minutes=minutes)
        self.model.move(minutes)
        for room in self.ids:
            self.wait(self.line.hydration.drain(number_of(room) or 0))
        if tidy:
            self.wait(self.line.upkeep.round())
            self.model.tidy()
            for at, known in enumerate(self.model.rooms):
                count = sum(self.model.active(one) for one in known.members.values())
                show = self.line.conversations.show(self.refs[at], caller=self.controller)
                assert self.wait(show).members == count

    @action(at=rooms, keep=st.sampled_from([None, 1, 3, 6]), age=st.sampled_from([None, None, 30]))
    def retain(self, at: int, keep: int | None, age: int | None) -> None:
        """Change the bounds and sweep."""
        room = self.model.rooms[at]
        room.keep, room.age = keep, age
        self.wait(
            self.line.conversations.change(
                self.refs[at],
                max_retained_entries=keep,
                max_age=None if age is None else timedelta(minutes=age),
                caller=self.controller,
            )
        )
        self.wait(self.line.upkeep.sweep())
        for one in self.model.rooms:
            self.model.sweep(one)

    # --- comparing -----------------------------------------------------------------------------

    @invariant()
    def everything_agrees(self) -> None:
        """Sequences are dense, transcripts, readers and speakers are as the laws say."""
        if not self.ids:
            return
        for at in range(ROOMS):
            self._transcript(at)
            self._speakers(at)
            for name in self.model.names:
                self._page(at, name, 500, own=False)

    def _transcript(self, at: int) -> None:
        room, ref = self.model.rooms[at], self.refs[at]
        state = self.wait(self.line.conversations.show(ref, caller=self.controller))
        assert (state.lowest_sequence, state.earliest_sequence, state.next_sequence) == (
            room.lowest,
            room.earliest,
            room.next,
        )
        assert (state.hydration, state.history, state.held) == (
            room.hydration,
            room.history,
            len(room.held),
        )
        page = self.wait(
            self.line.conversations.transcript(
                ref, after=room.lowest - 2, limit=500, caller=self.controller
            )
        )
        assert [record.sequence for record in page.records] == list(range(room.earliest, room.next))
        for record in page.records:
            want = room.records[record.sequence]
            got_target = None if record.target is None else self.public[record.target]
            wakes = [self.public[one] for one in record.wakes]
            assert (got_target, wakes) == (want.target, [want.target] if want.wakes else [])
            assert (record.provenance is Provenance.HYDRATED) == want.hydrated
            assert (record.refused is not None) == want.refused
            assert record.event == want.message.event
            if want.message.event != "notice":
                assert (record.direction is Direction.OUTBOUND) == want.message.outbound
            author = None if record.source is None else self.public[record.source]
            assert author == want.message.said_by
            if want.message.event == "message":
                assert record.message_id == want.message.id
                assert (record.text, record.blanked) == (want.text, want.blanked)
            elif want.message.event in ("edit", "delete") and not want.refused:
                assert record.text == want.text

    def _speakers(self, at: int) -> None:
        room, ref = self.model.rooms[at], self.refs[at]
        bound = self.wait(self.line.speakers.binding(ref, caller=self.controller))
        held = self.model.held_by(room)
        assert (bound is None) == (held is None)
        if bound is not None and held is not None:
            name = self.model.sessions[held.session].name
            assert (bound.session_id, bound.generation) == (name, held.generation)
        if not room.grouped:
            return
        group = self.wait(self.line.speakers.show_group(ref, caller=self.controller))
        assert {seat.handle: seat.session_id for seat in group.participants} == {
            handle: self.model.sessions[session].name for handle, session in room.seats.items()
        }
        assert (group.mode, group.default_handle, group.last_addressed_handle) == (
            room.mode,
            room.default,
            room.last,
        )

    def teardown(self) -> None:
        """Leave nothing behind that a later round would have to look at."""
        for ref in self.refs if self.ids else []:
            self.wait(
                self.line.conversations.change(
                    ref, max_retained_entries=None, max_age=None, caller=self.controller
                )
            )
