"""Telegram as everybody there sees it: people, chats, topics, messages, files, updates."""

from __future__ import annotations

import base64
from typing import Any

from threadline.testing.simulators.ground import Ground
from threadline.testing.simulators.telegram_asked import Refused
from threadline.testing.simulators.telegram_markup import of_itself
from threadline.testing.simulators.wire import Event

BOT: dict[str, Any] = {"id": 7001, "is_bot": True, "first_name": "Sim", "username": "sim_bot"}
SUPERGROUPS = -1_000_000_000_000
GENERAL = 1
DAY = 86_400.0
# Sent only to those who ask for them by name.
UNASKED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


class World:
    """What there is. Messages are kept as the bot is told of them."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.chats = ground.book("chats")
        self.messages = ground.book("messages")
        self.topics = ground.book("topics")
        self.files = ground.book("files")

    def person(self, user: int, name: str = "") -> dict[str, Any]:
        """A user as a message names it."""
        name = name or f"Person {user}"
        return {"id": user, "is_bot": False, "first_name": name, "username": f"user{user}"}

    def make(
        self, chat: int, kind: str = "", title: str = "", forum: bool = False, name: str = ""
    ) -> dict[str, Any]:
        """The chat of that id, made where it is not there yet; the id says of what kind it is."""
        if str(chat) in self.chats:
            known: dict[str, Any] = self.chats[str(chat)]
            return known
        if not kind:
            kind = "private" if chat > 0 else "supergroup" if chat <= SUPERGROUPS else "group"
        about: dict[str, Any] = {"id": chat, "type": kind}
        if kind == "private":
            person = self.person(chat, name)
            about |= {key: person[key] for key in ("first_name", "username")}
        else:
            about |= {"title": title or f"Chat {chat}"} | ({"is_forum": True} if forum else {})
        # The first message of a group says that it was made, and is the General topic of a forum.
        last = 0 if kind == "private" else GENERAL
        made = {"about": about, "last": last, "closed": "", "moved": 0}
        self.chats[str(chat)] = made
        return made

    def close(self, chat: int, why: str) -> None:
        """The bot may not speak there; with an empty reason it may again."""
        self.chats[str(chat)] = self.make(chat) | {"closed": why}

    def reachable(self, chat: int) -> dict[str, Any]:
        """A chat the bot may speak in. Raises `Refused`."""
        found = self.chats.get(str(chat))
        if found is None:
            why = "bot can't initiate conversation with a user"
            raise Refused(403, why) if chat > 0 else Refused(400, "chat not found")
        if found["moved"]:
            why = "group chat was upgraded to a supergroup chat"
            raise Refused(400, why, migrate_to_chat_id=found["moved"])
        if found["closed"]:
            raise Refused(403, found["closed"])
        made: dict[str, Any] = found
        return made

    def put(
        self, chat: int, sender: dict[str, Any], *, topic: int = 0, **content: Any
    ) -> dict[str, Any]:
        """A new message of a chat."""
        found = self.make(chat)
        found["last"] += 1
        self.chats[str(chat)] = found
        message = {
            "message_id": found["last"],
            "from": sender,
            "chat": found["about"],
            "date": int(self.ground.now()),
            **({"message_thread_id": topic, "is_topic_message": True} if topic else {}),
            **content,
        }
        self.messages[f"{chat}/{found['last']}"] = message
        return message

    def message(self, chat: int, number: int, why: str) -> dict[str, Any]:
        """A message that is there. Raises `Refused` with `why`."""
        found: dict[str, Any] | None = self.messages.get(f"{chat}/{number}")
        if found is None:
            raise Refused(400, why)
        return found

    def reply(self, chat: int, number: int) -> dict[str, Any]:
        """What a reply holds of the message it answers."""
        known = self.messages.get(f"{chat}/{number}")
        if known is None:
            return {}
        return {"reply_to_message": {k: v for k, v in known.items() if k != "reply_to_message"}}

    def topic(self, chat: int, name: str, user: dict[str, Any], **more: Any) -> dict[str, Any]:
        """A new topic: the message that made it has its number."""
        about = {"name": name, "icon_color": 7322096} | more
        number = self.make(chat)["last"] + 1
        self.topics[f"{chat}/{number}"] = about
        return self.put(chat, user, topic=number, forum_topic_created=about)

    def text(self, text: str) -> dict[str, Any]:
        """The text of a person, with the entities it has of itself."""
        entities = of_itself(text)
        return {"text": text} | ({"entities": entities} if entities else {})

    def keep(self, content: bytes, name: str, mime: str) -> dict[str, Any]:
        """Keep a file; what a message says of it."""
        number = self.ground.number("file")
        about = {"file_id": f"file{number}", "file_unique_id": f"unique{number}"}
        about |= {"file_size": len(content)}  # type: ignore[dict-item]
        path = f"documents/file_{number}{'.' + name.rpartition('.')[2] if '.' in name else ''}"
        raw = base64.b64encode(content).decode()
        self.files[about["file_id"]] = {"about": about, "path": path, "raw": raw, "mime": mime}
        return about | {"file_name": name, "mime_type": mime}

    def content(self, path: str) -> tuple[bytes, str] | None:
        """The bytes and the type of a file, by its path."""
        for one in self.files.values():
            if one["path"] == path:
                return base64.b64decode(one["raw"]), one["mime"]
        return None

    def tell(self, chat: int, kind: str, what: dict[str, Any]) -> None:
        """An update for the bot, where it wants to know."""
        wanted = self.ground.settings.get("allowed_updates") or []
        if kind in wanted if wanted else kind not in UNASKED:
            number = self.ground.number("update", 1001)
            self.ground.emit(str(chat), {"update_id": number, kind: what})

    def pending(self) -> list[Event]:
        """Updates the bot has not confirmed, by their number; those of yesterday are gone."""
        ground = self.ground
        for one in ground.waiting():
            if self.age(one) > DAY:
                ground.settle(one, "given_up", "a day old")
        return sorted(ground.ripe(), key=lambda one: one.what["update_id"])

    def age(self, event: Event) -> float:
        """How old an update is, in the platform's seconds."""
        return (self.ground.now() - event.at) * self.ground.speed
