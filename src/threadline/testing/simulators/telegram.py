"""Telegram's Bot API, as strict as the real one and stricter about parameters nobody knows.

One bot. Private chats, groups, supergroups and forums; long polls with their conflict, webhooks
with their secret token and their schedule. A bot never hears itself, and nobody hears of deletions.
Unlike the real one it takes webhooks without TLS on any port.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from threadline.testing.simulators.ground import Ground, Simulator
from threadline.testing.simulators.telegram_asked import METHODS, Asked, Refused
from threadline.testing.simulators.telegram_bot import Bot
from threadline.testing.simulators.telegram_world import BOT, DAY, World
from threadline.testing.simulators.wire import Answer, Call, Event, Push, says

TOKEN = f"{BOT['id']}:AAH-simulated-token-of-35-characters"
LONGEST_POLL = 50
_PATH = re.compile(r"/(file/)?bot([^/]+)/(.+)")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class Telegram(Simulator):
    """See `Simulator`. The commands are what people do; `chat` and `user` are Telegram's ids."""

    speaking: ClassVar[frozenset[str]] = frozenset({"sendMessage", "sendDocument", "sendPhoto"})
    patience: ClassVar[float] = 60.0

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.world = World(ground)
        self._bot = Bot(self.world)
        self._poll = 0

    def credentials(self) -> dict[str, str]:
        """The bot's token."""
        return {"token": TOKEN}

    def route(self, call: Call) -> tuple[str, str]:
        """The method as Telegram spells it, and the chat."""
        found = _PATH.fullmatch(call.path)
        if found is None or found[1]:
            return "file" if found else call.path, ""
        try:
            chat = call.fields().get("chat_id", "")
        except (ValueError, RecursionError):
            chat = ""
        return METHODS.get(found[3].lower(), (found[3],))[0], str(chat)

    async def answer(self, call: Call) -> Answer:
        """One method, or the bytes of a file."""
        found = _PATH.fullmatch(call.path)
        try:
            if found is None:
                raise Refused(404, "Not Found")
            if found[2] != TOKEN:
                raise Refused(401, "Unauthorized")
            if found[1]:
                return self._download(found[3])
            return says(await self._method(found[3].lower(), call))
        except Refused as refused:
            return refused.answer()

    async def _method(self, name: str, call: Call) -> dict[str, Any]:
        if name not in METHODS:
            raise Refused(404, "Not Found")
        try:
            given = call.fields()
        except (ValueError, RecursionError):
            raise Refused(400, "can't parse the request") from None
        asked = Asked(name, given)
        if name == "getupdates":
            return {"ok": True, "result": await self._updates(asked)}
        if name in ("setwebhook", "deletewebhook", "getwebhookinfo"):
            return {"ok": True, "result": getattr(self, f"_{name}")(asked)}
        return {"ok": True, "result": self._bot.call(name, asked)}

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """In the body and in a header."""
        seconds = max(1, int(wait))
        why = f"Too Many Requests: retry after {seconds}"
        said = {"ok": False, "error_code": 429, "description": why}
        return says(said | {"parameters": {"retry_after": seconds}}, 429, retry_after=str(seconds))

    def broken(self, call: Call, status: int) -> Answer:
        """Telegram's own 5xx is JSON."""
        why = {500: "Internal Server Error", 502: "Bad Gateway"}.get(status, f"Error {status}")
        return says({"ok": False, "error_code": status, "description": why}, status)

    # How updates reach the bot.

    def push(self, event: Event, url: str, secret: str) -> Push:
        """Not signed: only the secret token says who calls."""
        headers = {"content-type": "application/json"}
        if secret:
            headers["x-telegram-bot-api-secret-token"] = secret
        return Push(url=url, body=json.dumps(event.what).encode(), headers=headers)

    def retry(self, event: Event, status: int | None, headers: Mapping[str, str]) -> float | None:
        """As asked for, else after 1, 2, 4 … up to some 90 seconds, for a day."""
        if self.world.age(event) > DAY:
            return None
        asked = headers.get("retry-after", "")
        if asked.isdigit():
            return float(min(int(asked), 3600))
        return float(min(2.0 ** min(event.attempts, 10), random.uniform(60, 120)))

    async def _updates(self, asked: Asked) -> list[Any]:
        ground, world = self.ground, self.world
        if ground.webhook is not None:
            raise Refused(
                409,
                "can't use getUpdates method while webhook is active;"
                " use deleteWebhook to delete the webhook first",
            )
        offset, limit = asked.integer("offset", 0) or 0, asked.integer("limit", 100) or 100
        patience = min(max(asked.integer("timeout", 0) or 0, 0), LONGEST_POLL)
        allowed = asked.made("allowed_updates", list)
        if allowed is not None:
            ground.settings["allowed_updates"] = allowed
        self._poll += 1
        ours = self._poll
        if offset < 0:
            newest = [one.what["update_id"] for one in world.pending()][offset:]
            offset = newest[0] if newest else 0
        for one in world.pending():
            if one.what["update_id"] < offset:
                ground.settle(one)
        ground.commit()  # Which also wakes a poll that was there before us, and ends it.
        await ground.until(lambda: self._poll != ours or bool(world.pending()), patience)
        if self._poll != ours:
            raise Refused(
                409,
                "terminated by other getUpdates request;"
                " make sure that only one bot instance is running",
            )
        return [one.what for one in world.pending()][: min(max(limit, 1), 100)]

    def _setwebhook(self, asked: Asked) -> bool:
        url, secret = asked.text("url"), asked.text("secret_token")
        if url and not re.match(r"https?://[^\s/]+", url):
            raise Refused(400, "bad webhook: invalid webhook URL specified")
        if secret and not _SECRET.fullmatch(secret):
            raise Refused(400, "secret token contains unallowed characters")
        allowed = asked.made("allowed_updates", list)
        if allowed is not None:
            self.ground.settings["allowed_updates"] = allowed
        most = asked.integer("max_connections", 40) or 40
        self.ground.set_webhook(url, secret, max_connections=most)
        self._poll += 1
        return self._dropped(asked)

    def _deletewebhook(self, asked: Asked) -> bool:
        self.ground.set_webhook("")
        return self._dropped(asked)

    def _dropped(self, asked: Asked) -> bool:
        if asked.yes("drop_pending_updates"):
            for one in self.ground.waiting():
                self.ground.settle(one, "lost")
        return True

    def _getwebhookinfo(self, asked: Asked) -> dict[str, Any]:
        webhook = self.ground.webhook or {"url": ""}
        waiting = self.ground.waiting()
        about: dict[str, Any] = {
            "url": webhook["url"],
            "has_custom_certificate": False,
            "pending_update_count": len(waiting),
        }
        if webhook["url"]:
            about["max_connections"] = webhook.get("max_connections", 40)
        if failed := [one for one in waiting if one.error]:
            about["last_error_date"] = int(self.ground.now())
            about["last_error_message"] = f"Wrong response from the webhook: {failed[-1].error}"
        if allowed := self.ground.settings.get("allowed_updates"):
            about["allowed_updates"] = allowed
        return about

    def _download(self, path: str) -> Answer:
        found = self.world.content(path)
        if found is None:
            raise Refused(404, "Not Found")
        return Answer(body=found[0], headers={"content-type": "application/octet-stream"})

    # What people do.

    def do_chat(
        self, chat: int, kind: str = "", title: str = "", forum: bool = False, name: str = ""
    ) -> dict[str, Any]:
        """There is a chat of that id; what it is follows from the id unless `kind` says it."""
        made: dict[str, Any] = self.world.make(chat, kind, title, forum, name)["about"]
        return made

    def do_say(
        self,
        chat: int,
        text: str = "",
        user: int = 0,
        name: str = "",
        topic: int = 0,
        reply_to: int = 0,
        file: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Somebody says something: in a private chat the person the chat is with.

        `file` has `name`, `type` and `text` or `base64`; `extra` is put into the message as it is.
        """
        world = self.world
        sender = self._sender(chat, user, name)
        world.make(chat, name=name)
        content: dict[str, Any] = {}
        if file is not None:
            raw = base64.b64decode(file["base64"]) if "base64" in file else file["text"].encode()
            about = world.keep(raw, file["name"], file.get("type", "application/octet-stream"))
            content = {"document": about} | ({"caption": text} if text else {})
        elif text:
            content = world.text(text)
        reply = world.reply(chat, reply_to) if reply_to else {}
        message = world.put(chat, sender, topic=topic, **reply, **content, **(extra or {}))
        world.tell(chat, "message", message)
        return message

    def _sender(self, chat: int, user: int, name: str) -> dict[str, Any]:
        if not user and chat < 0:
            raise ValueError("a group needs a user who says it")
        return self.world.person(user or chat, name)

    def do_edit(self, chat: int, message: int, text: str) -> dict[str, Any]:
        """Somebody changes what they said."""
        known = self._known(chat, message)
        fresh = {k: v for k, v in known.items() if k not in ("text", "entities", "caption")}
        part = {"caption": text} if "document" in known else self.world.text(text)
        fresh |= {"edit_date": int(self.ground.now())} | part
        self.world.messages[f"{chat}/{message}"] = fresh
        self.world.tell(chat, "edited_message", fresh)
        return fresh

    def _known(self, chat: int, message: int) -> dict[str, Any]:
        found: dict[str, Any] | None = self.world.messages.get(f"{chat}/{message}")
        if found is None:
            raise KeyError(f"message {message} in {chat}")
        return found

    def do_delete(self, chat: int, message: int) -> dict[str, Any]:
        """Somebody takes a message away, of which Telegram tells bots nothing."""
        known = self._known(chat, message)
        del self.world.messages[f"{chat}/{message}"]
        return known

    def do_react(
        self, chat: int, message: int, emoji: str, user: int = 0, gone: bool = False
    ) -> dict[str, Any]:
        """Somebody reacts, or takes the reaction back. Sent only to those who asked for it."""
        about = {
            "chat": self.world.make(chat)["about"],
            "message_id": self._known(chat, message)["message_id"],
            "user": self._sender(chat, user, ""),
            "date": int(self.ground.now()),
        }
        now = [{"type": "emoji", "emoji": emoji}]
        about |= {"old_reaction": now if gone else [], "new_reaction": [] if gone else now}
        self.world.tell(chat, "message_reaction", about)
        return about

    def do_join(self, chat: int, user: int, name: str = "") -> dict[str, Any]:
        """Somebody comes into a group."""
        who = self.world.person(user, name)
        return self.do_say(chat, user=user, name=name, extra={"new_chat_members": [who]})

    def do_leave(self, chat: int, user: int, name: str = "") -> dict[str, Any]:
        """Somebody goes."""
        who = self.world.person(user, name)
        return self.do_say(chat, user=user, name=name, extra={"left_chat_member": who})

    def do_topic(self, chat: int, name: str, user: int) -> dict[str, Any]:
        """Somebody makes a topic in a forum; its number is `message_thread_id`."""
        self.world.make(chat, forum=True)
        message = self.world.topic(chat, name, self.world.person(user))
        self.world.tell(chat, "message", message)
        return message

    def do_block(self, user: int) -> dict[str, Any]:
        """Somebody blocks the bot."""
        return self._member(user, user, "kicked", "bot was blocked by the user")

    def do_unblock(self, user: int) -> dict[str, Any]:
        """Somebody lets the bot speak again."""
        return self._member(user, user, "member", "")

    def do_kick(self, chat: int, user: int) -> dict[str, Any]:
        """Somebody takes the bot out of a group."""
        kind = self.world.make(chat)["about"]["type"]
        return self._member(chat, user, "kicked", f"bot was kicked from the {kind} chat")

    def do_invite(self, chat: int, user: int) -> dict[str, Any]:
        """Somebody takes the bot into a group."""
        return self._member(chat, user, "member", "")

    def _member(self, chat: int, user: int, status: str, closed: str) -> dict[str, Any]:
        self.world.close(chat, closed)
        before = "member" if status == "kicked" else "left"
        about = {
            "chat": self.world.make(chat)["about"],
            "from": self.world.person(user),
            "date": int(self.ground.now()),
            "old_chat_member": {"status": before, "user": BOT},
            "new_chat_member": {"status": status, "user": BOT}
            | ({"until_date": 0} if status == "kicked" else {}),
        }
        self.world.tell(chat, "my_chat_member", about)
        return about

    def do_migrate(self, chat: int, to: int, user: int) -> dict[str, Any]:
        """A group becomes a supergroup, which is another chat."""
        old = self.world.make(chat)
        self.world.make(to, title=old["about"]["title"])
        message = self.do_say(chat, user=user, extra={"migrate_to_chat_id": to})
        self.do_say(to, user=user, extra={"migrate_from_chat_id": chat})
        self.world.chats[str(chat)] = self.world.make(chat) | {"moved": to}
        return message

    def do_update(self, chat: int, kind: str, what: dict[str, Any]) -> dict[str, Any]:
        """Any other update, as it is."""
        self.world.tell(chat, kind, what)
        return what

    def do_messages(self, chat: int) -> list[dict[str, Any]]:
        """What everybody sees in a chat, in its order."""
        return [
            one
            for key, one in self.world.messages.everything().items()
            if key.partition("/")[0] == str(chat)
        ]
