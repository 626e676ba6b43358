"""What one update of Telegram's says: messages, edits, deletes, reactions, who came and went.

An update holds one thing. Each kind has one reader, which answers the messages in it, or the word
it is counted under where it is not recorded. Events that are no message are named after their
update, for that is what Telegram repeats when it delivers once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from threadline.adapters.telegram_content import (
    FILES,
    OTHERS,
    SERVICE,
    Json,
    at,
    attachments,
    chat,
    ident,
    line,
    links,
    mentions,
    moment,
    objects,
    part,
    person,
    text_of,
    words,
)
from threadline.adapters.telegram_places import GENERAL, Place
from threadline.core.adapters import Account
from threadline.core.errors import InvalidConversation
from threadline.core.model import Actor, Direction, Event, InboundMessage, Kind

MALFORMED = "malformed"
UNKNOWN = "unknown"
MAX_DELETED = 100
# Known and not recorded.
SKIPPED = frozenset(
    {
        "business_connection",
        "callback_query",
        "chat_boost",
        "chat_join_request",
        "chosen_inline_result",
        "guest_message",
        "inline_query",
        "managed_bot",
        "message_reaction_count",
        "poll",
        "poll_answer",
        "pre_checkout_query",
        "purchased_paid_media",
        "removed_chat_boost",
        "shipping_query",
    }
)
IN_CHAT = frozenset({"member", "administrator", "creator"})
CONTENT = ("text", "caption", *FILES, *OTHERS)

Found = list[InboundMessage] | str


@dataclass(frozen=True, slots=True)
class Updates:
    """Reads updates as one account hears them."""

    account: Account

    def read(self, update: Json) -> Found:
        """The messages in an update, or the word it is counted under. Total."""
        number = ident(update, "update_id")
        kind = next((one for one in update if one != "update_id"), MALFORMED)
        given = part(update, kind)
        if not number or not given:
            return MALFORMED
        try:
            match kind:
                case "message" | "channel_post" | "business_message":
                    return self._message(given)
                case "edited_message" | "edited_channel_post" | "edited_business_message":
                    return self._edit(number, given)
                case "deleted_business_messages":
                    return self._deletes(given)
                case "message_reaction":
                    return self._reaction(number, given)
                case "my_chat_member" | "chat_member":
                    return self._member(number, given)
        except InvalidConversation:
            return MALFORMED
        return kind if kind in SKIPPED else UNKNOWN

    @property
    def _username(self) -> str:
        return line(self.account.settings, "username").casefold()

    def _place(self, given: Json) -> Place | None:
        """Where a message stands; None where its chat has no id."""
        name = ident(given, "chat", "id")
        if not name:
            return None
        topic, direct = "", ident(given, "direct_messages_topic", "topic_id")
        if at(given, "is_topic_message") is True and not direct:
            # Answers in an ordinary supergroup carry a thread's id as well; it is no topic.
            topic = ident(given, "message_thread_id")
        business = line(given, "business_connection_id")
        return Place(name, "" if topic == GENERAL else topic, direct, business)

    def _message(self, given: Json) -> Found:
        place, number = self._place(given), ident(given, "message_id")
        if place is None or not number:
            return MALFORMED
        if moved := self._moved(place, given):
            return moved
        if "new_chat_members" in given or "left_chat_member" in given:
            return self._came_and_went(place, number, given)
        if not any(key in given for key in CONTENT):
            return next((key for key in given if key in SERVICE), UNKNOWN)
        said = self._said(place, given, number)
        return MALFORMED if said is None else [said]

    def _said(self, place: Place, given: Json, number: str) -> InboundMessage | None:
        actor, text, files = self._actor(given), text_of(given, self._username), attachments(given)
        if actor is None or not (text or files):
            return None
        kind = Kind.DM if line(given, "chat", "type") == "private" else Kind.ROOM
        above = Place(place.chat, business=place.business)
        in_topic = place != above
        return InboundMessage(
            conversation=place.ref(self.account, kind),
            text=text,
            actor=actor,
            message_id=number,
            id_space=place.space,
            direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
            mentions=mentions(given, self.account.account_id, self._username),
            reply_to=_answered(place, given),
            parent=above.ref(self.account, kind) if in_topic else None,
            attachments=files,
            sent_at=moment(given, "date"),
            metadata=_metadata(given),
        )

    def _actor(self, given: Json) -> Actor | None:
        """Who said it. Where a chat speaks for itself, `from` is a stand-in of Telegram's."""
        own = self.account.account_id
        if ident(given, "sender_business_bot", "id") == own:
            return person(part(given, "sender_business_bot"), own)
        signature = line(given, "author_signature")
        spoke = chat(part(given, "sender_chat"), signature)
        return spoke or person(part(given, "from"), own) or chat(part(given, "chat"), signature)

    def _edit(self, update: str, given: Json) -> Found:
        place, number = self._place(given), ident(given, "message_id")
        if place is None or not number:
            return MALFORMED
        if not any(key in given for key in CONTENT):
            return next((key for key in given if key in SERVICE), UNKNOWN)
        said = self._said(place, given, number)
        if said is None:
            return MALFORMED
        return [
            replace(
                said,
                message_id=f"{number}:edit:{update}",
                event=Event.EDIT,
                reply_to=None,
                revises=number,
                sent_at=moment(given, "edit_date") or said.sent_at,
            )
        ]

    def _deletes(self, given: Json) -> Found:
        """What was deleted in a business account's chat; nobody says by whom."""
        place, actor = self._place(given), chat(part(given, "chat"))
        numbers = at(given, "message_ids")
        if place is None or actor is None or not isinstance(numbers, list):
            return MALFORMED
        return [
            InboundMessage(
                conversation=place.ref(self.account, Kind.DM),
                actor=actor,
                message_id=f"{number}:deleted",
                id_space=place.space,
                event=Event.DELETE,
                revises=number,
                signed=True,
            )
            for one in numbers[:MAX_DELETED]
            if (number := ident({"id": one}, "id"))
        ]

    def _reaction(self, update: str, given: Json) -> Found:
        """All that somebody says of a message now; none is that it was taken back."""
        place, number = self._place(given), ident(given, "message_id")
        actor = person(part(given, "user"), self.account.account_id)
        actor = actor or chat(part(given, "actor_chat"))
        if place is None or not number or actor is None:
            return MALFORMED
        kind = Kind.DM if line(given, "chat", "type") == "private" else Kind.ROOM
        before = [_emoji(one) for one in objects(given, "old_reaction")]
        return [
            InboundMessage(
                conversation=place.ref(self.account, kind),
                text=" ".join(_emoji(one) for one in objects(given, "new_reaction")),
                actor=actor,
                message_id=f"{number}:reaction:{update}",
                id_space=place.space,
                direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
                event=Event.REACTION,
                revises=number,
                sent_at=moment(given, "date"),
                metadata={"before": " ".join(before)} if before else {},
            )
        ]

    def _member(self, update: str, given: Json) -> Found:
        """Who is in a chat changed. In a private chat it is whether the person lets us write."""
        place, actor = self._place(given), person(part(given, "from"), self.account.account_id)
        whom = person(part(given, "new_chat_member", "user"), self.account.account_id)
        if place is None or actor is None or whom is None:
            return MALFORMED
        was, now = _is_in(part(given, "old_chat_member")), _is_in(part(given, "new_chat_member"))
        status = line(given, "new_chat_member", "status")
        private = line(given, "chat", "type") == "private"
        if private:
            text = "started the bot" if now else "blocked the bot"
        elif was == now:
            text = f"made {whom.name} {status}"
        elif actor.id == whom.id:
            text = "joined" if now else "left"
        else:
            text = f"{'added' if now else 'removed'} {whom.name}"
        return [
            InboundMessage(
                conversation=place.ref(self.account, Kind.DM if private else Kind.ROOM),
                text=text,
                actor=actor,
                message_id=f"member:{update}",
                id_space=place.space,
                event=Event.MEMBER,
                sent_at=moment(given, "date"),
                metadata={"member": whom.id, "status": status},
            )
        ]

    def _came_and_went(self, place: Place, number: str, given: Json) -> Found:
        """What a chat says of its members. Of ourselves `my_chat_member` tells."""
        own, came = self.account.account_id, "new_chat_members" in given
        listed = objects(given, "new_chat_members") if came else [part(given, "left_chat_member")]
        found = [one for user in listed if (one := person(user, own)) is not None]
        actor = self._actor(given)
        if not found or actor is None:
            return MALFORMED
        whom = [one for one in found if not one.is_self]
        if not whom:
            return "new_chat_members" if came else "left_chat_member"
        if [one.id for one in whom] == [actor.id]:
            text = "joined" if came else "left"
        else:
            text = f"{'added' if came else 'removed'} {', '.join(one.name for one in whom)}"
        return [
            InboundMessage(
                conversation=place.ref(self.account, Kind.ROOM),
                text=text,
                actor=actor,
                message_id=number,
                id_space=place.space,
                event=Event.MEMBER,
                sent_at=moment(given, "date"),
                metadata={"members": [one.id for one in whom][:50]},
            )
        ]

    def _moved(self, place: Place, given: Json) -> list[InboundMessage]:
        """A group became a supergroup. Both say so, in whatever order: it is one notice."""
        to, since = ident(given, "migrate_to_chat_id"), ident(given, "migrate_from_chat_id")
        if not to and not since:
            return []
        old, new = (place, Place(to)) if to else (Place(since), place)
        actor = chat(part(given, "chat"))
        assert actor is not None, "its place has an id"
        return [
            InboundMessage(
                conversation=new.ref(self.account, Kind.ROOM),
                text="This group became a supergroup.",
                actor=actor,
                message_id=f"moved:{old.chat}:{new.chat}",
                event=Event.NOTICE,
                same_as=(old.ref(self.account, Kind.ROOM),),
                sent_at=moment(given, "date"),
            )
        ]


def _answered(place: Place, given: Json) -> str | None:
    """The message it answers, if that stands in the same chat.

    What is said in a topic without answering anybody answers the entry that created the topic.
    """
    there = part(given, "reply_to_message")
    number = ident(there, "message_id")
    if not number or ident(there, "chat", "id") not in ("", place.chat):
        return None
    if "forum_topic_created" in there or (place.topic and number == place.topic):
        return None
    return number


def _metadata(given: Json) -> dict[str, Any]:
    """What a reader may want to know beside the words."""
    origin = part(given, "forward_origin")
    names = (
        line(origin, "sender_user", "first_name"),
        line(origin, "sender_user_name"),
        line(origin, "sender_chat", "title"),
        line(origin, "chat", "title"),
    )
    found: dict[str, Any] = {
        "username": line(given, "from", "username"),
        "album": line(given, "media_group_id"),
        "via_bot": line(given, "via_bot", "username"),
        "forwarded": bool(origin),
        "forwarded_from": next(filter(None, names), ""),
        "automatic_forward": at(given, "is_automatic_forward") is True,
        "signature": line(given, "author_signature"),
        "quote": words(given, "quote", "text")[:1_000],
        "answers_elsewhere": bool(part(given, "external_reply")),
        "links": links(given),
    }
    return {key: value for key, value in found.items() if value}


def _emoji(given: Json) -> str:
    """A reaction in one word."""
    if line(given, "type") == "paid":
        return "⭐"
    return line(given, "emoji") or f"custom:{line(given, 'custom_emoji_id')}"


def _is_in(given: Json) -> bool:
    status = line(given, "status")
    return status in IN_CHAT or (status == "restricted" and at(given, "is_member") is True)
