"""What one account hears in Slack's events: messages, edits, deletes, reactions.

The same bodies come by the Events API and through Socket Mode. A message that mentions the account
comes twice, as `message` and as `app_mention`, under one stamp. An entry of a history is read here
as well, so that it has the same address and the same id as when it was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from threadline.adapters.slack_files import key_of, unmarked
from threadline.core import slack
from threadline.core.adapters import Account
from threadline.core.model import Actor, ConversationRef, Direction, Event, InboundMessage, Kind
from threadline.core.slack import Places, delete_id, edit_id, root_of, stamp
from threadline.core.values import decoded, dropping_empty, ident, one_line, records, said
from threadline.core.wire import Heard

METADATA = "threadline_delivery"
KINDS = {"im": Kind.DM, "app_home": Kind.DM, "mpim": Kind.ROOM, "channel": Kind.ROOM}
# What Slack itself says about a channel. Any other mark of a message that has words is somebody's.
NOTICES = frozenset(
    {
        *("channel_topic", "channel_purpose", "channel_name", "channel_archive"),
        *("channel_unarchive", "channel_convert_to_private", "channel_convert_to_public"),
        *("channel_posting_permissions", "channel_canvas_updated", "tabbed_canvas_updated"),
        *("group_topic", "group_purpose", "group_name", "group_archive", "group_unarchive"),
        *("pinned_item", "unpinned_item", "reminder_add", "bot_add", "bot_remove", "bot_enable"),
        *("bot_disable", "app_conversation_join", "ekm_access_denied", "huddle_thread"),
        *("sh_room_created", "sh_room_shared", "assistant_app_thread", "document_mention"),
        *("joiner_notification", "joiner_notification_for_inviter", "bot_joiner_notification"),
    }
)

# Slack says that a message is gone, not who took it away.
REMOVER = Actor(slack.SLACKBOT, "Slackbot", is_bot=True)

_MENTION = re.compile(r"<@([UW][A-Z0-9]{1,40})(?:\|[^<>]*)?>")


@dataclass(frozen=True, slots=True)
class Eye:
    """How one account sees Slack: its makers of addresses and of people."""

    account: Account

    @property
    def places(self) -> Places:
        """The maker of addresses."""
        return Places("slack", self.account.account_id, self.account.scope_id)

    @property
    def team(self) -> str:
        """The workspace."""
        return self.account.account_id.partition(":")[0]

    @property
    def app(self) -> str:
        """The app, where several of one workspace are told apart; else empty."""
        return self.account.account_id.partition(":")[2]

    def is_ours(self, body: Mapping[str, Any]) -> bool:
        """Whether an event is for this workspace, and for this app where that is told apart."""
        teams = {ident(one.get("team_id")) for one in records(body.get("authorizations"))} - {None}
        if not teams:
            teams = {ident(body.get(name)) for name in ("team_id", "context_team_id")}
        app = ident(body.get("api_app_id"))
        return self.team in teams and (not self.app or app == self.app)

    def actor(self, entry: Mapping[str, Any], app: str | None = None) -> Actor | None:
        """Who wrote an entry; None where nobody is named."""
        found = slack.author(entry)
        if found is None:
            return None
        me, bot = self.account.actor, self.account.settings.get("bot_id")
        if me is not None and found.id == me.id:
            return me
        profile = entry.get("bot_profile")
        team = ident(profile.get("team_id")) if isinstance(profile, dict) else None
        same_app = app is not None and entry.get("app_id") == app and team in (None, self.team)
        is_mine = same_app or (bot is not None and entry.get("bot_id") == bot)
        if is_mine:
            return me or replace(found, is_self=True)
        return found

    def person(self, user: object) -> Actor | None:
        """A person of whom only the id is known."""
        return self.actor({"user": user})

    def words(self, entry: Mapping[str, Any]) -> str:
        """What an entry says. Our own mention at its beginning is its address, not its text; one
        further on is our name, without the sign that would mean somebody here."""
        me = self.account.actor
        if me is None:
            return slack.words(entry)
        text = said(entry.get("text"))
        name = slack.escaped(me.name or me.id)

        def read(found: re.Match[str]) -> str:
            return name if found[1] == me.id else found[0]

        rest = text.lstrip()
        while (found := _MENTION.match(rest)) is not None and found[1] == me.id:
            rest = rest[found.end() :].lstrip(" \t\r\n\xa0,:")
        return slack.words({**entry, "text": _MENTION.sub(read, rest if rest.strip() else text)})

    def mentions(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        """Whom it mentions, ourselves left out: we are not one of the sessions that speak here."""
        me = self.account.actor
        users = dict.fromkeys(_MENTION.findall(said(entry.get("text"))))
        return tuple(user for user in users if me is None or user != me.id)


@dataclass(frozen=True, slots=True)
class Spot:
    """The channel something was said in; `app` is the app the event is for."""

    room: ConversationRef
    app: str | None = None


def hear(eye: Eye, raw: bytes) -> Heard:
    """What this account hears in one body. Total: what it does not know is skipped by name."""
    body = decoded(raw)
    match body:
        case {"type": "event_callback", "event": dict(event)}:
            pass
        case {"type": str(kind)}:
            return Heard(skipped=(_word(kind),))
        case {"command": str()}:
            return Heard(skipped=("slash_command",))
        case _:
            form = raw.startswith((b"payload=", b"token="))
            return Heard(skipped=("interactive" if form else "unreadable",))
    if not eye.is_ours(body):
        return Heard(foreign=1)
    found = _event(eye, event, ident(body.get("api_app_id")))
    if isinstance(found, str):
        return Heard(skipped=(_word(found),))
    return Heard(messages=(found,))


def _word(name: str) -> str:
    return one_line(said(name), 64) or "unreadable"


def _event(eye: Eye, event: dict[str, Any], app: str | None) -> InboundMessage | str:
    kind = said(event.get("type"))
    if kind in ("reaction_added", "reaction_removed"):
        return _reaction(eye, event, removed=kind.endswith("removed"))
    channel = ident(event.get("channel"))
    if channel is None or kind not in ("message", "app_mention"):
        return kind
    spot = Spot(eye.places.room(channel, KINDS.get(said(event.get("channel_type")))), app)
    match event.get("subtype"):
        case "message_changed":
            return _changed(eye, event, spot)
        case "message_deleted":
            return _deleted(eye, event, spot)
        case "message_replied":
            return "message_replied"
    return message_of(eye, event, spot)


def message_of(eye: Eye, entry: Mapping[str, Any], spot: Spot) -> InboundMessage | str:
    """A message as an entry, or the word by which it is skipped."""
    ts, actor = stamp(entry.get("ts")), eye.actor(entry, spot.app)
    if ts is None:
        return "message without a stamp"
    subtype, root = said(entry.get("subtype")), root_of(entry)
    if subtype == "tombstone":
        return _gone(eye, ts, root, spot)
    if actor is None:
        return "message without an author"
    event = Event.MESSAGE
    if subtype in slack.MEMBERS or subtype in NOTICES:
        event = Event.MEMBER if subtype in slack.MEMBERS else Event.NOTICE
    text = eye.words(entry) if event is Event.MESSAGE else slack.words(entry)
    attachments = slack_files(entry)
    if event is Event.MESSAGE and not text.strip() and not attachments:
        return "message without words"
    where, parent = _where(eye, root, spot)
    return InboundMessage(
        conversation=where,
        text=text,
        actor=actor,
        message_id=ts,
        event=event,
        direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
        mentions=eye.mentions(entry),
        thread_root=root,
        parent=parent,
        attachments=attachments,
        sent_at=slack.at(ts),
        token=key_in(entry) if actor.is_self else None,
        metadata=slack.about(entry) | _elsewhere(eye, entry),
    )


def slack_files(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """The files of an entry, as data, under the names they were given."""
    found = map(slack.attachment, records(entry.get("files")))
    return tuple(replace(one, name=unmarked(one.name)[0]) for one in found)


def key_in(entry: Mapping[str, Any]) -> str | None:
    """The key of the delivery in a message's metadata, or in the name of a file beside it; None
    where it is none of ours."""
    match entry.get("metadata"):
        case {"event_type": str(kind), "event_payload": {"key": str(key)}} if kind == METADATA:
            return ident(key)
    return key_of(entry)


def _where(
    eye: Eye, root: str | None, spot: Spot
) -> tuple[ConversationRef, ConversationRef | None]:
    """The conversation, and the room above it where it is a thread."""
    if root is None:
        return spot.room, None
    return eye.places.thread(spot.room.conversation_id, root), spot.room


def _elsewhere(eye: Eye, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The workspace somebody is of, in a channel that several share."""
    team = ident(entry.get("user_team")) or ident(entry.get("team"))
    return dropping_empty(team="" if team == eye.team else team)


def _changed(eye: Eye, event: Mapping[str, Any], spot: Spot) -> InboundMessage | str:
    """An edit by a person. Slack also tells that it unfolded a link, or that somebody answered."""
    now, before = event.get("message"), event.get("previous_message")
    if not isinstance(now, dict):
        return "edit without a message"
    ts, told = stamp(now.get("ts")), _told(now, before) or stamp(event.get("ts"))
    told = told or stamp(event.get("event_ts"))
    if ts is None or told is None:
        return "edit without a stamp"
    root = root_of(now)
    if now.get("subtype") == "tombstone":
        return _gone(eye, ts, root, spot)
    actor, text, attachments = eye.actor(now, spot.app), eye.words(now), slack_files(now)
    if actor is None:
        return "edit without an author"
    if isinstance(before, dict):
        is_same = text == eye.words(before) and _ids(attachments) == _ids(slack_files(before))
    else:
        is_same = not isinstance(now.get("edited"), dict)
    if is_same:
        return "message_changed without an edit"
    return _edit(eye, now, spot, actor, told)


def _told(now: Mapping[str, Any], before: object) -> str | None:
    """The stamp of the edit itself, by which the history knows it as well; None where it is no new
    one: Slack also tells what else became of a message that was edited once."""
    edited = now.get("edited")
    if not isinstance(edited, dict) or not isinstance(before, dict):
        return None
    return None if edited == before.get("edited") else stamp(edited.get("ts"))


def edit_of(eye: Eye, entry: Mapping[str, Any], spot: Spot) -> InboundMessage | None:
    """The last edit of a message that stands in the history; None where there was none."""
    edited, actor = entry.get("edited"), eye.actor(entry, spot.app)
    told = stamp(edited.get("ts")) if isinstance(edited, dict) else None
    if told is None or actor is None or stamp(entry.get("ts")) is None:
        return None
    return _edit(eye, entry, spot, actor, told)


def _edit(eye: Eye, now: Mapping[str, Any], spot: Spot, actor: Actor, told: str) -> InboundMessage:
    ts, root = stamp(now.get("ts")) or "", root_of(now)
    where, parent = _where(eye, root, spot)
    return InboundMessage(
        conversation=where,
        text=eye.words(now),
        actor=actor,
        message_id=edit_id(ts, told),
        event=Event.EDIT,
        direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
        revises=ts,
        thread_root=root,
        parent=parent,
        attachments=slack_files(now),
        sent_at=slack.at(told),
    )


def _ids(attachments: Iterable[Any]) -> list[tuple[str, str]]:
    return [(one.id, one.type) for one in attachments]


def _deleted(eye: Eye, event: Mapping[str, Any], spot: Spot) -> InboundMessage | str:
    ts, before = stamp(event.get("deleted_ts")), event.get("previous_message")
    if ts is None:
        return "delete without a stamp"
    root = root_of({**before, "ts": ts}) if isinstance(before, dict) else None
    return _gone(eye, ts, root, spot)


def _gone(eye: Eye, ts: str, root: str | None, spot: Spot) -> InboundMessage:
    where, parent = _where(eye, root, spot)
    return InboundMessage(
        conversation=where,
        actor=REMOVER,
        message_id=delete_id(ts),
        event=Event.DELETE,
        revises=ts,
        thread_root=root,
        parent=parent,
        signed=True,
    )


def _reaction(eye: Eye, event: Mapping[str, Any], *, removed: bool) -> InboundMessage | str:
    """A reaction, in the channel: Slack does not say whether its message is in a thread."""
    match event.get("item"):
        case {"type": "message", "channel": str(channel), "ts": str(given)}:
            ts = stamp(given)
        case _:
            return "reaction to what is no message"
    actor, name = eye.person(event.get("user")), said(event.get("reaction"))
    at = stamp(event.get("event_ts"))
    if ts is None or actor is None or at is None or not name.strip() or ident(channel) is None:
        return "reaction without a message, a person or a sign"
    word = "unreaction" if removed else "reaction"
    return InboundMessage(
        conversation=eye.places.room(channel),
        text=f":{name}:",
        actor=actor,
        message_id=f"{word}:{ts}:{at}:{actor.id}:{name}"[:256],
        event=Event.REACTION,
        direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
        revises=ts,
        sent_at=slack.at(at),
        metadata=dropping_empty(removed=removed),
    )
