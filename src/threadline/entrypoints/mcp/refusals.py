"""How a tool says no: a code, our own sentence, and what to do. Never a word of somebody else's.

The detail of an error may quote what it was about, so a tool leaves it out: the class says what
was refused, and of its facts only numbers and words of a closed set go along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threadline.core.errors import InvalidInput, ThreadlineError, Unauthorized

# Facts whose words are ours.
OURS = frozenset({"scope", "field", "limit", "frees_at", "delivery"})
KNOWN_ID = "Take a conversation's id from list_conversations or wait_for_messages."
ADVICE: dict[str, str] = {
    "arguments_wrong": "Change the arguments as the tool's input schema says.",
    "tool_unknown": "Use one of the tools that are listed.",
    "scope_missing": "Ask whoever runs the server for a token with this scope.",
    "unauthenticated": "Ask whoever runs the server for a new token.",
    "unauthorized": "This session may not do that; ask whoever runs the server.",
    "invalid_input": "Change the arguments; the facts say which bound was passed.",
    "not_found": KNOWN_ID,
    "membership_not_found": KNOWN_ID,
    "session_retired": "This session has ended; stop.",
    "idempotency_conflict": "This key stands for other words. Take a new key to say something new.",
    "hydration_pending": "Wait a minute and ask again.",
    "binding_mismatch": "Read on and decide anew.",
    "no_adapter": "Nobody can say anything there now; ask whoever runs the server.",
    "too_large": "Say it in fewer words.",
    "consent_required": "Do not write to them. Only they, or a human who runs the server, may "
    "allow it.",
    "limit_reached": "Send nothing more there until the time that the facts name.",
    "reply_route_conflict": "Another session answers there; leave it to that one.",
    "no_address": "Choose another recipient or another `via`.",
    "window_closed": "Wait until this person writes again.",
    "not_sent": "No channel takes it now; ask whoever runs the server.",
    "limited": "Wait and ask again.",
}
AGAIN = "Ask again in a moment, with the same key; nothing is done twice."
OTHERWISE = "Ask whoever runs the server."


class ArgumentsWrong(InvalidInput):
    """The arguments do not fit the tool."""


class ToolUnknown(InvalidInput):
    """There is no such tool."""


class ScopeMissing(Unauthorized):
    """The token does not have the scope of this tool."""


# Their details are made here, of our own words.
PLAIN = (ArgumentsWrong,)


def refused(error: ThreadlineError) -> dict[str, Any]:
    """A refusal as data: `code`, `message`, `what_to_do`, `facts`."""
    sentence = (type(error).__doc__ or "").strip().split("\n")[0]
    return {
        "code": error.code,
        "message": str(error) if isinstance(error, PLAIN) else sentence,
        "what_to_do": ADVICE.get(error.code, AGAIN if error.status >= 500 else OTHERWISE),
        "facts": _ours(error.facts),
    }


def _ours(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, int | float) or (name in OURS and isinstance(value, str))
    }
