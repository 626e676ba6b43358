"""What the bot may read in the simulated Slack, and where it may write: rooms, people, the past."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from threadline.testing.simulators.slack_asked import TS, Asked, Refused
from threadline.testing.simulators.slack_people import People
from threadline.testing.simulators.slack_world import APP, BOT, BOT_ID, KINDS, TEAM

T = TypeVar("T")
SCOPES = (
    *("chat:write", "chat:write.public", "chat:write.customize", "channels:join"),
    *(f"{kind}:{what}" for what in ("history", "read", "write") for kind in KINDS.values()),
    *("channels:manage", "groups:manage", "users:read", "users:read.email", "team:read"),
    *("files:read", "files:write", "reactions:read", "reactions:write", "app_mentions:read"),
)
TYPES = {"public_channel": "channel", "private_channel": "group", "mpim": "mpim", "im": "im"}


class Rooms(People):
    """`conversations.*`, `users.*` and who we are."""

    def scopes(self) -> list[str]:
        """Those the bot's token has."""
        found: list[str] | None = self.ground.settings.get("scopes")
        return list(SCOPES) if found is None else found

    def need(self, scope: str) -> None:
        """Raise `Refused` without this scope."""
        if scope and scope not in self.scopes():
            raise Refused("missing_scope", needed=scope, provided=",".join(self.scopes()))

    def seen(self, ident: str) -> dict[str, Any]:
        """A channel the bot can see, by its id. Raises `Refused`."""
        found: dict[str, Any] | None = self.channels.get(ident)
        if found is None or (found["kind"] != "channel" and BOT not in found["members"]):
            raise Refused("channel_not_found")
        return found

    def read_in(self, ident: str) -> dict[str, Any]:
        """A channel whose messages the bot may read. Raises `Refused`."""
        where = self.seen(ident)
        if BOT not in where["members"]:
            raise Refused("not_in_channel")
        return where

    def writable(self, ident: str) -> dict[str, Any]:
        """A channel in which the bot may write: by id, by `#name`, or by whom it talks with."""
        if ident in self.people:
            where = self._opened([ident])
        else:
            named = {f"#{one['name']}": key for key, one in self.channels.everything().items()}
            where = self.seen(named.get(ident, ident))
        if where["archived"]:
            raise Refused("is_archived")
        if BOT not in where["members"] and "chat:write.public" not in self.scopes():
            raise Refused("not_in_channel")
        if where["refuses"]:
            raise Refused(where["refuses"])
        return where

    def root(self, where: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        """The `thread_ts` of a call that has one. Raises `Refused`.

        The real one takes a timestamp nobody has, and shows the message to nobody.
        """
        ts = asked.ts("thread_ts", "invalid_thread_ts")
        if not ts:
            return {}
        found = self.messages.get(f"{where['id']}/{ts}")
        if found is None:
            raise Refused("thread_not_found")
        if found.get("thread_ts", ts) != ts:
            raise Refused("cannot_reply_to_message")
        return {"thread_ts": ts}

    # --- who and where -----------------------------------------------------------------------

    def _auth_test(self, asked: Asked) -> dict[str, Any]:
        about = {"url": "https://harbour.slack.com/", "team": "Harbour", "team_id": TEAM}
        about |= {"user": "simbot", "user_id": BOT, "bot_id": BOT_ID}
        return about | {"is_enterprise_install": False}

    def _bots_info(self, asked: Asked) -> dict[str, Any]:
        if asked.text("bot") != BOT_ID:
            raise Refused("bot_not_found")
        bot = {"id": BOT_ID, "app_id": APP, "user_id": BOT, "name": "simbot", "deleted": False}
        return {"bot": bot}

    def _team_info(self, asked: Asked) -> dict[str, Any]:
        return {"team": {"id": TEAM, "name": "Harbour", "domain": "harbour"}}

    def _users_info(self, asked: Asked) -> dict[str, Any]:
        found = self.people.get(asked.text("user"))
        if found is None:
            raise Refused("user_not_found")
        return {"user": self._shown(found)}

    def _users_lookupbyemail(self, asked: Asked) -> dict[str, Any]:
        for one in self.people.values():
            if one["profile"]["email"] == asked.text("email").lower():
                return {"user": one}
        raise Refused("users_not_found")

    def _users_list(self, asked: Asked) -> dict[str, Any]:
        people = [(key, self._shown(one)) for key, one in self.people.everything().items()]
        return _paged("members", people, asked)

    def _shown(self, who: dict[str, Any]) -> dict[str, Any]:
        """Somebody, without the address where the scope for it is missing."""
        if "users:read.email" in self.scopes():
            return who
        profile = {name: one for name, one in who["profile"].items() if name != "email"}
        return who | {"profile": profile}

    # --- conversations -----------------------------------------------------------------------

    def object(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """A conversation as the Web API shows it."""
        kind = where["kind"]
        shown = {"id": where["id"], "created": where["created"], "context_team_id": TEAM}
        shown |= {"is_im": kind == "im", "is_archived": where["archived"]}
        if kind == "im":
            [other] = [one for one in where["members"] if one != BOT]
            return shown | {"user": other, "is_open": True, "is_user_deleted": False}
        private = kind != "channel"
        shown |= {"is_channel": kind == "channel", "is_group": kind == "group"}
        shown |= {"is_mpim": kind == "mpim", "is_private": private, "is_shared": False}
        shown |= {"name": where["name"], "is_general": where["name"] == "general"}
        about = {"value": "", "creator": "", "last_set": 0}
        return shown | {"topic": about, "purpose": about, "is_member": BOT in where["members"]}

    def _conversations_info(self, asked: Asked) -> dict[str, Any]:
        where = self.seen(asked.text("channel"))
        counted = asked.flag("include_num_members")
        more = {"num_members": len(where["members"])} if counted else {}
        return {"channel": self.object(where) | more}

    def _conversations_list(self, asked: Asked) -> dict[str, Any]:
        types = asked.text("types", "public_channel").replace(" ", "").split(",")
        if not set(types) <= set(TYPES):
            raise Refused("invalid_types")
        kinds = [TYPES[one] for one in types]
        for kind in kinds:
            self.need(f"{KINDS[kind]}:read")
        found = [
            (key, self.object(one))
            for key, one in self.channels.everything().items()
            if one["kind"] in kinds
            and (one["kind"] == "channel" or BOT in one["members"])
            and not (asked.flag("exclude_archived") and one["archived"])
        ]
        return _paged("channels", found, asked)

    def _conversations_members(self, asked: Asked) -> dict[str, Any]:
        members = self.seen(asked.text("channel"))["members"]
        return _paged("members", [(one, one) for one in members], asked)

    def _conversations_open(self, asked: Asked) -> dict[str, Any]:
        users = [one for one in asked.text("users").replace(" ", "").split(",") if one]
        if asked.text("channel"):
            self.need("im:write")
            where, known = self.seen(asked.text("channel")), True
        elif users:
            self.need("im:write" if len(users) == 1 else "mpim:write")
            before = len(self.channels)
            where = self._opened(users)
            known = len(self.channels) == before
        else:
            raise Refused("users_list_not_supplied")
        shown = self.object(where) if asked.flag("return_im") else {"id": where["id"]}
        return ({"no_op": True, "already_open": True} if known else {}) | {"channel": shown}

    def _opened(self, users: list[str]) -> dict[str, Any]:
        for one in users:
            if one not in self.people:
                raise Refused("user_not_found")
            if one == BOT or self.people[one]["is_bot"]:
                raise Refused("cannot_dm_bot")
        if len(users) > 8:
            raise Refused("too_many_users")
        return self.direct(users)

    def _conversations_join(self, asked: Asked) -> dict[str, Any]:
        where = self.seen(asked.text("channel"))
        if where["kind"] != "channel":
            raise Refused("method_not_supported_for_channel_type")
        if where["archived"]:
            raise Refused("is_archived")
        fresh = self.enter(where, self.bot)
        warned = ["already_in_channel"]
        more = {"warning": warned[0], "response_metadata": {"warnings": warned}}
        if fresh:
            self.ground.effect("join", where["id"])
        return {"channel": self.object(where)} | ({} if fresh else more)

    def _conversations_leave(self, asked: Asked) -> dict[str, Any]:
        where = self.seen(asked.text("channel"))
        if BOT not in where["members"]:
            return {"not_in_channel": True}
        self.leave(where, self.bot)
        self.ground.effect("leave", where["id"])
        return {}

    # --- the past ----------------------------------------------------------------------------

    def _conversations_history(self, asked: Asked) -> dict[str, Any]:
        where = self.read_in(asked.text("channel"))
        found = self._span(self.spoken_in(where["id"]), asked)
        return self._page(found[::-1], asked) | {"pin_count": 0}

    def _conversations_replies(self, asked: Asked) -> dict[str, Any]:
        where = self.read_in(asked.text("channel"))
        ts = asked.ts("ts", "thread_not_found")
        named = self.messages.get(f"{where['id']}/{ts}")
        if named is None:
            raise Refused("thread_not_found")
        found = self.spoken_in(where["id"], named.get("thread_ts", ts))
        return self._page([*found[:1], *self._span(found[1:], asked)], asked)

    def _span(self, messages: list[dict[str, Any]], asked: Asked) -> list[dict[str, Any]]:
        """Those between `oldest` and `latest`; the bounds themselves only where asked for."""
        oldest, latest = _bound(asked, "oldest"), _bound(asked, "latest")
        inclusive = asked.flag("inclusive")
        bounds = [one for one in (oldest, latest) if one]
        return [
            one
            for one in messages
            if (not oldest or one["ts"] > oldest or (inclusive and one["ts"] in bounds))
            and (not latest or one["ts"] < latest or (inclusive and one["ts"] in bounds))
        ]

    def _page(self, messages: list[dict[str, Any]], asked: Asked) -> dict[str, Any]:
        """One page, with no more than such an app is given, and without metadata unless asked."""
        hidden = set() if asked.flag("include_all_metadata") else {"metadata"}
        shown = [
            (one["ts"], {name: it for name, it in one.items() if name not in hidden})
            for one in messages
        ]
        most = int(self.ground.settings.get("page", 1000))
        page = _paged("messages", shown, asked, most)
        return page | {"has_more": bool(page["response_metadata"]["next_cursor"])}


def _bound(asked: Asked, name: str) -> str:
    """A time as a timestamp that compares with those of messages: `0` and `1700000000` as well."""
    given = str(asked.given.get(name, ""))
    if given in ("", "0", "now"):
        return ""
    whole, _, rest = given.partition(".")
    made = f"{whole}.{rest.ljust(6, '0')}"
    if not TS.fullmatch(made):
        raise Refused(f"invalid_ts_{name}")
    return made


def _paged(
    name: str, entries: Iterable[tuple[str, T]], asked: Asked, most: int = 1000
) -> dict[str, Any]:
    """A page of what is listed, and the cursor of the next one, which begins with a key."""
    known = list(entries)
    keys = [key for key, _ in known]
    first, cursor = 0, asked.text("cursor")
    if cursor:
        try:
            key = base64.b64decode(cursor, validate=True).decode().removeprefix("next:")
            first = keys.index(key)
        except (binascii.Error, ValueError):
            raise Refused("invalid_cursor") from None
    end = first + min(asked.number("limit", 100, 1, 1000), most)
    following = f"next:{keys[end]}" if end < len(keys) else ""
    cursor = base64.b64encode(following.encode()).decode()
    page = [one for _, one in known[first:end]]
    return {name: page, "response_metadata": {"next_cursor": cursor}}
