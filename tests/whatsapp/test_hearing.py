"""What a number hears: recorded webhooks, people by two names, and nothing that is not its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.whatsapp.conftest import (
    ANN,
    ANNS_PHONE,
    APP_SECRET,
    NUMBER,
    US,
    VERIFY,
    answer,
    fixture,
    hear,
    message,
    number,
    signed,
    update,
)
from threadline.core.deliveries import Failure
from threadline.core.model import Direction, Event, InboundMessage, Kind
from threadline.core.wire import ApiCall, Bucket, Refused, Request


def only(given: object) -> InboundMessage:
    """The one message in an update."""
    found = hear(given)
    assert (len(found.messages), found.skipped, found.foreign) == (1, (), 0)
    return found.messages[0]


SAID = {
    "text": "Body Text",
    "current_location": "[location 12.25089,43.90539]",
    "chosen_location": "[location 37.4611978,-122.2164385: Facebook HQ, "
    "1 Hacker Way, Menlo Park, CA 94025]",
    "order": "[order: 3 × HAMBURGER, 2 × FRENCH_FRIES, 2 × SODA]",
    "unsupported": "[unsupported message]",
    "unsupported_with_type": "[unsupported message: pool]",
    "video": "caption",
    "reply": "replied text",
    "interactive_message_with_err": "[interactive message]",
}


@pytest.mark.case("B103")
def test_every_recorded_message_is_heard_with_words_or_a_file() -> None:
    for title, recorded in fixture("pywa-message").items():
        found = hear(recorded)
        [one] = found.messages
        assert one.conversation.conversation_id == ANN, title
        assert one.actor.id == ANN, title
        assert one.actor.name == "Test Name", title
        assert one.sent_at is not None, title
        assert one.text == SAID.get(title, one.text), title
        reaction = one.event is Event.REACTION
        assert reaction == ("reaction" in title), title
        assert one.text or one.attachments or reaction, title


def test_a_file_keeps_its_id_its_type_and_a_name_that_is_no_path() -> None:
    document = message("document", document={"id": "M3", "filename": "../a/b.pdf"})
    [file] = only(update({"messages": [document]})).attachments
    voice = only(fixture("pywa-message")["voice"])

    assert (file.id, file.type, file.name) == ("M3", "document", "b.pdf")
    assert voice.attachments[0].type == "audio/ogg; codecs=opus"
    assert voice.metadata["voice"] is True


def test_a_reply_names_what_it_answers_and_a_forwarded_message_does_not() -> None:
    recorded = fixture("pywa-message")

    assert only(recorded["reply"]).reply_to == "wamid.xyzxyz=="
    assert only(recorded["forwarded"]).reply_to is None
    assert only(recorded["forwarded"]).metadata["forwarded"] is True


def test_reactions_and_their_removal_name_their_message() -> None:
    recorded = fixture("pywa-message")
    put, gone = only(recorded["reaction"]), only(recorded["unreaction_no_emoji"])

    assert (put.text, put.revises) == ("😮", "wamid.yzxyzx=")
    assert (gone.text, gone.metadata["removed"]) == ("", True)
    assert only(recorded["unreaction_empty"]).metadata["removed"] is True


def test_a_pressed_button_says_its_title_and_keeps_its_id() -> None:
    for recorded in fixture("pywa-callback_button").values():
        one = only(recorded)

        assert one.text == "title"
        assert one.metadata["button"] == "callback_data"


def test_an_edit_and_a_revoke_revise_their_message() -> None:
    [edit] = hear(fixture("pywa-edited_message")["image"], "106540352242922").messages
    revoked = message("revoke", revoke={"original_message_id": "wamid.AAA"})
    gone = only(update({"messages": [revoked]}))

    assert edit.event is Event.EDIT
    assert edit.text == "Updated image caption"
    assert (edit.revises or "").startswith("wamid.HBgLMTQx")
    assert (gone.event, gone.revises, gone.signed) == (Event.DELETE, "wamid.AAA", True)
    assert gone.text == ""


@pytest.mark.case("B007")
def test_a_person_is_named_by_user_id_and_the_phone_is_one_more_address() -> None:
    one = only(update({"messages": [message()]}))
    hidden = message()
    del hidden["from"]
    old = message()
    del old["from_user_id"]

    assert one.conversation.conversation_id == ANN
    assert [it.conversation_id for it in one.same_as] == [ANNS_PHONE]
    assert only(update({"messages": [hidden]})).conversation == one.conversation
    assert only(update({"messages": [old]})).conversation == one.same_as[0]


@pytest.mark.case("B009")
def test_what_a_person_writes_never_becomes_an_address() -> None:
    said = message(text={"body": "my number is 15550000001"}, wa_id="15550000001")

    one = only(update({"messages": [said], "contacts": [{"wa_id": "15550000009"}]}))

    assert [it.conversation_id for it in (one.conversation, *one.same_as)] == [ANN, ANNS_PHONE]


@pytest.mark.case("B073")
def test_a_phone_in_any_form_is_the_place_its_owner_writes_from() -> None:
    old = message()
    del old["from_user_id"]
    heard = only(update({"messages": [old]})).conversation

    for written in (ANNS_PHONE, f"+{ANNS_PHONE}", "+972 98-765-4321", f" {ANNS_PHONE} "):
        assert number().direct(written) == heard
    assert number().direct(ANN).conversation_id == ANN


@pytest.mark.acceptance("A9")
def test_a_new_number_or_user_id_is_the_same_conversation() -> None:
    changed = only(fixture("pywa-system")["phone_number_change"])
    system = {"type": "user_changed_user_id", "user_id": "US.2481", "previous_user_id": ANN}
    renamed = only(update({"messages": [{"id": "w", "type": "system", "system": system}]}))

    assert changed.conversation.conversation_id == "972912345678"
    assert [it.conversation_id for it in changed.same_as] == [ANNS_PHONE]
    assert renamed.conversation.conversation_id == "US.2481"
    assert [it.conversation_id for it in renamed.same_as] == [ANN]


@pytest.mark.case("B088")
def test_a_notice_of_the_system_is_nobodys_message() -> None:
    changed = only(fixture("pywa-system")["phone_number_change"])

    assert changed.event is Event.NOTICE
    assert changed.actor.id == "whatsapp"
    assert hear(fixture("pywa-system")["identity_change"]).skipped == (
        "system customer_identity_changed",
    )


def test_a_group_is_a_room_with_its_people_in_it() -> None:
    one = only(update({"messages": [message(group_id="Y2FwaV9ncm91cA")]}))

    assert (one.conversation.conversation_id, one.conversation.kind) == (
        "Y2FwaV9ncm91cA",
        Kind.ROOM,
    )
    assert (one.actor.id, one.same_as) == (ANN, ())


def test_statuses_are_receipts_with_our_key_under_every_address_they_give() -> None:
    recorded = fixture("pywa-message_status")
    found = hear(recorded["with_tracker"]).receipts

    assert {it.conversation.conversation_id for it in found} == {ANN, ANNS_PHONE}
    assert {(it.message_id, it.token, it.refused) for it in found} == {
        ("wamid.xyzxyz", "some data", None)
    }
    for title in ("sent", "delivered", "read", "played"):
        assert all(it.refused is None for it in hear(recorded[title]).receipts)


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (131047, Failure.WINDOW_CLOSED),
        (131026, Failure.NOT_FOUND),
        (131051, Failure.UNSUPPORTED),
        (131056, Failure.RATE_LIMITED),
        (190, Failure.AUTH),
        (131000, Failure.PERMANENT),
        (None, Failure.PERMANENT),
    ],
)
def test_a_failed_status_says_why(code: int | None, failure: Failure) -> None:
    status: dict[str, Any] = {"id": "wamid.O", "status": "failed", "recipient_id": ANNS_PHONE}
    [one] = hear(update({"statuses": [{**status, "errors": [{"code": code}]}]})).receipts

    assert isinstance(one.refused, Refused)
    assert one.refused.failure is failure


def test_what_the_business_says_by_its_phone_is_our_own() -> None:
    echo: dict[str, Any] = {
        "from": "972123456789",
        "to": ANNS_PHONE,
        "id": "wamid.E",
        "type": "text",
    }
    echo |= {"timestamp": "1700000000", "text": {"body": "by hand"}}
    one = only(update({"message_echoes": [echo]}, of="smb_message_echoes"))

    assert (one.direction, one.actor, one.token) == (Direction.OUTBOUND, US, None)
    assert one.conversation.conversation_id == ANNS_PHONE


def test_a_number_hears_its_own_and_counts_the_others() -> None:
    mine = update({"messages": [message()]})
    others = update({"messages": [message(), message()]}, number_id="999")
    mixed = {"object": "x", "entry": mine["entry"] + others["entry"]}

    found = hear(mixed)

    assert (len(found.messages), found.foreign) == (1, 2)
    assert hear(mixed, "999").foreign == 1


def test_a_broken_message_costs_only_itself() -> None:
    found = hear(update({"messages": [{"type": "text"}, message(), message(id=None)]}))

    assert len(found.messages) == 1
    assert found.skipped == ("text without id or sender",) * 2


def test_the_handshake_is_answered_to_who_knows_the_words() -> None:
    asked = {"hub.mode": "subscribe", "hub.verify_token": VERIFY, "hub.challenge": "1158"}
    right = Request(method="GET", path="/", headers={}, body=b"", query=asked)
    wrong = Request(method="GET", path="/", headers={}, body=b"", query={**asked, "hub.mode": "x"})
    guessed = {**asked, "hub.verify_token": "walnut"}

    assert number().verify(right)
    reply = number().handshake(right)
    assert reply is not None
    assert reply.body == b"1158"
    assert number().parse(right).messages == ()
    assert not number().verify(wrong)
    assert not number().verify(Request(method="GET", path="/", headers={}, body=b"", query=guessed))
    assert number().handshake(signed(b"{}")) is None


def test_only_the_exact_bytes_are_signed() -> None:
    # Meta escapes what is not ASCII, so the same JSON written anew has another signature.
    body = b'{"entry":[],"text":"\\u00e9\\/"}'
    good = signed(body)

    assert number().verify(good)
    assert not number().verify(signed(body, APP_SECRET + "x"))
    again = json.dumps(json.loads(body)).encode()
    assert not number().verify(Request(method="POST", path="/", headers=good.headers, body=again))


def test_without_a_secret_nothing_is_verified() -> None:
    bare = number()
    object.__setattr__(bare._account, "credentials", {})

    assert not bare.verify(signed(b"{}", ""))
    asked = {"hub.mode": "subscribe", "hub.verify_token": ""}
    assert not bare.verify(Request(method="GET", path="/", headers={}, body=b"", query=asked))


def test_a_file_is_asked_for_by_id_and_fetched_where_meta_keeps_it() -> None:
    [file] = only(fixture("pywa-message")["image"]).attachments
    first = number().file(file)
    said = {"url": "https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=1"}
    second = number().read_file(file, first, answer(200, said))

    assert first.url.endswith(f"/65463453?phone_number_id={NUMBER}")
    assert isinstance(second, ApiCall)
    assert second.headers["authorization"].startswith("Bearer ")
    assert number().read_file(file, second, answer(200, b"\x89PNG")) == b"\x89PNG"


def test_our_token_goes_to_no_stranger_who_claims_to_have_a_file() -> None:
    [file] = only(fixture("pywa-message")["image"]).attachments
    first = number().file(file)

    for url in (
        "https://evil.test/x.fbsbx.com",
        "http://lookaside.fbsbx.com/",
        "https://fbsbx.com.evil.test/",
        "https://[",
        "",
    ):
        assert isinstance(number().read_file(file, first, answer(200, {"url": url})), Refused)


def test_the_pair_limit_is_the_conversations_and_the_others_are_the_accounts() -> None:
    status: dict[str, Any] = {"id": "wamid.O", "status": "failed", "recipient_id": ANNS_PHONE}
    buckets = {}
    for code in (131056, 130429):
        [one] = hear(update({"statuses": [{**status, "errors": [{"code": code}]}]})).receipts
        assert one.refused is not None
        buckets[code] = one.refused.bucket

    assert buckets == {131056: Bucket.CONVERSATION, 130429: Bucket.ACCOUNT}
