"""Request bodies, and what they mean inside. Unknown fields are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from threadline.core.errors import InvalidInput
from threadline.core.model import (
    Actor,
    Attachment,
    Caller,
    Controller,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
    Origin,
)
from threadline.core.rules import authority


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What all request bodies have in common."""

    def __repr__(self) -> str:
        """Its kind alone: some hold credentials, and all hold what somebody said."""
        return f"<{type(self).__name__}>"


class ActorBody(Body):
    """Who spoke."""

    id: str
    name: str = ""
    is_bot: bool = False
    is_self: bool = False


class AttachmentBody(Body):
    """A file as data; `size` in bytes."""

    id: str = ""
    type: str = ""
    name: str = ""
    size: int | None = None
    url: str = ""


class OriginBody(Body):
    """The record a message is about."""

    conversation: str
    sequence: int
    root: str = ""
    hops: int = 0


class ConversationBody(Body):
    """An address, and what is known about the place."""

    provider: str
    account_id: str
    conversation_id: str
    parent_conversation_id: str | None = None
    scope_id: str | None = None
    kind: str | None = None
    title: str = ""
    metadata: dict[str, Any] | None = None

    def ref(self, caller: Caller) -> ConversationRef:
        """The address; without a scope of its own it is in the caller's."""
        return ConversationRef(
            self.provider,
            self.account_id,
            self.conversation_id,
            self.parent_conversation_id,
            authority.scope_of(caller) if self.scope_id is None else self.scope_id,
            None if self.kind is None else Kind.of(self.kind),
        )


class MessageBody(Body):
    """One message, edit, delete, reaction, member event or notice."""

    actor: ActorBody
    direction: str = "inbound"
    event: str = "message"
    text: str = ""
    message_id: str | None = None
    explicit_target: str | None = None
    mentions: tuple[str, ...] = ()
    reply_to: str | None = None
    revises: str | None = None
    thread_root: str | None = None
    attachments: tuple[AttachmentBody, ...] = ()
    origin: OriginBody | None = None
    sent_at: datetime | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)

    def message(self, ref: ConversationRef, **more: Any) -> InboundMessage:
        """The message in this conversation."""
        return InboundMessage(
            conversation=ref,
            text=self.text,
            actor=Actor(self.actor.id, self.actor.name, self.actor.is_bot, self.actor.is_self),
            message_id=self.message_id,
            direction=Direction.of(self.direction),
            event=Event.of(self.event),
            explicit_target=self.explicit_target,
            mentions=tuple(self.mentions),
            reply_to=self.reply_to,
            revises=self.revises,
            thread_root=self.thread_root,
            attachments=attachments_of(self.attachments),
            origin=None if self.origin is None else Origin(**msgspec.structs.asdict(self.origin)),
            sent_at=self.sent_at,
            metadata=self.metadata,
            **more,
        )


def attachments_of(given: tuple[AttachmentBody, ...]) -> tuple[Attachment, ...]:
    """Attachments as data."""
    return tuple(Attachment(**msgspec.structs.asdict(one)) for one in given)


class PlaceBody(Body):
    """A conversation inside the adapter's own account."""

    conversation_id: str
    parent_conversation_id: str | None = None
    kind: str | None = None

    def ref(self, scope: str, provider: str, account: str) -> ConversationRef:
        """The address in that account."""
        return ConversationRef(
            provider,
            account,
            self.conversation_id,
            self.parent_conversation_id,
            scope,
            None if self.kind is None else Kind.of(self.kind),
        )


class InboundBody(MessageBody, kw_only=True):
    """A message an adapter heard, with the place it was said in and that place's other names.

    `token` is the key of the delivery an own message repeats, where the platform hands it back.
    """

    conversation: PlaceBody
    token: str | None = None
    parent: PlaceBody | None = None
    same_as: tuple[PlaceBody, ...] = ()


class BatchBody(Body):
    """Several messages, each with an answer or an error of its own, whatever one of them is."""

    messages: list[Any]


def scoped(caller: Caller, scope_id: str | None) -> Caller:
    """The same controller in one of the scopes it has."""
    if scope_id is None or not isinstance(caller, Controller):
        return caller
    if caller.scope_id not in (None, scope_id):
        return caller
    return Controller(scope_id)


def converted(data: Any, kind: type[Any]) -> Any:
    """JSON data as a body. Raises `InvalidInput` that names the field."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{error}.") from None
