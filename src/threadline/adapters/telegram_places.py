"""Where something is said on Telegram: the one maker of its refs, and of the ids of its messages.

A private chat, a group, a supergroup and a channel are their chat's id. A topic is a conversation
of its own below its chat; a forum's General topic (1, or none) is the chat itself. What a bot reads
for a business account is a place apart from the person's own chat with the bot, although both have
the same chat id.

Messages are numbered per chat, and anew once a group became a supergroup, so the chat is the id
space of everything said in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from threadline.core.adapters import Account
from threadline.core.errors import InvalidConversation
from threadline.core.model import ConversationRef, Kind

GENERAL = "1"
SUPERGROUPS = -1_000_000_000_000  # and below: ids of supergroups and channels
DIRECT = "direct:"

_CHAT = re.compile(r"-?[1-9]\d{0,18}")
_NUMBER = re.compile(r"[1-9]\d{0,18}")


@dataclass(frozen=True, slots=True)
class Place:
    """A place as the Bot API names it.

    `topic` is a topic of a forum or of a private chat, `direct` one of a channel's direct
    messages, `business` the connection to a business account.
    """

    chat: str
    topic: str = ""
    direct: str = ""
    business: str = ""

    @property
    def space(self) -> str:
        """The id space of its messages."""
        return f"{self.business}:{self.chat}" if self.business else self.chat

    def ref(self, account: Account, kind: Kind | None = None) -> ConversationRef:
        """Its address.

        >>> bot = Account(scope_id="default", provider="telegram", account_id="42")
        >>> str(Place("-1001", topic="7").ref(bot))
        'telegram/42/-1001/7'
        """
        parent = None
        name = self.space
        if self.topic or self.direct:
            parent, kind = self.space, Kind.THREAD
            name = self.topic or DIRECT + self.direct
        scope = account.scope_id
        return ConversationRef(account.provider, account.account_id, name, parent, scope, kind)

    @classmethod
    def of(cls, ref: ConversationRef) -> Place:
        """The place behind an address. Raises `InvalidConversation` where Telegram has none."""
        topic = direct = ""
        name = ref.conversation_id
        if ref.parent_conversation_id is not None:
            if name.startswith(DIRECT):
                direct = _checked(_NUMBER, name.removeprefix(DIRECT), ref)
            else:
                topic = _checked(_NUMBER, name, ref)
            name = ref.parent_conversation_id
        business, _, chat = name.rpartition(":")
        return cls(_checked(_CHAT, chat, ref), topic, direct, business)

    def arguments(self) -> dict[str, Any]:
        """What a call that says something here has to carry."""
        found: dict[str, Any] = {"chat_id": int(self.chat)}
        if self.topic and self.topic != GENERAL:
            found["message_thread_id"] = int(self.topic)
        if self.direct:
            found["direct_messages_topic_id"] = int(self.direct)
        if self.business:
            found["business_connection_id"] = self.business
        return found


def _checked(pattern: re.Pattern[str], given: str, ref: ConversationRef) -> str:
    if not given.isascii() or not pattern.fullmatch(given):
        raise InvalidConversation(f"{given!r} in {ref} is no number of Telegram's.", given=given)
    return given
