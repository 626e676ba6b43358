"""What a platform has verified or an export holds can always be recorded: it is not sent again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Store
from threadline import Threadline
from threadline.adapters.discord import Discord
from threadline.adapters.matrix import Matrix
from threadline.adapters.telegram import Telegram
from threadline.adapters.twilio import Twilio
from threadline.adapters.whatsapp import WhatsApp
from threadline.core.adapters import Account, Adapter
from threadline.core.archive import Account as Imported
from threadline.core.archive import Tally
from threadline.core.model import Actor, Attachment, ConversationRef, InboundMessage
from threadline.core.rules.admission import checked
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.recordable import recordable
from threadline.core.wire import Request

ROOM = ConversationRef("telegram", "7001", "42")
SMALL = Limits(text_bytes=40, metadata_bytes=200, attachments=2)

nasty = st.text(st.sampled_from("a\x00é🎉\n\ud800\udfff…"), max_size=30) | st.sampled_from(
    ["\x00", "a" * 5_000, "é" * 1_000, " "]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | nasty,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty, inner, max_size=3),
    max_leaves=8,
)
times = st.none() | st.datetimes() | st.datetimes(timezones=st.just(UTC))
messages = st.builds(
    InboundMessage,
    conversation=st.just(ROOM),
    text=nasty,
    actor=st.builds(Actor, nasty.filter(str.strip), nasty),
    message_id=st.none() | nasty,
    reply_to=st.none() | nasty,
    revises=st.none() | nasty,
    id_space=nasty,
    attachments=st.lists(
        st.builds(Attachment, nasty, nasty, nasty, st.none(), nasty), max_size=4
    ).map(tuple),
    sent_at=times,
    metadata=st.dictionaries(nasty, anything, max_size=6),
)


@given(messages)
def test_whatever_a_message_holds_it_can_be_recorded_and_stays_what_it_is(
    message: InboundMessage,
) -> None:
    for limits in (LIMITS, SMALL):
        bent = recordable(message, limits)
        assert checked(bent, limits) == bent
        assert (bent.conversation, bent.event) == (message.conversation, message.event)
        assert bool(bent.message_id) == bool(message.message_id)
        assert recordable(bent, limits) == bent, "what was bent once is recordable"


def message(**more: Any) -> InboundMessage:
    """Ada says something."""
    return InboundMessage(**{"conversation": ROOM, "actor": Actor("42", "Ada"), **more})


def test_what_is_in_order_is_not_touched() -> None:
    given = message(text="hi", message_id="1", sent_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert recordable(given, LIMITS) is given


def test_what_is_bent_can_be_seen() -> None:
    files = tuple(Attachment(id=str(number), name="x" * 9_000) for number in range(4))
    bent = recordable(
        message(
            text="pasted\x00" + "a" * 60,
            attachments=files,
            metadata={"a": 1, "long": "x" * 300, "huge": 10**30},
        ),
        SMALL,
    )
    assert bent.text.startswith("pasted\N{REPLACEMENT CHARACTER}aaa")
    assert bent.text.endswith("…")
    assert len(bent.text.encode()) == 40
    assert [one.name[-2:] for one in bent.attachments] == ["x…", "x…"]
    assert bent.metadata == {"a": 1, "huge": None, "left_out": 3}

    many = recordable(message(metadata={str(n): "x" * 40 for n in range(9)}), SMALL)
    assert many.metadata == {"0": "x" * 40, "1": "x" * 40, "2": "x" * 40, "left_out": 6}


def test_an_id_that_cannot_stand_is_the_same_other_id_wherever_it_comes_up() -> None:
    """So the same message is recorded once, and a reply finds it; two ids never become one."""
    said = recordable(message(message_id="a\x00"), LIMITS)
    reply = recordable(message(message_id="2", reply_to="a\x00"), LIMITS)
    other = recordable(message(message_id="a\N{REPLACEMENT CHARACTER}"), LIMITS)
    assert said.message_id == reply.reply_to
    assert said.message_id != other.message_id


def dialect(kind: Callable[[Account], Adapter], provider: str, name: str) -> Adapter:
    """The dialect of one of our accounts."""
    return kind(Account(scope_id="default", provider=provider, account_id=name))


ME = "@agent:hs"
DISCORD = dialect(Discord, "discord", "700")
MATRIX = dialect(Matrix, "matrix", ME)
TELEGRAM = dialect(Telegram, "telegram", "7001")
TWILIO = dialect(Twilio, "twilio", "AC1:+1555")
WHATSAPP = dialect(WhatsApp, "whatsapp", "111")


def discord(text: Any, extra: Any) -> bytes:
    """Said in a room of Discord."""
    author = {"id": "101", "username": text, "global_name": extra}
    files = [{"id": "1", "filename": text, "url": "https://cdn.example/1", "size": extra}]
    data = {"id": "5", "channel_id": "8", "guild_id": "1", "author": author, "content": text}
    return json.dumps({"t": "MESSAGE_CREATE", "d": {**data, "attachments": files}}).encode()


def matrix(text: Any, extra: Any) -> bytes:
    """Said in a room of Matrix."""
    content = {"msgtype": "m.file", "body": text, "url": "mxc://hs/1", "info": extra, "more": extra}
    event = {"type": "m.room.message", "event_id": "$1", "sender": "@ada:hs", "content": content}
    member = {"membership": "join", "displayname": text}
    who = {"type": "m.room.member", "event_id": "$0", "sender": "@ada:hs", "state_key": "@ada:hs"}
    events = [{**who, "content": member}, event]
    body = {"rooms": {"join": {"!r:hs": {"timeline": {"events": events}}}}}
    return json.dumps(body).encode()


def telegram(text: Any, extra: Any) -> bytes:
    """Said to a bot of Telegram."""
    ada = {"id": 42, "first_name": text, "username": extra}
    chat = {"id": 42, "type": "private"}
    said = {"message_id": 5, "date": extra, "from": ada, "chat": chat, "text": text}
    file = {"file_id": "f", "file_name": text, "file_size": extra}
    return json.dumps({"update_id": 1, "message": {**said, "document": file}}).encode()


def twilio(text: Any, extra: Any) -> bytes:
    """Said to a number at Twilio."""
    fields = {"AccountSid": "AC1", "To": "+1555", "From": "+1556", "MessageSid": "SM1"}
    words = str(text).encode("utf-8", "replace")
    return urlencode({**fields, "Body": words, "ProfileName": words, "OptOutType": words}).encode()


def whatsapp(text: Any, extra: Any) -> bytes:
    """Said to a number on WhatsApp."""
    value = {
        "metadata": {"phone_number_id": "111"},
        "contacts": [{"wa_id": "1555", "profile": {"name": text}}],
        "messages": [
            {"from": "1555", "id": "wamid.1", "type": "text", "text": {"body": text}},
            {"from": "1555", "id": "wamid.2", "type": "document", "document": {"filename": text}},
            {"from": "1555", "id": "wamid.3", "type": "unsupported", "errors": [{"code": extra}]},
        ],
    }
    body = {"entry": [{"changes": [{"field": "messages", "value": value}]}]}
    return json.dumps(body).encode()


SPOKEN = [
    (DISCORD, discord, 1),
    (MATRIX, matrix, 2),
    (TELEGRAM, telegram, 1),
    (TWILIO, twilio, 1),
    (WHATSAPP, whatsapp, 3),
]


@pytest.mark.parametrize(("ours", "body", "most"), SPOKEN, ids=lambda it: type(it).__name__)
@given(text=nasty, extra=anything)
def test_what_a_platform_verified_can_be_recorded(
    ours: Adapter, body: Callable[[Any, Any], bytes], most: int, text: str, extra: Any
) -> None:
    """Else it would be counted as refused, answered 200, and gone."""
    asked = Request(method="POST", path="", headers={}, body=body(text, extra))
    found = ours.parse(asked)
    assert len(found.messages) + len(found.skipped) >= most
    for one in found.messages:
        checked(recordable(one, LIMITS), LIMITS)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_what_was_heard_or_imported_is_in_the_transcript_as_far_as_it_can_be(
    store: Store,
) -> None:
    line = Threadline(store)
    account = Account(scope_id="default", provider="telegram", account_id="7001")
    tally = await line.hearing.messages(account, [message(text="a\x00b", message_id="1")])
    exported = ConversationRef("telegram", "7001", "43")
    summary = await line.importing.run(
        [message(conversation=exported, text="c\x00d", message_id="1")],
        Tally(),
        owner="test",
        account=Imported(provider="telegram", account_id="7001"),
    )
    texts = [
        one.text
        for ref in (ROOM, exported)
        for one in (await line.conversations.transcript(ref)).records
    ]
    assert (tally.recorded, tally.refused.total(), summary.written, summary.refused) == (1, 0, 1, 0)
    assert texts == ["a\N{REPLACEMENT CHARACTER}b", "c\N{REPLACEMENT CHARACTER}d"]
