"""Between rows and nouns: keys in columns, everything else as one JSON body.

A record's body is served as stored. Its digest is a keyed hash over where it stands and what it
says, so that a flipped bit or a row moved by hand is noticed by `doctor`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_type_hints

import msgspec

from threadline.core.adapters import Registration
from threadline.core.attaching import Lease, Run
from threadline.core.chains import Chain, Entry
from threadline.core.deliveries import Delivery, Intent, Lane, Receipt, Wait
from threadline.core.files import Upload
from threadline.core.guests import Link, Visitor
from threadline.core.ids import number_of
from threadline.core.listening import Listening
from threadline.core.model import (
    About,
    Conversation,
    ConversationRef,
    Grant,
    Held,
    InboundMessage,
    Kind,
    Known,
    Membership,
    Participant,
    Policy,
    Provenance,
    Reason,
    Session,
    TranscriptRecord,
)
from threadline.core.people import Code, Consent, Contact, Granted, Person, Setting
from threadline.core.ports import (
    ADAPTER,
    ADDRESS,
    AUDIT,
    CHAIN,
    CODE,
    CONSENT,
    CONTACT,
    CONVERSATION,
    DELIVERY,
    FILE,
    FIRST,
    FOLLOWERS,
    GRANTED,
    GUEST,
    HELD,
    INDEXED,
    INTENT,
    KNOWN,
    LANE,
    LEASE,
    LINK,
    LISTENER,
    LOGIN,
    MEMBER,
    NAME,
    PARTICIPANT,
    PERSON,
    PUSH,
    QUOTA,
    RECEIPT,
    RECORD,
    ROUTE,
    RUN,
    SEND,
    SESSION,
    SETTING,
    TOKEN,
    WAIT,
    Noun,
)
from threadline.core.push import ACTIVE, PushTarget
from threadline.core.quick import maker
from threadline.core.rules.allowance import Quota
from threadline.core.sends import FirstSaid, Send
from threadline.core.tokens import Login, Token

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
REMEMBERED = 20_000

T = TypeVar("T")
Row = tuple[Any, ...]
encode = msgspec.json.Encoder().encode


def micros(at: datetime) -> int:
    """A time as whole microseconds since 1970, which both engines compare alike."""
    return (at - EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """The time behind `micros`."""
    return EPOCH + timedelta(microseconds=value)


def _bare(kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """A function that gives a value's fields less those at their defaults."""
    defaults: list[tuple[str, Any]] = []
    for one in fields(kind):
        value = one.default
        if value is MISSING and one.default_factory is not MISSING:
            value = one.default_factory()
        defaults.append((one.name, value))

    def bare(value: Any) -> dict[str, Any]:
        found = ((name, getattr(value, name), default) for name, default in defaults)
        return {name: it for name, it, default in found if it is not default and it != default}

    return bare


def _decoder(kind: type[T]) -> Callable[[str], T]:
    """Reads a dataclass by way of a struct of the same fields: that takes half as long."""
    hints = get_type_hints(kind)
    shape: list[tuple[str, Any, Any]] = []
    for one in fields(kind):  # type: ignore[arg-type]
        value = msgspec.field()
        if one.default is not MISSING:
            value = msgspec.field(default=one.default)
        elif one.default_factory is not MISSING:
            value = msgspec.field(default_factory=one.default_factory)
        shape.append((one.name, hints[one.name], value))
    struct = msgspec.defstruct(kind.__name__, shape, kw_only=True)
    decode, make = msgspec.json.Decoder(struct).decode, maker(kind)
    return lambda text: make(decode(text))


_bare_about = _bare(About)
_bare_session = _bare(Session)
_bare_delivery = _bare(Delivery)
_bare_token = _bare(Token)
_bare_link = _bare(Link)
_bare_visitor = _bare(Visitor)
_bare_receipt = _bare(Receipt)
_bare_wait = _bare(Wait)
_bare_adapter = _bare(Registration)
_bare_listening = _bare(Listening)
_bare_push = _bare(PushTarget)
_bare_upload = _bare(Upload)
_bare_person = _bare(Person)
_bare_contact = _bare(Contact)
_bare_send = _bare(Send)
_bare_entry = _bare(Entry)
_about = msgspec.json.Decoder(About).decode
_record = _decoder(TranscriptRecord)
_session = msgspec.json.Decoder(Session).decode
_token = msgspec.json.Decoder(Token).decode
_link = msgspec.json.Decoder(Link).decode
_visitor = msgspec.json.Decoder(Visitor).decode
_push = msgspec.json.Decoder(PushTarget).decode
_upload = msgspec.json.Decoder(Upload).decode
_person = msgspec.json.Decoder(Person).decode
_contact = msgspec.json.Decoder(Contact).decode
_send = msgspec.json.Decoder(Send).decode
_entry = msgspec.json.Decoder(Entry).decode
_delivery = msgspec.json.Decoder(Delivery).decode
_lease = msgspec.json.Decoder(Lease).decode
_run = msgspec.json.Decoder(Run).decode
_receipt = msgspec.json.Decoder(Receipt).decode
_wait = msgspec.json.Decoder(Wait).decode
_adapter = msgspec.json.Decoder(Registration).decode
_listening = msgspec.json.Decoder(Listening).decode


def record_body(record: TranscriptRecord) -> str:
    """A record as it is stored and served: what is at its default is left out."""
    body: dict[str, Any] = {
        "sequence": record.sequence,
        "direction": record.direction,
        "event": record.event,
        "provenance": record.provenance,
        "actor": record.actor,
        "text": record.text,
        "recorded_at": record.recorded_at,
    }
    if record.message_id is not None:
        body["message_id"] = record.message_id
    if record.sent_at is not None:
        body["sent_at"] = record.sent_at
    if record.route is not None:
        body["route"] = record.route
    if record.target is not None:
        body["target_session_id"] = record.target_session_id
        body["target"] = record.target
    if record.wakes:
        body["wakes"] = record.wakes
    if record.metadata:
        body["metadata"] = record.metadata
    if record.reply_to is not None:
        body["reply_to"] = record.reply_to
    if record.attachments:
        body["attachments"] = record.attachments
    if record.source is not None:
        body["source_session_id"] = record.source_session_id
        body["source"] = record.source
    if record.revises is not None:
        body["revises"] = record.revises
    if record.explicit_target is not None:
        body["explicit_target"] = record.explicit_target
    if record.id_space:
        body["id_space"] = record.id_space
    if record.origin is not None:
        body["origin"] = record.origin
    if record.person_id is not None:
        body["person_id"] = record.person_id
    if record.copied_from is not None:
        body["copied_from"] = record.copied_from
    if record.blanked:
        body["blanked"] = True
    if record.refused is not None:
        body["refused"] = record.refused
    if record.signed:
        body["signed"] = True
    return encode(body).decode()


class _MemberBody(msgspec.Struct, omit_defaults=True):
    joined_at: datetime
    grants: Mapping[Reason, Grant] = {}
    override: Policy | None = None
    closed_at: datetime | None = None
    evicted: bool = False
    handles: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


class _HeldBody(msgspec.Struct, omit_defaults=True):
    message: InboundMessage
    said_by: int | None = None
    delivery: int | None = None


_held_body = msgspec.json.Decoder(_HeldBody).decode


def _held(row: Row) -> Held:
    body = _held_body(row[4])
    return Held(row[0], row[2], bytes(row[1]), body.message, row[3], body.said_by, body.delivery)


def _push_row(key: int, value: PushTarget) -> Row:
    # The lease moves on its own; the body is what a person set and what became of it.
    until = None if value.leased_until is None else micros(value.leased_until)
    body = encode(_bare_push(replace(value, fence=0, leased_until=None))).decode()
    return (key, 1 if value.state in ACTIVE else 0, value.fence, until, body)


def _push_target(row: Row) -> tuple[int, PushTarget]:
    session, fence, until, body = row
    leased_until = None if until is None else instant(until)
    return session, replace(_push(body), fence=fence, leased_until=leased_until)


class Codec:
    """The one place that knows how a noun lies in its columns. Holds the store's key."""

    def __init__(self, key: bytes) -> None:
        # Copied for each hash: taking in the key is a third of hashing something short.
        self._keyed = hashlib.blake2b(key=key, digest_size=16)
        self._last: tuple[datetime, int] = (EPOCH, 0)
        # Where several nodes write, a row is read again for every batch: what is spelled as it was
        # the last time need not be read letter by letter again.
        self._known: dict[int, tuple[Row, ConversationRef, Kind, About]] = {}
        self.encoders: dict[Noun[Any, Any], Callable[[Any, Any], Row]] = {
            ADDRESS: lambda key, value: (key, value),
            CONVERSATION: self._conversation_row,
            MEMBER: self._member_row,
            PARTICIPANT: lambda key, value: (*key, value.session, encode(value).decode()),
            KNOWN: lambda key, value: (*key, value.sequence, value.part),
            RECORD: lambda key, value: self.record_row(key[0], value),
            HELD: lambda key, value: (
                *key,
                value.position,
                value.size,
                encode(_HeldBody(value.message, value.said_by, value.delivery)).decode(),
            ),
            SESSION: lambda key, value: (
                key,
                value.scope_id,
                value.name,
                encode(_bare_session(value)).decode(),
            ),
            NAME: lambda key, value: (*key, value),
            ROUTE: lambda key, value: (*key, value),
            INDEXED: lambda key, value: (key, *value),
            DELIVERY: lambda key, value: (
                *key,
                value.session,
                value.state.value,
                micros(value.created_at),
                value.turn,
                1 if value.in_lane else 0,
                encode(_bare_delivery(value)).decode(),
            ),
            LANE: lambda key, value: (
                key,
                value.fence,
                value.owner,
                None if value.due_at is None else micros(value.due_at),
                value.waiting,
                value.ticket,
            ),
            RECEIPT: lambda key, value: (
                *key,
                value.position,
                encode(_bare_receipt(value)).decode(),
            ),
            WAIT: lambda key, value: (*key, encode(_bare_wait(value)).decode()),
            ADAPTER: lambda key, value: (
                *key,
                value.installation,
                encode(_bare_adapter(value)).decode(),
            ),
            LISTENER: lambda key, value: (*key, encode(_bare_listening(value)).decode()),
            TOKEN: lambda key, value: (key, value.id, encode(_bare_token(value)).decode()),
            LEASE: lambda key, value: (key, encode(value).decode()),
            RUN: lambda key, value: (*key, encode(value).decode()),
            LINK: lambda key, value: (
                key,
                value.hash,
                value.conversation,
                micros(value.ends_at),
                encode(_bare_link(value)).decode(),
            ),
            GUEST: lambda key, value: (
                key,
                value.hash,
                value.conversation,
                value.link,
                encode(_bare_visitor(value)).decode(),
            ),
            LOGIN: lambda key, value: (key, value.token, micros(value.ends)),
            PUSH: _push_row,
            FILE: lambda key, value: (
                *(key, value.owner, value.said, value.size),
                encode(_bare_upload(value)).decode(),
            ),
            PERSON: lambda key, value: (
                *(key, value.scope_id, value.name, value.successor),
                encode(_bare_person(value)).decode(),
            ),
            CONTACT: lambda key, value: (
                *(*key, value.person),
                encode(_bare_contact(value)).decode(),
            ),
            CODE: lambda key, value: (
                *(*key, value.person, micros(value.expires_at), value.provider),
            ),
            CONSENT: lambda key, value: (*key, encode(value).decode()),
            GRANTED: lambda key, value: (*key, encode(value).decode()),
            SETTING: lambda key, value: (*key, encode(value).decode()),
            QUOTA: lambda key, value: (*key, encode(value.taken).decode()),
            SEND: lambda key, value: (
                *(key, value.scope_id, value.session, micros(value.created_at)),
                None if value.due_at is None else micros(value.due_at),
                encode(_bare_send(value)).decode(),
            ),
            FIRST: lambda key, value: (
                *(*key, micros(value.until)),
                encode(value).decode(),
            ),
            AUDIT: lambda key, value: (
                *(*key, micros(value.at), value.action, value.digest),
                encode(_bare_entry(replace(value, digest=b""))).decode(),
            ),
            CHAIN: lambda key, value: (key, value.count, value.digest),
            INTENT: lambda key, value: (
                *key,
                value.digest,
                value.conversation,
                value.delivery,
                micros(value.created_at),
            ),
        }
        self.decoders: dict[Noun[Any, Any], Callable[[Row], tuple[Any, Any]]] = {
            ADDRESS: lambda row: (row[0], row[1]),
            CONVERSATION: self._conversation,
            MEMBER: self._member,
            PARTICIPANT: lambda row: (
                (row[0], row[1]),
                msgspec.json.decode(row[3], type=Participant),
            ),
            KNOWN: lambda row: ((row[0], bytes(row[1])), Known(row[2], row[3])),
            RECORD: lambda row: ((row[0], row[1]), _record(row[2])),
            FOLLOWERS: lambda row: ((row[0], bytes(row[1])), (tuple(row[2:5]),)),
            HELD: lambda row: ((row[0], bytes(row[1])), _held(row)),
            SESSION: lambda row: (row[0], _session(row[3])),
            NAME: lambda row: ((row[0], row[1]), row[2]),
            ROUTE: lambda row: ((row[0], row[1], row[2]), row[3]),
            INDEXED: lambda row: (row[0], (row[1], row[2])),
            DELIVERY: lambda row: ((row[0], row[1]), _delivery(row[2])),
            LANE: lambda row: (
                row[0],
                Lane(
                    conversation=row[0],
                    fence=row[1],
                    owner=row[2],
                    due_at=None if row[3] is None else instant(row[3]),
                    waiting=row[4],
                    ticket=row[5],
                ),
            ),
            RECEIPT: lambda row: ((row[0], bytes(row[1])), _receipt(row[2])),
            WAIT: lambda row: ((row[0], row[1], row[2], row[3]), _wait(row[4])),
            ADAPTER: lambda row: ((row[0], row[1], row[2]), _adapter(row[3])),
            LISTENER: lambda row: ((row[0], row[1], row[2]), _listening(row[3])),
            TOKEN: lambda row: (bytes(row[0]), _token(row[1])),
            LEASE: lambda row: (row[0], _lease(row[1])),
            RUN: lambda row: ((row[0], row[1]), _run(row[2])),
            LINK: lambda row: (row[0], _link(row[1])),
            GUEST: lambda row: (row[0], _visitor(row[1])),
            LOGIN: lambda row: (bytes(row[0]), Login(bytes(row[1]), instant(row[2]))),
            PUSH: _push_target,
            FILE: lambda row: (row[0], _upload(row[1])),
            PERSON: lambda row: (row[0], _person(row[1])),
            CONTACT: lambda row: ((row[0], row[1], row[2], row[3]), _contact(row[4])),
            CODE: lambda row: (
                (row[0], bytes(row[1])),
                Code(person=row[2], expires_at=instant(row[3]), provider=row[4]),
            ),
            CONSENT: lambda row: (
                (row[0], row[1]),
                msgspec.json.decode(row[2], type=Consent),
            ),
            GRANTED: lambda row: (
                (row[0], row[1], row[2]),
                msgspec.json.decode(row[3], type=Granted),
            ),
            SETTING: lambda row: (
                (row[0], row[1]),
                msgspec.json.decode(row[2], type=Setting),
            ),
            QUOTA: lambda row: (
                (row[0], row[1]),
                Quota(msgspec.json.decode(row[2], type=tuple[tuple[int, int], ...])),
            ),
            SEND: lambda row: (row[0], _send(row[1])),
            FIRST: lambda row: (
                (row[0], bytes(row[1])),
                msgspec.json.decode(row[2], type=FirstSaid),
            ),
            AUDIT: lambda row: (
                (row[0], row[1]),
                replace(_entry(row[3]), digest=bytes(row[2])),
            ),
            CHAIN: lambda row: (row[0], Chain(row[1], bytes(row[2]))),
            INTENT: lambda row: (
                (row[0], bytes(row[1])),
                Intent(
                    digest=bytes(row[2]),
                    conversation=row[3],
                    delivery=row[4],
                    created_at=instant(row[5]),
                ),
            ),
        }

    def id_key(self, space: str, message_id: str) -> bytes:
        """What a message id is stored under: 16 bytes that tell nothing after an erasure."""
        return self._hash(f"{len(space)}:{space}{message_id}".encode("utf-8", "surrogatepass"))

    def digest(self, conversation: int, sequence: int, body: str) -> bytes:
        """The keyed hash over a record's identity and content."""
        return self._hash(f"{conversation}:{sequence}:{body}".encode())

    def fingerprint(self) -> str:
        """What a store keeps of its key, so that another key is noticed."""
        return self._hash(b"threadline").hex()

    def _hash(self, data: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(data)
        return keyed.digest()

    def _micros(self, at: datetime) -> int:
        # A batch has one time, and its records come one after the other.
        if at is not self._last[0]:
            self._last = (at, micros(at))
        return self._last[1]

    def record_row(self, conversation: int, record: TranscriptRecord) -> Row:
        """A record's columns."""
        body = record_body(record)
        return (
            conversation,
            record.sequence,
            1 if record.provenance is Provenance.HYDRATED else 0,
            None if record.source is None else number_of(record.source),
            self._micros(record.recorded_at),
            self.digest(conversation, record.sequence, body),
            body,
        )

    def _conversation_row(self, key: int, value: Conversation) -> Row:
        about = value.about
        due = [
            at
            for at in (
                about.binding and about.binding.expires_at,
                about.window and about.window.lease_expires_at,
                about.window and about.window.ends_at,
            )
            if at
        ]
        if about.window and about.window.closing:
            due = [about.window.began_at]
        return (
            value.id,
            value.ref.scope_id,
            value.ref.text,
            value.kind.value,
            value.next_sequence,
            value.lowest_sequence,
            value.earliest_sequence,
            about.binding.session if about.binding else None,
            micros(min(due)) if due else None,
            1 if about.max_retained_entries is not None or about.max_age is not None else 0,
            encode(_bare_about(about)).decode(),
        )

    def _conversation(self, row: Row) -> tuple[int, Conversation]:
        number, address, word, next_sequence, lowest, earliest, body = row
        known = self._known.get(number)
        if known is None or known[0] != (address, word, body):
            kind = Kind(word)
            known = (address, word, body), ConversationRef.parse(address, kind), kind, _about(body)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[number] = known
        _, ref, kind, about = known
        return number, Conversation(number, ref, kind, about, next_sequence, lowest, earliest)

    def _member_row(self, key: tuple[int, int], value: Membership) -> Row:
        body = _MemberBody(
            value.joined_at,
            value.grants,
            value.override,
            value.closed_at,
            value.evicted,
            value.handles,
            value.metadata,
        )
        closed = None if value.closed_at is None else micros(value.closed_at)
        body_text = encode(body).decode()
        return (*key, value.joined_sequence, value.last_read, closed, value.gate, body_text)

    def _member(self, row: Row) -> tuple[tuple[int, int], Membership]:
        conversation, session, joined, last_read, _, gate, body = row
        value = msgspec.json.decode(body, type=_MemberBody)
        return (conversation, session), Membership(
            conversation=conversation,
            session=session,
            joined_at=value.joined_at,
            joined_sequence=joined,
            last_read=last_read,
            grants=value.grants,
            override=value.override,
            closed_at=value.closed_at,
            evicted=value.evicted,
            handles=value.handles,
            gate=gate,
            metadata=value.metadata,
        )
