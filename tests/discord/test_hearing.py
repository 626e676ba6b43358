"""What is heard in Discord's events: every one of them is an entry, or skipped by name."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.discord.frames import (
    ACCOUNT,
    ALICE,
    BOT,
    DISCORD,
    ROOM,
    WEBHOOKS,
    hear,
    message,
    request,
    said,
)
from tests.talk import one
from threadline.adapters.discord import Discord
from threadline.adapters.discord_text import key_in, nonce
from threadline.core.adapters import Capabilities
from threadline.core.ids import public
from threadline.core.model import Actor, Direction, Event, Kind, Participant
from threadline.core.rules import speaking

RECORDED = json.loads((WEBHOOKS / "webhook-discord-vercel-basic.json").read_text())


def test_a_message_is_heard_where_it_was_said() -> None:
    heard = said()

    assert (heard.conversation, heard.conversation.kind) == (ROOM, Kind.ROOM)
    assert (heard.text, heard.message_id, heard.event) == ("hi", "5001", Event.MESSAGE)
    assert heard.actor == Actor("101", "Alice")
    assert heard.direction is Direction.INBOUND
    assert heard.sent_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert heard.metadata == {"guild_id": "1"}


@pytest.mark.parametrize(
    ("channel_type", "kind"),
    [(0, Kind.ROOM), (1, Kind.DM), (3, Kind.ROOM), (5, Kind.ROOM), (2, Kind.ROOM)]
    + [(number, Kind.THREAD) for number in (10, 11, 12)],
)
def test_the_type_of_a_channel_is_the_kind_of_its_conversation(
    channel_type: int, kind: Kind
) -> None:
    """A group's direct message is a room."""
    assert said(channel_type=channel_type).conversation.kind is kind


def test_without_a_channel_type_a_message_outside_of_servers_is_direct() -> None:
    direct = message()
    del direct["channel_type"], direct["guild_id"]

    assert one(hear("MESSAGE_CREATE", direct)).conversation.kind is Kind.DM
    assert said(channel_type=None).conversation.kind is None


def test_a_thread_has_an_address_of_its_own_and_a_link_to_its_room() -> None:
    """Its id is unique and that of the message it hangs on; the link is learned by the listener."""
    data = message(channel_id="4999", channel_type=11)

    alone = one(hear("MESSAGE_CREATE", data))
    linked = one(hear("MESSAGE_CREATE", data, parent_id="800"))

    assert alone.conversation == linked.conversation
    assert linked.conversation.parent_conversation_id is None
    assert (alone.parent, alone.thread_root) == (None, "4999")
    assert (linked.parent, linked.thread_root) == (ROOM, "4999")


def test_the_first_message_of_a_forum_post_is_no_copy_of_itself() -> None:
    data = message(id="4999", channel_id="4999", channel_type=11)

    assert one(hear("MESSAGE_CREATE", data, parent_id="800")).thread_root is None


@pytest.mark.case("B012")
def test_ids_stay_the_digits_they_are() -> None:
    heard = said(id=1457536551830421524, channel_id="1457510428359004343")

    assert heard.message_id == "1457536551830421524"
    assert heard.conversation.conversation_id == "1457510428359004343"


def test_a_reply_names_what_it_answers_in_the_same_channel_only() -> None:
    here = {"message_id": "4999", "channel_id": "800", "type": 0}

    assert said(type=19, message_reference=here).reply_to == "4999"
    assert said(type=19, message_reference=here | {"channel_id": "801"}).reply_to is None
    assert said(type=0, message_reference=here).reply_to is None


def test_our_own_message_comes_back_with_its_key() -> None:
    key = f"{public(2**63 - 1)}.{public(7)}.9999.1023"
    heard = said(author={"id": "900", "username": "simbot", "bot": True}, nonce=nonce(key))

    assert (heard.direction, heard.actor.is_self) == (Direction.OUTBOUND, True)
    assert heard.token == key


@given(
    st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(1, 9999), st.integers(0, 1023)
)
def test_every_key_of_a_lane_fits_into_a_nonce_and_comes_back(
    conversation: int, delivery: int, part: int, edition: int
) -> None:
    key = f"{public(conversation)}.{public(delivery)}.{part}" + (f".{edition}" if edition else "")

    assert len(nonce(key)) <= 25
    assert key_in(nonce(key)) == key


@given(st.text(max_size=80))
def test_any_other_key_becomes_a_nonce_that_is_read_back_or_is_none(key: str) -> None:
    made = nonce(key)

    assert len(made) <= 25
    assert key_in(made) in (key, None)


def test_a_nonce_somebody_else_chose_is_no_key() -> None:
    mine = nonce(f"{public(1)}.{public(2)}.1")

    assert said(nonce=mine).token is None
    assert said(author={"id": "900"}, nonce="1457536592850714624").token is None
    assert said(author={"id": "900"}, nonce=12).token is None


def test_webhooks_and_bots_are_bots_and_not_ourselves() -> None:
    hook = said(author={"id": "66", "username": "hook"}, webhook_id="66")
    bot = said(author={"id": "67", "username": "other", "bot": True})

    assert [(it.actor.is_bot, it.actor.is_self) for it in (hook, bot)] == [(True, False)] * 2
    assert hook.metadata["webhook_id"] == "66"


def test_mentions_become_names_and_ours_is_no_handle() -> None:
    """Who mentions the bot means the account, not a session that would have to be called so."""
    users = [{"id": "900", "username": "simbot"}, {"id": "102", "username": "bob"}]
    heard = said(content="<@900> ask <@!102>, <#800> <:wave:55> <@&77>", mentions=users)

    assert heard.text == "simbot, ask @bob, <#800> :wave: <@&77>"
    assert heard.mentions == ("102",)
    assert heard.metadata["written"] == "<@900> ask <@!102>, <#800> <:wave:55> <@&77>"


@pytest.mark.parametrize(
    ("handle", "content", "route"),
    [
        ("simbot", "<@900> help", "explicit"),
        ("simbot", "<@!900>: help", "explicit"),
        ("coder", "<@900> help", None),
        ("coder", "<@900> let @coder help", "explicit"),
        ("coder", "please <@900>", None),
        ("coder", "<@102> help", "no_match"),
    ],
)
def test_mentioning_us_finds_the_session_of_that_name_and_silences_no_other(
    handle: str, content: str, route: str | None
) -> None:
    """In a group of sessions a mention of a stranger is for the stranger; ours is not."""
    users = [{"id": "900", "username": "simbot"}, {"id": "102", "username": "bob"}]
    named = [one for one in users if one["id"] in content]
    message = said(content=content, mentions=named)
    seat = Participant(1, handle, 7)
    scene = speaking.Scene(
        message=message,
        named=speaking.named(message),
        find=lambda name: seat if name == handle else None,
        seats=lambda session: (),
        grouped=True,
        default_handle=handle,
    )

    assert speaking.route(scene).step == (route or "default")


def test_files_are_data_with_the_link_as_it_stands() -> None:
    url = "https://cdn.discordapp.com/attachments/800/1/a.png?ex=65&is=64&hm=ab&"
    file = {"id": "1", "filename": "../a.png", "size": 10, "content_type": "image/png", "url": url}
    heard = said(content="", attachments=[file], sticker_items=[{"id": "9", "name": "wave"}])

    picture, sticker = heard.attachments
    assert (picture.name, picture.type, picture.size, picture.url) == (
        "a.png",
        "image/png",
        10,
        url,
    )
    assert (sticker.type, sticker.name) == ("sticker", "wave")


def test_what_is_passed_on_is_heard_with_its_words_and_files() -> None:
    passed = {"content": "from elsewhere", "attachments": [{"id": "1", "filename": "a"}]}
    heard = said(
        content="",
        message_reference={"type": 1, "message_id": "1", "channel_id": "2"},
        message_snapshots=[{"message": passed}],
    )

    assert (heard.text, heard.attachments[0].name) == ("from elsewhere", "a")
    assert heard.metadata["forwarded"] is True
    assert heard.metadata["reference"] == {"message_id": "1", "channel_id": "2"}


def test_cards_and_polls_without_words_are_heard_by_what_they_say() -> None:
    card = said(content="", embeds=[{"title": "Build", "description": "red"}])
    answers = [{"poll_media": {"text": "yes"}}, {"poll_media": {"text": "no"}}]
    poll = said(content="", poll={"question": {"text": "Ship?"}, "answers": answers})

    assert card.text == "Build\nred"
    assert poll.text == "Ship?\n- yes\n- no"


@pytest.mark.case("B155")
def test_a_message_whose_content_is_kept_from_us_is_a_notice() -> None:
    """Without the message content intent Discord empties what people write; that wakes nobody."""
    heard = said(content="")

    assert (heard.event, heard.metadata["content"]) == (Event.NOTICE, "unavailable")


def test_joins_are_member_events() -> None:
    heard = said(type=7, content="")

    assert (heard.event, heard.metadata["type"]) == (Event.MEMBER, "joined")


@pytest.mark.parametrize("kind", [6, 18, 21, 24, 46, "0", None])
def test_other_types_are_skipped_by_name(kind: Any) -> None:
    heard = hear("MESSAGE_CREATE", message(type=kind))

    assert (heard.messages, heard.skipped) == ((), (f"message type {kind}",))


def test_an_edit_revises_and_its_redelivery_has_the_same_id() -> None:
    edit = message(content="hi!", edited_timestamp="2026-01-01T00:01:00.000000+00:00")
    again = edit | {"embeds": [{"type": "link"}]}

    first, second = (one(hear("MESSAGE_UPDATE", it)) for it in (edit, again))
    later = edit | {"edited_timestamp": "2026-01-01T00:02:00.000000+00:00"}

    assert (first.event, first.revises, first.text) == (Event.EDIT, "5001", "hi!")
    assert first.message_id == second.message_id
    assert first.message_id != one(hear("MESSAGE_UPDATE", later)).message_id
    assert first.sent_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def test_looking_up_a_link_is_no_edit() -> None:
    heard = hear("MESSAGE_UPDATE", message(embeds=[{"type": "link"}]))

    assert (heard.messages, heard.skipped) == ((), ("message_update without an edit",))


def test_deletes_are_signed_one_by_one_or_many_at_once() -> None:
    single = one(hear("MESSAGE_DELETE", {"id": "5001", "channel_id": "800", "guild_id": "1"}))
    many = hear("MESSAGE_DELETE_BULK", {"ids": ["5001", "5002", None], "channel_id": "800"})

    assert (single.event, single.revises, single.signed) == (Event.DELETE, "5001", True)
    assert [it.revises for it in many.messages] == ["5001", "5002"]
    assert many.messages[0].message_id == single.message_id
    assert many.skipped == ("delete without an id",)


def test_reactions_come_and_go() -> None:
    data = {
        "user_id": "101",
        "channel_id": "800",
        "message_id": "5003",
        "emoji": {"id": None, "name": "👍"},
        "member": {"nick": "Al", "user": ALICE},
    }
    own = data | {"emoji": {"id": "7", "name": "party"}, "user_id": "900", "member": None}

    added = one(hear("MESSAGE_REACTION_ADD", data))
    removed = one(hear("MESSAGE_REACTION_REMOVE", data))
    ours = one(hear("MESSAGE_REACTION_ADD", own))

    assert (added.event, added.text, added.revises) == (Event.REACTION, "👍", "5003")
    assert added.actor == Actor("101", "Al")
    assert (removed.metadata, removed.message_id != added.message_id) == ({"removed": True}, True)
    assert (ours.text, ours.direction) == (":party:", Direction.OUTBOUND)


def test_a_sign_put_on_again_is_another_event_and_a_replayed_one_is_not() -> None:
    """Discord names no event; its place in the session is what a replay repeats."""
    emoji = {"id": None, "name": "👍"}
    data = {"user_id": "101", "channel_id": "800", "message_id": "5003", "emoji": emoji}
    ids = [
        one(hear(f"MESSAGE_REACTION_{deed}", data, at=f"session.{number}")).message_id
        for number, deed in enumerate(("ADD", "REMOVE", "ADD", "REMOVE"))
    ]
    again = one(hear("MESSAGE_REACTION_ADD", data, at="session.2")).message_id
    assert len(set(ids)) == 4
    assert again == ids[2]


@pytest.mark.parametrize(
    "name", ["READY", "GUILD_CREATE", "CHANNEL_UPDATE", "TYPING_START", "MESSAGE_POLL_VOTE_ADD"]
)
def test_what_is_nothing_said_is_skipped_by_its_name(name: str) -> None:
    heard = hear(name, {"id": "1", "channel_id": "2"})

    assert (heard.messages, heard.skipped) == ((), (name.lower(),))


def test_an_old_application_knows_itself_by_its_user_not_by_its_own_id() -> None:
    by_user = Discord(replace(ACCOUNT, capabilities=Capabilities(actor=BOT)))
    newer = Discord(replace(ACCOUNT, capabilities=Capabilities()))

    assert one(hear("MESSAGE_CREATE", message(author={"id": "900"}), by_user)).actor.is_self
    assert one(hear("MESSAGE_CREATE", message(author={"id": "700"}), newer)).actor.is_self


def test_recorded_events_are_heard() -> None:
    """Real ones: mentions, threads, our own embeds, a reaction; what is repeated has its id."""
    account = replace(ACCOUNT, account_id="1457469483726668048", capabilities=Capabilities())
    dialect = Discord(account)
    heard = {}
    for name, entry in RECORDED.items():
        if str(entry.get("type", "")).startswith("GATEWAY_"):
            heard[name] = hear(entry["type"].removeprefix("GATEWAY_"), entry["data"], dialect)
    messages = {name: it.messages[0] for name, it in heard.items() if it.messages}

    assert heard["gatewayThreadCreate"].skipped == ("thread_create",)
    assert len(messages) == 12
    assert len({it.message_id for it in messages.values() if it.event is Event.MESSAGE}) == 8
    assert messages["gatewayMention"].text == "Chat SDK Demo, Hey"
    assert messages["gatewayMention"].conversation.kind is Kind.ROOM
    assert messages["gatewaySubscribedMessage"].thread_root == "1457536551830421524"
    assert messages["gatewayBotWelcome"].direction is Direction.OUTBOUND
    assert messages["gatewayReactionAdd"].text == "👍"


def test_recorded_interactions_are_known_and_for_their_application_only() -> None:
    mine = Discord(replace(ACCOUNT, account_id="1457469483726668048"))
    raw = request(RECORDED["buttonClickHello"])

    assert mine.parse(raw).skipped == ("interaction 3",)
    assert DISCORD.parse(raw).foreign == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
NAMES = [
    *("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK"),
    *("MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "THREAD_CREATE"),
]
KEYS = sorted(
    message().keys()
    | {"ids", "emoji", "member", "user_id", "message_id", "message_reference", "webhook_id"}
    | {"nonce", "poll", "message_snapshots", "sticker_items", "interaction"}
)


@settings(max_examples=200)
@given(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), JSON), JSON)
def test_whatever_stands_in_an_event_it_is_heard_or_skipped(
    name: str, changes: dict[str, Any], parent: Any
) -> None:
    data = message(edited_timestamp="2026-01-01T00:01:00+00:00", ids=["1"], message_id="2")
    raw = json.dumps({"t": name, "d": data | changes, "parent_id": parent})
    heard = DISCORD.parse(request(raw.encode("utf-8", "surrogatepass")))

    assert len(heard.messages) + len(heard.skipped) >= 1
    for it in heard.messages:
        assert it.sent_at is None or it.sent_at.tzinfo is not None
        assert it.message_id
