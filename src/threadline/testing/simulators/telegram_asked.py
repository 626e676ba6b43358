"""What a Bot API call asks for: its parameters, however they were sent, held to their types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from threadline.testing.simulators.wire import Answer, File, says

SAYING = frozenset(
    {
        "business_connection_id",
        "chat_id",
        "message_thread_id",
        "direct_messages_topic_id",
        "parse_mode",
        "disable_notification",
        "protect_content",
        "allow_paid_broadcast",
        "message_effect_id",
        "suggested_post_parameters",
        "reply_parameters",
        "reply_markup",
        "reply_to_message_id",
        "allow_sending_without_reply",
    }
)
_FILE = SAYING | {"caption", "caption_entities", "show_caption_above_media", "has_spoiler"}
_PARAMETERS: Mapping[str, frozenset[str]] = {
    "getMe": frozenset(),
    "getUpdates": frozenset({"offset", "limit", "timeout", "allowed_updates"}),
    "setWebhook": frozenset(
        {
            "url",
            "certificate",
            "ip_address",
            "max_connections",
            "allowed_updates",
            "drop_pending_updates",
            "secret_token",
        }
    ),
    "deleteWebhook": frozenset({"drop_pending_updates"}),
    "getWebhookInfo": frozenset(),
    "sendMessage": SAYING
    | {"text", "entities", "link_preview_options", "disable_web_page_preview"},
    "sendDocument": _FILE | {"document", "thumbnail", "disable_content_type_detection"},
    "sendPhoto": _FILE | {"photo"},
    "sendChatAction": frozenset(
        {"business_connection_id", "chat_id", "message_thread_id", "action"}
    ),
    "editMessageText": frozenset(
        {
            "business_connection_id",
            "chat_id",
            "message_id",
            "inline_message_id",
            "text",
            "parse_mode",
            "entities",
            "link_preview_options",
            "disable_web_page_preview",
            "reply_markup",
        }
    ),
    "deleteMessage": frozenset({"chat_id", "message_id"}),
    "setMessageReaction": frozenset({"chat_id", "message_id", "reaction", "is_big"}),
    "getFile": frozenset({"file_id"}),
    "createForumTopic": frozenset({"chat_id", "name", "icon_color", "icon_custom_emoji_id"}),
    "getChat": frozenset({"chat_id"}),
}
# By the name in small letters, which is how Telegram reads it: as it is spelled, its parameters.
METHODS = {name.lower(): (name, known) for name, known in _PARAMETERS.items()}


class Refused(Exception):
    """The call is refused; the words are Telegram's."""

    def __init__(self, code: int, why: str, **parameters: Any) -> None:
        kinds = {400: "Bad Request: ", 403: "Forbidden: ", 409: "Conflict: "}
        super().__init__(why)
        self.code = code
        self.why = f"{kinds.get(code, '')}{why}"
        self.parameters = parameters

    def answer(self) -> Answer:
        """As it goes out."""
        said: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.why}
        return says(said | ({"parameters": self.parameters} if self.parameters else {}), self.code)


class Asked:
    """The parameters of one call. Asking for one that is wrong raises `Refused`."""

    def __init__(self, method: str, given: Mapping[str, Any]) -> None:
        self.given = {name: value for name, value in given.items() if value is not None}
        # Telegram overlooks what it does not know; here a slip of the pen is found.
        spelled, known = METHODS[method]
        named = {name for name, value in self.given.items() if not isinstance(value, File)}
        if unknown := sorted(named - known):
            raise Refused(400, f"{spelled} has no parameter {unknown[0]}")

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        value = self.given.get(name, default)
        if not isinstance(value, str):
            raise Refused(400, f"{name} must be a string")
        return value

    def integer(self, name: str, default: int | None = None) -> int | None:
        """A number, also written as a string."""
        value = self.given.get(name, default)
        if value is None or value == "":
            return default
        try:
            if isinstance(value, int | str) and not isinstance(value, bool):
                return int(value)
        except ValueError:
            pass
        raise Refused(400, f"{name} must be an integer")

    def needed(self, name: str) -> int:
        """A number that has to be there."""
        value = self.integer(name)
        if value is None:
            raise Refused(400, f"{name} is empty")
        return value

    def yes(self, name: str) -> bool:
        """True where it says so."""
        value = self.given.get(name, False)
        if isinstance(value, bool):
            return value
        if str(value).lower() not in ("true", "false", "0", "1", "yes", "no"):
            raise Refused(400, f"{name} must be a boolean")
        return str(value).lower() in ("true", "1", "yes")

    def made(self, name: str, kind: type) -> Any:
        """An object or a list, also as JSON in a string; None where it is not there."""
        value = self.given.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value else None
            except ValueError:
                raise Refused(400, f"can't parse {name} JSON object") from None
        if value is not None and not isinstance(value, kind):
            raise Refused(
                400, f"object expected as {name}" if kind is dict else f"can't parse {name}"
            )
        return value

    def file(self, name: str) -> File | str:
        """A file of the form, or the id of one that is known."""
        value = self.given.get(name)
        if isinstance(value, str) and value.startswith("attach://"):
            value = self.given.get(value.removeprefix("attach://"))
        if not isinstance(value, File | str) or value == "":
            raise Refused(400, f"there is no {name} in the request")
        return value
