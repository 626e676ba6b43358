"""What is in a message of Telegram's: words, files, and words for what is neither.

Nothing here trusts a shape: what is not as documented counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from threadline.adapters.telegram_text import marked
from threadline.core.model import Actor, Attachment
from threadline.core.values import person_name

Json = Mapping[str, Any]

MAX_WORDS = 1_000
MAX_LISTED = 10
DELETED = "Deleted Account"

# Content without words. A file's type where Telegram names none.
FILES = {
    "animation": "video/mp4",
    "audio": "audio/mpeg",
    "document": "application/octet-stream",
    "live_photo": "video/mp4",
    "photo": "image/jpeg",
    "sticker": "image/webp",
    "video": "video/mp4",
    "video_note": "video/mp4",
    "voice": "audio/ogg",
}
OTHERS = (
    "checklist",
    "contact",
    "dice",
    "game",
    "gift",
    "giveaway",
    "giveaway_winners",
    "invoice",
    "location",
    "paid_media",
    "poll",
    "rich_message",
    "story",
    "unique_gift",
    "venue",
    "web_app_data",
)
# What Telegram itself says in a chat. It is counted by these names and not recorded.
SERVICE = frozenset(
    {
        "boost_added",
        "channel_chat_created",
        "chat_background_set",
        "chat_owner_changed",
        "chat_owner_left",
        "chat_shared",
        "checklist_tasks_added",
        "checklist_tasks_done",
        "connected_website",
        "delete_chat_photo",
        "direct_message_price_changed",
        "forum_topic_closed",
        "forum_topic_created",
        "forum_topic_edited",
        "forum_topic_reopened",
        "general_forum_topic_hidden",
        "general_forum_topic_unhidden",
        "gift_upgrade_sent",
        "giveaway_completed",
        "giveaway_created",
        "group_chat_created",
        "managed_bot_created",
        "message_auto_delete_timer_changed",
        "new_chat_photo",
        "new_chat_title",
        "paid_message_price_changed",
        "passport_data",
        "pinned_message",
        "poll_option_added",
        "poll_option_deleted",
        "proximity_alert_triggered",
        "refunded_payment",
        "successful_payment",
        "suggested_post_approval_failed",
        "suggested_post_approved",
        "suggested_post_declined",
        "suggested_post_paid",
        "suggested_post_refunded",
        "supergroup_chat_created",
        "users_shared",
        "video_chat_ended",
        "video_chat_participants_invited",
        "video_chat_scheduled",
        "video_chat_started",
        "write_access_allowed",
    }
)


def at(given: Json, *path: str) -> Any:
    """What stands at a path of keys, None where there is nothing."""
    found: Any = given
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def part(given: Json, *path: str) -> Json:
    """An object; anything else is an empty one."""
    found = at(given, *path)
    return found if isinstance(found, dict) else {}


def words(given: Json, *path: str) -> str:
    """A string without what no transcript takes (NUL); anything else is an empty one."""
    found = at(given, *path)
    return found.replace("\x00", "") if isinstance(found, str) else ""


def line(given: Json, *path: str) -> str:
    """A string on one line, of bounded length."""
    return " ".join(words(given, *path)[:MAX_WORDS].split())


def ident(given: Json, *path: str) -> str:
    """An id as the string it is kept as, empty where it is no whole number of 63 bits but 0.

    >>> ident({"id": 9007199254740993}, "id"), ident({"id": True}, "id"), ident({}, "id")
    ('9007199254740993', '', '')
    """
    found = at(given, *path)
    return str(found) if type(found) is int and 0 < abs(found) < 1 << 63 else ""


def number(given: Json, *path: str) -> int | None:
    """A whole number of at least 0."""
    found = at(given, *path)
    return found if type(found) is int and 0 <= found < 1 << 63 else None


def objects(given: Json, *path: str) -> list[Json]:
    """The objects of a list."""
    found = at(given, *path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def moment(given: Json, *path: str) -> datetime | None:
    """A time in seconds since the epoch."""
    found = number(given, *path)
    if not found or found > 253_402_300_799:  # the end of the year 9999
        return None
    return datetime.fromtimestamp(found, UTC)


def person(given: Json, own: str) -> Actor | None:
    """A user or a bot; `own` is the id of ours."""
    user = ident(given, "id")
    if not user:
        return None
    name = line({"name": f"{words(given, 'first_name')} {words(given, 'last_name')}"}, "name")
    shown = person_name(name, line(given, "username"), DELETED)
    return Actor(user, shown, at(given, "is_bot") is True, user == own)


def chat(given: Json, signature: str = "") -> Actor | None:
    """A chat that speaks for itself: a channel, or a group in which an admin is anonymous."""
    name = ident(given, "id")
    if not name:
        return None
    return Actor(name, person_name(signature, line(given, "title"), line(given, "username")))


def text_of(message: Json, username: str) -> str:
    """Its words or its caption, as typed; else words for content that has none and is no file.

    A mention of the bot that hears it (its folded `username`) loses its sign: it names the account,
    and none of the sessions that speak there.
    """
    said = words({"text": _unsigned(message, username)}, "text")
    if said:
        return said
    for kind in OTHERS:
        if kind in message:
            about = _about(kind, part(message, kind))
            return f"[{kind.replace('_', ' ')}{' ' if about else ''}{about}]"
    emoji = line(message, "sticker", "emoji")
    return f"[sticker {emoji}]" if emoji else ""


def _unsigned(message: Json, username: str) -> str:
    text = (words(message, "text") and message["text"]) or at(message, "caption")
    if not isinstance(text, str) or not username:
        return text if isinstance(text, str) else ""
    own = [
        2 * one["offset"]
        for kind, marks, one in entities(message)
        if kind == "mention" and marks.casefold() == f"@{username}"
    ]
    units = text.encode("utf-16-le", "surrogatepass")
    for offset in sorted(own, reverse=True):
        units = units[:offset] + units[offset + 2 :]
    return units.decode("utf-16-le", "surrogatepass")


def _about(kind: str, given: Json) -> str:
    match kind:
        case "location":
            return _degrees(given)
        case "venue":
            named = ", ".join(filter(None, (line(given, "title"), line(given, "address"))))
            return f"{named} {_degrees(part(given, 'location'))}".strip()
        case "contact":
            keys = ("first_name", "last_name", "phone_number")
            return " ".join(filter(None, (line(given, key) for key in keys)))
        case "dice":
            return f"{line(given, 'emoji')} {number(given, 'value') or ''}".strip()
        case "poll":
            options = objects(given, "options")[:MAX_LISTED]
            answers = " / ".join(line(one, "text") for one in options)
            return f"{line(given, 'question')}: {answers}" if answers else line(given, "question")
        case "checklist":
            tasks = objects(given, "tasks")[:MAX_LISTED]
            listed = "; ".join(line(one, "text") for one in tasks)
            return f"{line(given, 'title')}: {listed}" if listed else line(given, "title")
        case "web_app_data":
            return line(given, "data")
    return line(given, "title")


def _degrees(given: Json) -> str:
    """A position as two numbers."""
    found = [at(given, "latitude"), at(given, "longitude")]
    if not all(type(one) in (int, float) and abs(one) <= 180 for one in found):
        return ""
    return ",".join(f"{float(one):.6f}".rstrip("0").rstrip(".") for one in found)


def attachments(message: Json) -> tuple[Attachment, ...]:
    """Its file; of a photo the largest. What an animation repeats as a document is one file."""
    kind = next((one for one in FILES if one in message), None)
    if kind is None:
        return ()
    if kind == "photo":
        sizes = objects(message, "photo")
        given = max(sizes, key=_area, default={})
    else:
        given = part(message, kind)
    file_id = line(given, "file_id")
    if not file_id:
        return ()
    what = line(given, "mime_type") or FILES[kind]
    if kind == "sticker":
        what = "application/x-tgsticker" if at(given, "is_animated") is True else what
        what = "video/webm" if at(given, "is_video") is True else what
    name = line(given, "file_name").replace("\\", "/").rpartition("/")[2]
    return (Attachment(id=file_id, type=what, name=name, size=number(given, "file_size")),)


def _area(given: Json) -> int:
    return (number(given, "width") or 0) * (number(given, "height") or 0)


def entities(message: Json) -> Iterator[tuple[str, str, Json]]:
    """Its entities: type, the text it marks, the entity."""
    of_caption = not words(message, "text")
    text = at(message, "caption" if of_caption else "text")
    if not isinstance(text, str):
        return
    for one in objects(message, "caption_entities" if of_caption else "entities")[:100]:
        offset, length = number(one, "offset"), number(one, "length")
        if offset is not None and length is not None:
            yield line(one, "type"), marked(text, offset, length), one


def mentions(message: Json, own: str, username: str) -> tuple[str, ...]:
    """Whom it mentions, by user name, or by id where there is none.

    The bot that hears it (`own`, with its folded `username`) is not among them.
    """
    found: dict[str, None] = {}
    for kind, text, entity in entities(message):
        if kind == "mention":
            name = text.removeprefix("@")
        elif kind == "text_mention":
            name = line(entity, "user", "username") or ident(entity, "user", "id")
        else:
            continue
        if name and name.casefold() not in (own, username):
            found[name] = None
    return tuple(found)


def links(message: Json) -> list[str]:
    """Web addresses that stand behind words."""
    found = (line(one, "url") for kind, _, one in entities(message) if kind == "text_link")
    return [one for one in found if one][:MAX_LISTED]
