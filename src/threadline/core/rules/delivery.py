"""Who may publish where, and what a published message is about.

Reading is membership; speaking is a right of its own: the binding's session, a participant with
`public`, or, between sessions, the members of the conversation themselves.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from threadline.core.errors import BindingMismatch, InvalidInput
from threadline.core.ids import public
from threadline.core.model import Binding, Conversation, Direction, Origin, TranscriptRecord

WEB: Final = "web"
INTERNAL: Final = "internal"
LOCAL: Final = frozenset({WEB, INTERNAL})
ACCOUNT: Final = "local"

# What a person can read in one message on the page; longer words belong into an attachment.
LOCAL_CHARACTERS: Final = 100_000

GROUP: Final = "group"
MEMBER: Final = "member"
CLAIM: Final = "claim"
GRANTED: Final = "account"


def binding_right(bound: Binding) -> str:
    """The right that a binding gives, with its generation: a later one is another right."""
    return f"binding:{bound.generation}"


def check_generation(bound: Binding | None, generation: int | None) -> None:
    """Raise `BindingMismatch` where an intent states a generation that is not the current one."""
    if generation is not None and (bound is None or bound.generation != generation):
        current = None if bound is None else bound.generation
        raise BindingMismatch(
            f"generation {generation} was stated, the current one is {current}. Read the binding "
            "and decide again.",
            generation=current,
        )


def check_words(text: str, attachments: int) -> None:
    """Raise `InvalidInput` for a message that says nothing."""
    if not text.strip() and not attachments:
        raise InvalidInput("the text is empty and nothing is attached.", field="text")


def refusal(text: str) -> str:
    """Why a local provider does not take a text, empty where it does."""
    if len(text) > LOCAL_CHARACTERS:
        return f"the text has {len(text)} characters, {LOCAL_CHARACTERS} are allowed."
    return ""


def about(cause: Conversation, record: TranscriptRecord) -> Origin:
    """The origin of what is said about a record: its root, and one hop more than it has.

    Only a person's words open a root. A machine's without one have none, else each notice and each
    unasked word would be a new budget.
    """
    before = record.origin
    root = "" if before is None else before.root
    if before is None and not record.actor.is_bot and record.direction is Direction.INBOUND:
        root = f"{public(cause.id)}:{record.sequence}"
    return Origin(
        conversation=public(cause.id),
        sequence=record.sequence,
        root=root,
        hops=(before.hops if before is not None else 0) + 1,
    )


def root_of(conversation: Conversation, origin: Origin | None, now: datetime) -> str:
    """What the budget of machines is counted under.

    Where people are, what has no origin shares one count until a person speaks. Among sessions
    nobody ever does, so there it is one count an hour.
    """
    if origin is not None and origin.root:
        return origin.root
    return f"here/{now:%Y-%m-%dT%H}" if conversation.ref.provider == INTERNAL else "here"


def pair_id(one: int, other: int) -> str:
    """The conversation id of two sessions, made of their surrogate ids."""
    return "~".join(sorted((public(one), public(other))))


def pair_of(conversation: Conversation) -> tuple[str, str] | None:
    """The two surrogate ids a conversation of sessions is between, None for a named room."""
    if conversation.ref.provider != INTERNAL:
        return None
    one, mark, other = conversation.ref.conversation_id.partition("~")
    return (one, other) if mark else None
