"""How strictly the Cloud API reads a message, and how it says no."""

from __future__ import annotations

import re
from typing import Any

from threadline.testing.simulators.wire import Answer, says

TEXT, CAPTION, OPAQUE = 4096, 1024, 512
MEDIA = ("image", "video", "audio", "document", "sticker")
KINDS = frozenset({"text", "template", "reaction", "location", "contacts", "interactive", *MEDIA})
KNOWN = frozenset(
    {
        *("messaging_product", "recipient_type", "to", "recipient", "type", "context"),
        *("biz_opaque_callback_data", "recipient_identity_key_hash", *KINDS),
    }
)
_USER_ID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")


def refusal(
    code: int, message: str, status: int = 400, *, subcode: int = 0, kind: str = "OAuthException"
) -> Answer:
    """An error as the Graph API writes it."""
    error: dict[str, Any] = {"message": f"(#{code}) {message}", "type": kind, "code": code}
    error["fbtrace_id"] = "AsimulatedTrace"
    error["error_data"] = {"messaging_product": "whatsapp", "details": message}
    if subcode:
        error["error_subcode"] = subcode
    return says({"error": error}, status)


def fault_in(body: Any) -> tuple[int, str] | None:
    """Why a message is not taken: a code and its words."""
    if not isinstance(body, dict):
        return 100, "The body is no JSON object."
    if unknown := sorted(set(body) - KNOWN):
        return 100, f"Unexpected key {unknown[0]!r}."
    if body.get("messaging_product") != "whatsapp":
        return 100, "The parameter messaging_product is required."
    kind = body.get("type")
    if kind not in KINDS or not isinstance(body.get(kind), dict | list):
        return 131009, f"Parameter value is not valid: type {kind!r}."
    to, recipient = body.get("to"), body.get("recipient")
    if bool(to) == bool(recipient):
        return 131008, "Exactly one of to and recipient is required."
    if recipient and not _USER_ID.fullmatch(str(recipient)):
        return 131009, "recipient is no user id."
    group = body.get("recipient_type") == "group"
    if to and not group and not re.fullmatch(r"\+?[0-9]{5,20}", str(to)):
        return 131009, "to is no phone number."
    if len(str(body.get("biz_opaque_callback_data", ""))) > OPAQUE:
        return 100, "biz_opaque_callback_data is too long."
    return _content(kind, body[kind])


def _content(kind: str, content: Any) -> tuple[int, str] | None:
    match kind:
        case "text":
            if not content.get("body") or len(content["body"]) > TEXT:
                return 100, f"text.body has 1 to {TEXT} characters."
        case "template":
            if not content.get("name") or not content.get("language", {}).get("code"):
                return 132001, "Template name does not exist in the translation."
        case _ if kind in MEDIA:
            if bool(content.get("id")) == bool(content.get("link")):
                return 131009, "A file has an id or a link."
            if len(content.get("caption", "")) > CAPTION or (
                kind == "audio" and "caption" in content
            ):
                return 131009, "The caption is not allowed."
    return None
