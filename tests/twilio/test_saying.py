"""What an address says, what Twilio's answers mean, what it remembers, and its files."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twilio.conftest import ANN, HOOK, OURS, SID, TOKEN, US, answer, line, outbound
from threadline.core.adapters import Identity, Past
from threadline.core.deliveries import Failure
from threadline.core.files import onwards, pinned
from threadline.core.model import Attachment, Direction, InboundMessage
from threadline.core.outside import AddressRefused
from threadline.core.wire import ApiCall, Bucket, Doubt, OutboundMessage, Refused, Sent


def said(message: OutboundMessage) -> dict[str, list[str]]:
    """The form of the call that says it."""
    return parse_qs(line().render(message).body.decode())


def test_a_text_goes_out_with_a_callback_that_names_our_key() -> None:
    call = line().render(outbound("**hello** ✓"))

    assert call.url == f"https://api.twilio.com/2010-04-01/Accounts/{SID}/Messages.json"
    assert dict(parse_qsl(call.body.decode())) == {
        "To": ANN,
        "From": OURS,
        "Body": "*hello* ✓",
        "StatusCallback": f"{HOOK}?key=k.1.1",
    }
    opened = base64.b64decode(call.headers["authorization"].removeprefix("Basic ")).decode()
    assert opened == f"{SID}:{TOKEN}"
    assert TOKEN not in repr(call)
    assert "StatusCallback" not in parse_qs(line(public_url="").render(outbound()).body.decode())


def test_an_sms_says_what_was_written() -> None:
    call = line("+15550100999").render(outbound("**hello**", to="+15550100123"))

    assert parse_qs(call.body.decode())["Body"] == ["**hello**"]


def test_a_template_and_files_are_sent_as_such() -> None:
    template = {"content_sid": "HX1", "content_variables": {"1": "Ann"}}
    form = said(outbound("Your order is ready.", metadata={"template": template}))
    files = tuple(Attachment(url=f"https://x.test/{n}") for n in range(2))

    assert form["ContentSid"] == ["HX1"]
    assert json.loads(form["ContentVariables"][0]) == {"1": "Ann"}
    assert "Body" not in form
    media = said(outbound("look", attachments=files))
    assert media["MediaUrl"] == ["https://x.test/0"]
    assert media["Body"] == ["look\nhttps://x.test/1"]


CODES = [
    (429, 20429, Failure.RATE_LIMITED, Bucket.ACCOUNT),
    (400, 63018, Failure.RATE_LIMITED, Bucket.ACCOUNT),
    (400, 63016, Failure.WINDOW_CLOSED, None),
    (400, 21610, Failure.PERMANENT, None),
    (400, 21614, Failure.NOT_FOUND, None),
    (400, 21211, Failure.NOT_FOUND, None),
    (400, 21617, Failure.PERMANENT, None),
    (401, 20003, Failure.AUTH, None),
    (403, 1, Failure.AUTH, None),
    (404, 20404, Failure.NOT_FOUND, None),
]


@pytest.mark.parametrize(("status", "code", "failure", "bucket"), CODES)
def test_a_code_has_one_meaning(
    status: int, code: int, failure: Failure, bucket: Bucket | None
) -> None:
    given = answer(status, {"code": code, "message": "no", "status": status})

    found = line().read(line().render(outbound()), given)

    assert found == Refused(failure=failure, reason=f"{code} no", bucket=bucket)


def test_proof_is_the_sid_and_a_failure_at_once_is_none() -> None:
    call = line().render(outbound())

    assert line().read(call, answer(201, {"sid": "SM9", "status": "queued"})) == Sent(
        message_id="SM9"
    )
    failed = line().read(call, answer(201, {"sid": "SM9", "status": "failed", "error_code": 63016}))
    assert isinstance(failed, Refused)
    assert failed.failure is Failure.WINDOW_CLOSED
    for status, body in ((500, {"code": 20500}), (503, b""), (408, b""), (201, b"<x>")):
        assert isinstance(line().read(call, answer(status, body)), Doubt)


START = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Shelf:
    """Twilio's list of messages: one direction at a time, newest first, in pages."""

    def __init__(self, talk: list[tuple[str, str, int]], page: int) -> None:
        self.rows = [
            {
                "sid": f"SM{at}",
                "from": sender,
                "to": OURS if sender == ANN else ANN,
                "body": text,
                "status": "received" if sender == ANN else "delivered",
                "date_sent": format_datetime(START + timedelta(seconds=second)),
                "num_media": "0",
            }
            for at, (sender, text, second) in enumerate(talk)
        ]
        self.size = page

    def answer(self, call: ApiCall) -> Any:
        """What a call brings."""
        parts = urlsplit(call.url)
        asked = dict(parse_qsl(parts.query))
        if "From" not in asked:
            sid = parts.path.rpartition("/")[2].removesuffix(".json")
            return answer(200, next(one for one in self.rows if one["sid"] == sid))
        rows = [one for one in reversed(self.rows) if one["from"] == asked["From"]]
        if "DateSent<" in asked:
            until = datetime.fromisoformat(asked["DateSent<"])
            rows = [
                one
                for one in rows
                if START + timedelta(seconds=int(one["body"].partition("@")[2])) <= until
            ]
        start = int(asked.get("Page", 0)) * self.size
        more = start + self.size < len(rows)
        following = f"{parts.path}?{parts.query.partition('&Page=')[0]}&Page="
        return answer(
            200,
            {
                "messages": rows[start : start + self.size],
                "next_page_uri": f"{following}{int(asked.get('Page', 0)) + 1}" if more else None,
            },
        )


def everything(shelf: Shelf, before: str | None = None) -> tuple[list[InboundMessage], list[Past]]:
    """The whole past, oldest first, and its pages."""
    ref = line()._places.ref(ANN)
    call: ApiCall | None = line().history(ref, before)
    pages: list[Past] = []
    while call is not None:
        page = line().read_history(ref, call, shelf.answer(call))
        assert isinstance(page, Past)
        pages.append(page)
        call = page.older
    return [one for page in reversed(pages) for one in page.messages], pages


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([ANN, OURS]), st.integers(0, 3)), max_size=14),
    st.integers(1, 4),
)
def test_two_lists_become_one_conversation_in_order(talk: list[tuple[str, int]], page: int) -> None:
    second, rows = 0, []
    for sender, pause in talk:
        second += pause
        rows.append((sender, f"said@{second}", second))

    found, _ = everything(Shelf(rows, page))

    times = [one.sent_at for one in found]
    assert times == sorted(times, key=lambda at: at or START)
    assert sorted(str(one.message_id) for one in found) == sorted(
        f"SM{at}" for at in range(len(rows))
    )
    for side in (ANN, OURS):
        ids = [one.message_id for one in found if one.actor.id == side]
        assert ids == [f"SM{at}" for at, row in enumerate(rows) if row[0] == side]


def test_the_past_before_a_message_ends_there_and_knows_both_sides() -> None:
    talk = [(ANN, "a@0", 0), (OURS, "b@1", 1), (ANN, "c@2", 2), (ANN, "d@9", 9)]

    found, _ = everything(Shelf(talk, 2), before="SM2")

    assert [(one.text, one.direction, one.actor) for one in found][1] == (
        "b@1",
        Direction.OUTBOUND,
        US,
    )
    assert [one.message_id for one in found] == ["SM0", "SM1", "SM2"]


def test_what_was_never_handed_on_is_not_in_the_past() -> None:
    shelf = Shelf([(OURS, "a@0", 0), (ANN, "b@1", 1)], 5)
    shelf.rows[0]["status"] = "failed"

    assert [one.message_id for one in everything(shelf)[0]] == ["SM1"]


def test_a_file_is_fetched_with_our_credentials_once() -> None:
    url = f"https://api.twilio.com/2010-04-01/Accounts/{SID}/Messages/MM1/Media/ME1"
    file = Attachment(id="ME1", url=url)
    call = line().file(file)
    kept = onwards(call, answer(307, b"", location="https://mms.twiliocdn.com/ME1?sig=1"))

    assert call.headers["authorization"].startswith("Basic ")
    assert kept is not None
    assert (kept.url, kept.headers) == ("https://mms.twiliocdn.com/ME1?sig=1", {})
    assert pinned(kept.url, line().hosts).host == "mms.twiliocdn.com"
    assert line().read_file(file, kept, answer(200, b"jpeg")) == b"jpeg"
    assert isinstance(line().read_file(file, call, answer(302, b"")), Refused)
    with pytest.raises(AddressRefused):
        pinned("http://mms.twiliocdn.com/ME1", line().hosts)


def test_our_credentials_go_to_no_stranger() -> None:
    for url in (
        "https://evil.test/a",
        "http://api.twilio.com/a",
        "https://api.twilio.com.evil.test/a",
        "https://api.twilio.com@evil.test/a",
        "https://[",
        "www.google.com",
    ):
        assert "authorization" not in line().file(Attachment(url=url)).headers


def test_a_file_of_the_past_is_found_in_its_list() -> None:
    file = Attachment(id="MM1/1")
    call = line().file(file)
    listed = {"media_list": [{"uri": "/a/ME0.json"}, {"uri": "/a/ME1.json"}]}
    second = line().read_file(file, call, answer(200, listed))

    assert call.url.endswith("/Messages/MM1/Media.json")
    assert isinstance(second, ApiCall)
    assert second.url == "https://api.twilio.com/a/ME1"
    assert isinstance(line().read_file(file, call, answer(200, {})), Refused)


def test_connecting_asks_who_the_account_is_and_sets_a_numbers_webhook() -> None:
    sms = line("+15550100999")
    call = sms.check()
    second = sms.read_check(call, answer(200, {"sid": SID, "status": "active"}))
    assert isinstance(second, ApiCall)
    who = sms.read_check(second, answer(200, {"incoming_phone_numbers": [{"sid": "PN7"}]}))

    assert isinstance(who, Identity)
    assert who.account_id == f"{SID}:+15550100999"
    assert who.settings == {"number_sid": "PN7"}
    hook = line("+15550100999", number_sid="PN7").webhook(HOOK)
    assert hook is not None
    assert parse_qs(hook.body.decode())["SmsUrl"] == [HOOK]
    whatsapp = line().read_check(call, answer(200, {"sid": SID}))
    assert isinstance(whatsapp, Identity)
    assert line().webhook(HOOK) is None
    closed = line().read_check(call, answer(200, {"sid": SID, "status": "suspended"}))
    assert isinstance(closed, Refused)
    assert isinstance(line().read_check(call, answer(401, {"code": 20003})), Refused)
