"""What an address hears, and whom it believes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twilio.request_validator import RequestValidator

from tests.twilio.conftest import (
    ANN,
    HOOK,
    OURS,
    PUBLIC,
    SHARED,
    SID,
    TOKEN,
    fields,
    hear,
    line,
    posted,
    raw,
)
from threadline.core.deliveries import Failure
from threadline.core.wire import Refused, Request


def test_a_recorded_message_comes_back_exactly() -> None:
    [one] = hear(raw("made-1")).messages

    assert one.text == 'Hæ! 👋 50% off & more = "yes+no"\nsecond line'
    assert one.conversation.conversation_id == ANN
    assert (one.actor.id, one.actor.name) == (ANN, "Runa Þórsdóttir")
    assert one.message_id == "SM0a1b2c3d0a1b2c3d0a1b2c3d0a1b2c3d"
    assert one.same_as == ()


def test_a_recorded_sms_and_its_file_are_heard_by_their_number() -> None:
    number = line("+1A693421974", "ACe4885a100ac907f66a8f694350e8f6f3")

    [plain] = hear(raw("botbuilder-1"), number).messages
    [filed] = hear(raw("botbuilder-2"), number).messages

    assert (plain.text, plain.attachments) == ("Hello", ())
    assert filed.attachments[0].url == "www.google.com"
    assert "authorization" not in number.file(filed.attachments[0]).headers


def test_an_address_hears_its_own_and_counts_the_others() -> None:
    assert hear(raw("botbuilder-1")).foreign == 1
    assert hear(fields(AccountSid="AC2")).foreign == 1
    assert hear(fields(To="whatsapp:+1555")).foreign == 1
    assert hear(b"").skipped == ("no account",)
    assert hear(fields(MessageSid="")).skipped == ("message without id or sender",)


@pytest.mark.case("B007")
def test_a_user_id_and_a_phone_are_one_person() -> None:
    [hidden] = hear(fields(From="whatsapp:US.1349")).messages
    [named] = hear(fields(ExternalUserIdentifier="US.1349")).messages

    assert hidden.conversation.conversation_id == "whatsapp:US.1349"
    assert [it.conversation_id for it in hidden.same_as] == [ANN]
    assert [it.conversation_id for it in named.same_as] == ["whatsapp:US.1349"]


@pytest.mark.case("B073")
def test_a_phone_in_any_form_is_the_place_its_owner_writes_from() -> None:
    [one] = hear(fields()).messages

    for written in (ANN, "+15550100123", "15550100123", "+1 (555) 010-0123"):
        assert line().direct(written) == one.conversation


@pytest.mark.case("B103")
def test_what_has_no_words_is_named() -> None:
    place = {"Body": "", "Latitude": "52.1", "Longitude": "4.3", "Label": "Dom"}
    said = {
        "[location 52.1,4.3: Dom]": place,
        "Yes": {"Body": "", "ButtonText": "Yes", "ButtonPayload": "yes"},
        "[sticker message]": {"Body": "", "MessageType": "sticker"},
        "[empty message]": {"Body": " "},
    }
    for text, more in said.items():
        assert hear(fields(**more)).messages[0].text == text

    media = {"Body": "", "NumMedia": "1", "MediaUrl0": "https://api.twilio.com/2010/ME1"}
    [one] = hear(fields(**media, MediaContentType0="image/jpeg")).messages
    assert (one.text, one.attachments[0].id, one.attachments[0].type) == ("", "ME1", "image/jpeg")


def test_a_reply_names_what_it_answers() -> None:
    [one] = hear(fields(OriginalRepliedMessageSid="SM0", ButtonPayload="yes")).messages

    assert (one.reply_to, one.metadata["button"]) == ("SM0", "yes")


def status(word: str, **more: str) -> dict[str, str]:
    """The status of a message of ours."""
    base = {"AccountSid": SID, "From": OURS, "To": ANN, "MessageSid": "SM9"}
    return {**base, "MessageStatus": word, "SmsStatus": word, **more}


def test_a_status_is_a_receipt_with_our_key() -> None:
    for word in ("queued", "sent", "delivered", "read"):
        [one] = hear(status(word), key="k.1.1").receipts
        assert (one.message_id, one.token, one.refused) == ("SM9", "k.1.1", None)
        assert one.conversation.conversation_id == ANN
    assert hear(status("thinking")).skipped == ("status thinking",)
    assert hear(raw("made-3")).foreign == 1
    [recorded] = hear(raw("made-3"), line("+15550100999")).receipts
    assert recorded.message_id == "SM77777777777777777777777777777777"


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("63016", Failure.WINDOW_CLOSED),
        ("63018", Failure.RATE_LIMITED),
        ("63003", Failure.NOT_FOUND),
        ("30007", Failure.PERMANENT),
        ("x", Failure.PERMANENT),
    ],
)
def test_a_failed_status_says_why(code: str, failure: Failure) -> None:
    [one] = hear(status("failed", ErrorCode=code)).receipts

    assert isinstance(one.refused, Refused)
    assert one.refused.failure is failure


def test_a_form_signed_for_the_public_address_is_believed() -> None:
    assert line().verify(posted(raw("made-1")))
    assert line().verify(posted(raw("botbuilder-1")))
    assert line(public_url=HOOK).verify(posted(raw("made-1")))
    assert line().verify(posted(raw("made-1"), HOOK + "?key=k.1.1"))
    assert not line().verify(posted(raw("made-1"), secret="other"))
    assert not line().verify(posted(raw("made-1"), HOOK + "x"))


def test_the_port_may_be_written_or_not() -> None:
    with_port = HOOK.replace(".org", ".org:443")

    assert line().verify(posted(raw("made-1"), with_port))
    assert line(public_url=PUBLIC + ":443").verify(posted(raw("made-1")))
    assert not line().verify(posted(raw("made-1"), HOOK.replace(".org", ".org:8443")))


def test_the_newer_signature_needs_the_shared_key() -> None:
    good = posted(raw("made-1"), secret=SHARED, algorithm="HMAC_SHA256")
    wrong = posted(raw("made-1"), secret=TOKEN, algorithm="HMAC_SHA256")
    header = "x-twilio-webhooks-signature-settings"
    odd = replace(good, headers={**good.headers, header: "key=1,algorithm=MD5"})

    assert line().verify(good)
    assert not line().verify(wrong)
    assert not line().verify(odd)


@pytest.mark.case("B136")
def test_behind_a_proxy_only_the_configured_address_counts() -> None:
    good = posted(raw("made-1"))
    theirs = posted(raw("made-1"), "https://evil.test/v1/webhooks/twilio/mine")
    forwarded = {"x-forwarded-host": "evil.test", "host": "evil.test"}
    body = b'{"a": "1"}'
    url = f"{HOOK}?bodySHA256={hashlib.sha256(body).hexdigest()}"
    made = RequestValidator(TOKEN).compute_signature(url, {})
    as_json = Request(
        method="POST",
        path="/",
        headers={"content-type": "application/json", "x-twilio-signature": made},
        body=body,
        query={"bodySHA256": hashlib.sha256(body).hexdigest()},
    )

    proxied = {**good.headers, "host": "127.0.0.1:8080", "x-forwarded-proto": "https"}
    assert line().verify(replace(good, headers=proxied))
    assert not line(public_url="").verify(replace(theirs, headers={**theirs.headers, **forwarded}))
    assert not line().verify(replace(theirs, headers={**theirs.headers, **forwarded}))
    assert line().verify(as_json)
    assert not line().verify(replace(as_json, body=b'{"a": "2"}'))
    assert not line().verify(replace(as_json, query={}))


def test_blank_and_unknown_fields_are_signed_too() -> None:
    body = urlencode({**fields(), "NewThing": "", "FromCity": " x "}).encode()
    good = posted(body)

    assert line().verify(good)
    assert not line().verify(replace(good, body=body.replace(b"NewThing=&", b"")))


def test_the_answer_says_nothing_in_twiml() -> None:
    reply = line().handshake(posted(raw("made-1")))

    assert reply is not None
    assert (reply.body, reply.content_type) == (b"<Response/>", "text/xml")


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [*fields(), "MessageStatus", "NumMedia", "MediaUrl0", "Latitude", "Longitude", "WaId"]
        ),
        st.text(max_size=12),
    )
)
def test_a_form_with_anything_in_any_field_is_heard_or_skipped(odd: dict[str, str]) -> None:
    given = {**fields(), **odd}
    as_json = Request(
        method="POST",
        path="/",
        headers={"content-type": "application/json"},
        body=json.dumps(given).encode(),
    )

    line().parse(as_json)
    hear({name: value.encode("utf-8", "replace").decode() for name, value in given.items()})
