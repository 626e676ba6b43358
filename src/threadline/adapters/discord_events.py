"""What one account hears in Discord's events: messages, edits, deletes, reactions.

An event comes as `{"t": name, "d": data}`, as the gateway dispatches it; our listener adds `at`,
the event's place in its session, and the `parent_id` of a thread where it knows it, since the
messages of a thread do not say where it hangs.
The address of a thread has no parent: its id is unique, and the parent is a link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threadline.adapters.discord_text import attachments_of, display_name, key_in, text_of
from threadline.core.adapters import Account
from threadline.core.model import (
    Actor,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
)
from threadline.core.values import (
    dropping_empty,
    ident,
    instant,
    one_line,
    records,
    said,
    since_epoch,
)
from threadline.core.wire import Heard

# Said by somebody: plain, a reply, and the answers of applications to commands.
SAID = frozenset({0, 19, 20, 23})
REPLY = 19
MEMBERS = {1: "added", 2: "removed", 7: "joined"}
THREADS = frozenset({10, 11, 12})
DISCORD_EPOCH = 1_420_070_400_000

# Discord says that a message is gone, not who took it away.
REMOVER = Actor("discord", "Discord", is_bot=True)


@dataclass(frozen=True, slots=True)
class Eye:
    """How one account sees Discord: its makers of addresses and of people."""

    account: Account

    @property
    def me(self) -> str:
        """Our user's id. That of the application is the same in all but the oldest ones."""
        actor = self.account.actor
        return self.account.account_id if actor is None else actor.id

    def ref(self, channel_id: str, kind: Kind | None = None) -> ConversationRef:
        """The address of a channel, a thread or a direct message: they are all channels."""
        account = self.account
        return ConversationRef(
            "discord", account.account_id, channel_id, None, account.scope_id, kind
        )

    def actor(self, user: object, member: object = None, webhook: bool = False) -> Actor | None:
        """Who it is; None where it is nobody."""
        if not isinstance(user, dict):
            return None
        user_id = ident(user.get("id"))
        if user_id is None:
            return None
        is_bot = webhook or user.get("bot") is True
        return Actor(user_id, display_name(user, member) or user_id, is_bot, user_id == self.me)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where something was said, with the room above it where that is known."""

    ref: ConversationRef
    parent: ConversationRef | None = None


def hear(eye: Eye, body: object) -> Heard:
    """What this account hears in one event. Total: what it does not know is skipped by name."""
    match body:
        case {"t": str(name), "d": dict(data), **rest}:
            pass
        case _:
            return Heard(skipped=("unreadable",))
    found = list(
        _events(eye, name, data, ident(rest.get("parent_id")), ident(rest.get("at")) or "")
    )
    return Heard(
        messages=tuple(one for one in found if isinstance(one, InboundMessage)),
        skipped=tuple(one for one in found if isinstance(one, str)),
    )


def _events(
    eye: Eye, name: str, data: dict[str, Any], parent: str | None, at: str
) -> Iterator[InboundMessage | str]:
    channel = ident(data.get("channel_id"))
    if channel is None or not name.startswith("MESSAGE_"):
        yield one_line(name.lower(), 64) or "event"
        return
    above = None if parent is None else eye.ref(parent, Kind.ROOM)
    spot = Spot(eye.ref(channel, _kind(name, data, parent)), above)
    match name:
        case "MESSAGE_CREATE":
            yield message_of(eye, data, spot)
        case "MESSAGE_UPDATE":
            yield edit_of(eye, data, spot)
        case "MESSAGE_DELETE":
            yield _delete(data.get("id"), spot)
        case "MESSAGE_DELETE_BULK":
            ids = data.get("ids")
            for one in (isinstance(ids, list) and ids) or [None]:
                yield _delete(one, spot)
        case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
            yield _reaction(eye, data, spot, at, removed=name.endswith("REMOVE"))
        case _:
            yield one_line(name.lower(), 64) or "event"


def _kind(name: str, data: dict[str, Any], parent: str | None) -> Kind | None:
    """What the event says of its place. A direct message of a group of people is a room."""
    match data.get("channel_type"):
        case 1:
            return Kind.DM
        case int(number):
            return Kind.THREAD if number in THREADS else Kind.ROOM
    if parent is not None:
        return Kind.THREAD
    is_direct = name == "MESSAGE_CREATE" and "guild_id" not in data
    return Kind.DM if is_direct else None


def message_of(eye: Eye, data: dict[str, Any], spot: Spot) -> InboundMessage | str:
    """A message object as an entry, or the word by which it is skipped."""
    kind = data.get("type", 0)
    if type(kind) is not int or (kind not in SAID and kind not in MEMBERS):
        return one_line(f"message type {kind}", 64)
    message_id = ident(data.get("id"))
    is_hook = ident(data.get("webhook_id")) is not None
    actor = eye.actor(data.get("author"), data.get("member"), is_hook)
    if message_id is None or actor is None:
        return "message without an author or an id"
    text, attachments = text_of(data, eye.me), attachments_of(data)
    event = Event.MEMBER if kind in MEMBERS else Event.MESSAGE
    # Discord empties what we may not read; such a message is known to be there and wakes nobody.
    is_emptied = event is Event.MESSAGE and not actor.is_self and is_empty(data)
    if is_emptied:
        event = Event.NOTICE
    is_thread = spot.ref.kind is Kind.THREAD
    return InboundMessage(
        conversation=spot.ref,
        text=text,
        actor=actor,
        message_id=message_id,
        direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
        event=event,
        mentions=_mentioned(eye, data),
        reply_to=_answered(data, kind, spot.ref),
        thread_root=_root(message_id, spot) if is_thread else None,
        parent=spot.parent,
        attachments=attachments,
        sent_at=instant(data.get("timestamp"), None) or born(message_id),
        token=key_in(data.get("nonce")) if actor.is_self else None,
        metadata=dropping_empty(
            content="unavailable" if is_emptied else "",
            **_about(data, kind, text),
        ),
    )


def _root(message_id: str, spot: Spot) -> str | None:
    """A thread has the id of the message it hangs on; a forum's post begins with that message."""
    channel = spot.ref.conversation_id
    return None if channel == message_id else channel


def is_empty(data: dict[str, Any]) -> bool:
    """Whether nothing of a message came along: the mark of a missing message content intent."""
    parts = ("content", "attachments", "embeds", "sticker_items", "poll", "components")
    return not any(data.get(part) for part in (*parts, "message_snapshots", "activity"))


def born(snowflake: str) -> datetime | None:
    """When an id was made, which Discord writes into it.

    >>> born("175928847299117063").isoformat()
    '2016-04-30T11:18:25.796000+00:00'
    """
    if not snowflake.isascii() or not snowflake.isdecimal() or len(snowflake) > 20:
        return None
    millis = (int(snowflake) >> 22) + DISCORD_EPOCH
    return since_epoch(millis // 1000, millis % 1000 * 1000)


def _mentioned(eye: Eye, data: dict[str, Any]) -> tuple[str, ...]:
    """Whom it mentions, ourselves left out: we are not one of the sessions that speak here."""
    users = (ident(user.get("id")) for user in records(data.get("mentions")))
    return tuple(user for user in users if user is not None and user != eye.me)


def _answered(data: dict[str, Any], kind: int, here: ConversationRef) -> str | None:
    match data.get("message_reference"):
        case {"message_id": answered, **rest} if kind == REPLY:
            same = ident(rest.get("channel_id")) in (None, here.conversation_id)
            return ident(answered) if same else None
    return None


def _about(data: dict[str, Any], kind: int, text: str) -> dict[str, Any]:
    edited_at = instant(data.get("edited_timestamp"), None)
    reference = data.get("message_reference")
    pointed = reference if isinstance(reference, dict) else {}
    command = data.get("interaction_metadata") or data.get("interaction")
    return {
        "guild_id": ident(data.get("guild_id")),
        "type": MEMBERS.get(kind) or (kind if kind not in (0, REPLY) else ""),
        "webhook_id": ident(data.get("webhook_id")),
        "edited_at": edited_at and edited_at.isoformat(),
        "command": said(command.get("name")) if isinstance(command, dict) else "",
        "forwarded": bool(records(data.get("message_snapshots"))),
        "written": said(data.get("content")) if said(data.get("content")) != text else "",
        "reference": ""
        if kind == REPLY
        else dropping_empty(
            message_id=ident(pointed.get("message_id")),
            channel_id=ident(pointed.get("channel_id")),
        ),
    }


def edit_of(eye: Eye, data: dict[str, Any], spot: Spot) -> InboundMessage | str:
    """An edit by a person. Discord also updates a message when it has looked up its links."""
    edited_at = instant(data.get("edited_timestamp"), None)
    message_id = ident(data.get("id"))
    actor = eye.actor(data.get("author"), data.get("member"), "webhook_id" in data)
    if edited_at is None or not isinstance(data.get("content"), str):
        return "message_update without an edit"
    if message_id is None or actor is None:
        return "edit without an author or an id"
    if not actor.is_self and is_empty(data) and spot.ref.kind is not Kind.DM:
        return "edit whose content is unavailable"
    return InboundMessage(
        conversation=spot.ref,
        text=text_of(data, eye.me),
        actor=actor,
        message_id=f"{message_id}:edit:{edited_at:%Y%m%dT%H%M%S.%f}",
        direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
        event=Event.EDIT,
        revises=message_id,
        parent=spot.parent,
        attachments=attachments_of(data),
        sent_at=edited_at,
        metadata=dropping_empty(guild_id=ident(data.get("guild_id"))),
    )


def _delete(given: object, spot: Spot) -> InboundMessage | str:
    message_id = ident(given)
    if message_id is None:
        return "delete without an id"
    return InboundMessage(
        conversation=spot.ref,
        actor=REMOVER,
        message_id=f"{message_id}:delete",
        event=Event.DELETE,
        revises=message_id,
        parent=spot.parent,
        signed=True,
    )


def _reaction(
    eye: Eye, data: dict[str, Any], spot: Spot, at: str, *, removed: bool
) -> InboundMessage | str:
    """A sign put on a message or taken off. Discord names no event, and the same person may do both
    once more: `at`, the event's place in its session, is what a replay repeats."""
    message_id, user_id = ident(data.get("message_id")), ident(data.get("user_id"))
    member, emoji = data.get("member"), data.get("emoji")
    if message_id is None or user_id is None or not isinstance(emoji, dict):
        return "reaction without a message, a person or a sign"
    user = member.get("user") if isinstance(member, dict) else None
    actor = eye.actor(user, member) or eye.actor({"id": user_id})
    own_sign, name = ident(emoji.get("id")), said(emoji.get("name"))
    if actor is None or actor.id != user_id or not (own_sign or name):
        return "reaction without a message, a person or a sign"
    word = "unreaction" if removed else "reaction"
    return InboundMessage(
        conversation=spot.ref,
        text=f":{name or own_sign}:" if own_sign else name,
        actor=actor,
        message_id=":".join(
            (message_id, word, user_id, own_sign or name[:64], *filter(None, [at]))
        ),
        direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
        event=Event.REACTION,
        revises=message_id,
        parent=spot.parent,
        metadata=dropping_empty(removed=removed, guild_id=ident(data.get("guild_id"))),
    )
