"""What is heard in Slack's events: every one of them is an entry, or skipped by name."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slack.frames import (
    ACCOUNT,
    BOT,
    KEY,
    ROOM,
    ROOT,
    SLACK,
    THREAD,
    TS,
    WEBHOOKS,
    changed,
    hear,
    message,
    request,
    said,
    wrapped,
)
from tests.talk import one
from threadline.adapters.slack import Slack
from threadline.adapters.slack_events import METADATA
from threadline.archives.slack import SlackExport
from threadline.core.adapters import Capabilities
from threadline.core.archive import Account as Into
from threadline.core.archive import Options, Tally
from threadline.core.model import Actor, Direction, Event, InboundMessage, Kind
from threadline.entrypoints.files import open_source

OURS = {"event_type": METADATA, "event_payload": {"key": KEY}}


def test_a_message_is_heard_where_it_was_said() -> None:
    heard = said()

    assert (heard.conversation, heard.conversation.kind) == (ROOM, Kind.ROOM)
    assert (heard.text, heard.message_id, heard.event) == ("hi", TS, Event.MESSAGE)
    assert (heard.actor, heard.direction) == (Actor("U2", "U2"), Direction.INBOUND)
    assert heard.sent_at == datetime(2023, 11, 14, 22, 13, 22, 100, UTC)
    assert (heard.metadata, heard.mentions, heard.thread_root) == ({}, (), None)


@pytest.mark.parametrize(
    ("channel", "channel_type", "kind"),
    [
        ("D1", "im", Kind.DM),
        ("D1", None, Kind.DM),
        ("G1", "mpim", Kind.ROOM),
        ("C1", "channel", Kind.ROOM),
        ("G2", "group", Kind.ROOM),
        ("C1", None, Kind.ROOM),
        ("D1", ["?"], Kind.DM),
    ],
)
def test_the_type_of_a_channel_is_the_kind_of_its_conversation(
    channel: str, channel_type: Any, kind: Kind
) -> None:
    """A direct message of a group is a room, as it is in an export."""
    assert said(channel=channel, channel_type=channel_type).conversation.kind is kind


def test_a_reply_is_in_the_thread_and_its_root_in_the_channel() -> None:
    root = said(ts=ROOT, thread_ts=ROOT)
    reply = said(thread_ts=ROOT, parent_user_id="U2")

    assert (root.conversation, root.thread_root) == (ROOM, None)
    assert (reply.conversation, reply.thread_root, reply.parent) == (THREAD, ROOT, ROOM)
    assert str(reply.conversation) == f"slack/T1/C1/{ROOT}"


def test_a_thread_in_a_direct_message_hangs_in_it() -> None:
    reply = said(channel="D1", channel_type="im", thread_ts=ROOT)

    assert reply.parent is not None
    assert (reply.parent.conversation_id, reply.parent.kind) == ("D1", Kind.DM)
    assert reply.conversation.kind is Kind.THREAD


@pytest.mark.acceptance("A5")
@pytest.mark.case("B012")
def test_stamps_stay_the_strings_they_are() -> None:
    heard = said(ts="1700000000.001700", thread_ts="1700000000.0003890")

    assert heard.message_id == "1700000000.001700"
    assert heard.conversation.conversation_id == "1700000000.0003890"
    assert hear(message(ts=1700000000.0017)).skipped == ("message without a stamp",)


@pytest.mark.acceptance("B2")
def test_a_mention_comes_twice_and_is_the_same_message() -> None:
    """As `message` and as `app_mention`, with two event ids and one stamp."""
    twin = message(type="app_mention", text="<@UBOT> hi")
    del twin["channel_type"]
    first = one(hear(message(text="<@UBOT> hi")))
    second = one(hear(twin, event_id="Ev02"))

    assert first == second
    assert first.text == "hi"


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("<@UBOT> help", "help"),
        ("<@UBOT|simbot>: help", "help"),
        (" <@UBOT>, <@UBOT> help", "help"),
        ("<@UBOT>", "simbot"),
        ("ask <@UBOT> and <@U3>", "ask simbot and @U3"),
        ("<@U3> help", "@U3 help"),
        ("a &lt;b&gt; &amp; <https://x.example|x> <!here> <#C2|ops>", None),
    ],
)
def test_our_own_mention_is_an_address_and_no_name_of_anybody_here(
    text: str, read_as: str | None
) -> None:
    expected = "a <b> & x (https://x.example) @here #ops" if read_as is None else read_as

    assert said(text=text).text == expected


def test_whom_a_message_mentions_is_told_without_ourselves() -> None:
    assert said(text="<@UBOT> <@U3> <@U4|d> <@U3>").mentions == ("U3", "U4")


@pytest.mark.parametrize(
    "marks",
    [
        {"user": "UBOT", "bot_id": "B1", "app_id": "A1"},
        {"user": None, "subtype": "bot_message", "bot_id": "B1", "username": "other"},
        {"user": "UX", "bot_id": "B9", "app_id": "A1"},
    ],
)
def test_our_own_message_comes_back_with_its_key(marks: dict[str, Any]) -> None:
    """By our user, by our bot, or by our app."""
    heard = said(**marks, metadata=OURS)

    assert (heard.actor, heard.direction, heard.token) == (BOT, Direction.OUTBOUND, KEY)


def test_a_key_that_somebody_else_wrote_is_none() -> None:
    assert said(metadata=OURS).token is None
    assert said(user="UBOT", metadata={**OURS, "event_type": "task"}).token is None
    assert said(user="UBOT", metadata={**OURS, "event_payload": {"key": 5}}).token is None


def test_the_same_app_in_another_workspace_is_not_us() -> None:
    profile = {"id": "B7", "app_id": "A1", "team_id": "T2", "name": "their bot"}
    heard = said(user="UZ", bot_id="B7", app_id="A1", bot_profile=profile, team="T2")

    assert (heard.actor.is_self, heard.actor.is_bot) == (False, True)
    assert (heard.actor.name, heard.metadata) == ("their bot", {"team": "T2"})


@pytest.mark.parametrize(
    ("fields", "actor"),
    [
        ({"user": None, "bot_id": "B2", "username": "hook"}, Actor("B2", "hook", True)),
        ({"user": "U3", "bot_id": "B3"}, Actor("U3", "U3", True)),
        ({"user": "USLACKBOT"}, Actor("USLACKBOT", "Slackbot", True)),
        ({"user": "USLACK"}, Actor("USLACK", "Slack", True)),
        ({"user": "U2", "user_profile": {"display_name": "Zoe"}}, Actor("U2", "Zoe")),
    ],
)
def test_bots_are_known_as_bots(fields: dict[str, Any], actor: Actor) -> None:
    assert said(**fields).actor == actor


@pytest.mark.case("B103")
@pytest.mark.parametrize(
    ("fields", "text", "files"),
    [
        ({"subtype": "file_share", "text": "", "files": [{"id": "F1", "name": "a.png"}]}, "", 1),
        ({"subtype": "file_share", "text": "see", "files": [{"id": "F1"}]}, "see", 1),
        ({"subtype": "me_message", "text": "waves"}, "waves", 0),
        ({"subtype": "thread_broadcast", "thread_ts": ROOT}, "hi", 0),
        ({"subtype": "never_heard_of"}, "hi", 0),
    ],
)
def test_a_mark_on_a_message_makes_it_no_less_of_one(
    fields: dict[str, Any], text: str, files: int
) -> None:
    heard = said(**fields)

    assert (heard.event, heard.text, len(heard.attachments)) == (Event.MESSAGE, text, files)
    assert heard.metadata["subtype"] == fields["subtype"]


def test_a_message_of_blocks_is_read() -> None:
    rich = {
        "type": "rich_text",
        "elements": [
            {
                "type": "rich_text_section",
                "elements": [
                    {"type": "text", "text": "1 < 2 "},
                    {"type": "user", "user_id": "U3"},
                    {"type": "link", "url": "https://x.example", "text": "x"},
                    {"type": "emoji", "name": "wave"},
                ],
            },
            {
                "type": "rich_text_list",
                "elements": [{"elements": [{"type": "text", "text": "one"}]}],
            },
        ],
    }
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "A & B"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*x* &amp; y"}},
        {"type": "image", "alt_text": "a cat"},
        rich,
    ]
    card = {"fallback": "no", "title": "Build", "text": "green"}

    heard = said(text="", user=None, bot_id="B2", blocks=blocks, attachments=[card])

    assert heard.text.splitlines() == [
        "A & B",
        "*x* & y",
        "a cat",
        "1 < 2 @U3x (https://x.example):wave:",
        "- one",
        "Build",
        "green",
    ]
    assert hear(message(text=" ")).skipped == ("message without words",)


@pytest.mark.acceptance("I4")
@pytest.mark.case("B088")
@pytest.mark.parametrize(
    ("subtype", "event"),
    [
        ("channel_join", Event.MEMBER),
        ("group_leave", Event.MEMBER),
        ("channel_topic", Event.NOTICE),
        ("pinned_item", Event.NOTICE),
    ],
)
def test_what_slack_says_about_a_channel_is_no_message(subtype: str, event: Event) -> None:
    assert said(subtype=subtype).event is event


def test_who_joined_is_told_once() -> None:
    joined = {"type": "member_joined_channel", "user": "U9", "channel": "C1", "channel_type": "C"}

    assert hear(joined).skipped == ("member_joined_channel",)


@pytest.mark.acceptance("I1", "I3")
@pytest.mark.case("B093")
def test_an_edit_revises_its_message_and_every_one_is_told_apart() -> None:
    now = message(text="ticket 1235", edited={"user": "U2", "ts": "1700000005.000000"})
    edit = one(hear(changed(now, message())))
    later = one(hear(changed(now, {**now, "text": "x"}, ts="1700000009.000100")))
    again = {**now, "text": "ticket 1236", "edited": {"user": "U2", "ts": "1700000007.000000"}}
    second = one(hear(changed(again, now)))

    assert (edit.event, edit.revises, edit.text) == (Event.EDIT, TS, "ticket 1235")
    assert edit.message_id == f"edit:{TS}:1700000005.000000", "as the history knows it"
    assert second.message_id == f"edit:{TS}:1700000007.000000"
    assert (edit.actor.id, edit.conversation) == ("U2", ROOM)
    assert later.message_id == f"edit:{TS}:1700000009.000100", "a change that is no new edit"


@pytest.mark.case("B097")
def test_what_was_sent_to_a_thread_and_shown_in_the_channel_is_in_the_thread_once() -> None:
    told = message(subtype="thread_broadcast", thread_ts=ROOT)
    heard = one(hear(told))
    after = hear(changed({**told, "edited": {"user": "U2", "ts": "1700000005.000000"}}, told))

    assert (heard.conversation, heard.metadata["broadcast"]) == (THREAD, True)
    assert after.skipped == ("message_changed without an edit",)


@pytest.mark.parametrize(
    "now",
    [
        {"attachments": [{"from_url": "https://x.example", "title": "X"}]},
        {"thread_ts": TS, "reply_count": 1, "latest_reply": "1700000005.000100"},
    ],
)
def test_that_slack_unfolded_a_link_or_somebody_answered_is_no_edit(now: dict[str, Any]) -> None:
    assert hear(changed(message(**now), message())).skipped == ("message_changed without an edit",)
    assert hear(changed(message(**now), None)).skipped == ("message_changed without an edit",)


def test_a_file_taken_away_is_an_edit() -> None:
    files = [{"id": "F1", "mimetype": "image/png"}]
    gone = [{"id": "F1", "mode": "tombstone"}]
    edit = one(hear(changed(message(files=gone), message(files=files))))

    assert [it.type for it in edit.attachments] == ["tombstone"]


@pytest.mark.acceptance("I2")
def test_a_delete_is_the_same_however_slack_tells_it() -> None:
    """The root of a thread is not removed but turned into a tombstone."""
    told = {"type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": ROOT}
    plain = one(hear({**told, "ts": TS, "previous_message": message(ts=ROOT, thread_ts=ROOT)}))
    tomb = message(ts=ROOT, thread_ts=ROOT, subtype="tombstone", user="USLACKBOT")
    turned = one(hear(changed(tomb, message(ts=ROOT))))

    assert plain == turned
    assert (plain.event, plain.revises, plain.signed) == (Event.DELETE, ROOT, True)
    assert (plain.message_id, plain.conversation) == (f"delete:{ROOT}", ROOM)


def test_a_reply_is_deleted_in_its_thread() -> None:
    told = {"type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": TS}
    gone = one(hear({**told, "previous_message": message(thread_ts=ROOT)}))

    assert (gone.conversation, gone.parent) == (THREAD, ROOM)
    assert one(hear(told)).conversation == ROOM


@pytest.mark.acceptance("I4")
def test_reactions_are_told_apart_by_their_time() -> None:
    event = {
        "type": "reaction_added",
        "user": "U2",
        "reaction": "+1",
        "item": {"type": "message", "channel": "C1", "ts": TS},
        "item_user": "UBOT",
        "event_ts": "1700000007.000100",
    }
    added = one(hear(event))
    removed = one(hear({**event, "type": "reaction_removed", "event_ts": "1700000008.000100"}))

    assert (added.event, added.revises, added.text) == (Event.REACTION, TS, ":+1:")
    assert (added.conversation, added.actor.id) == (ROOM, "U2")
    assert removed.metadata == {"removed": True}
    assert added.message_id != removed.message_id
    file = {**event, "item": {"type": "file", "file": "F1"}}
    assert hear(file).skipped == ("reaction to what is no message",)


def test_an_event_for_another_workspace_is_foreign() -> None:
    other = [{"team_id": "T2", "user_id": "U", "is_bot": True}]

    assert hear(message(), authorizations=other).foreign == 1
    assert hear(message(), authorizations=[], team_id="T2").foreign == 1
    assert one(hear(message(), team_id="T9")).conversation == ROOM


def test_several_apps_of_a_workspace_are_told_apart() -> None:
    mine = Slack(replace(ACCOUNT, account_id="T1:A1"))

    assert str(one(hear(message(), mine)).conversation) == "slack/T1:A1/C1"
    assert hear(message(), mine, api_app_id="A2").foreign == 1


def test_what_is_no_event_is_skipped_by_its_name() -> None:
    bodies: list[tuple[Any, str]] = [
        ({"type": "url_verification", "challenge": "x"}, "url_verification"),
        ({"type": "app_rate_limited", "team_id": "T1"}, "app_rate_limited"),
        ({"type": "block_actions", "team": {"id": "T1"}}, "block_actions"),
        ({"command": "/ask", "team_id": "T1"}, "slash_command"),
        (b"payload=%7B%7D", "interactive"),
        (b"\xff", "unreadable"),
        (wrapped({"type": "app_home_opened", "channel": "D1"}), "app_home_opened"),
    ]

    assert [SLACK.parse(request(body)).skipped for body, _ in bodies] == [
        (name,) for _, name in bodies
    ]


# --- real ones -------------------------------------------------------------------------------

RECORDED = Slack(
    replace(
        ACCOUNT,
        account_id="T00FAKE00AA",
        capabilities=Capabilities(actor=replace(BOT, id="U00FAKEBOT01")),
        settings={"bot_id": "B00FAKEBOT01"},
    )
)


def test_recorded_bodies_are_heard() -> None:
    """In the order in which they arrived: one message comes twice, an own one is edited twice."""
    lines = (WEBHOOKS / "webhook-slack-vercel-rawbodies.jsonl").read_bytes().splitlines()
    heard = [RECORDED.parse(request(line)) for line in lines]
    messages = [it for one in heard for it in one.messages]

    assert [one.skipped for one in heard if one.skipped] == [
        ("app_context_changed",),
        ("app_home_opened",),
    ]
    assert len({it.message_id for it in messages if it.event is Event.MESSAGE}) == 7
    assert [it.event for it in messages].count(Event.EDIT) == 2
    assert messages[0] == messages[1]
    assert messages[0].text == "1"
    assert {it.direction for it in messages if it.actor.id == "U00FAKEBOT01"} == {
        Direction.OUTBOUND
    }
    thread = "slack/T00FAKE00AA/C00FAKECHAN1/1766458026.240809"
    assert [str(it.conversation) for it in messages[2:5]] == [thread] * 3


@pytest.mark.parametrize("name", ["basic", "channel", "streaming", "actions-reactions", "modals"])
def test_recorded_events_of_an_app_are_heard_or_known(name: str) -> None:
    entries = json.loads((WEBHOOKS / f"webhook-slack-vercel-{name}.json").read_text())
    bodies = [one for one in entries.values() if isinstance(one, dict)]
    heard = [RECORDED.parse(request(body)) for body in bodies]

    for body, it in zip(bodies, heard, strict=True):
        told = len(it.messages) + len(it.skipped) + it.foreign
        assert told == 1
        assert it.foreign == (body.get("team_id", "T00FAKE00AA") != "T00FAKE00AA")


def test_every_kind_of_event_there_is_goes_through() -> None:
    lines = (WEBHOOKS / "webhook-slack-javasdk-1.jsonl").read_text().splitlines()
    for line in lines:
        body = json.loads(line)["body"]
        heard = SLACK.parse(request({**body, "type": "event_callback", "team_id": "T1"}))
        assert not heard.messages
        assert heard.skipped or heard.foreign


@pytest.mark.acceptance("D10")
def test_an_export_and_what_is_heard_have_the_same_addresses_and_ids() -> None:
    """So connecting after an import doubles nothing."""
    path = WEBHOOKS.parent / "exports" / "slack-export-made-2.zip"
    into = Into(provider="slack", account_id="T1")
    with zipfile.ZipFile(path) as archive, open_source(path) as source:
        named = {one["name"]: one["id"] for one in json.load(archive.open("channels.json"))}
        told = SlackExport().read(source, into, Options(), Tally())
        exported = {
            (str(it.conversation), it.message_id) for it in told if isinstance(it, InboundMessage)
        }
        heard = set()
        for name in archive.namelist():
            folder = name.split("/")[0]
            if folder in named and name.count("/") == 1 and name.endswith(".json"):
                for entry in json.load(archive.open(name)):
                    event = {**entry, "channel": named[folder]}
                    heard |= {(str(it.conversation), it.message_id) for it in hear(event).messages}

    assert len(heard) > 20
    assert heard <= exported


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = sorted(
    message().keys()
    | {"subtype", "message", "previous_message", "deleted_ts", "item", "reaction", "files"}
    | {"blocks", "attachments", "bot_profile", "bot_id", "thread_ts", "metadata", "username"}
    | {"reactions", "edited", "comment"}
)
SUBTYPES = ["message_changed", "message_deleted", "tombstone", "thread_broadcast", None, "other"]


@settings(max_examples=200)
@given(
    st.sampled_from(SUBTYPES),
    st.dictionaries(st.sampled_from(KEYS), JSON),
    st.dictionaries(st.sampled_from(KEYS), JSON),
)
def test_whatever_stands_in_an_event_it_is_heard_or_skipped(
    subtype: str | None, inner: dict[str, Any], outer: dict[str, Any]
) -> None:
    event = changed(message(**inner), message(), subtype=subtype, text="x", user="U1") | outer
    raw = json.dumps(wrapped(event)).encode("utf-8", "surrogatepass")
    heard = SLACK.parse(request(raw))

    assert len(heard.messages) + len(heard.skipped) == 1
    for it in heard.messages:
        assert it.sent_at is None or it.sent_at.tzinfo is not None
        assert it.message_id


@given(st.binary(max_size=200) | JSON.map(lambda it: json.dumps(it).encode()))
def test_whatever_comes_is_skipped_without_an_error(raw: bytes) -> None:
    heard = SLACK.parse(request(raw))

    assert not heard.messages
    assert heard.skipped or heard.foreign
