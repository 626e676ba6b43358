"""WhatsApp's addresses, made here and nowhere else: a person by user id or phone, or a group.

A person's user id (`US.1349…`) is always there since 2026 and a phone may be hidden, so where both
are known the user id names the conversation and the phone is a further address of it. The form
says which is which: a phone is digits only, a user id begins with a country and a dot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadline.core.errors import InvalidConversation
from threadline.core.model import ConversationRef, Kind

PHONE = re.compile(r"[0-9]{5,20}")
USER_ID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
_WRITTEN = re.compile(r"[\s()./-]+")


def bare(address: str) -> str:
    """An id as it is everywhere: some events tell a phone with its plus, most without.

    >>> bare("+15550001"), bare("US.1349")
    ('15550001', 'US.1349')
    """
    digits = address.removeprefix("+")
    return digits if PHONE.fullmatch(digits) else address


@dataclass(frozen=True, slots=True)
class Places:
    """The maker of refs for one number of ours.

    >>> Places("default", "111").direct("+1 555 0001").conversation_id
    '15550001'
    """

    scope_id: str
    account_id: str
    provider: str = "whatsapp"

    def ref(self, address: str, kind: Kind = Kind.DM) -> ConversationRef:
        """The conversation with a person or a group by its id. Raises `InvalidConversation`."""
        return ConversationRef(
            self.provider, self.account_id, bare(address), None, self.scope_id, kind
        )

    def direct(self, address: str) -> ConversationRef:
        """The conversation with a person whose phone or user id somebody wrote down.

        Raises `InvalidConversation` for anything else.
        """
        given = address.strip()
        if USER_ID.fullmatch(given):
            return self.ref(given)
        digits = _WRITTEN.sub("", given).removeprefix("+")
        if not PHONE.fullmatch(digits):
            raise InvalidConversation(f"{address!r} is neither a phone number nor a user id.")
        return self.ref(digits)

    def person(self, *ids: str) -> tuple[ConversationRef, tuple[ConversationRef, ...]]:
        """The conversation by the first id that is there, and its other addresses.

        Raises `InvalidConversation` where none is.
        """
        first, *others = [one for one in dict.fromkeys(ids) if one] or [""]
        return self.ref(first), tuple(self.ref(one) for one in others)


def recipient(ref: ConversationRef) -> dict[str, str]:
    """To whom a message goes, in the words of a send."""
    address = ref.conversation_id
    if USER_ID.fullmatch(address):
        return {"recipient_type": "individual", "recipient": address}
    if PHONE.fullmatch(address):
        return {"recipient_type": "individual", "to": address}
    return {"recipient_type": "group", "to": address}
