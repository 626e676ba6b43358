"""How strictly Slack reads a call, and how it says no: HTTP 200 with `"ok": false`.

The real one overlooks arguments it does not know; here a slip of the pen is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from threadline.testing.simulators.wire import Answer, Call, says

FORM, JSON, PARTS = "application/x-www-form-urlencoded", "application/json", "multipart/form-data"
TS = re.compile(r"\d{10}\.\d{6}")
LONGEST_EDIT, LONGEST_MARKDOWN = 4_000, 12_000
BLOCKS, SECTION, BLOCKS_TOGETHER, METADATA = 50, 3_000, 13_200, 8_000


class Refused(Exception):
    """A call is refused with one of Slack's errors; `more` stands beside it in the answer."""

    def __init__(self, error: str, *messages: str, **more: Any) -> None:
        super().__init__(error)
        self.said: dict[str, Any] = {"ok": False, "error": error, **more}
        if messages:
            self.said["response_metadata"] = {"messages": [f"[ERROR] {one}" for one in messages]}

    def answer(self) -> Answer:
        """What is answered."""
        return says(self.said)


@dataclass(frozen=True)
class Method:
    """What a method takes: arguments that it needs, those that it may have, and the scope.

    A scope with `*` is of the kind of the conversation: `channels:history`, `im:history` …
    """

    needed: str = ""
    free: str = ""
    scope: str = ""
    in_json: bool = True
    app: bool = False


_PAGE = "cursor limit"
_SPAN = f"{_PAGE} latest oldest inclusive include_all_metadata"
_CONTENT = "text blocks attachments markdown_text metadata"
METHODS = {
    "apps.connections.open": Method(scope="connections:write", app=True),
    "auth.test": Method(),
    "bots.info": Method("bot", "team_id", "users:read", in_json=False),
    "chat.delete": Method("channel ts", "as_user", "chat:write"),
    "chat.postMessage": Method(
        "channel",
        f"{_CONTENT} thread_ts reply_broadcast unfurl_links unfurl_media mrkdwn link_names parse"
        " username icon_emoji icon_url as_user",
        "chat:write",
    ),
    "chat.update": Method(
        "channel ts",
        f"{_CONTENT} as_user link_names parse reply_broadcast file_ids",
        "chat:write",
    ),
    "conversations.history": Method("channel", _SPAN, "*:history", in_json=False),
    "conversations.info": Method(
        "channel", "include_locale include_num_members", "*:read", in_json=False
    ),
    "conversations.join": Method("channel", "", "channels:join"),
    "conversations.leave": Method("channel", "", "*:manage"),
    "conversations.list": Method("", f"{_PAGE} exclude_archived team_id types", "", in_json=False),
    "conversations.members": Method("channel", _PAGE, "*:read", in_json=False),
    "conversations.open": Method("", "channel prevent_creation return_im users", ""),
    "conversations.replies": Method("channel ts", _SPAN, "*:history", in_json=False),
    "files.completeUploadExternal": Method(
        "files", "channel_id channels initial_comment thread_ts blocks", "files:write"
    ),
    "files.getUploadURLExternal": Method(
        "filename length", "alt_txt snippet_type", "files:write", in_json=False
    ),
    "files.info": Method("file", f"{_PAGE} count page", "files:read", in_json=False),
    "reactions.add": Method("channel name timestamp", "", "reactions:write"),
    "reactions.remove": Method("name", "channel timestamp file file_comment", "reactions:write"),
    "team.info": Method("", "team domain", "team:read", in_json=False),
    "users.info": Method("user", "include_locale", "users:read", in_json=False),
    "users.list": Method("", f"{_PAGE} include_locale team_id", "users:read", in_json=False),
    "users.lookupByEmail": Method("email", "", "users:read.email", in_json=False),
}


def read(call: Call, method: Method) -> tuple[dict[str, Any], list[str]]:
    """The arguments of a call as they were sent, and warnings. Raises `Refused`."""
    given: dict[str, Any] = {name: value for name, value in call.query.items() if name != "token"}
    if not call.body:
        return given, []
    if "content-type" not in call.headers:
        raise Refused("missing_post_type")
    head = Message()
    head["content-type"] = call.headers["content-type"]
    kind, charset = head.get_content_type(), str(head.get_param("charset", ""))
    if kind not in (FORM, JSON, PARTS):
        raise Refused("invalid_post_type")
    if charset and charset.lower().replace("-", "") != "utf8":
        raise Refused("invalid_charset")
    warnings = [] if charset or kind == PARTS else ["missing_charset"]
    try:
        if kind == FORM:
            return given | dict(parse_qsl(call.body.decode(), keep_blank_values=True)), warnings
        if kind == PARTS:
            return given | call.fields(), warnings
        said = call.json()
    except (ValueError, RecursionError):
        raise Refused("invalid_json" if kind == JSON else "invalid_form_data") from None
    if not isinstance(said, dict):
        raise Refused("json_not_object")
    # Where a method takes no JSON, the body is passed over as if it were not there.
    return (given | said if method.in_json else given), warnings


class Asked:
    """The arguments of one call. Asking for one that is wrong raises `Refused`."""

    def __init__(self, method: Method, given: Mapping[str, Any]) -> None:
        self.given = {name: one for name, one in given.items() if one is not None}
        self.given.pop("token", None)
        needed = method.needed.split()
        if missing := [one for one in needed if self.given.get(one, "") == ""]:
            raise Refused("invalid_arguments", f"missing required field: {missing[0]}")
        if unknown := sorted(set(self.given) - {*needed, *method.free.split()}):
            raise Refused("invalid_arguments", f"unknown field: {unknown[0]}")

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        value = self.given.get(name, default)
        if not isinstance(value, str):
            raise Refused("invalid_arguments", f"must be a string [json-pointer:/{name}]")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number between these."""
        value = self.given.get(name, default)
        if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,12}", str(value)):
            raise Refused("invalid_arguments", f"must be an integer [json-pointer:/{name}]")
        if not least <= int(value) <= most:
            raise Refused("invalid_limit" if name == "limit" else "invalid_arguments")
        return int(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Yes or no."""
        value = str(self.given.get(name, default)).lower()
        if value not in ("true", "false", "1", "0"):
            raise Refused("invalid_arguments", f"must be a boolean [json-pointer:/{name}]")
        return value in ("true", "1")

    def made(self, name: str, kind: type, error: str) -> Any:
        """An object or a list, also as JSON in a string; None where it is not there."""
        value = self.given.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value else None
            except (ValueError, RecursionError):
                raise Refused(error) from None
        if value is not None and not isinstance(value, kind):
            raise Refused(error)
        return value

    def ts(self, name: str, error: str) -> str:
        """The timestamp of a message, exactly as Slack wrote it."""
        value = self.given.get(name, "")
        if value != "" and not (isinstance(value, str) and TS.fullmatch(value)):
            raise Refused(error, f"{value} is not a valid {name}")
        return str(value)

    def content(self, longest: int | None = None) -> dict[str, Any]:
        """What a message is made of: `text`, and `blocks`, `attachments`, `metadata` if given.

        A text over `longest` characters is refused; without that it is cut, by whoever keeps it.
        """
        text, markdown = self.text("text"), self.text("markdown_text")
        blocks = self.made("blocks", list, "invalid_blocks_format")
        attachments = self.made("attachments", list, "invalid_attachments")
        if markdown and (text or blocks):
            raise Refused("markdown_text_conflict")
        if not (text.strip() or markdown.strip() or blocks or attachments):
            raise Refused("no_text")
        if (longest and len(text) > longest) or len(markdown) > LONGEST_MARKDOWN:
            raise Refused("msg_too_long")
        _fit(blocks or [])
        parts = {"blocks": blocks, "attachments": attachments, "metadata": self._metadata()}
        return {"text": text or markdown} | {name: one for name, one in parts.items() if one}

    def _metadata(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.made("metadata", dict, "invalid_metadata_format")
        if found is None:
            return None
        kind, payload = found.get("event_type"), found.get("event_payload")
        if (
            set(found) - {"event_type", "event_payload", "entities"}
            or not isinstance(kind, str)
            or not re.fullmatch(r"\w[\w.:-]{0,254}", kind)
            or not isinstance(payload, dict)
        ):
            raise Refused("invalid_metadata_format")
        if len(json.dumps(payload)) > METADATA:
            raise Refused("metadata_too_large")
        return found


def _fit(blocks: Iterable[Any]) -> None:
    """Raise `Refused` for blocks that Slack does not show."""
    known, total = list(blocks), 0
    if len(known) > BLOCKS:
        raise Refused("invalid_blocks", "no more than 50 items allowed [json-pointer:/blocks]")
    for place, one in enumerate(known):
        if not isinstance(one, dict) or not isinstance(one.get("type"), str):
            raise Refused("invalid_blocks", f"missing required field: type [/blocks/{place}]")
        text = one.get("text", "")
        text = text.get("text", "") if isinstance(text, dict) else text
        most = LONGEST_MARKDOWN if one["type"] == "markdown" else SECTION
        if not isinstance(text, str) or len(text) > most:
            raise Refused("invalid_blocks", f"must be less than {most + 1} characters")
        total += len(text)
    if total > BLOCKS_TOGETHER:
        raise Refused("msg_blocks_too_long")
