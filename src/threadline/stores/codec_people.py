"""People, consent, limits, sends and the audit, between rows and nouns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from threadline.core.chains import Chain, Entry
from threadline.core.people import Code, Consent, Contact, Granted, Person, Setting
from threadline.core.ports import (
    AUDIT,
    CHAIN,
    CODE,
    CONSENT,
    CONTACT,
    FIRST,
    GRANTED,
    PERSON,
    QUOTA,
    SEND,
    SETTING,
    Noun,
)
from threadline.core.rules.allowance import Quota
from threadline.core.sends import FirstSaid, Send
from threadline.stores.bodies import bare, encode, instant, micros

_bare_person = bare(Person)
_bare_contact = bare(Contact)
_bare_send = bare(Send)
_bare_entry = bare(Entry)
_person = msgspec.json.Decoder(Person).decode
_contact = msgspec.json.Decoder(Contact).decode
_send = msgspec.json.Decoder(Send).decode
_entry = msgspec.json.Decoder(Entry).decode

Row = tuple[Any, ...]

ENCODERS: dict[Noun[Any, Any], Callable[[Any, Any], Row]] = {
    PERSON: lambda key, value: (
        *(key, value.scope_id, value.name, value.successor),
        encode(_bare_person(value)).decode(),
    ),
    CONTACT: lambda key, value: (
        *(*key, value.person),
        encode(_bare_contact(value)).decode(),
    ),
    CODE: lambda key, value: (*(*key, value.person, micros(value.expires_at), value.provider),),
    CONSENT: lambda key, value: (*key, encode(value).decode()),
    GRANTED: lambda key, value: (*key, encode(value).decode()),
    SETTING: lambda key, value: (*key, encode(value).decode()),
    QUOTA: lambda key, value: (*key, encode(value.taken).decode()),
    SEND: lambda key, value: (
        *(key, value.scope_id, value.session, micros(value.created_at)),
        None if value.due_at is None else micros(value.due_at),
        value.person,
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
}
DECODERS: dict[Noun[Any, Any], Callable[[Row], tuple[Any, Any]]] = {
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
}
