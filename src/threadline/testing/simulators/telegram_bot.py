"""What a bot does on Telegram: its calls, checked as Telegram checks them, in Telegram's words."""

from __future__ import annotations

from typing import Any

from threadline.testing.simulators.telegram_asked import Asked, Refused
from threadline.testing.simulators.telegram_markup import CannotParse, parsed, units
from threadline.testing.simulators.telegram_world import BOT, GENERAL, World
from threadline.testing.simulators.wire import File

MOST_TEXT = 4096
MOST_CAPTION = 1024
_GIFTS = dict.fromkeys(
    (
        "unlimited_gifts",
        "limited_gifts",
        "unique_gifts",
        "premium_subscription",
        "gifts_from_channels",
    ),
    False,
)


class Bot:
    """One bot in a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ground = world.ground

    def call(self, name: str, asked: Asked) -> Any:
        """Do what a method of that name, in small letters, does. Raises `Refused`."""
        return getattr(self, f"_{name}")(asked)

    def _getme(self, asked: Asked) -> dict[str, Any]:
        return BOT | {
            "can_join_groups": True,
            "can_read_all_group_messages": True,
            "supports_inline_queries": False,
        }

    def _getchat(self, asked: Asked) -> dict[str, Any]:
        found = self._world.chats.get(str(asked.needed("chat_id")))
        if found is None:
            raise Refused(400, "chat not found")
        full = {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": _GIFTS}
        return dict(found["about"]) | full

    def _sendmessage(self, asked: Asked) -> dict[str, Any]:
        chat, where = self._where(asked)
        text, entities = self._formatted(asked, "text", "entities", MOST_TEXT)
        if not text:
            raise Refused(400, "message text is empty")
        content = {"text": text} | ({"entities": entities} if entities else {})
        return self._said(chat, where | content, asked, text)

    def _senddocument(self, asked: Asked) -> dict[str, Any]:
        return self._sent_file(asked, "document")

    def _sendphoto(self, asked: Asked) -> dict[str, Any]:
        return self._sent_file(asked, "photo")

    def _sent_file(self, asked: Asked, kind: str) -> dict[str, Any]:
        chat, where = self._where(asked)
        caption, entities = self._formatted(asked, "caption", "caption_entities", MOST_CAPTION)
        given = asked.file(kind)
        if isinstance(given, File):
            about: Any = self._world.keep(given.content, given.name, given.content_type)
        elif given in self._world.files:
            about = self._world.files[given]["about"]
        else:
            raise Refused(400, "wrong file identifier/HTTP URL specified")
        if kind == "photo":
            about = [about | {"width": 90, "height": 90}]
        content = {kind: about} | ({"caption": caption} if caption else {})
        content |= {"caption_entities": entities} if entities else {}
        file = about[0] if kind == "photo" else about
        return self._said(chat, where | content, asked, caption, file={"as": kind, **file})

    def _said(
        self, chat: int, content: dict[str, Any], asked: Asked, text: str, **more: Any
    ) -> dict[str, Any]:
        message = self._world.put(chat, BOT, **content)
        topic = content.get("topic") or None
        reply = message.get("reply_to_message", {}).get("message_id")
        self._ground.effect(
            "message",
            str(chat),
            message_id=message["message_id"],
            text=text,
            topic=topic,
            reply_to=reply,
            parse_mode=asked.text("parse_mode"),
            previews=not (asked.made("link_preview_options", dict) or {}).get("is_disabled", False),
            entities=message.get("entities", []),
            **more,
        )
        return message

    def _where(self, asked: Asked) -> tuple[int, dict[str, Any]]:
        """The chat, and what a new message there has before its content."""
        chat = asked.needed("chat_id")
        found = self._world.reachable(chat)
        topic = asked.integer("message_thread_id") or 0
        if topic and (topic == GENERAL or f"{chat}/{topic}" not in self._world.topics):
            raise Refused(400, "message thread not found")
        where: dict[str, Any] = {"topic": topic}
        reply = asked.made("reply_parameters", dict) or {}
        number = reply.get("message_id", asked.integer("reply_to_message_id"))
        if number is not None:
            known = self._world.reply(reply.get("chat_id", found["about"]["id"]), int(number))
            lenient = reply.get("allow_sending_without_reply") or asked.yes(
                "allow_sending_without_reply"
            )
            if not known and not lenient:
                raise Refused(400, "message to be replied not found")
            where |= known
        return chat, where

    def _formatted(
        self, asked: Asked, name: str, listed: str, most: int
    ) -> tuple[str, list[dict[str, Any]]]:
        """A text and its entities, by its parse mode or as they are listed."""
        source, mode = asked.text(name), asked.text("parse_mode")
        if "\x00" in source or any(0xD800 <= ord(c) < 0xE000 for c in source):
            raise Refused(400, "strings must be encoded in UTF-8")
        try:
            text, entities = parsed(source, mode)
        except CannotParse as error:
            why = str(error)
            raise Refused(
                400, why if why.startswith("unsupported") else f"can't parse entities: {why}"
            ) from None
        given = asked.made(listed, list)
        entities = entities if given is None else given
        text = text.rstrip()
        if units(text) > most:
            long = "message is too long" if name == "text" else "message caption is too long"
            raise Refused(400, long)
        return text, [one for one in entities if one["offset"] < units(text)]

    def _editmessagetext(self, asked: Asked) -> dict[str, Any]:
        chat, number = asked.needed("chat_id"), asked.needed("message_id")
        self._world.reachable(chat)
        message = self._world.message(chat, number, "message to edit not found")
        if message["from"]["id"] != BOT["id"]:
            raise Refused(400, "message can't be edited")
        text, entities = self._formatted(asked, "text", "entities", MOST_TEXT)
        if not text:
            raise Refused(400, "message text is empty")
        if (text, entities) == (message["text"], message.get("entities", [])):
            raise Refused(
                400,
                "message is not modified: specified new message content and reply markup are"
                " exactly the same as a current content and reply markup of the message",
            )
        fresh = {k: v for k, v in message.items() if k != "entities"} | {"text": text}
        fresh |= {"edit_date": int(self._ground.now())} | (
            {"entities": entities} if entities else {}
        )
        self._world.messages[f"{chat}/{number}"] = fresh
        self._ground.effect("edit", str(chat), message_id=number, text=text)
        return fresh

    def _deletemessage(self, asked: Asked) -> bool:
        chat, number = asked.needed("chat_id"), asked.needed("message_id")
        self._world.reachable(chat)
        self._world.message(chat, number, "message to delete not found")
        del self._world.messages[f"{chat}/{number}"]
        self._ground.effect("delete", str(chat), message_id=number)
        return True

    def _setmessagereaction(self, asked: Asked) -> bool:
        chat, number = asked.needed("chat_id"), asked.needed("message_id")
        self._world.reachable(chat)
        self._world.message(chat, number, "message to react not found")
        given = asked.made("reaction", list) or []
        emoji = [one.get("emoji") for one in given]
        self._ground.effect("reaction", str(chat), message_id=number, emoji=emoji)
        return True

    def _sendchataction(self, asked: Asked) -> bool:
        self._world.reachable(asked.needed("chat_id"))
        if not asked.text("action"):
            raise Refused(400, "wrong parameter action in request")
        return True

    def _createforumtopic(self, asked: Asked) -> dict[str, Any]:
        chat, name = asked.needed("chat_id"), asked.text("name")
        found = self._world.reachable(chat)
        if not found["about"].get("is_forum"):
            raise Refused(400, "the chat is not a forum")
        if not 1 <= len(name) <= 128:
            raise Refused(400, "topic name is empty" if not name else "topic name is too long")
        message = self._world.topic(chat, name, BOT)
        number = message["message_thread_id"]
        self._ground.effect("topic", str(chat), topic=number, name=name)
        about: dict[str, Any] = message["forum_topic_created"]
        return {"message_thread_id": number} | about

    def _getfile(self, asked: Asked) -> dict[str, Any]:
        found = self._world.files.get(asked.text("file_id"))
        if found is None:
            raise Refused(400, "wrong file_id or the file is temporarily unavailable")
        return dict(found["about"]) | {"file_path": found["path"]}
