"""What people do in the simulated Slack, and what happens there without them."""

from __future__ import annotations

from typing import Any

from threadline.testing.simulators.slack_files import Files
from threadline.testing.simulators.slack_text import blocks
from threadline.testing.simulators.slack_world import APP, GENERAL, KINDS, TEAM, own, typed


class People(Files):
    """The commands: everybody is called by a name, and is there once they did something."""

    def do_channel(
        self, name: str = "room", kind: str = "channel", member: bool = True, users: Any = ()
    ) -> dict[str, Any]:
        """A further `channel` or private `group`, with the bot in it or without."""
        if kind not in ("channel", "group"):
            raise ValueError("a channel is of the kind channel or group; see dm")
        members = [self.person(one)["id"] for one in users]
        made = self._channel(self._id("C"), kind, name, members)
        self.channels[made["id"]] = made
        if member:
            self.enter(made, self.bot, inviter=self.person("ada")["id"])
        return self.channel(made["id"])

    def do_dm(self, users: Any = ("ada",)) -> dict[str, Any]:
        """The direct message of the bot with one person, or with several."""
        names = [users] if isinstance(users, str) else users
        return self.direct([self.person(one)["id"] for one in names])

    def do_person(self, user: str = "ada") -> dict[str, Any]:
        """Somebody, as `users.info` shows them."""
        return self.person(user)

    def do_say(
        self,
        text: str = "hi",
        channel: str = GENERAL,
        user: str = "ada",
        thread: str = "",
        broadcast: bool = False,
        bot: str = "",
        files: Any = (),
    ) -> dict[str, Any]:
        """Somebody writes, in a thread or beside it. `bot` is a `modern` or a `legacy` one."""
        where, author = self.channel(channel), self.person(user)
        if not bot and author["id"] not in where["members"]:
            where["members"].append(author["id"])
            self.channels[channel] = where
        more: dict[str, Any] = typed()
        if bot:
            more = {"bot_id": "B0OTHER", "app_id": "A0OTHER"}
            profile = {"id": "B0OTHER", "app_id": "A0OTHER", "name": user, "team_id": TEAM}
            more |= {"bot_profile": profile}
        if bot == "legacy":
            more = {"bot_id": "B0LEGACY", "subtype": "bot_message", "username": user}
        if thread:
            more["thread_ts"] = self.message(channel, thread)["ts"]
        if thread and broadcast:
            more["subtype"] = "thread_broadcast"
        if files:
            shared = [self.kept(name, content) for name, content in files]
            more |= {"subtype": "file_share", "files": shared, "upload": False}
        made = self.write(where, author, text, **more)
        for one in more.get("files", ()):
            self.shown(one["id"], where, made)
        return made

    def do_file(
        self,
        name: str = "a.txt",
        content: str = "bytes",
        text: str = "",
        channel: str = GENERAL,
        user: str = "ada",
        thread: str = "",
    ) -> dict[str, Any]:
        """Somebody shares a file, with a text beside it or without."""
        return self.do_say(text, channel, user, thread, files=[(name, content)])

    def do_edit(self, channel: str, ts: str, text: str) -> dict[str, Any]:
        """Somebody changes what they wrote."""
        where = self.channel(channel)
        user = self.message(channel, ts)["user"]
        return self.change(where, ts, user, text=text, blocks=blocks(text))

    def do_unfurl(self, channel: str, ts: str) -> dict[str, Any]:
        """Slack has looked up a link: a change that is no edit."""
        before = self.message(channel, ts)
        card = {"id": 1, "from_url": "https://harbour.example/", "title": "A page"}
        after = before | {"attachments": [card]}
        self.keep(channel, after)
        self._changed(self.channel(channel), before, after)
        return after

    def do_recount(self, channel: str, ts: str) -> dict[str, Any]:
        """Slack tells that the root of a thread has new figures, which is no edit either."""
        root = self.message(channel, ts)
        before = {k: v for k, v in root.items() if not k.startswith(("reply", "latest"))}
        self._changed(self.channel(channel), before, root)
        return root

    def do_delete(self, channel: str, ts: str) -> None:
        """Somebody takes a message away."""
        self.remove(self.channel(channel), ts)

    def do_react(
        self, channel: str, ts: str, name: str = "+1", user: str = "ada", remove: bool = False
    ) -> bool:
        """Somebody reacts, or takes that back; whether it was news."""
        who = self.person(user)["id"]
        return self.react(self.channel(channel), ts, name, who, gone=remove)

    def do_join(self, channel: str, user: str = "ada") -> bool:
        """Somebody comes in; whether they were not there."""
        return self.enter(self.channel(channel), self.person(user))

    def do_leave(self, channel: str, user: str = "ada") -> None:
        """Somebody goes; `simbot` is taken out."""
        self.leave(self.channel(channel), self.person(user))

    def do_type(self, text: str, channel: str = GENERAL, thread: str = "") -> dict[str, Any]:
        """The bot itself says something by another way than this account's calls."""
        more = own(**({"thread_ts": thread} if thread else {}))
        return self.write(self.channel(channel), self.bot, text, **more)

    def do_event(
        self, event: dict[str, Any], channel: str = GENERAL, team: str = TEAM, app: str = APP
    ) -> None:
        """Any other event, as it is; of another workspace or app if they are named."""
        self.happens(self.channel(channel), event, team=team, app=app)

    def do_refuse(self, channel: str, error: str = "restricted_action") -> None:
        """Nobody of ours may write there any more: refused like this; empty allows it again."""
        self.channels[channel] = self.channel(channel) | {"refuses": error}

    def do_archive(self, channel: str, archived: bool = True) -> None:
        """A channel is closed, or opened again."""
        self.channels[channel] = self.channel(channel) | {"archived": archived}

    def do_messages(self, channel: str, thread: str = "") -> list[dict[str, Any]]:
        """What everybody sees in a channel, or in one of its threads, in its order."""
        return self.spoken_in(channel, thread)

    # --- the app's own page ------------------------------------------------------------------

    def do_scopes(self, scopes: list[str] | None = None) -> None:
        """Which scopes the bot's token has; without any list it has all."""
        self.ground.settings["scopes"] = scopes

    def do_subscribe(self, events: list[str] | None = None) -> None:
        """Which events the app hears, such as `message.im`; without any list it hears all."""
        known = {f"message.{one}" for one in KINDS.values()}
        for one in events or []:
            if one.startswith("message") and one not in known:
                raise ValueError(f"there is no subscription {one}")
        self.ground.settings["subscribed"] = events

    def do_token(self, error: str = "") -> None:
        """Every token is refused like this from now on, as with `token_revoked`."""
        self.ground.settings["revoked"] = error

    def do_expect(
        self, ack: float = 3.0, page: int = 1000, metadata: bool = False, shares: bool = False
    ) -> None:
        """How long a socket may take to acknowledge, in seconds; how many messages a page of
        history has at most; whether events carry the metadata of a message; whether the answer to
        an upload says already where its files were shown."""
        told = {"ack": ack, "page": page, "metadata": metadata, "shares": shares}
        self.ground.settings.update(told)
