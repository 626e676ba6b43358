"""What is said to Discord, and what each of its answers means."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.discord.frames import ACCOUNT, DISCORD, KEY, ROOM, answer, message, outbound
from threadline.adapters.discord import Discord
from threadline.adapters.discord_text import nonce
from threadline.core.adapters import (
    Adapter,
    Children,
    Connectable,
    Fetching,
    Handshaking,
    Identity,
    Opening,
    Past,
    Remembering,
    Unit,
)
from threadline.core.deliveries import Failure
from threadline.core.model import Actor, Attachment, ConversationRef, Kind
from threadline.core.rules.splitting import length
from threadline.core.wire import ApiCall, ApiResponse, Bucket, Doubt, Refused, Request, Sent

CALL = DISCORD.render(outbound())
LINK = "https://cdn.discordapp.com/attachments/800/1/a.png?ex=65&is=64&hm=ab&"


def body(call: ApiCall) -> Any:
    """What a call says."""
    return json.loads(call.body)


def refused(status: int, said: Any = None, **headers: str) -> Refused:
    """The refusal that an answer to a message is."""
    step = DISCORD.read(CALL, answer(status, said, **headers))
    assert isinstance(step, Refused)
    return step


def test_it_can_do_what_it_says() -> None:
    adapter: Adapter = DISCORD
    kinds = (Children, Connectable, Fetching, Handshaking, Opening, Remembering)

    assert all(isinstance(adapter, kind) for kind in kinds)


# --- saying ----------------------------------------------------------------------------------


@pytest.mark.case("B110", "B112")
def test_a_message_goes_out_as_it_is_and_pings_nobody() -> None:
    text = '@everyone @here <@&123> <@101> They\'re "quoted" © 50% – ok'
    call = DISCORD.render(outbound(text))

    assert (call.method, call.url) == ("POST", "https://discord.test/api/v10/channels/800/messages")
    assert call.headers["authorization"] == "Bot bot-token"
    assert call.headers["content-type"] == "application/json"
    assert body(call) == {
        "content": text,
        "nonce": nonce(KEY),
        "enforce_nonce": True,
        "flags": 4,
        "allowed_mentions": {"parse": [], "replied_user": False},
    }


def test_a_reply_points_at_what_it_answers_once_and_survives_its_loss() -> None:
    first, second = (
        DISCORD.render(outbound(reply_to="4999", part=part, parts=2)) for part in (1, 2)
    )

    assert body(first)["message_reference"] == {"message_id": "4999", "fail_if_not_exists": False}
    assert "message_reference" not in body(second)


def test_a_reply_that_may_not_be_one_is_said_as_a_message_under_the_same_nonce() -> None:
    call = DISCORD.render(outbound(reply_to="4999"))
    again = DISCORD.read(call, answer(400, {"code": 160002, "message": "Cannot reply"}))

    assert isinstance(again, ApiCall)
    assert (again.url, again.key) == (call.url, call.key)
    assert body(again) == {k: v for k, v in body(call).items() if k != "message_reference"}
    assert isinstance(DISCORD.read(again, answer(400, {"code": 160002})), Refused)


@pytest.mark.case("B157")
def test_length_is_counted_in_code_points() -> None:
    capabilities = DISCORD.capabilities

    assert (capabilities.max_length, capabilities.unit) == (2000, Unit.CHARACTERS)
    assert length("\U0001f600" * 2000, capabilities.unit) == 2000
    assert (capabilities.idempotent, capabilities.idempotent_for) == (True, timedelta(minutes=2))


def test_an_id_that_is_none_cannot_leave_its_place_in_the_path() -> None:
    odd = ConversationRef("discord", "700", "../users/@me?x#")
    call = DISCORD.render(outbound(conversation=odd))

    assert call.url.endswith("/channels/%2E%2E%2Fusers%2F%40me%3Fx%23/messages")


def test_the_id_of_the_message_is_the_proof() -> None:
    assert DISCORD.read(CALL, answer(200, message(id="5009"))) == Sent(message_id="5009")
    assert isinstance(DISCORD.read(CALL, answer(200, b"<html>")), Doubt)
    assert isinstance(DISCORD.read(CALL, answer(200, {"id": " "})), Doubt)


@pytest.mark.parametrize(
    ("status", "code", "failure"),
    [
        (404, 10003, Failure.NOT_FOUND),
        (403, 50001, Failure.AUTH),
        (403, 50013, Failure.AUTH),
        (403, 50007, Failure.PERMANENT),
        (400, 50006, Failure.PERMANENT),
        (400, 50008, Failure.UNSUPPORTED),
        (403, 40003, Failure.RATE_LIMITED),
        (400, 50083, Failure.UNSUPPORTED),
        (503, 130000, Failure.TRANSIENT),
        (401, 0, Failure.AUTH),
        (404, 0, Failure.NOT_FOUND),
        (400, 999999, Failure.PERMANENT),
        (405, 0, Failure.UNSUPPORTED),
        (302, None, Failure.PERMANENT),
    ],
)
def test_a_refusal_has_the_class_of_its_code(
    status: int, code: int | None, failure: Failure
) -> None:
    step = refused(status, {"message": "No\nway", "code": code})

    assert step.failure is failure
    assert step.reason.startswith("No way (HTTP")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 520, 408])
def test_a_server_error_may_come_from_behind_the_deed(status: int) -> None:
    assert isinstance(DISCORD.read(CALL, answer(status, b"<html>")), Doubt)


@pytest.mark.case("B113")
@pytest.mark.parametrize(
    ("said", "headers", "wait", "bucket"),
    [
        ({"retry_after": 0.35, "global": False}, {}, 0.35, Bucket.CONVERSATION),
        ({"retry_after": 64.57, "global": True}, {}, 64.57, Bucket.ACCOUNT),
        ({"retry_after": 3}, {"x_ratelimit_scope": "global"}, 3.0, Bucket.ACCOUNT),
        ({"retry_after": 3}, {"x_ratelimit_scope": "shared"}, 3.0, Bucket.CONVERSATION),
        ({"retry_after": 9, "code": 20028}, {}, 9.0, Bucket.ACCOUNT),
        ({"retry_after": -1}, {"retry_after": "2"}, 2.0, Bucket.CONVERSATION),
        ({"retry_after": True}, {"retry_after": "soon"}, None, Bucket.CONVERSATION),
        (None, {"x_ratelimit_reset_after": "1.25"}, 1.25, Bucket.CONVERSATION),
        (None, {}, None, Bucket.CONVERSATION),
    ],
)
def test_a_limit_says_how_long_and_for_whom(
    said: Any, headers: dict[str, str], wait: float | None, bucket: Bucket
) -> None:
    step = refused(429, said, **headers)

    assert (step.failure, step.wait, step.bucket) == (Failure.RATE_LIMITED, wait, bucket)


def test_a_limit_that_did_not_come_through_discord_is_for_all_of_us() -> None:
    """Cloudflare stands in front: it bans the address, and its answer has no `Via`."""
    banned = ApiResponse(status=429, body=b"<html>", headers={"retry-after": "600"})
    step = DISCORD.read(CALL, banned)

    assert isinstance(step, Refused)
    assert (step.wait, step.bucket) == (600.0, Bucket.ACCOUNT)


# --- places ----------------------------------------------------------------------------------


def test_a_thread_on_a_message_has_its_id_and_is_found_again() -> None:
    call = DISCORD.open_child(ROOM, "5001", " a\n b " * 80, "key")
    thread = ConversationRef("discord", "700", "5001", kind=Kind.THREAD)

    assert call.url.endswith("/channels/800/messages/5001/threads")
    assert len(body(call)["name"]) == 100
    made = DISCORD.read_child(ROOM, call, answer(201, {"id": "5001", "type": 11}))
    again = DISCORD.read_child(ROOM, call, answer(400, {"code": 160004}))
    assert made == again == thread
    assert isinstance(made, ConversationRef)
    assert made.kind is Kind.THREAD


def test_a_thread_of_its_own_is_a_public_one_with_some_name() -> None:
    call = DISCORD.open_child(ROOM, None, " ", "key")

    assert call.url.endswith("/channels/800/threads")
    assert (body(call)["name"], body(call)["type"]) == ("Thread", 11)
    assert isinstance(DISCORD.read_child(ROOM, call, answer(400, {"code": 160004})), Refused)


def test_a_person_is_reached_in_their_direct_message() -> None:
    call = DISCORD.open_direct("101", "key")
    opened = DISCORD.read_direct("101", call, answer(200, {"id": "777", "type": 1}))

    assert (call.url[-19:], body(call)) == ("/users/@me/channels"[-19:], {"recipient_id": "101"})
    assert isinstance(opened, ConversationRef)
    assert (opened.conversation_id, opened.kind) == ("777", Kind.DM)


def test_history_is_paged_backwards_and_oldest_first_within_a_page() -> None:
    call = DISCORD.history(ROOM, "6000")
    entries = [message(id=str(n)) for n in range(5999, 5899, -1)]
    entries[3]["thread"] = {"id": "5996", "type": 11}
    past = DISCORD.read_history(ROOM, call, answer(200, entries))
    last = DISCORD.read_history(ROOM, call, answer(200, entries[:99]))

    assert call.url.endswith("/channels/800/messages?limit=100&before=6000")
    assert isinstance(past, Past)
    assert isinstance(last, Past)
    assert [it.message_id for it in past.messages] == [str(n) for n in range(5900, 6000)]
    assert past.older == DISCORD.history(ROOM, "5900")
    assert past.children == (ConversationRef("discord", "700", "5996"),)
    assert last.older is None


def test_the_history_of_a_thread_knows_its_room_by_its_first_entry() -> None:
    thread = ConversationRef("discord", "700", "5001", kind=Kind.THREAD)
    starter = message(
        id="5002", type=21, message_reference={"channel_id": "800", "message_id": "5001"}
    )
    entries = [message(id="5003", channel_id="5001"), starter]
    past = DISCORD.read_history(thread, DISCORD.history(thread), answer(200, entries))

    assert isinstance(past, Past)
    [heard] = past.messages
    assert (heard.conversation, heard.parent, heard.thread_root) == (thread, ROOM, "5001")


# --- files -----------------------------------------------------------------------------------


def test_a_file_is_fetched_without_credentials() -> None:
    call = DISCORD.file(Attachment(url=LINK, size=10))

    assert (call.method, call.url, call.most) == ("GET", LINK, 10)
    assert "authorization" not in call.headers
    assert DISCORD.read_file(Attachment(url=LINK), call, answer(200, b"\x89PNG")) == b"\x89PNG"


def test_a_link_that_expired_is_asked_for_anew_once() -> None:
    file = Attachment(url=LINK)
    fresh = LINK.replace("ex=65", "ex=99")
    asked = DISCORD.read_file(file, DISCORD.file(file), answer(404))
    assert isinstance(asked, ApiCall)
    assert (asked.url.rpartition("/")[2], body(asked)) == (
        "refresh-urls",
        {"attachment_urls": [LINK]},
    )
    known = {"refreshed_urls": [{"original": LINK, "refreshed": fresh}]}
    fetched = DISCORD.read_file(file, asked, answer(200, known))

    assert isinstance(fetched, ApiCall)
    assert fetched.url == fresh
    assert "authorization" not in fetched.headers
    assert isinstance(DISCORD.read_file(file, fetched, answer(404)), Refused)


def test_a_link_elsewhere_is_neither_asked_for_anew_nor_followed() -> None:
    elsewhere = Attachment(url="https://evil.example/a")
    assert isinstance(DISCORD.read_file(elsewhere, DISCORD.file(elsewhere), answer(404)), Refused)
    file = Attachment(url=LINK)
    asked = DISCORD.read_file(file, DISCORD.file(file), answer(403))
    assert isinstance(asked, ApiCall)
    evil = {"refreshed_urls": [{"original": LINK, "refreshed": "https://evil.example/a"}]}
    assert isinstance(DISCORD.read_file(file, asked, answer(200, evil)), Refused)


# --- connecting ------------------------------------------------------------------------------

FRESH = Discord(replace(ACCOUNT, account_id="", capabilities=type(ACCOUNT.capabilities)()))
APPLICATION = {
    "id": "700",
    "name": "Sim",
    "flags": 1 << 19,
    "verify_key": "ab" * 32,
    "bot": {"id": "900", "username": "simbot"},
}
SIMBOT = Actor("900", "simbot", is_bot=True, is_self=True)


def test_connecting_learns_the_application_its_user_and_its_key() -> None:
    call = FRESH.check()
    known = FRESH.read_check(call, answer(200, APPLICATION))

    assert known == Identity(account_id="700", actor=SIMBOT, settings={"public_key": "ab" * 32})
    assert [(it.name, it.secret) for it in Discord.asks()] == [
        ("token", True),
        ("public_key", False),
        ("api", False),
    ]
    assert (DISCORD.webhook("https://x.example"), DISCORD.listens()) == (None, True)


def test_the_user_is_asked_for_where_the_application_does_not_tell() -> None:
    without = {name: value for name, value in APPLICATION.items() if name != "bot"}
    call = FRESH.read_check(FRESH.check(), answer(200, without))
    assert isinstance(call, ApiCall)
    known = FRESH.read_check(call, answer(200, {"id": "900", "username": "simbot"}))

    assert call.url.endswith("/users/@me")
    assert known == Identity(account_id="700", actor=SIMBOT, settings={"public_key": "ab" * 32})


@pytest.mark.case("B155")
def test_connecting_without_the_message_content_intent_is_refused_by_name() -> None:
    step = FRESH.read_check(FRESH.check(), answer(200, APPLICATION | {"flags": 1 << 17}))

    assert isinstance(step, Refused)
    assert "Message Content Intent" in step.reason


def test_a_wrong_token_is_refused() -> None:
    step = FRESH.read_check(FRESH.check(), answer(401, {"message": "401: Unauthorized", "code": 0}))

    assert isinstance(step, Refused)
    assert step.failure is Failure.AUTH


# --- interactions ----------------------------------------------------------------------------

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
SIGNING = Discord(replace(ACCOUNT, settings={**ACCOUNT.settings, "public_key": PUBLIC}))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def signed(raw: bytes, stamp: str = str(int(NOW.timestamp())), **changes: str) -> Request:
    """An interaction as Discord signs it."""
    headers = {
        "x-signature-timestamp": stamp,
        "x-signature-ed25519": PRIVATE.sign(stamp.encode() + raw).hex(),
    }
    return Request(
        method="POST",
        path="/v1/webhooks/discord/700",
        headers=headers | {name.replace("_", "-"): value for name, value in changes.items()},
        body=raw,
        received_at=NOW,
    )


PING = b'{"type":1,"application_id":"700"}'


def test_a_ping_that_discord_signed_is_answered() -> None:
    request = signed(PING)
    reply = SIGNING.handshake(request)

    assert SIGNING.verify(request)
    assert reply is not None
    assert (reply.body, reply.content_type) == (b'{"type":1}', "application/json")


def test_every_interaction_is_answered_in_time_and_nothing_else_is() -> None:
    answers = [SIGNING.handshake(signed(json.dumps({"type": n}).encode())) for n in range(7)]

    assert [None if it is None else json.loads(it.body)["type"] for it in answers] == [
        *(None, 1, 4, 6, 8, 6, None)
    ]
    assert SIGNING.handshake(signed(b"[]")) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"x_signature_ed25519": ""},
        {"x_signature_ed25519": "zz"},
        {"x_signature_ed25519": "00" * 64},
        {"x_signature_ed25519": "é"},
        {"x_signature_timestamp": ""},
        {"x_signature_timestamp": "soon"},
        {"x_signature_timestamp": "²"},
        {"x_signature_timestamp": "1767225601"},
        {"x_signature_timestamp": "9" * 40},
    ],
)
def test_a_signature_that_is_not_discords_is_none(changes: dict[str, str]) -> None:
    assert not SIGNING.verify(signed(PING, **changes))


def test_a_signature_holds_for_its_bytes_and_for_five_minutes() -> None:
    old = signed(PING, str(int((NOW - timedelta(seconds=301)).timestamp())))

    assert SIGNING.verify(signed(PING, str(int((NOW - timedelta(seconds=299)).timestamp()))))
    assert not SIGNING.verify(old)
    assert not SIGNING.verify(replace(signed(PING), body=PING + b" "))


@pytest.mark.parametrize("key", ["", " ", "00" * 32, "01" + "00" * 31, "your-key", "ab"])
def test_without_a_real_public_key_nothing_is_verified(key: str) -> None:
    dialect = Discord(replace(ACCOUNT, settings={**ACCOUNT.settings, "public_key": key}))

    assert not dialect.verify(signed(PING))


def test_a_key_under_which_anything_verifies_is_a_placeholder() -> None:
    """The neutral point of the curve: its signature of every message is known to everybody."""
    neutral = "01" + "00" * 31
    dialect = Discord(replace(ACCOUNT, settings={**ACCOUNT.settings, "public_key": neutral}))

    assert not dialect.verify(signed(PING, x_signature_ed25519=neutral + "00" * 32))
