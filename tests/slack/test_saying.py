"""What is said to Slack, and what each of its answers means."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slack.frames import (
    ACCOUNT,
    KEY,
    NOW,
    ROOM,
    ROOT,
    SLACK,
    THREAD,
    TS,
    answer,
    error,
    message,
    outbound,
    signed,
)
from threadline.adapters.slack import Slack
from threadline.adapters.slack_events import METADATA
from threadline.core.adapters import (
    Adapter,
    Children,
    Connectable,
    Fetching,
    Handshaking,
    Lookup,
    Opening,
    Past,
    Remembering,
)
from threadline.core.deliveries import Failure
from threadline.core.model import Attachment, ConversationRef, Kind
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused, Sent

CALL = SLACK.render(outbound())
OURS = {"event_type": METADATA, "event_payload": {"key": KEY}}
LINK = "https://files.slack.com/files-pri/T1-F1/a.png"


def body(call: ApiCall) -> Any:
    """What a call says."""
    return json.loads(call.body)


def asked(call: ApiCall) -> dict[str, str]:
    """What a call asks."""
    return dict(parse_qsl(urlsplit(call.url).query))


def test_it_can_do_what_it_says() -> None:
    adapter: Adapter = SLACK
    kinds = (Children, Connectable, Fetching, Handshaking, Lookup, Opening, Remembering)

    assert all(isinstance(adapter, kind) for kind in kinds)
    assert not SLACK.capabilities.answers_in_thread
    threaded = Slack(replace(ACCOUNT, settings={"answers_in_thread": "Yes"}))
    assert threaded.capabilities.answers_in_thread


@pytest.mark.case("B110", "B112")
def test_a_message_calls_nobody_and_carries_its_key() -> None:
    text = '<!channel> <!subteam^S1> <@U1> @here They\'re "quoted" © 50% – **ok**'
    call = SLACK.render(outbound(text))

    assert (call.method, call.url) == ("POST", "https://slack.test/api/chat.postMessage")
    assert call.headers["authorization"] == "Bearer xoxb-1-bot"
    assert body(call) == {
        "channel": "C1",
        "text": "&lt;!channel&gt; &lt;!subteam^S1&gt; &lt;@U1&gt; @here "
        'They\'re "quoted" © 50% – *ok*',
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": OURS,
    }
    assert body(SLACK.render(outbound(conversation=THREAD)))["thread_ts"] == ROOT
    assert "xoxb-1-bot" not in repr(call) + repr(ACCOUNT)


def test_the_stamp_is_the_proof() -> None:
    good = answer({"ok": True, "channel": "C1", "ts": TS})
    moved = SLACK.read(CALL, answer({"ok": True, "channel": "D9", "ts": TS}))

    assert SLACK.read(CALL, good) == Sent(message_id=TS)
    assert isinstance(moved, Sent)
    assert moved.conversation == ConversationRef("slack", "T1", "D9")
    assert isinstance(SLACK.read(CALL, answer({"ok": True})), Doubt)
    assert isinstance(SLACK.read(CALL, answer(b"<html>")), Doubt)


@pytest.mark.parametrize(
    ("word", "failure"),
    [
        ("channel_not_found", Failure.NOT_FOUND),
        ("is_archived", Failure.NOT_FOUND),
        ("not_in_channel", Failure.AUTH),
        ("invalid_auth", Failure.AUTH),
        ("token_revoked", Failure.AUTH),
        ("msg_too_long", Failure.PERMANENT),
        ("never_heard_of", Failure.PERMANENT),
        ("service_unavailable", Failure.TRANSIENT),
        ("request_timeout", Failure.TRANSIENT),
        ("team_added_to_org", Failure.TRANSIENT),
        ("ratelimited", Failure.RATE_LIMITED),
    ],
)
def test_a_refusal_has_the_class_of_its_word(word: str, failure: Failure) -> None:
    step = SLACK.read(CALL, error(word))

    assert isinstance(step, Refused)
    assert (step.failure, step.reason.split()[0]) == (failure, word)


@pytest.mark.case("B113")
def test_a_limit_states_its_wait() -> None:
    step = SLACK.read(CALL, error("ratelimited", 429, retry_after="30"))

    assert isinstance(step, Refused)
    assert (step.failure, step.wait, step.bucket) == (Failure.RATE_LIMITED, 30.0, None)


def test_what_may_have_been_done_is_in_doubt() -> None:
    for given_back in (
        error("internal_error"),
        error("fatal_error"),
        error("never_heard_of", 500),
        answer(b"", 502),
        answer(b"<html>", 503),
    ):
        assert isinstance(SLACK.read(CALL, given_back), Doubt)


def test_what_slack_cannot_take_is_said_more_plainly_once() -> None:
    call = SLACK.render(outbound("**a** <b>"))
    plain = SLACK.read(call, error("invalid_blocks"))
    bare = SLACK.read(call, error("metadata_too_large"))

    assert isinstance(plain, ApiCall)
    assert isinstance(bare, ApiCall)
    assert (body(plain)["text"], body(plain)["mrkdwn"]) == ("**a** &lt;b&gt;", False)
    assert "metadata" not in body(bare)
    assert isinstance(SLACK.read(plain, error("invalid_blocks")), Refused)
    assert isinstance(SLACK.read(bare, error("metadata_too_large")), Refused)


def test_a_message_in_doubt_is_found_by_its_key_and_only_as_ours() -> None:
    call = SLACK.look_up(outbound(conversation=THREAD, called_at=NOW))
    forged = message(metadata=OURS)
    mine = message(user="UBOT", bot_id="B1", ts="1700000003.000100", metadata=OURS)
    page = {"ok": True, "messages": [forged]}
    more = SLACK.found(call, answer(page | {"response_metadata": {"next_cursor": "c=="}}))

    assert asked(call)["include_all_metadata"] == "true"
    assert float(asked(call)["oldest"]) == (NOW - timedelta(minutes=5)).timestamp()
    assert (asked(call)["ts"], call.route) == (ROOT, "conversations.replies")
    assert isinstance(more, ApiCall)
    assert (asked(more)["cursor"], more.key) == ("c==", KEY)
    assert isinstance(SLACK.found(more, answer(page)), Doubt)
    found = SLACK.found(more, answer({"ok": True, "messages": [forged, mine]}))
    assert found == Sent(message_id="1700000003.000100")


def test_a_channel_s_past_names_its_threads_and_when_they_were_last_said_in() -> None:
    entries = [
        message(ts="1700000009.000100", thread_ts=ROOT, subtype="thread_broadcast"),
        message(ts="1700000005.000100"),
        message(ts=ROOT, thread_ts=ROOT, reply_count=2, latest_reply="1700000008.000100"),
    ]
    past = SLACK.read_history(
        ROOM, SLACK.history(ROOM), answer({"ok": True, "messages": entries, "has_more": True})
    )

    assert isinstance(past, Past)
    assert [it.message_id for it in past.messages] == [ROOT, "1700000005.000100"]
    assert past.children == (THREAD,)
    assert f"{past.stirred[THREAD]:%S.%f}" == "29.000100"
    assert past.older == SLACK.history(ROOM, ROOT)


def test_a_thread_is_read_to_its_end_before_it_is_a_page() -> None:
    first = answer(
        {
            "ok": True,
            "messages": [message(ts=ROOT, thread_ts=ROOT), message(thread_ts=ROOT)],
            "response_metadata": {"next_cursor": "next"},
        }
    )
    last = answer({"ok": True, "messages": [message(ts="1700000007.000100", thread_ts=ROOT)]})
    begun = SLACK.read_history(THREAD, SLACK.history(THREAD), first)
    assert isinstance(begun, Past)
    assert begun.older is not None
    done = SLACK.read_history(THREAD, begun.older, last)

    assert begun.messages == ()
    assert isinstance(done, Past)
    assert [it.message_id for it in done.messages] == [TS, "1700000007.000100"]
    assert done.older is None


def test_people_are_reached_by_id_by_address_or_together() -> None:
    one = SLACK.open_direct("U2", "k")
    several = SLACK.open_direct("U2, U3", "k")
    mail = SLACK.open_direct("ada@x.example", "k")
    opened = answer({"ok": True, "channel": {"id": "D1"}})
    group = answer({"ok": True, "channel": {"id": "G1"}})
    step = SLACK.read_direct("", mail, answer({"ok": True, "user": {"id": "U2"}}))

    direct = SLACK.read_direct("U2", one, opened)
    together = SLACK.read_direct("U2,U3", several, group)
    assert isinstance(direct, ConversationRef)
    assert isinstance(together, ConversationRef)
    assert (direct.conversation_id, direct.kind) == ("D1", Kind.DM)
    assert (together.conversation_id, together.kind) == ("G1", Kind.ROOM)
    assert isinstance(step, ApiCall)
    assert body(step) == {"users": "U2"}
    assert isinstance(SLACK.read_direct("", mail, error("users_not_found")), Refused)


def test_a_thread_hangs_on_a_message() -> None:
    call = SLACK.open_child(ROOM, ROOT, "title", "k")
    there = answer({"ok": True, "messages": [message(ts=ROOT)]})

    assert SLACK.read_child(ROOM, call, there) == THREAD
    assert isinstance(SLACK.read_child(ROOM, SLACK.open_child(ROOM, None, "", "k"), there), Refused)


@pytest.mark.acceptance("I5")
@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        (LINK, True),
        ("https://slack.test/files/a", True),
        ("https://evil.example/a", False),
        ("https://slack.com.evil.example/a", False),
        ("https://notslack.com/a", False),
        ("http://files.slack.com/a", False),
        ("https://files.slack.com@evil.example/a", False),
        ("https://[/a", False),
    ],
)
def test_the_token_goes_to_slack_and_nowhere_else(url: str, trusted: bool) -> None:
    assert ("authorization" in SLACK.file(Attachment(url=url)).headers) is trusted


def test_a_page_to_log_in_is_no_file() -> None:
    file = Attachment(id="F1", url=LINK, type="image/png")
    call = SLACK.file(file)

    assert SLACK.read_file(file, call, answer(b"\x89PNG", content_type="image/png")) == b"\x89PNG"
    page = SLACK.read_file(file, call, answer(b"<html>", content_type="text/html; charset=utf-8"))
    assert isinstance(page, Refused)
    assert page.failure is Failure.AUTH
    where = SLACK.file(Attachment(id="F1"))
    told = answer({"ok": True, "file": {"url_private": LINK}})
    step = SLACK.read_file(Attachment(id="F1"), where, told)
    assert isinstance(step, ApiCall)
    assert step.url == LINK


@given(
    st.integers(100, 599), st.binary(max_size=60) | st.just(b'{"ok": true, "messages": [1, {}]}')
)
def test_every_answer_has_one_meaning(status: int, raw: bytes) -> None:
    back = ApiResponse(status=status, body=raw)

    assert isinstance(SLACK.read(CALL, back), Sent | Refused | Doubt)
    assert isinstance(SLACK.found(CALL, back), Refused | Doubt)
    assert isinstance(SLACK.read_child(ROOM, CALL, back), Refused | Doubt)
    assert isinstance(SLACK.read_direct("U1", CALL, back), Refused | Doubt)
    assert isinstance(SLACK.read_history(ROOM, CALL, back), Past | Refused | Doubt)
    assert isinstance(SLACK.read_history(THREAD, CALL, back), Past | Refused | Doubt)
    assert isinstance(SLACK.read_check(SLACK.check(), back), Refused | Doubt)
    assert isinstance(SLACK.read_file(Attachment(url=LINK), CALL, back), bytes | Refused | Doubt)


# --- signatures ------------------------------------------------------------------------------

RAW = b'{"type":"url_verification","challenge":"abc"}'


@pytest.mark.case("B134")
def test_only_what_slack_signed_within_five_minutes_is_taken() -> None:
    good, stamp = signed(RAW), int(NOW.timestamp())
    made = good.headers["x-slack-signature"]

    assert SLACK.verify(good)
    assert SLACK.verify(signed(RAW, str(stamp - 299)))
    for bad in (
        signed(RAW, x_slack_signature=""),
        signed(RAW, x_slack_signature=made.upper()),
        signed(RAW, x_slack_signature=f"v0={made[3:].upper()}"),
        signed(RAW, x_slack_signature="é\ud800"),
        signed(RAW, str(stamp - 360)),
        signed(RAW, str(stamp + 360)),
        signed(RAW, x_slack_request_timestamp="soon"),
        signed(RAW, x_slack_request_timestamp="²"),
        replace(good, body=RAW + b" "),
        replace(good, headers={}),
        signed(RAW, secret="another-secret-0123456789"),
    ):
        assert not SLACK.verify(bad)


@pytest.mark.parametrize("secret", ["", " ", "x" * 32, "short"])
def test_without_a_real_secret_nothing_is_verified(secret: str) -> None:
    bare = Slack(replace(ACCOUNT, credentials={"signing_secret": secret}))

    assert not bare.verify(signed(RAW, secret=secret))


def test_a_challenge_is_given_back() -> None:
    reply = SLACK.handshake(signed(RAW))

    assert reply is not None
    assert reply.body == b"abc"
    assert SLACK.handshake(signed(b"[]")) is None
