"""The ports: what the core asks of the world, in the core's words.

A store runs stories. A story says what it needs, the store loads that, the story decides over what
was loaded, the store saves what it decided and commits. Stories that arrive while a commit is in
flight are gathered into one batch, so a decision must be pure: it may be made again.

Asking `Loaded` for a row that nobody loaded raises `Missing`; the store loads it and lets the story
decide again. `needs` and `more` are therefore about speed, never about being right.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from threadline.core.adapters import Registration
from threadline.core.attaching import Lease, Run
from threadline.core.chains import Chain, Entry
from threadline.core.deliveries import Delivery, Intent, Lane, Receipt, Wait
from threadline.core.errors import ThreadlineError
from threadline.core.files import Upload
from threadline.core.guests import Link, Visitor
from threadline.core.listening import Listening
from threadline.core.model import (
    Conversation,
    Held,
    Known,
    Membership,
    Participant,
    Session,
    TranscriptRecord,
)
from threadline.core.people import Code, Consent, Contact, ContactKey, Granted, Person, Setting
from threadline.core.push import PushTarget
from threadline.core.quick import quick
from threadline.core.rules.allowance import Quota
from threadline.core.sends import FirstSaid, Send
from threadline.core.tokens import Login, Token

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Noun(Generic[K, V]):
    """A kind of row: its name is the name of the file that holds its SQL."""

    name: str

    def __repr__(self) -> str:
        return self.name


Follower = tuple[int, int, str]

ADDRESS: Noun[str, int] = Noun("addresses")
CONVERSATION: Noun[int, Conversation] = Noun("conversations")
MEMBER: Noun[tuple[int, int], Membership] = Noun("members")
PARTICIPANT: Noun[tuple[int, str], Participant] = Noun("participants")
KNOWN: Noun[tuple[int, bytes], Known] = Noun("ids")
RECORD: Noun[tuple[int, int], TranscriptRecord] = Noun("records")
FOLLOWERS: Noun[tuple[int, bytes], tuple[Follower, ...]] = Noun("revisions")
HELD: Noun[tuple[int, bytes], Held] = Noun("holds")
SESSION: Noun[int, Session] = Noun("sessions")
NAME: Noun[tuple[str, str], int] = Noun("names")
ROUTE: Noun[tuple[str, str, str], int] = Noun("routes")
INDEXED: Noun[int, tuple[int, int]] = Noun("indexed")
DELIVERY: Noun[tuple[int, int], Delivery] = Noun("deliveries")
INTENT: Noun[tuple[int, bytes], Intent] = Noun("intents")
TOKEN: Noun[bytes, Token] = Noun("tokens")
LEASE: Noun[int, Lease] = Noun("leases")
RUN: Noun[tuple[int, int], Run] = Noun("runs")
LINK: Noun[int, Link] = Noun("links")
GUEST: Noun[int, Visitor] = Noun("guests")
LOGIN: Noun[bytes, Login] = Noun("logins")
LANE: Noun[int, Lane] = Noun("lanes")
WAIT: Noun[tuple[str, str, str, str], Wait] = Noun("waits")
RECEIPT: Noun[tuple[int, bytes], Receipt] = Noun("receipts")
ADAPTER: Noun[tuple[str, str, str], Registration] = Noun("adapters")
LISTENER: Noun[tuple[str, str, str], Listening] = Noun("listeners")
PUSH: Noun[int, PushTarget] = Noun("push")
FILE: Noun[int, Upload] = Noun("files")
PERSON: Noun[int, Person] = Noun("people")
CONTACT: Noun[ContactKey, Contact] = Noun("contacts")
CODE: Noun[tuple[str, bytes], Code] = Noun("codes")
CONSENT: Noun[tuple[int, str], Consent] = Noun("consents")
GRANTED: Noun[tuple[int, str, str], Granted] = Noun("granted")
SETTING: Noun[tuple[str, str], Setting] = Noun("settings")
QUOTA: Noun[tuple[str, str], Quota] = Noun("quotas")
SEND: Noun[int, Send] = Noun("sends")
FIRST: Noun[tuple[str, bytes], FirstSaid] = Noun("firsts")
AUDIT: Noun[tuple[str, int], Entry] = Noun("audit")
CHAIN: Noun[str, Chain] = Noun("chains")


@dataclass(frozen=True, slots=True, eq=False)
class Query(Generic[T]):
    """A named question that answers with several rows; `of` says what the rows are."""

    name: str
    of: Noun[Any, Any] | None = None


RECORDS_AFTER: Query[TranscriptRecord] = Query("records.after", RECORD)
RECORDS_BEFORE: Query[TranscriptRecord] = Query("records.before", RECORD)
LAG: Query[tuple[int]] = Query("records.lag")
HELD_FIRST: Query[Held] = Query("holds.first", HELD)
GATED_MEMBERS: Query[Membership] = Query("members.gated", MEMBER)
MEMBERS_OF: Query[Membership] = Query("members.of_conversation", MEMBER)
MEMBERSHIPS_OF: Query[tuple[int, int, int | None]] = Query("members.of_session")
SEATS_OF: Query[tuple[str, int]] = Query("participants.seats")
PARTICIPANTS_OF: Query[Participant] = Query("participants.of_conversation", PARTICIPANT)
CONVERSATIONS: Query[Conversation] = Query("conversations.page", CONVERSATION)
BOUND_TO: Query[Conversation] = Query("conversations.bound_to", CONVERSATION)
DUE: Query[Conversation] = Query("conversations.due", CONVERSATION)
SWEEPABLE: Query[Conversation] = Query("conversations.retained", CONVERSATION)
ROUTES_OF: Query[tuple[str, str, str]] = Query("routes.of_session")
SESSIONS: Query[Session] = Query("sessions.page", SESSION)
SWEPT: Query[tuple[int]] = Query("records.older_than")
DELIVERIES_OF: Query[Delivery] = Query("deliveries.of_conversation", DELIVERY)
DELIVERIES_OF_SESSION: Query[Delivery] = Query("deliveries.of_session", DELIVERY)
DELIVERIES_OF_SCOPE: Query[Delivery] = Query("deliveries.of_scope", DELIVERY)
DELIVERIES_IN_STATE: Query[Delivery] = Query("deliveries.in_state", DELIVERY)
IN_LANE: Query[Delivery] = Query("deliveries.in_lane", DELIVERY)
LANES: Query[tuple[int, int]] = Query("lanes.next")
LANES_OWNED: Query[tuple[int]] = Query("lanes.owned")
ECHOES: Query[Receipt] = Query("receipts.waiting", RECEIPT)
ADAPTERS: Query[Registration] = Query("adapters.page", ADAPTER)
INSTALLED: Query[Registration] = Query("adapters.installed", ADAPTER)
CONNECTED: Query[Registration] = Query("adapters.connected", ADAPTER)
LATEST_DELIVERED: Query[Delivery] = Query("deliveries.latest", DELIVERY)
DELIVERED_OF: Query[Delivery] = Query("deliveries.said", DELIVERY)
TOKENS: Query[Token] = Query("tokens.page", TOKEN)
TOKEN_BY_ID: Query[tuple[bytes]] = Query("tokens.by_id")
LINK_BY_HASH: Query[tuple[int]] = Query("links.by_hash")
LINKS_OF: Query[Link] = Query("links.of_conversation", LINK)
ENDED_LINKS: Query[tuple[int]] = Query("links.ended")
GUEST_BY_HASH: Query[tuple[int]] = Query("guests.by_hash")
GUESTS_OF: Query[Visitor] = Query("guests.of_conversation", GUEST)
GUESTS_OF_LINK: Query[tuple[int]] = Query("guests.of_link")
GUESTS_OF_ENDED: Query[tuple[int]] = Query("guests.of_ended")
ENDED_LOGINS: Query[tuple[bytes]] = Query("logins.ended")
PUSHED: Query[PushTarget] = Query("push.active", PUSH)
FILES: Query[Upload] = Query("files.page", FILE)
FILES_OWNED: Query[tuple[int]] = Query("files.owned")
FILES_SAID: Query[Upload] = Query("files.of_kind", FILE)
PEOPLE: Query[Person] = Query("people.page", PERSON)
CONTACTS_OF: Query[Contact] = Query("contacts.of_person", CONTACT)
CONTACTS_AT: Query[Contact] = Query("contacts.at", CONTACT)
ENDED_CODES: Query[tuple[str, bytes]] = Query("codes.ended")
CONSENTS_OF: Query[Consent] = Query("consents.of_subject", CONSENT)
GRANTED_TO: Query[Granted] = Query("granted.of_session", GRANTED)
SENDS_DUE: Query[tuple[int, int]] = Query("sends.due")
SENDS_FOR: Query[Send] = Query("sends.for_person", SEND)
SENDS_OF_SESSION: Query[Send] = Query("sends.of_session", SEND)
SENDS_OF_SCOPE: Query[Send] = Query("sends.of_scope", SEND)
ENDED_FIRSTS: Query[tuple[str, bytes]] = Query("firsts.ended")
AUDITED: Query[Entry] = Query("audit.page", AUDIT)
AUDITED_AFTER: Query[Entry] = Query("audit.after", AUDIT)
CHAINS: Query[tuple[str, int, bytes]] = Query("chains.page")
OLD_INTENTS: Query[tuple[int, bytes]] = Query("intents.old")
PARKED: Query[tuple[int, datetime, str, str, str, int]] = Query("parked.page")
META: Query[tuple[str, str]] = Query("meta.load")
UNINDEXED: Query[tuple[int, int, int, int | None, int | None]] = Query("search.behind")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One question with its arguments, in the order its SQL numbers them."""

    query: Query[T]
    args: tuple[Any, ...] = ()


Key = tuple[Noun[Any, Any], Any]


@quick
@dataclass(frozen=True, slots=True)
class Needs:
    """What a story wants loaded: `take` and `peek` are refs as text, `rows` are keys by kind.

    A conversation that is taken is locked until the commit; one that is peeked is only read.
    Rows under `hold` are locked as well: members whose cursor or grants move, sessions that end.
    """

    take: Sequence[str] = ()
    take_ids: Sequence[int] = ()
    peek: Sequence[str] = ()
    hold: Sequence[Key] = ()
    rows: Sequence[Key] = ()
    pages: Sequence[Page[Any]] = ()


NO_NEEDS = Needs()


class Missing(Exception):
    """A decision asked for something that was not loaded yet."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs


def together(loaded: Loaded, rows: Iterable[Key]) -> None:
    """Raise one `Missing` for all of these rows that were not loaded, instead of one each."""
    missing: list[Key] = []
    for noun, key in rows:
        try:
            loaded.get(noun, key)
        except Missing:
            missing.append((noun, key))
    if missing:
        raise Missing(Needs(rows=missing))


class Loaded(Protocol):
    """What was loaded, with the changes of the stories decided before in the same batch."""

    def get(self, noun: Noun[K, V], key: K) -> V | None:
        """The row under this key, None where there is none. Raises `Missing`."""

    def page(self, page: Page[T]) -> list[T]:
        """The answer to a question. Raises `Missing`."""

    def taken(self, where: str | int) -> Conversation | None:
        """The conversation at this address or with this id, locked. Raises `Missing`."""

    def peeked(self, where: str | int) -> Conversation | None:
        """The conversation at this address or with this id, only read. Raises `Missing`."""

    def id_key(self, space: str, message_id: str) -> bytes:
        """The keyed hash a message id is stored under."""

    def fresh(self) -> int:
        """A new surrogate id, never given before."""


def fetch(
    loaded: Loaded, noun: Noun[K, V], keys: Iterable[K], *, hold: bool = False
) -> list[V | None]:
    """Rows under many keys; those that are missing are asked for in one round, not one by one.

    `hold` locks them: members whose cursor or grants move. Raises `Missing`.
    """
    found: list[V | None] = []
    missing: list[tuple[Noun[Any, Any], Any]] = []
    for key in keys:
        try:
            found.append(loaded.get(noun, key))
        except Missing:
            missing.append((noun, key))
    if missing:
        raise Missing(Needs(hold=missing) if hold else Needs(rows=missing))
    return found


def paged(loaded: Loaded, pages: Iterable[Page[T]]) -> list[list[T]]:
    """Many pages; those that are missing are asked for in one round. Raises `Missing`."""
    found: list[list[T]] = []
    missing: list[Page[Any]] = []
    for one in pages:
        try:
            found.append(loaded.page(one))
        except Missing:
            missing.append(one)
    if missing:
        raise Missing(Needs(pages=missing))
    return found


def take_all(loaded: Loaded, conversations: Iterable[int]) -> list[Conversation | None]:
    """Many conversations, locked, in one round. Raises `Missing`."""
    found: list[Conversation | None] = []
    missing: list[int] = []
    for number in conversations:
        try:
            found.append(loaded.taken(number))
        except Missing:
            missing.append(number)
    if missing:
        raise Missing(Needs(take_ids=tuple(missing)))
    return found


class Changes:
    """What a story decided to write. Nothing in it is visible before the commit.

    `rows` are (noun, key, value), `records` (conversation, record), `blanked` and `swept`
    (conversation, sequence), `revisions` (conversation, key, at conversation, at sequence, event),
    `indexed` (conversation, sequence, time, text); `conversations` and `sessions` are rung.
    """

    __slots__ = (
        "blanked",
        "conversations",
        "indexed",
        "records",
        "revisions",
        "rows",
        "sessions",
        "swept",
    )

    def __init__(self) -> None:
        self.rows: list[tuple[Noun[Any, Any], Any, Any]] = []
        self.records: list[tuple[int, TranscriptRecord]] = []
        self.blanked: list[tuple[int, int]] = []
        self.revisions: list[tuple[int, bytes, int, int, str]] = []
        self.indexed: list[tuple[int, int, datetime, str]] = []
        self.swept: list[tuple[int, int]] = []
        self.conversations: set[int] = set()
        self.sessions: set[int] = set()

    def put(self, noun: Noun[K, V], key: K, value: V | None) -> None:
        """Write a row; None removes it."""
        self.rows.append((noun, key, value))

    def append(self, conversation: int, record: TranscriptRecord) -> None:
        """Add a record to a transcript and ring its bell."""
        self.records.append((conversation, record))
        self.conversations.add(conversation)


class Story(Generic[T_co]):
    """One transaction as a value: what it needs, and a pure decision."""

    __slots__ = ()

    @property
    def repeatable(self) -> bool:
        """Whether deciding again after a commit of unknown outcome gives the same state."""
        return True

    @property
    def payload(self) -> Any:
        """What to park when this story's data cannot be saved; None is answered with the error."""
        return None

    def needs(self) -> Needs:
        """What is known to be needed before anything is loaded."""
        return NO_NEEDS

    def more(self, loaded: Loaded) -> Needs:
        """What is needed beyond that, seen what was loaded first."""
        return NO_NEEDS

    @abstractmethod
    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, T_co]:
        """Decide. Raises a `ThreadlineError` to refuse; then nothing is written."""


class Bell(Protocol):
    """A doorbell, armed from when it is made until it is closed.

    Arm, read until dry, wait. A ring is a hint, never data: it may come for nothing, and the slow
    poll rings what was lost.
    """

    async def wait(self, patience: float) -> dict[int, int | None]:
        """Return at the next ring since the last call, or when `patience` seconds ended.

        The answer maps the conversations that rang to their head where it is known; it is empty
        when patience ended, and `EVERYTHING` is in it when all of them have to be looked at.
        """

    @property
    def disturbed(self) -> bool:
        """Whether everything has to be looked at: what was read but not handed on may be stale."""

    def close(self) -> None:
        """Take the bell off the door."""


EVERYTHING = 0


class Outcome(Protocol):
    """A story and what became of it: its answer, or the error it is answered with."""

    story: Story[Any]
    answer: Any
    mark: Any


class Witness(Protocol):
    """Sees what a store commits: for counting and tracing. It is quick and never raises."""

    def asked(self, story: Story[Any]) -> Any:
        """A story that may write was handed over; called where its caller is. The answer comes
        back as the outcome's `mark`."""

    def settled(self, outcomes: Sequence[Outcome], nanoseconds: int) -> None:
        """A batch was committed or refused; it took this long from its first statement on."""


class Store(Protocol):
    """Durable memory. What it answered is committed and synced.

    `schema` is the newest one this threadline knows. `witness` is told of every batch.
    """

    kind: ClassVar[str]
    schema: int
    witness: Witness | None

    @property
    def broken(self) -> ThreadlineError | None:
        """Why nothing can be written at the moment, None where nothing is known to be wrong."""

    async def run(self, story: Story[T]) -> T:
        """Run a story that may write. Raises what the story refuses with, or a store error."""

    async def run_all(self, stories: Iterable[Story[T]]) -> list[T | Exception]:
        """Run several in order, as few commits as may be; each has its own answer or error."""

    async def read(self, story: Story[T]) -> T:
        """Run a story that writes nothing, on one committed state, beside the writer."""

    async def find(
        self, words: str, conversations: Sequence[int] | None, before: Hit | None, limit: int
    ) -> list[Hit]:
        """Records whose text has all these words, newest first, in these conversations or any.

        Each hit is (conversation, sequence, place); the last one of a page is the next `before`.
        """

    def bell(
        self,
        *,
        conversations: Iterable[int] = (),
        session: int | None = None,
        everything: bool = False,
    ) -> Bell:
        """A bell for commits to these conversations, concerning this session, or any."""

    def check(self) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Examine the whole store; each finding is a sentence. No finding is good news."""


Hit = tuple[int, int, int]
Clock = Callable[[], datetime]
