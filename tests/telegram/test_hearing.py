"""What a bot hears: who said what where, and what is counted instead of recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.telegram.conftest import (
    ACCOUNT,
    ADA,
    AT,
    BOT,
    FORUM,
    GROUP,
    PRIVATE,
    SUPERGROUP,
    hear,
    heard,
    message,
    request,
)
from threadline.core.model import Attachment, Direction, Event, Kind

FIXTURES = Path(__file__).parent.parent / "data" / "webhooks"


def updates(found: Any) -> list[dict[str, Any]]:
    """The updates anywhere in a recorded file."""
    if isinstance(found, dict):
        if "update_id" in found:
            return [found]
        return [one for value in found.values() for one in updates(value)]
    return [one for value in found for one in updates(value)] if isinstance(found, list) else []


@pytest.mark.parametrize("name", ["vercel-basic", "camel-media", "camel-multiple"])
def test_recorded_updates_of_others_are_heard(name: str) -> None:
    """Every update that was recorded elsewhere is a message with an author, an id and a time."""
    recorded = json.loads((FIXTURES / f"webhook-telegram-{name}.json").read_text("utf-8"))
    found = updates(recorded)
    for update in found:
        [said] = BOT.parse(request(update)).messages
        given = update["message"]
        assert said.message_id == str(given["message_id"])
        assert said.text == given.get("text", "")
        assert said.actor.id == str(given["from"]["id"])
        assert said.conversation.conversation_id == str(given["chat"]["id"])
        assert said.text or said.attachments
        assert said.sent_at is not None
        assert said.sent_at.timestamp() == given["date"]
    assert len(found) == 2


@pytest.mark.case("B012")
def test_a_private_chat_is_the_person() -> None:
    """The address is known before anybody wrote: it is the user's id, however long."""
    far = 9_007_199_254_740_993
    sender: dict[str, Any] = {"from": ADA | {"id": far}}
    said = heard(message(chat=PRIVATE | {"id": far}, **sender))
    assert str(said.conversation) == f"telegram/7001/{far}"
    assert said.conversation.kind is Kind.DM
    assert (said.actor.id, said.actor.name, said.actor.is_bot) == (str(far), "Ada", False)
    assert (said.message_id, said.id_space, said.text) == ("5", str(far), "hello")
    assert said.direction is Direction.INBOUND


@pytest.mark.case("B003")
@pytest.mark.parametrize(
    ("chat", "more", "address"),
    [
        (SUPERGROUP, {"message_thread_id": 42}, "telegram/7001/-1000000000051"),
        (
            FORUM,
            {"message_thread_id": 42, "is_topic_message": True},
            "telegram/7001/-1000000000077/42",
        ),
        (FORUM, {}, "telegram/7001/-1000000000077"),
        (
            FORUM,
            {"message_thread_id": 1, "is_topic_message": True},
            "telegram/7001/-1000000000077",
        ),
        (PRIVATE, {"message_thread_id": 9, "is_topic_message": True}, "telegram/7001/42/9"),
        (
            SUPERGROUP | {"is_direct_messages": True},
            {"direct_messages_topic": {"topic_id": 8, "user": ADA}},
            "telegram/7001/-1000000000051/direct:8",
        ),
    ],
)
def test_a_topic_is_a_conversation_and_a_thread_of_answers_is_none(
    chat: dict[str, Any], more: dict[str, Any], address: str
) -> None:
    """Only what Telegram calls a topic message is in a topic; General is the room itself."""
    said = heard(message(chat=chat, **more))
    assert str(said.conversation) == address
    in_topic = said.conversation.parent_conversation_id is not None
    assert (said.conversation.kind is Kind.THREAD) == in_topic
    assert (said.parent is not None) == in_topic
    assert said.id_space == str(chat["id"])


def test_what_a_topic_begins_with_is_not_what_is_answered() -> None:
    """In a topic everything seems to answer the message that created it."""
    begun = {"message_id": 12, "chat": FORUM, "forum_topic_created": {"name": "x"}}
    topic: dict[str, Any] = {"chat": FORUM, "message_thread_id": 12, "is_topic_message": True}
    plain = heard(message(**topic, reply_to_message=begun))
    answered = heard(message(**topic, reply_to_message={"message_id": 70, "chat": FORUM}))
    elsewhere = heard(message(**topic, reply_to_message={"message_id": 3, "chat": GROUP}))
    assert [plain.reply_to, answered.reply_to, elsewhere.reply_to] == [None, "70", None]


def test_a_business_chat_is_not_the_persons_own_chat_with_the_bot() -> None:
    """Both have the same chat id; what the owner deletes or edits there is heard."""
    connection = {"business_connection_id": "bc1"}
    said = heard(message(**connection), "business_message")
    edit = heard(message("no", edit_date=AT + 9, **connection), "edited_business_message")
    gone = hear({"chat": PRIVATE, "message_ids": [5, 6], **connection}, "deleted_business_messages")
    ours = heard(message(sender_business_bot={"id": 7001, "is_bot": True}, **connection))
    assert str(said.conversation) == "telegram/7001/bc1:42"
    assert said.conversation.kind is Kind.DM
    assert edit.conversation == said.conversation
    assert (edit.event, edit.revises, edit.id_space) == (Event.EDIT, "5", said.id_space)
    assert [(one.event, one.revises, one.signed) for one in gone.messages] == [
        (Event.DELETE, "5", True),
        (Event.DELETE, "6", True),
    ]
    assert (ours.direction, ours.actor.is_self) == (Direction.OUTBOUND, True)


@pytest.mark.acceptance("A9")
def test_a_group_that_became_a_supergroup_is_one_place_whoever_tells_it_first() -> None:
    """Both chats say so; it is one event, and the supergroup is the newer address."""
    left = heard(message(None, chat=GROUP, migrate_to_chat_id=-1000000000051))
    right = heard(message(None, chat=SUPERGROUP, migrate_from_chat_id=-5), number=1002)
    for one in (left, right):
        assert one.event is Event.NOTICE
        assert str(one.conversation) == "telegram/7001/-1000000000051"
        assert [str(ref) for ref in one.same_as] == ["telegram/7001/-5"]
    assert (left.message_id, left.id_space) == (right.message_id, right.id_space)


@pytest.mark.case("B157")
def test_mentions_are_found_by_utf16_offsets_and_our_own_name_is_none() -> None:
    """An emoji before a mention moves it by two; who has no user name is mentioned by id.

    The bot's own name loses its sign: else it would name a stranger among the sessions.
    """
    text = "🎉🎉 @sim_bot ask @bob and Eve"
    entities = [
        {"type": "mention", "offset": 5, "length": 8},
        {"type": "mention", "offset": 18, "length": 4},
        {"type": "text_mention", "offset": 27, "length": 3, "user": {"id": 77}},
        {"type": "text_link", "offset": 14, "length": 3, "url": "https://example.org/"},
        {"type": "mention", "offset": 900, "length": 4},
    ]
    said = heard(message(text, entities=entities))
    assert said.text == "🎉🎉 sim_bot ask @bob and Eve"
    assert said.mentions == ("bob", "77")
    assert said.metadata["links"] == ["https://example.org/"]


@pytest.mark.case("B103")
@pytest.mark.acceptance("I5")
@pytest.mark.parametrize(
    ("content", "text", "files"),
    [
        (
            {
                "photo": [
                    {"file_id": "small", "width": 90, "height": 90, "file_size": 9},
                    {"file_id": "large", "width": 800, "height": 800, "file_size": 900},
                ],
                "caption": "look",
            },
            "look",
            (Attachment(id="large", type="image/jpeg", size=900),),
        ),
        (
            {"voice": {"file_id": "v", "mime_type": "audio/ogg", "file_size": 40}},
            "",
            (Attachment(id="v", type="audio/ogg", size=40),),
        ),
        (
            {"document": {"file_id": "d", "file_name": "../../etc/x.pdf", "mime_type": "a/b"}},
            "",
            (Attachment(id="d", type="a/b", name="x.pdf"),),
        ),
        (
            {"animation": {"file_id": "a"}, "document": {"file_id": "d"}},
            "",
            (Attachment(id="a", type="video/mp4"),),
        ),
        (
            {"sticker": {"file_id": "s", "emoji": "😀", "is_video": True}},
            "[sticker 😀]",
            (Attachment(id="s", type="video/webm"),),
        ),
        ({"location": {"latitude": 52.1, "longitude": 4.3}}, "[location 52.1,4.3]", ()),
        (
            {"contact": {"first_name": "Eve", "phone_number": "+1"}},
            "[contact Eve +1]",
            (),
        ),
        (
            {"poll": {"question": "When?", "options": [{"text": "now"}, {"text": "later"}]}},
            "[poll When?: now / later]",
            (),
        ),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[dice 🎲 4]", ()),
        ({"story": {"id": 1}}, "[story]", ()),
    ],
)
def test_what_has_no_words_is_a_file_or_says_what_it_is(
    content: dict[str, Any], text: str, files: tuple[Attachment, ...]
) -> None:
    """Never an empty message."""
    said = heard(message(None, **content))
    assert (said.text, said.attachments) == (text, files)


def test_an_album_comes_as_the_messages_it_is() -> None:
    """They share a name, and nobody waits for an end that is never marked."""
    photo = [{"file_id": "p", "width": 1, "height": 1}]
    one = heard(message(None, photo=photo, media_group_id="g1", message_id=8))
    two = heard(message(None, photo=photo, media_group_id="g1", message_id=9))
    assert [one.metadata["album"], two.metadata["album"]] == ["g1", "g1"]
    assert one.message_id != two.message_id


@pytest.mark.parametrize(
    ("more", "actor", "facts"),
    [
        (
            {
                "chat": SUPERGROUP,
                "sender_chat": SUPERGROUP,
                "from": {"id": 1087968824, "is_bot": True, "first_name": "Group"},
                "author_signature": "owner",
            },
            ("-1000000000051", "owner", False),
            {"signature": "owner"},
        ),
        (
            {
                "chat": SUPERGROUP,
                "sender_chat": {"id": -1000000000099, "type": "channel", "title": "News"},
                "from": {"id": 777000, "is_bot": False, "first_name": "Telegram"},
                "is_automatic_forward": True,
            },
            ("-1000000000099", "News", False),
            {"automatic_forward": True},
        ),
        (
            {"via_bot": {"id": 3, "is_bot": True, "username": "gif"}},
            ("42", "Ada", False),
            {"via_bot": "gif"},
        ),
        ({"from": ADA | {"id": 9, "is_bot": True}}, ("9", "Ada", True), {}),
    ],
)
def test_who_spoke_is_not_the_stand_in(
    more: dict[str, Any], actor: tuple[str, str, bool], facts: dict[str, Any]
) -> None:
    """Anonymous administrators and channels speak as their chat."""
    said = heard(message(**more))
    assert (said.actor.id, said.actor.name, said.actor.is_bot) == actor
    assert said.metadata.items() >= facts.items()


def test_a_channels_post_and_its_edit_are_the_channels() -> None:
    """A post names no person."""
    channel = {"id": -1000000000099, "type": "channel", "title": "News"}
    post = {"message_id": 3, "date": AT, "chat": channel, "text": "x", "sender_chat": channel}
    said = heard(post, "channel_post")
    edit = heard(post | {"text": "y", "edit_date": AT + 1}, "edited_channel_post")
    assert (said.actor.id, said.conversation.kind) == ("-1000000000099", Kind.ROOM)
    assert (edit.actor, edit.revises, edit.text) == (said.actor, "3", "y")


@pytest.mark.acceptance("I1", "B13")
def test_an_edit_is_named_after_its_update() -> None:
    """Two edits within one second are two; the same one delivered again is the same."""
    edits = [
        heard(message("hello!", edit_date=AT + 9), "edited_message", number)
        for number in (1003, 1004, 1003)
    ]
    names = [one.message_id for one in edits]
    assert names[0] == names[2] != names[1]
    assert edits[0].event is Event.EDIT
    assert (edits[0].revises, edits[0].text, edits[0].actor.id) == ("5", "hello!", "42")
    assert edits[0].sent_at is not None
    assert edits[0].sent_at.timestamp() == AT + 9


@pytest.mark.acceptance("I4")
def test_a_reaction_says_all_of_them_and_what_was_taken_back() -> None:
    """It refers to the message; none left is an empty text."""
    where = {"chat": SUPERGROUP, "message_id": 77, "user": ADA, "date": AT}
    thumb = {"type": "emoji", "emoji": "👍"}
    given = heard(
        where | {"old_reaction": [], "new_reaction": [thumb, {"type": "paid"}]}, "message_reaction"
    )
    taken = heard(where | {"old_reaction": [thumb], "new_reaction": []}, "message_reaction", 1002)
    assert (given.event, given.revises, given.text) == (Event.REACTION, "77", "👍 ⭐")
    assert (taken.text, taken.metadata) == ("", {"before": "👍"})
    assert given.message_id != taken.message_id


@pytest.mark.case("B088")
def test_who_comes_and_goes_is_an_event_and_no_message() -> None:
    """Of our own coming and going one of Telegram's two notices is enough."""
    eve = {"id": 8, "is_bot": False, "first_name": "Eve"}
    us = {"id": 7001, "is_bot": True, "first_name": "Sim"}
    joined = heard(message(None, chat=GROUP, new_chat_members=[ADA]))
    added = heard(message(None, chat=GROUP, new_chat_members=[eve, us]))
    gone = heard(message(None, chat=GROUP, left_chat_member=eve))
    ours = hear(message(None, chat=GROUP, new_chat_members=[us]))
    assert [one.text for one in (joined, added, gone)] == ["joined", "added Eve", "removed Eve"]
    assert {one.event for one in (joined, added, gone)} == {Event.MEMBER}
    assert (ours.messages, ours.skipped) == ((), ("new_chat_members",))


@pytest.mark.parametrize(
    ("chat", "was", "now", "text"),
    [
        (GROUP, "left", "member", "added Sim"),
        (GROUP, "member", "kicked", "removed Sim"),
        (GROUP, "member", "administrator", "made Sim administrator"),
        (PRIVATE, "member", "kicked", "blocked the bot"),
        (PRIVATE, "kicked", "member", "started the bot"),
    ],
)
def test_what_becomes_of_our_own_membership_is_heard(
    chat: dict[str, Any], was: str, now: str, text: str
) -> None:
    """Also that a person blocked the bot."""
    us = {"id": 7001, "is_bot": True, "first_name": "Sim"}
    change = {
        "chat": chat,
        "from": ADA,
        "date": AT,
        "old_chat_member": {"status": was, "user": us},
        "new_chat_member": {"status": now, "user": us},
    }
    said = heard(change, "my_chat_member")
    assert (said.event, said.text, said.actor.id) == (Event.MEMBER, text, "42")


@pytest.mark.case("B095")
@pytest.mark.parametrize(
    ("kind", "what", "word"),
    [
        ("message", message(None, pinned_message=message()), "pinned_message"),
        ("message", message(None, forum_topic_created={"name": "x"}), "forum_topic_created"),
        ("message", message(None, new_thing={"a": 1}), "unknown"),
        ("message", {"chat": PRIVATE}, "malformed"),
        ("message", message(message_id=0), "malformed"),
        ("edited_message", {"edit_date": 1}, "malformed"),
        ("callback_query", {"id": "1"}, "callback_query"),
        ("message_reaction_count", {"chat": GROUP}, "message_reaction_count"),
        ("something_new", {"id": "1"}, "unknown"),
    ],
)
def test_what_is_not_recorded_is_counted_by_name(kind: str, what: Any, word: str) -> None:
    """Never an exception, never in silence."""
    found = hear(what, kind)
    assert (found.messages, found.skipped, found.foreign) == ((), (word,), 0)


def test_only_who_knows_the_secret_is_telegram() -> None:
    """Compared as bytes; without a secret nobody is believed."""
    told = request(message())
    assert BOT.verify(told)
    assert not BOT.verify(request(message(), None))
    assert not BOT.verify(request(message(), "hush-hush_2"))
    assert not BOT.verify(request(message(), "hush-hüsh\ud800"))
    from dataclasses import replace

    from threadline.adapters.telegram import Telegram

    nobody = Telegram(replace(ACCOUNT, credentials={"token": "7001:x"}))
    assert not nobody.verify(request(message(), ""))
