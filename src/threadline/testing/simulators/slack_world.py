"""What there is in the simulated Slack: a workspace with people, channels, threads and files.

It has one app with the bot `simbot`, and the channel `C0GENERAL` in which the bot is. People are
made by their names when they first do something. Text is given as Slack writes it: `<@U1>` calls
somebody, and `&`, `<` and `>` are escaped.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from threadline.testing.simulators.ground import Ground, Simulator
from threadline.testing.simulators.slack_text import blocks, called
from threadline.testing.simulators.wire import Event

TEAM, APP, BOT, BOT_ID = "T0HARBOUR", "A0SIMAPP", "U0SIMBOT", "B0SIMBOT"
GENERAL = "C0GENERAL"
VERIFICATION = "Jhj5dZrVaK7ZwHHjRyZWjbDl"
# What Slack calls the kinds of a conversation: in an event, in a scope, in a subscription.
KINDS = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}
# What a message has for itself, and an event about it has not.
ASIDE = frozenset({"metadata", "reactions"})


class World(Simulator):
    """The state of the platform. Everything that happens is an event in its channel."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.people = ground.book("people")
        self.channels = ground.book("channels")
        self.messages = ground.book("messages")
        self.files = ground.book("files")
        if BOT not in self.people:
            self.people[BOT] = person(BOT, "simbot") | {"is_bot": True}
            self.channels[GENERAL] = self._channel(GENERAL, "channel", "general", [BOT])

    # --- making things -----------------------------------------------------------------------

    def ts(self) -> str:
        """A fresh timestamp, later than all before."""
        made = int(self.ground.now() * 1_000_000)
        made = max(made, int(self.ground.settings.get("ts", 0)) + 1)
        self.ground.settings["ts"] = made
        return f"{made // 1_000_000}.{made % 1_000_000:06d}"

    def person(self, name: str) -> dict[str, Any]:
        """Somebody by their name or id."""
        for one in self.people.values():
            if name in (one["name"], one["id"]):
                found: dict[str, Any] = one
                return found
        made = person(f"U0{self.ground.number('person', 101):07d}", name)
        self.people[made["id"]] = made
        return made

    def _channel(self, ident: str, kind: str, name: str, members: Iterable[str]) -> dict[str, Any]:
        return {
            "id": ident,
            "kind": kind,
            "name": name,
            "created": int(self.ground.now()),
            "members": list(members),
            "archived": False,
            "refuses": "",
        }

    def channel(self, ident: str) -> dict[str, Any]:
        """A channel. Raises `KeyError`."""
        found: dict[str, Any] = self.channels[ident]
        return found

    def direct(self, users: Iterable[str]) -> dict[str, Any]:
        """The direct message of the bot with one or several people, the same every time."""
        members = sorted({BOT, *users})
        kind = "im" if len(members) == 2 else "mpim"
        for one in self.channels.values():
            if one["kind"] == kind and sorted(one["members"]) == members:
                found: dict[str, Any] = one
                return found
        letter = "D" if kind == "im" else "C"
        made = self._channel(self._id(letter), kind, "" if kind == "im" else "mpdm-sim", members)
        self.channels[made["id"]] = made
        return made

    @property
    def bot(self) -> dict[str, Any]:
        """The app's own user."""
        found: dict[str, Any] = self.people[BOT]
        return found

    def _id(self, letter: str) -> str:
        return f"{letter}0{self.ground.number('id', 5001):08d}"

    def message(self, channel: str, ts: str) -> dict[str, Any]:
        """A message. Raises `KeyError`."""
        found: dict[str, Any] = self.messages[f"{channel}/{ts}"]
        return found

    def keep(self, channel: str, message: dict[str, Any]) -> None:
        """Put a message back after it was changed."""
        self.messages[f"{channel}/{message['ts']}"] = message

    def spoken_in(self, channel: str, thread: str = "") -> list[dict[str, Any]]:
        """The messages of a channel, or of one of its threads with its root, oldest first."""
        found = [
            one
            for key, one in self.messages.everything().items()
            if key.partition("/")[0] == channel
            and (thread in (one["ts"], one.get("thread_ts")) if thread else in_room(one))
        ]
        return sorted(found, key=lambda one: str(one["ts"]))

    # --- telling it --------------------------------------------------------------------------

    def happens(
        self, where: dict[str, Any], event: dict[str, Any], *, team: str = TEAM, app: str = APP
    ) -> None:
        """An event, if the app subscribed to it and its bot is there to hear it."""
        kind = event["type"]
        wanted = f"message.{KINDS[where['kind']]}" if kind == "message" else kind
        subscribed = self.ground.settings.get("subscribed")
        ours = event.get("user") == BOT or BOT in where["members"]
        if not ours or (subscribed is not None and wanted not in subscribed):
            return
        number = self.ground.number("event_id")
        who = {"enterprise_id": None, "team_id": team, "user_id": BOT}
        self.ground.emit(
            where["id"],
            {
                "token": VERIFICATION,
                "team_id": team,
                "context_team_id": team,
                "context_enterprise_id": None,
                "api_app_id": app,
                "event": event,
                "type": "event_callback",
                "event_id": f"Ev0SIM{number:06d}",
                "event_time": int(self.ground.now()),
                "authorizations": [who | {"is_bot": True, "is_enterprise_install": False}],
                "is_ext_shared_channel": False,
                "event_context": f"4-sim-{number}",
            },
        )

    def tell(self, where: dict[str, Any], message: dict[str, Any], **more: Any) -> None:
        """The event of a message."""
        aside = ASIDE - ({"metadata"} if self.ground.settings.get("metadata") else set())
        said = {name: one for name, one in message.items() if name not in aside}
        about = {"channel": where["id"], "event_ts": message["ts"], "channel_type": where["kind"]}
        self.happens(where, said | about | more)

    def about(self, where: dict[str, Any], subtype: str, **facts: Any) -> None:
        """The event of something that became of a message."""
        ts = self.ts()
        event = {"type": "message", "subtype": subtype, "hidden": True, "channel": where["id"]}
        about = {"ts": ts, "event_ts": ts, "channel_type": where["kind"]}
        self.happens(where, event | facts | about)

    def write(
        self, where: dict[str, Any], author: dict[str, Any], text: str, **more: Any
    ) -> dict[str, Any]:
        """A new message with its events; the root of its thread counts it."""
        message = {
            "type": "message",
            "user": author["id"],
            "text": text,
            "ts": self.ts(),
            "team": TEAM,
            "blocks": blocks(text),
        } | more
        root = self._threaded(where, message)
        self.keep(where["id"], message)
        self.tell(where, message, **({"root": root} if "subtype" in more and root else {}))
        heard = where["kind"] != "im" and f"@{BOT}" in called(text) and author["id"] != BOT
        if heard:
            same = ("user", "text", "ts", "team", "blocks", "thread_ts", "client_msg_id", "files")
            twin = {name: message[name] for name in same if name in message}
            about = {"type": "app_mention", "channel": where["id"], "event_ts": message["ts"]}
            self.happens(where, twin | about)
        return message

    def _threaded(self, where: dict[str, Any], message: dict[str, Any]) -> dict[str, Any] | None:
        if "thread_ts" not in message:
            return None
        root = self.message(where["id"], message["thread_ts"])
        users = list(dict.fromkeys([*root.get("reply_users", []), message["user"]]))
        root |= {"thread_ts": root["ts"], "reply_count": root.get("reply_count", 0) + 1}
        root |= {"reply_users": users, "reply_users_count": len(users)}
        root["latest_reply"] = message["ts"]
        message["parent_user_id"] = root["user"]
        self.keep(where["id"], root)
        return root

    # --- what becomes of messages ------------------------------------------------------------

    def change(self, where: dict[str, Any], ts: str, who: str, **fresh: Any) -> dict[str, Any]:
        """Somebody edits a message."""
        before = self.message(where["id"], ts)
        after = before | fresh | {"edited": {"user": who, "ts": self.ts()}}
        self.keep(where["id"], after)
        self._changed(where, before, after)
        return after

    def _changed(
        self, where: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
    ) -> None:
        shown = [{k: v for k, v in one.items() if k not in ASIDE} for one in (after, before)]
        self.about(where, "message_changed", message=shown[0], previous_message=shown[1])

    def remove(self, where: dict[str, Any], ts: str) -> None:
        """A message is taken away; of the root of a thread a stone stays."""
        gone = self.message(where["id"], ts)
        if gone.get("reply_count"):
            stone = {"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "hidden": True}
            stone |= {"text": "This message was deleted."}
            stone |= {k: v for k, v in gone.items() if k.startswith(("ts", "thread", "reply"))}
            self.keep(where["id"], stone)
            self._changed(where, gone, stone)
            return
        del self.messages[f"{where['id']}/{ts}"]
        shown = {k: v for k, v in gone.items() if k not in ASIDE}
        self.about(where, "message_deleted", deleted_ts=ts, previous_message=shown)

    def react(self, where: dict[str, Any], ts: str, name: str, who: str, *, gone: bool) -> bool:
        """Somebody reacts, or takes that back; whether that was news."""
        message = self.message(where["id"], ts)
        known = {one["name"]: one["users"] for one in message.get("reactions", [])}
        users = known.get(name, [])
        if (who in users) != gone:
            return False
        known[name] = [one for one in users if one != who] if gone else [*users, who]
        counted = [{"name": n, "users": u, "count": len(u)} for n, u in known.items() if u]
        self.keep(where["id"], message | {"reactions": counted})
        item = {"type": "message", "channel": where["id"], "ts": ts}
        event = {"type": "reaction_removed" if gone else "reaction_added", "user": who}
        event |= {"reaction": name, "item_user": message["user"], "event_ts": self.ts()}
        self.happens(where, event | {"item": item})
        return True

    def enter(self, where: dict[str, Any], who: dict[str, Any], inviter: str = "") -> bool:
        """Somebody comes into a channel; whether they were not there."""
        if who["id"] in where["members"]:
            return False
        where["members"].append(who["id"])
        self.channels[where["id"]] = where
        event = self._member("member_joined_channel", where, who)
        self.happens(where, event | ({"inviter": inviter} if inviter else {}))
        subtype = "group_join" if where["kind"] == "group" else "channel_join"
        words = f"<@{who['id']}> has joined the channel"
        message = {"type": "message", "subtype": subtype, "user": who["id"], "text": words}
        message["ts"] = self.ts()
        self.keep(where["id"], message)
        self.tell(where, message)
        return True

    def leave(self, where: dict[str, Any], who: dict[str, Any]) -> None:
        """Somebody goes."""
        where["members"].remove(who["id"])
        self.channels[where["id"]] = where
        self.happens(where, self._member("member_left_channel", where, who))

    def _member(self, kind: str, where: dict[str, Any], who: dict[str, Any]) -> dict[str, Any]:
        letter = "C" if where["kind"] == "channel" else "G"
        about = {"type": kind, "user": who["id"], "channel": where["id"], "channel_type": letter}
        return about | {"team": TEAM, "event_ts": self.ts()}

    def waiting(self) -> list[Event]:
        """What waits for the app, by whichever way it listens."""
        return [one for one in self.ground.waiting() if not one.url]


def in_room(message: dict[str, Any]) -> bool:
    """Whether a message stands in its channel and not only in a thread."""
    root = message.get("thread_ts", message["ts"]) == message["ts"]
    return root or message.get("subtype") == "thread_broadcast"


def own(**more: Any) -> dict[str, Any]:
    """What marks a message of the app itself."""
    profile = {"id": BOT_ID, "app_id": APP, "name": "simbot", "team_id": TEAM, "deleted": False}
    return {"bot_id": BOT_ID, "app_id": APP, "bot_profile": profile, **more}


def typed() -> dict[str, Any]:
    """What marks a message that a person typed."""
    return {"client_msg_id": str(uuid.uuid4())}


def person(ident: str, name: str) -> dict[str, Any]:
    """A user object."""
    shown = name.replace(".", " ").title()
    return {
        "id": ident,
        "team_id": TEAM,
        "name": name,
        "deleted": False,
        "real_name": shown,
        "tz": "Europe/Amsterdam",
        "profile": {
            "real_name": shown,
            "display_name": name,
            "email": f"{name}@harbour.example",
            "image_72": "",
            "team": TEAM,
        },
        "is_bot": False,
        "is_app_user": False,
        "is_restricted": False,
        "updated": 1_700_000_000,
    }
