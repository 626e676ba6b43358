"""How strictly Twilio reads a message, and how it says no."""

from __future__ import annotations

import re
from collections.abc import Collection

from threadline.testing.simulators.wire import Answer, says

WHATSAPP = "whatsapp:"
LENGTH, FILES = 1600, 10
KNOWN = frozenset(
    {
        *("To", "From", "Body", "MediaUrl", "StatusCallback", "ContentSid", "ContentVariables"),
        *("MessagingServiceSid", "ValidityPeriod", "SmartEncoded", "ShortenUrls"),
    }
)
_ADDRESS = re.compile(r"(whatsapp:)?\+[0-9]{5,20}|whatsapp:[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}")


def refusal(code: int, message: str, status: int = 400) -> Answer:
    """An error as the REST API writes it."""
    more = f"https://www.twilio.com/docs/errors/{code}"
    return says({"code": code, "message": message, "more_info": more, "status": status}, status)


def fault_in(fields: Collection[tuple[str, str]], ours: tuple[str, ...]) -> tuple[int, str] | None:
    """Why a message is not taken: a code and its words."""
    given = dict(fields)
    if unknown := sorted(set(given) - KNOWN):
        return 21600, f"There is no parameter {unknown[0]}."
    to, sender = given.get("To", ""), given.get("From", "")
    if not to:
        return 21604, "A 'To' phone number is required."
    if not _ADDRESS.fullmatch(to):
        return 21211, f"The 'To' number {to} is not a valid phone number."
    if sender not in ours:
        return 21606, f"The 'From' number {sender} is not a valid phone number of your account."
    if to.startswith(WHATSAPP) != sender.startswith(WHATSAPP):
        return 21910, "Invalid From and To pair: they must be of the same channel."
    files = [value for name, value in fields if name == "MediaUrl"]
    if not given.get("Body") and not files and not given.get("ContentSid"):
        return 21602, "Message body is required."
    if len(given.get("Body", "")) > LENGTH:
        return 21617, "The concatenated message body exceeds the 1600 character limit."
    if len(files) > (1 if to.startswith(WHATSAPP) else FILES):
        return 21623, "Number of media files exceeds allowed limit."
    return None
