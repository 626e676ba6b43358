"""What there is in the simulated Discord: people, channels, messages, and what people do with them.

It has one server (id 1) with the channel `800`, and one application (700) with the bot user 900.
People are made by their names when they first do something.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from threadline.testing.simulators.ground import Ground, Simulator
from threadline.testing.simulators.wire import File

GUILD = "1"
GENERAL = "800"
APPLICATION = "700"
BOT = "900"
EPOCH = 1_420_070_400_000
DM, GROUP_DM, TEXT, THREAD, FORUM = 1, 3, 0, 11, 15
THREADS = frozenset({10, 11, 12})
_MENTION = re.compile(r"<@!?(\d+)>")


class World(Simulator):
    """The state of the platform. Everything that happens is a gateway event in its channel."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.people = ground.book("people")
        self.channels = ground.book("channels")
        self.messages = ground.book("messages")
        if BOT not in self.people:
            self.people[BOT] = person(BOT, "simbot") | {"bot": True}
            self.channels[GENERAL] = channel(GENERAL, TEXT, "general")

    # --- making things -----------------------------------------------------------------------

    def snowflake(self) -> str:
        """A fresh id; time is written into it."""
        made = (int(self.ground.now() * 1000) - EPOCH) << 22
        last = max(made, int(self.ground.settings.get("snowflake", 0)) + 1)
        self.ground.settings["snowflake"] = last
        return str(last)

    def person(self, name: str) -> dict[str, Any]:
        """Somebody by their name."""
        for one in self.people.values():
            if one["username"] == name:
                found: dict[str, Any] = one
                return found
        made = person(str(self.ground.number("person", 101)), name)
        self.people[made["id"]] = made
        return made

    def channel(self, channel_id: str) -> dict[str, Any]:
        """A channel. Raises `KeyError`."""
        found: dict[str, Any] = self.channels[channel_id]
        return found

    def message(self, channel_id: str, message_id: str) -> dict[str, Any]:
        """A message. Raises `KeyError`."""
        found: dict[str, Any] = self.messages[f"{channel_id}/{message_id}"]
        return found

    def keep(self, message: dict[str, Any]) -> None:
        """Put a message back after it was changed."""
        self.messages[f"{message['channel_id']}/{message['id']}"] = message

    def spoken_in(self, channel_id: str) -> list[dict[str, Any]]:
        """The messages of a channel, oldest first."""
        found = self.messages.everything().values()
        here = [one for one in found if one["channel_id"] == channel_id]
        return sorted(here, key=lambda one: int(one["id"]))

    def happens(self, name: str, where: dict[str, Any], data: dict[str, Any]) -> None:
        """A gateway event."""
        if "guild_id" in where:
            data = data | {"guild_id": where["guild_id"]}
        self.ground.emit(where["id"], {"t": name, "d": data})

    def write(
        self, where: dict[str, Any], author: dict[str, Any], text: str, **more: Any
    ) -> dict[str, Any]:
        """A new message, and its event."""
        mentioned = dict.fromkeys(_MENTION.findall(text))
        message = {
            "id": self.snowflake(),
            "channel_id": where["id"],
            "author": author,
            "content": text,
            "timestamp": self.stamp(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [self.people[one] for one in mentioned if one in self.people],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
        } | more
        nonce = message.pop("nonce", None)
        self.keep(message)
        self.happens("MESSAGE_CREATE", where, self.shown(message, where, nonce))
        return message if nonce is None else message | {"nonce": nonce}

    def shown(self, message: dict[str, Any], where: dict[str, Any], nonce: Any) -> dict[str, Any]:
        """A message as the gateway shows it."""
        data = message | {"channel_type": where["type"]}
        if "guild_id" in where and "webhook_id" not in message:
            data["member"] = member(message["timestamp"])
        return data if nonce is None else data | {"nonce": nonce}

    def stamp(self) -> str:
        """The time as Discord writes it."""
        return datetime.fromtimestamp(self.ground.now(), UTC).isoformat(timespec="microseconds")

    def link(self, attachment: dict[str, Any], origin: str) -> str:
        """A link to a file, which expires in a day."""
        until = int(self.ground.now()) + 86_400
        return f"{origin}/attachments/{attachment['id']}/{attachment['filename']}?ex={until:x}"

    # --- what people do ----------------------------------------------------------------------

    def do_channel(self, name: str = "room", type: int = TEXT) -> dict[str, Any]:
        """A further channel of the server."""
        made = channel(self.snowflake(), type, name)
        self.channels[made["id"]] = made
        self.happens("CHANNEL_CREATE", made, made)
        return made

    def do_thread(
        self, channel: str = GENERAL, name: str = "thread", message: str = "", user: str = "ada"
    ) -> dict[str, Any]:
        """Somebody opens a thread, on a message or by itself; in a forum it is a post."""
        return self.begin_thread(self.channel(channel), name, message, self.person(user)["id"])

    def begin_thread(
        self, where: dict[str, Any], name: str, message: str, owner: str
    ) -> dict[str, Any]:
        """A thread, its event, and the mark on the message it hangs on."""
        made = channel_of_thread(message or self.snowflake(), where["id"], name, owner)
        made["thread_metadata"]["archive_timestamp"] = self.stamp()
        self.channels[made["id"]] = made
        self.happens("THREAD_CREATE", made, made | {"newly_created": True})
        if message:
            root = self.message(where["id"], message)
            self.keep(root | {"thread": made, "flags": root["flags"] | 32})
            pointed = {"type": 0, "channel_id": where["id"], "message_id": message}
            starter = {"type": 21, "message_reference": pointed, "referenced_message": root}
            self.write(made, root["author"], "", **starter)
        return made

    def do_dm(self, user: str = "ada") -> dict[str, Any]:
        """The direct message of somebody and the bot, the same every time."""
        return self.direct(self.person(user))

    def direct(self, who: dict[str, Any]) -> dict[str, Any]:
        """The direct message with a person."""
        for one in self.channels.values():
            if one["type"] == DM and one["recipients"][0]["id"] == who["id"]:
                found: dict[str, Any] = one
                return found
        made = {"id": self.snowflake(), "type": DM, "recipients": [who], "last_message_id": None}
        self.channels[str(made["id"])] = made
        return made

    def do_group(self, users: list[str]) -> dict[str, Any]:
        """A direct message of several people."""
        people = [self.person(one) for one in users]
        made = {"id": self.snowflake(), "type": GROUP_DM, "recipients": people, "name": "group"}
        self.channels[str(made["id"])] = made
        return made

    def do_say(
        self,
        text: str = "",
        channel: str = GENERAL,
        user: str = "ada",
        reply_to: str = "",
        type: int = 0,
        bot: bool = False,
        webhook: bool = False,
        file: str = "",
    ) -> dict[str, Any]:
        """Somebody writes, perhaps as an answer, perhaps with a file of that name."""
        where, author = self.channel(channel), self.person(user)
        more: dict[str, Any] = {"type": type}
        if reply_to:
            pointed = {"type": 0, "channel_id": channel, "message_id": reply_to}
            if "guild_id" in where:
                pointed["guild_id"] = GUILD
            more = {"type": 19, "message_reference": pointed}
            more["referenced_message"] = self.message(channel, reply_to)
        if webhook:
            more["webhook_id"] = "66"
        if file:
            more["attachments"] = [self.file(file)]
        shown = author | {"bot": True} if bot or webhook else author
        return self.write(where, shown, text, **more)

    def file(self, name: str) -> dict[str, Any]:
        """A small file under this name."""
        made: dict[str, Any] = {"id": self.snowflake(), "filename": name, "size": len(name)}
        made["content_type"] = "text/plain"
        made["url"] = made["proxy_url"] = self.link(made, self.ground.settings.get("origin", ""))
        return made

    def given(self, file: File, origin: str) -> dict[str, Any]:
        """A file that the bot sent along, as everybody sees it."""
        made: dict[str, Any] = {"id": self.snowflake(), "filename": file.name}
        made |= {"size": len(file.content), "content_type": file.content_type}
        made["url"] = made["proxy_url"] = self.link(made, origin)
        content = file.content.decode("latin-1")
        self.ground.book("files")[made["id"]] = [file.content_type, content]
        return made

    def do_edit(self, channel: str, message: str, text: str) -> dict[str, Any]:
        """Somebody changes what they wrote."""
        changed = self.message(channel, message)
        changed |= {"content": text, "edited_timestamp": self.stamp()}
        return self._updated(changed)

    def do_unfurl(self, channel: str, message: str) -> dict[str, Any]:
        """Discord has looked up a link: an update that is no edit."""
        changed = self.message(channel, message)
        return self._updated(changed | {"embeds": [{"type": "link", "title": "A page"}]})

    def _updated(self, changed: dict[str, Any]) -> dict[str, Any]:
        self.keep(changed)
        where = self.channel(changed["channel_id"])
        self.happens("MESSAGE_UPDATE", where, self.shown(changed, where, None))
        return changed

    def do_delete(self, channel: str, messages: list[str]) -> None:
        """Messages are taken away, several of them at once."""
        for one in messages:
            del self.messages[f"{channel}/{one}"]
        where = self.channel(channel)
        if len(messages) == 1:
            self.happens("MESSAGE_DELETE", where, {"id": messages[0], "channel_id": channel})
        else:
            self.happens("MESSAGE_DELETE_BULK", where, {"ids": messages, "channel_id": channel})

    def do_react(
        self, channel: str, message: str, emoji: str, user: str = "ada", remove: bool = False
    ) -> None:
        """Somebody reacts, or takes that back."""
        root = self.message(channel, message)
        self.react(root, emoji, self.person(user), remove=remove)

    def react(self, root: dict[str, Any], emoji: str, who: dict[str, Any], *, remove: bool) -> None:
        """A reaction's event."""
        where = self.channel(root["channel_id"])
        data: dict[str, Any] = {
            "user_id": who["id"],
            "channel_id": where["id"],
            "message_id": root["id"],
            "emoji": {"id": None, "name": emoji},
            "type": 0,
            "burst": False,
        }
        if not remove:
            data["message_author_id"] = root["author"]["id"]
            if "guild_id" in where:
                data["member"] = member(root["timestamp"]) | {"user": who}
        self.happens(f"MESSAGE_REACTION_{'REMOVE' if remove else 'ADD'}", where, data)

    def do_close(self, channel: str, code: int = 50007) -> None:
        """Nobody of ours may write there any more: refused with this code; 0 opens it again."""
        self.channels[channel] = self.channel(channel) | {"_refuses": code}


def person(user_id: str, name: str) -> dict[str, Any]:
    """A user object."""
    return {
        "id": user_id,
        "username": name,
        "global_name": name.title(),
        "discriminator": "0",
        "avatar": None,
        "bot": False,
    }


def member(since: str) -> dict[str, Any]:
    """Somebody's part in the server."""
    return {"roles": [], "nick": None, "joined_at": since, "deaf": False, "mute": False, "flags": 0}


def channel(channel_id: str, kind: int, name: str) -> dict[str, Any]:
    """A channel of the server."""
    return {
        "id": channel_id,
        "type": kind,
        "guild_id": GUILD,
        "name": name,
        "topic": None,
        "position": 0,
        "parent_id": None,
        "nsfw": False,
        "rate_limit_per_user": 0,
        "last_message_id": None,
        "permission_overwrites": [],
    }


def channel_of_thread(thread_id: str, above: str, name: str, owner: str) -> dict[str, Any]:
    """A thread."""
    return {
        "id": thread_id,
        "type": THREAD,
        "guild_id": GUILD,
        "parent_id": above,
        "name": name,
        "owner_id": owner,
        "message_count": 0,
        "member_count": 1,
        "rate_limit_per_user": 0,
        "last_message_id": None,
        "thread_metadata": {"archived": False, "auto_archive_duration": 1440, "locked": False},
    }
