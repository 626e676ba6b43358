"""What a number says, and what Meta's answers mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.whatsapp.conftest import ANNS_PHONE, NUMBER, TOKEN, VERIFY, answer, number, outbound
from threadline.adapters.whatsapp_text import whatsapp_text
from threadline.core.deliveries import Failure
from threadline.core.model import Attachment, Kind
from threadline.core.wire import ApiCall, Bucket, Doubt, OutboundMessage, Refused, Sent


def said(message: OutboundMessage) -> dict[str, Any]:
    """The body of the call that says it."""
    found: dict[str, Any] = json.loads(number().render(message).body)
    return found


def test_a_text_goes_to_the_user_id_with_our_key_and_no_preview() -> None:
    call = number().render(outbound("**hello** https://x.test", reply_to="wamid.A"))

    assert call.url == f"https://graph.facebook.com/v26.0/{NUMBER}/messages"
    assert call.headers["authorization"] == f"Bearer {TOKEN}"
    assert json.loads(call.body) == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "recipient": "US.13491208655302741918",
        "type": "text",
        "text": {"body": "*hello* https://x.test", "preview_url": False},
        "biz_opaque_callback_data": "k.1.1",
        "context": {"message_id": "wamid.A"},
    }
    assert TOKEN not in repr(call)


def test_a_phone_and_a_group_are_addressed_in_their_own_way() -> None:
    assert said(outbound(to=ANNS_PHONE))["to"] == ANNS_PHONE
    group = said(outbound(to="Y2FwaV9ncm91cA", kind=Kind.ROOM))
    assert (group["recipient_type"], group["to"]) == ("group", "Y2FwaV9ncm91cA")


def test_a_template_named_in_the_metadata_is_sent_as_one() -> None:
    named = {"template": {"name": "order_ready", "language": "en_GB", "components": []}}
    body = said(outbound("Your order is ready.", metadata=named))
    second = said(outbound("and more", metadata=named, part=2, parts=2))

    assert body["type"] == "template"
    assert body["template"] == {
        "name": "order_ready",
        "language": {"code": "en_GB"},
        "components": [],
    }
    assert second["type"] == "text"


def test_a_file_goes_with_its_words_below_and_links_where_that_is_not_possible() -> None:
    picture = Attachment(type="image/png", url="https://x.test/a.png")
    sound = Attachment(type="audio/ogg", url="https://x.test/a.ogg")
    paper = Attachment(type="application/pdf", name="a.pdf", url="https://x.test/a.pdf")

    body = said(outbound("look", attachments=(picture,)))
    assert body["image"] == {"link": picture.url, "caption": "look"}
    assert said(outbound("", attachments=(sound,)))["audio"] == {"link": sound.url}
    assert said(outbound("hear", attachments=(sound,)))["text"]["body"] == f"hear\n{sound.url}"
    assert said(outbound("", attachments=(paper,)))["document"]["filename"] == "a.pdf"
    both = said(outbound("two", attachments=(picture, paper)))["text"]["body"]
    assert both == f"two\n{picture.url}\n{paper.url}"
    long = said(outbound("x" * 1025, attachments=(picture,)))
    assert long["type"] == "text"


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab *_~`#[](x)\n:/.htps", max_size=60))
def test_whatsapps_signs_never_make_a_text_longer(text: str) -> None:
    assert len(whatsapp_text(text)) <= len(text)


def test_code_stays_as_it_is() -> None:
    assert whatsapp_text("```py\n**x**\n```\n**y** __z__") == "```\n**x**\n```\n*y* __z__"


def test_proof_is_the_id_that_statuses_and_replies_name() -> None:
    call = number().render(outbound())
    given = {"contacts": [{"wa_id": "1"}], "messages": [{"id": "wamid.OUT1"}]}

    assert number().read(call, answer(200, given)) == Sent(message_id="wamid.OUT1")


def test_a_phone_dialled_in_another_form_is_the_one_whatsapp_names() -> None:
    call = number().render(outbound(to="5511987654321"))
    named = {"contacts": [{"wa_id": "551187654321"}], "messages": [{"id": "wamid.O"}]}

    found = number().read(call, answer(200, named))

    assert isinstance(found, Sent)
    assert found.conversation is not None
    assert found.conversation.conversation_id == "551187654321"


CODES = [
    (400, 131047, Failure.WINDOW_CLOSED, None),
    (400, 130429, Failure.RATE_LIMITED, Bucket.ACCOUNT),
    (400, 131056, Failure.RATE_LIMITED, Bucket.CONVERSATION),
    (400, 80007, Failure.RATE_LIMITED, Bucket.ACCOUNT),
    (429, 4, Failure.RATE_LIMITED, Bucket.ACCOUNT),
    (500, 130429, Failure.RATE_LIMITED, Bucket.ACCOUNT),
    (401, 190, Failure.AUTH, None),
    (403, 200, Failure.AUTH, None),
    (400, 131026, Failure.NOT_FOUND, None),
    (400, 131051, Failure.UNSUPPORTED, None),
    (400, 132001, Failure.PERMANENT, None),
    (400, 100, Failure.PERMANENT, None),
    (503, 131016, Failure.TRANSIENT, None),
    (400, 131000, Failure.TRANSIENT, None),
    (200, 131047, Failure.WINDOW_CLOSED, None),
]


@pytest.mark.parametrize(("status", "code", "failure", "bucket"), CODES)
def test_a_code_has_one_meaning(
    status: int, code: int, failure: Failure, bucket: Bucket | None
) -> None:
    call = number().render(outbound())
    error = {"error": {"code": code, "message": "no", "error_data": {"details": "why"}}}

    found = number().read(call, answer(status, error))

    assert found == Refused(failure=failure, reason=f"{code} why", bucket=bucket)


def test_an_unknown_error_behind_the_deed_is_doubt() -> None:
    call = number().render(outbound())

    for status, body in (
        (500, {"error": {"code": 131000}}),
        (500, {"error": {"code": 1}}),
        (502, b"<html>"),
        (503, b""),
        (408, b""),
        (200, b"{}"),
        (200, {"messages": [{"id": ""}]}),
    ):
        assert isinstance(number().read(call, answer(status, body)), Doubt), (status, body)


def test_a_number_that_is_not_ours_any_more_is_a_matter_of_credentials() -> None:
    gone = {"error": {"code": 100, "error_subcode": 33}}
    found = number().read(number().render(outbound()), answer(400, gone))

    assert isinstance(found, Refused)
    assert found.failure is Failure.AUTH


def test_the_wait_meta_states_is_waited() -> None:
    usage = json.dumps({"1": [{"type": "whatsapp", "estimated_time_to_regain_access": 2}]})
    limited = answer(400, {"error": {"code": 80007}}, **{"x-business-use-case-usage": usage})
    found = number().read(number().render(outbound()), limited)

    assert isinstance(found, Refused)
    assert found.wait == 120.0


def test_connecting_asks_meta_which_number_it_is() -> None:
    fresh = number("")
    call = fresh.check()
    who = {"id": NUMBER, "display_phone_number": "+1 555", "verified_name": "Harbour Café"}
    found = fresh.read_check(call, answer(200, who))

    assert f"/{NUMBER}?fields=" in call.url
    assert not isinstance(found, ApiCall | Refused | Doubt)
    assert (found.account_id, found.actor.name, found.actor.is_self) == (
        NUMBER,
        "Harbour Café",
        True,
    )
    refused = fresh.read_check(call, answer(401, {"error": {"code": 190}}))
    assert isinstance(refused, Refused)
    assert isinstance(fresh.read_check(call, answer(200, {"id": "other"})), Doubt)


def test_the_webhook_of_a_number_is_its_own_and_can_be_taken_back() -> None:
    call = number().webhook("https://b.test/v1/webhooks/whatsapp/a")
    gone = number().webhook(None)

    assert call is not None
    assert gone is not None
    assert json.loads(call.body)["webhook_configuration"] == {
        "override_callback_uri": "https://b.test/v1/webhooks/whatsapp/a",
        "verify_token": VERIFY,
    }
    assert json.loads(gone.body)["webhook_configuration"] == {"override_callback_uri": ""}
