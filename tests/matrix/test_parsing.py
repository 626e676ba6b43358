"""The dialect by itself: whatever bytes come, it answers; what it heard before it hears alike."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.adapters.matrix import Matrix
from threadline.adapters.matrix_text import formatted
from threadline.archives.matrix import MatrixExport
from threadline.core import archive
from threadline.core.adapters import (
    Account,
    Adapter,
    Connectable,
    Fetching,
    Handshaking,
    Identity,
    Opening,
    Past,
    Remembering,
)
from threadline.core.model import ConversationRef, Event, InboundMessage
from threadline.core.rules.admission import checked
from threadline.core.rules.limits import LIMITS
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Heard, Refused, Request
from threadline.entrypoints.files import open_source

EXPORTS = Path(__file__).parent.parent / "data" / "exports"
ME = "@agent:hs.example"
SECRET = "hs-token-of-this-house"
ACCOUNT = Account(
    scope_id="default",
    provider="matrix",
    account_id=ME,
    credentials={"access_token": "syt_token", "hs_token": SECRET},
    settings={"api": "https://hs.example/"},
)
DIALECT = Matrix(ACCOUNT)
ROOM = ConversationRef("matrix", ME, "!room")


def asked(body: Any, **headers: str) -> Request:
    """A request with this body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(method="PUT", path="/", headers=headers, body=raw)


def heard(*events: Any, **more: Any) -> Heard:
    """What a sync answer with these events in one room says."""
    timeline = {"events": list(events)}
    return DIALECT.parse(asked({"rooms": {"join": {"!room": {"timeline": timeline, **more}}}}))


def event(kind: str = "m.room.message", **more: Any) -> dict[str, Any]:
    """An event that says something, with parts of it replaced."""
    said = {"msgtype": "m.text", "body": "hi"}
    made = {"type": kind, "event_id": "$1", "sender": "@ada:hs", "content": said}
    return {**made, "origin_server_ts": 1_700_000_000_123, **more}


def sample() -> dict[str, Any]:
    """The recorded sync answer."""
    found: dict[str, Any] = json.loads((EXPORTS / "matrix-nio-sync.json").read_bytes())
    return found


def lines() -> list[dict[str, Any]]:
    """The recorded events of every sort."""
    text = (EXPORTS / "matrix-nio-events-1.jsonl").read_text("utf-8")
    return [json.loads(line)["body"] for line in text.splitlines()]


def test_the_dialect_has_every_ability_that_matrix_has() -> None:
    abilities = (Adapter, Connectable, Fetching, Handshaking, Opening, Remembering)
    spoken: object = DIALECT
    assert all(isinstance(spoken, one) for one in abilities[1:])
    assert DIALECT.capabilities.idempotent


def test_an_event_becomes_a_message_with_its_time_and_its_author() -> None:
    [one] = heard(event()).messages

    assert one.sent_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert (one.text, one.actor.id, one.message_id) == ("hi", "@ada:hs", "$1")
    assert one.conversation == ROOM


def test_a_room_without_a_domain_in_its_id_is_one_address() -> None:
    """Newer rooms have no colon in their ids, older ones one, and none is taken apart."""
    ids = ["!2Dgo2YabcDEF", "!old:hs.example:8448", "!odd/%2F id"]
    body = {"rooms": {"join": {one: {"timeline": {"events": [event()]}} for one in ids}}}

    refs = [one.conversation for one in DIALECT.parse(asked(body)).messages]

    assert [ref.conversation_id for ref in refs] == ids
    assert [ConversationRef.parse(str(ref)) for ref in refs] == refs


def test_what_is_not_recorded_is_counted_by_a_plain_word() -> None:
    other = heard(
        event("m.room.encrypted", content={"algorithm": "m.megolm.v1.aes-sha2"}),
        event("m.room.power_levels", state_key="", content={}),
        event("m.call.invite", content={}),
        event(content={"msgtype": "m.text"}),
        {"type": "m.room.message"},
        None,
    )

    assert other.messages == ()
    assert other.skipped == ("encrypted", "state", "event", "malformed", "malformed", "malformed")


@pytest.mark.acceptance("A10")
def test_only_our_own_users_events_are_ours() -> None:
    own = event(sender=ME, unsigned={"transaction_id": "key.1.1"})
    forged = event(event_id="$2", unsigned={"transaction_id": "key.1.1"})

    mine, theirs = heard(own, forged).messages

    assert (mine.actor.is_self, mine.token, mine.direction) == (True, "key.1.1", "outbound")
    assert (theirs.actor.is_self, theirs.token, theirs.direction) == (False, None, "inbound")


@pytest.mark.parametrize(
    ("authorization", "verified"),
    [
        (f"Bearer {SECRET}", True),
        (f"bearer {SECRET}", True),
        (f"Bearer {SECRET} ", True),
        (f"Bearer {SECRET}x", False),
        (SECRET, False),
        ("Bearer ", False),
        ("Bearer \ud800ÿ", False),
        ("", False),
    ],
)
def test_only_the_homeserver_may_push(authorization: str, verified: bool) -> None:
    request = asked({"events": []}, authorization=authorization)

    assert DIALECT.verify(request) is verified
    without = Account(scope_id="default", provider="matrix", account_id=ME)
    assert not Matrix(without).verify(request)
    assert not Matrix(without).verify(asked({}, authorization="Bearer "))


def test_a_transaction_says_what_a_sync_answer_says() -> None:
    events = [event(room_id="!room"), event(room_id="!room", event_id="$2")]
    pushed = DIALECT.parse(asked({"events": [*events, event(), 7]}))

    assert pushed.messages == heard(*events).messages
    assert pushed.skipped == ("malformed", "malformed")
    reply = DIALECT.handshake(asked({"events": []}))
    assert reply is not None
    assert (reply.status, reply.body) == (200, b"{}")


def test_a_message_is_the_same_imported_and_heard() -> None:
    """Live and from a file: the same address, id, words, event and relations."""
    account = archive.Account(provider="matrix", account_id=ME)
    with open_source(EXPORTS / "matrix-elementexport-made-1.json") as source:
        options, tally = archive.Options(conversation="!room"), archive.Tally()
        items = list(MatrixExport().read(source, account, options, tally))
        document = json.loads((EXPORTS / "matrix-elementexport-made-1.json").read_bytes())
    words = (Event.MESSAGE, Event.REACTION, Event.DELETE)
    imported = {
        one.message_id: one
        for one in items
        if isinstance(one, InboundMessage) and one.event in words
    }

    events = [{**one, "room_id": None} for one in document["messages"]]
    live = {one.message_id: one for one in heard(*events).messages if one.event in words}

    assert live.keys() == imported.keys()
    assert len(live) > 500
    for name, one in live.items():
        other = imported[name]
        assert (one.text, one.event, one.reply_to, one.revises, one.sent_at) == (
            (other.text, other.event, other.reply_to, other.revises, other.sent_at)
        )
        assert (one.attachments, one.thread_root, one.actor.id) == (
            (other.attachments, other.thread_root, other.actor.id)
        )


def test_every_recorded_event_gives_a_record_or_a_word() -> None:
    events = [*lines(), *(one for one in _events_in(sample()))]
    for one in events:
        result = heard(one)
        assert len(result.messages) + len(result.skipped) == 1
        for message in result.messages:
            checked(message, LIMITS)


def _events_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        nested = [one for part in value.values() for one in _events_in(part)]
        return [value, *nested] if "type" in value and "content" in value else nested
    return [one for part in value for one in _events_in(part)] if isinstance(value, list) else []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["m.thread", "m.replace", "$1", "\ud800", "\x00", ME, "mxc://hs/m1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_are_an_exception(body: bytes) -> None:
    """Nor for any answer to any of our calls: each has one meaning."""
    person = "@ada:hs"
    thread = ConversationRef("matrix", ME, "$root", parent_conversation_id="!room")
    assert isinstance(DIALECT.parse(asked(body)), Heard)
    for status in (200, 400, 403, 404, 429, 500):
        answer = ApiResponse(status=status, body=body)
        for ref in (ROOM, thread):
            page = DIALECT.read_history(ref, DIALECT.history(ref), answer)
            assert isinstance(page, Past | Refused | Doubt)
        who = DIALECT.read_check(DIALECT.check(), answer)
        assert isinstance(who, ApiCall | Identity | Refused | Doubt)
        step: Any = DIALECT.open_direct(person, "key")
        for _ in range(8):
            if isinstance(step, ApiCall):
                step = DIALECT.read_direct(person, step, answer)
        assert isinstance(step, ConversationRef | Refused | Doubt | ApiCall)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab `*_~[](){}<>&\"'\n#-1.|:/http", max_size=200))
def test_what_is_shown_as_html_opens_and_closes_only_what_we_wrote(text: str) -> None:
    html = formatted(text) or ""
    tags = {"p", "br", "strong", "em", "del", "code", "pre", "a", "ul", "ol", "li", "blockquote"}
    tags |= {f"h{size}" for size in range(1, 7)}
    seen: list[str] = []
    for piece in html.split("<")[1:]:
        name = piece.partition(">")[0].partition(" ")[0]
        assert name.removeprefix("/") in tags
        if name.startswith("/"):
            assert seen.pop() == name.removeprefix("/")
        elif name != "br":
            seen.append(name)
    assert seen == []


def test_no_part_of_an_address_reaches_another_place_on_the_server() -> None:
    ref = ConversationRef("matrix", ME, "!a/../../_synapse/admin?x=#")

    call = DIALECT.history(ref)

    assert "/rooms/%21a%2F..%2F..%2F_synapse%2Fadmin%3Fx%3D%23/messages?" in call.url
    assert call.url.startswith("https://hs.example/_matrix/client/v3/rooms/")
