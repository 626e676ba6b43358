"""Files that are said in Slack: brought there one by one, then shown in one message.

Slack takes no metadata beside a file, and shows it some time after it said yes, or never. So the
first file of a message carries the delivery's key in the name it is downloaded under, while its
title is the plain one: by that the message is known when it comes back, and found in the history.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from threadline.adapters.slack_answers import failure_of, is_ok
from threadline.adapters.slack_api import Api
from threadline.core.files import safe_name
from threadline.core.model import Attachment
from threadline.core.slack import stamp
from threadline.core.values import ident, json_object, records, said
from threadline.core.wire import ApiCall, ApiResponse, Doubt, OutboundMessage, Refused, Sent

RESERVE, UPLOAD, SHOW = "files.getUploadURLExternal", "upload", "files.completeUploadExternal"
# Each file takes two calls, and what is said at once takes no more than eight.
MAX_FILES = 3
MAX_UPLOAD = 1_000_000_000

_KEY = re.compile(r"([0-9a-z]{13})\.([0-9a-z]{13})\.([1-9]\d{0,3})((?:\.[1-9]\d{0,3})?)", re.ASCII)
_MARKED = re.compile(
    r"(?P<stem>.*)~(?P<key>[0-9a-z]{13}-[0-9a-z]{13}-[1-9][0-9]{0,3}(?:-[1-9][0-9]{0,3})?)"
    r"(?P<end>(?:\.[^.]*)?)",
    re.S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bringing(ApiCall):
    """A step on the way: the ids of the files that Slack has, or has room for."""

    brought: tuple[str, ...] = ()


def marked(name: str, key: str) -> str:
    """The name a file is downloaded under, with the key of its delivery in it.

    >>> marked("a.txt", "0000000000001.7zzzzzzzzzzzz.1")
    'a~0000000000001-7zzzzzzzzzzzz-1.txt'
    >>> marked("a.txt", "of another make")
    'a.txt'
    """
    if not _KEY.fullmatch(key):
        return name
    stem, dot, end = name.rpartition(".")
    if not stem:
        stem, dot, end = name, "", ""
    return f"{stem}~{key.replace('.', '-')}{dot}{end}"


def unmarked(name: str) -> tuple[str, str | None]:
    """A name as it was given, and the key that was in it.

    >>> unmarked("a~0000000000001-7zzzzzzzzzzzz-1.txt")
    ('a.txt', '0000000000001.7zzzzzzzzzzzz.1')
    >>> unmarked("a~b.txt")
    ('a~b.txt', None)
    """
    found = _MARKED.fullmatch(name)
    if found is None:
        return name, None
    return found["stem"] + found["end"], found["key"].replace("-", ".")


def key_of(entry: Mapping[str, Any]) -> str | None:
    """The key of the delivery in the names of a message's files; None where it has none."""
    for one in records(entry.get("files")):
        key = unmarked(said(one.get("name")))[1]
        if key is not None:
            return key
    return None


def reserve(api: Api, message: OutboundMessage, brought: tuple[str, ...] = ()) -> ApiCall:
    """The call that asks where the next file of a message goes."""
    file = message.attachments[len(brought)]
    # A key in a name that somebody gave us is of another delivery.
    name = unmarked(safe_name(file.name, file.type))[0] or "file"
    asked = {
        "filename": name if brought else marked(name, message.key),
        "length": str(file.size or 0),
    }
    return _step(api.ask(RESERVE, asked, key=message.key), message, brought)


def following(api: Api, call: Bringing, answer: ApiResponse) -> ApiCall | Refused | Doubt | None:
    """What comes after a step that nobody sees; None where all files are brought."""
    message = call.message
    assert message is not None
    if call.route == RESERVE:
        return _upload(api, call, message, answer)
    if answer.status in (404, 410):
        return Doubt(reason="the address for the upload does not hold any more.")
    if answer.status != 200:
        return failure_of(answer)
    if len(call.brought) < len(message.attachments):
        return reserve(api, message, call.brought)
    return None


def show(message: OutboundMessage, brought: tuple[str, ...]) -> dict[str, Any]:
    """What shows the files under the names they were given."""
    titles = [safe_name(one.name, one.type) for one in message.attachments]
    return {"files": [{"id": one, "title": t} for one, t in zip(brought, titles, strict=True)]}


def shown(call: ApiCall, answer: ApiResponse) -> Sent | Refused | Doubt:
    """The stamp of the message with the files, where Slack knows it already.

    Mostly it does not: it looks through the files first, and a yes is no proof that it shows them.
    """
    if not is_ok(answer):
        return failure_of(answer)
    channel = said(json_object(call.body).get("channel_id"))
    for one in records(json_object(answer.body).get("files")):
        shares = one.get("shares")
        for places in shares.values() if isinstance(shares, dict) else ():
            for share in records(places.get(channel)) if isinstance(places, dict) else ():
                if (ts := stamp(share.get("ts"))) is not None:
                    return Sent(message_id=ts)
    return Doubt(reason="Slack has the files and does not show them yet.")


def _upload(
    api: Api, call: Bringing, message: OutboundMessage, answer: ApiResponse
) -> ApiCall | Refused | Doubt:
    """The bytes, to the address Slack named; the address itself is what lets them in."""
    if not is_ok(answer):
        return failure_of(answer)
    body = json_object(answer.body)
    url, file = said(body.get("upload_url")), ident(body.get("file_id"))
    if not url or file is None:
        return Doubt(reason="Slack names no place for the file.")
    if not api.is_slacks(url):
        return Doubt(reason="Slack names a place for the file that is not its own.")
    given: Attachment = message.attachments[len(call.brought)]
    made = ApiCall(method="POST", url=url, route=UPLOAD, key=message.key, file=given)
    return _step(made, message, (*call.brought, file))


def _step(call: ApiCall, message: OutboundMessage, brought: tuple[str, ...]) -> Bringing:
    made = replace(call, message=message, unseen=True)
    fields = {name: getattr(made, name) for name in ApiCall.__dataclass_fields__}
    return Bringing(**fields, brought=brought)
