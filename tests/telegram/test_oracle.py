"""Telegram as python-telegram-bot knows it: every field, every kind of update, every offset."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import telegram
from telegram import constants
from tests.telegram.conftest import BOT, FORUM, GROUP, PRIVATE, body, hear, heard, message
from tests.telegram.conftest import saying as said_to
from threadline.adapters.telegram_content import FILES, OTHERS, SERVICE, entities
from threadline.adapters.telegram_updates import SKIPPED
from threadline.core.model import Event
from threadline.core.telegram import WANTED

# What a message says about itself, beside its content.
ENVELOPE = frozenset(
    {
        *("author_signature", "business_connection_id", "caption", "caption_entities"),
        *("chat", "date", "edit_date", "direct_messages_topic", "effect_id", "entities"),
        *("external_reply", "forward_origin", "from_user", "guest_bot_caller_chat"),
        *("guest_bot_caller_user", "guest_query_id", "has_media_spoiler"),
        *("has_protected_content", "is_automatic_forward", "is_from_offline"),
        *("is_paid_post", "is_topic_message", "link_preview_options", "media_group_id"),
        *("message_id", "message_thread_id", "paid_star_count", "quote", "reply_markup"),
        *("reply_to_checklist_task_id", "reply_to_message", "reply_to_poll_option_id"),
        *("reply_to_story", "sender_boost_count", "sender_business_bot", "sender_chat"),
        *("sender_tag", "show_caption_above_media", "suggested_post_info", "text", "via_bot"),
        *("via_bot"),
    }
)
MEMBERS = frozenset({"new_chat_members", "left_chat_member"})
MOVES = frozenset({"migrate_to_chat_id", "migrate_from_chat_id"})


def test_every_kind_of_update_is_known() -> None:
    """None is counted as unknown: each is read, or named among the skipped."""
    known = {str(one) for one in telegram.Update.ALL_TYPES}
    assert known == {*WANTED, "chat_member", *SKIPPED} & known
    assert known - {*WANTED, "chat_member", *SKIPPED} == set()


def test_every_field_of_a_message_is_content_or_service_or_beside_it() -> None:
    """A new version of the Bot API that says more in a message is noticed here."""
    slots = {*telegram.Message.__slots__, *telegram.MaybeInaccessibleMessage.__slots__}
    fields = {one for one in slots if not one.startswith("_")}
    assert fields - ENVELOPE - MEMBERS - MOVES - SERVICE - {*FILES, *OTHERS} == set()
    services = {str(one) for one in constants.MessageType} & SERVICE
    assert services, "the list of message types names some of ours"


def test_what_it_calls_a_service_message_is_not_recorded_as_said() -> None:
    """Its own filter for status updates against our list."""
    from telegram.ext import filters

    status = filters.StatusUpdate.ALL
    for name in sorted(SERVICE):
        raw = message(None, **{name: [{"file_id": "x"}] if name == "new_chat_photo" else {"a": 1}})
        assert hear(raw).skipped == (name,)
    pinned = message(None, pinned_message=message(), chat=GROUP)
    update = telegram.Update.de_json({"update_id": 1, "message": pinned}, None)
    assert status.check_update(update)


text = st.text(
    st.sampled_from("ab @🎉é\n👩‍🚀𝕏") | st.characters(codec="utf-8", exclude_characters="\x00"),
    min_size=1,
    max_size=30,
)


@given(text, st.integers(0, 30), st.integers(1, 30), st.booleans())
def test_entities_mark_what_it_says_they_mark(
    words: str, start: int, size: int, of_caption: bool
) -> None:
    """The same slices, wherever emoji stand, in texts and captions."""
    start %= len(words)
    before, within = (
        len(one.encode("utf-16-le")) // 2 for one in (words[:start], words[start : start + size])
    )
    entity = {"type": "bold", "offset": before, "length": within}
    raw = (
        message(None, photo=[], caption=words, caption_entities=[entity])
        if of_caption
        else message(words, entities=[entity])
    )
    model = telegram.Message.de_json(raw, None)
    assert model is not None
    wanted = model.parse_caption_entities() if of_caption else model.parse_entities()
    found = [marked for _, marked, _ in entities(raw)]
    assert found == list(wanted.values()) == [words[start : start + size]]


CHATS = st.sampled_from([PRIVATE, GROUP, FORUM])
messages = st.builds(
    lambda chat, words, number, thread, reply: message(
        words,
        chat=chat,
        message_id=number,
        **({"message_thread_id": thread, "is_topic_message": chat is FORUM} if thread else {}),
        **({"reply_to_message": message("q", chat=chat, message_id=reply)} if reply else {}),
    ),
    CHATS,
    text,
    st.integers(1, 2**31),
    st.none() | st.integers(2, 2**31),
    st.none() | st.integers(1, 2**31),
)


@given(messages, st.booleans())
def test_a_message_is_what_its_model_says(raw: dict[str, Any], edited: bool) -> None:
    """Author, chat, topic, text, time, answered message: read apart, the same."""
    kind = "edited_message" if edited else "message"
    raw = raw | ({"edit_date": raw["date"] + 5} if edited else {})
    update = telegram.Update.de_json({"update_id": 7, kind: raw}, None)
    model = update.effective_message
    assert model is not None
    assert model.from_user is not None
    said = heard(raw, kind, 7)
    place = said.conversation
    chat = place.parent_conversation_id or place.conversation_id
    assert (chat, said.id_space) == (str(model.chat.id), str(model.chat.id))
    assert (said.text, said.actor.id) == (model.text, str(model.from_user.id))
    assert said.actor.name == model.from_user.full_name
    assert said.sent_at == (model.edit_date if edited else model.date)
    assert (said.revises if edited else said.message_id) == str(model.message_id)
    assert (place.parent_conversation_id is not None) == bool(model.is_topic_message)
    if model.is_topic_message:
        assert place.conversation_id == str(model.message_thread_id)
    if edited:
        assert said.event is Event.EDIT
    elif model.reply_to_message is not None:
        in_topic = model.is_topic_message and model.message_thread_id == (
            model.reply_to_message.message_id
        )
        assert said.reply_to == (None if in_topic else str(model.reply_to_message.message_id))


async def test_what_we_ask_for_is_what_it_asks_for() -> None:
    """Every parameter of ours is one that its own method sends under that name."""
    where = heard(message(chat=FORUM, message_thread_id=9, is_topic_message=True))
    ours = body(BOT.render(said_to(where, "**x**", reply_to="5")))
    theirs: dict[str, Any] = {}

    class Recorder(telegram.Bot):
        """Says what it would send."""

        async def _do_post(self, endpoint: str, data: Any, *_: Any, **__: Any) -> Any:
            theirs.update(json.loads(json.dumps(data, default=lambda one: one.to_dict())))
            return message() | {"message_id": 6}

    await Recorder("7001:x").send_message(
        chat_id=FORUM["id"],
        text="<b>x</b>",
        parse_mode="HTML",
        message_thread_id=9,
        link_preview_options=telegram.LinkPreviewOptions(is_disabled=True),
        reply_parameters=telegram.ReplyParameters(5, allow_sending_without_reply=True),
    )
    assert {name: value for name, value in theirs.items() if value is not None} == ours
