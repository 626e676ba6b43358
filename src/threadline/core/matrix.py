"""What a Matrix event says: its ids, time, relation, words and files.

Archives and the live dialect read events alike, so that an imported message and a heard one are the
same. Everything here is total: whatever stands in a field, the answer is of the right kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import dropwhile
from typing import Any

from threadline.core.model import MAX_ID_BYTES, Attachment
from threadline.core.values import clean, person_name

Json = Mapping[str, Any]

_NEVER = re.compile("[\x00\ud800-\udfff]")
_FALLBACK = re.compile(r"> (?:\* )?<@[^>\n]*>")
POLLS = ("m.poll.start", "org.matrix.msc3381.poll.start")
MESSAGES = frozenset({"m.room.message", "m.sticker", *POLLS})
NAME = 255  # characters of a name: longer ones are cut
_YEAR_10000 = 253_402_300_800_000


def ident(value: object) -> str | None:
    """An id as it may be stored, or None."""
    if not isinstance(value, str) or not value.strip() or _NEVER.search(value):
        return None
    return value if len(value.encode()) <= MAX_ID_BYTES else None


def at(event: object) -> datetime | None:
    """When the event's server took it."""
    stamp = event.get("origin_server_ts") if isinstance(event, dict) else None
    # A bool is no time although Python calls it a number.
    if type(stamp) is not int or not 0 <= stamp < _YEAR_10000:
        return None
    seconds, rest = divmod(stamp, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def relation(content: Json) -> tuple[str, str | None]:
    """What the event is to another, and to which."""
    match content.get("m.relates_to"):
        case {"rel_type": str(kind), "event_id": target}:
            return kind, ident(target)
    return "", None


def standing(content: Json) -> Json:
    """A membership without what does not make it another."""
    return {key: content.get(key) for key in ("membership", "displayname", "avatar_url")}


def answer_of(content: Json) -> str | None:
    """What the message answers; a thread's fallback for old clients is no answer."""
    match content.get("m.relates_to"):
        case {"rel_type": "m.thread", "is_falling_back": True}:
            return None
        case {"m.in_reply_to": {"event_id": target}}:
            return ident(target)
    return None


def words_of(value: object) -> str:
    """The plain text of a poll's question or answer, in any of its three generations."""
    match value:
        case str():
            return value
        case {"body": str(text)} | {"m.text": str(text)} | {"org.matrix.msc1767.text": str(text)}:
            return text
        case {"m.text": [first, *_]}:
            return words_of(first)
    return ""


def poll_text(content: Json) -> str:
    """A poll's question and its answers, a line each."""
    poll = content.get("m.poll") or content.get(POLLS[1]) or content.get("m.poll.start")
    if not isinstance(poll, dict):
        return words_of(content)
    answers = poll.get("answers")
    lines = [words_of(answer) for answer in answers] if isinstance(answers, list) else []
    return "\n".join([words_of(poll.get("question")), *(f"- {line}" for line in lines)])


def _unquoted(body: str) -> str:
    """A rich reply without the quote that old clients were given."""
    if not _FALLBACK.match(body):
        return body
    lines = list(dropwhile(lambda line: line.startswith(">"), body.split("\n")))
    return "\n".join(lines[1:] if lines and not lines[0].strip() else lines)


def text_of(content: Json) -> str:
    """The words of a message, without the quote a reply carries for old clients."""
    body = content.get("body")
    if not isinstance(body, str):
        return ""
    related = content.get("m.relates_to")
    quotes = isinstance(related, dict) and "m.in_reply_to" in related
    return clean(_unquoted(body) if quotes else body)


def attachments_of(content: Json) -> tuple[Attachment, ...]:
    """The file of a message, as data. Its id and url are its `mxc://` address."""
    file, info = content.get("file"), content.get("info")
    url = ident(content.get("url") or (file.get("url") if isinstance(file, dict) else None))
    if url is None:
        return ()
    facts = info if isinstance(info, dict) else {}
    kind, size = facts.get("mimetype"), facts.get("size")
    name = content.get("filename") or content.get("body")
    return (
        Attachment(
            id=url,
            type=clean(kind)[:NAME] if isinstance(kind, str) else "",
            name=clean(re.split(r"[/\\]", name)[-1])[:NAME] if isinstance(name, str) else "",
            size=size if type(size) is int and 0 <= size < 2**63 else None,
            url=url,
        ),
    )


def sort_of(kind: str, msgtype: object) -> Json:
    """What sort of message it is, where it is not plain text."""
    if kind != "m.room.message":
        return {"type": kind}
    special = isinstance(msgtype, str) and msgtype != "m.text"
    return {"msgtype": clean(str(msgtype))} if special else {}


def redaction_of(event: Json) -> Json | None:
    """The redaction an event was emptied by; state is emptied but stays state."""
    unsigned = event.get("unsigned")
    if "state_key" in event or not isinstance(unsigned, dict):
        return None
    if unsigned.keys().isdisjoint({"redacted_because", "redacted_by"}):
        return None
    reason = unsigned.get("redacted_because")
    return reason if isinstance(reason, dict) else {}


_DEEDS = {
    "join": "joined",
    "leave": "left",
    "invite": "was invited",
    "ban": "was banned",
    "knock": "asked to come in",
}


def name_in(content: Json) -> str:
    """The display name a membership carries; empty where it carries none."""
    return person_name(content.get("displayname"))


def coming_and_going(event: Json, before: Json, name: str) -> tuple[str, Json] | None:
    """What a membership says that changed: its words, and what is kept beside them.

    `before` is the membership until then, `name` what the member is called. A new name or picture
    alone is `{"profile": True}`; None is a membership nobody knows.
    """
    content, user, word = event["content"], event["state_key"], event["content"].get("membership")
    if word == before.get("membership"):
        old, new = before.get("displayname"), content.get("displayname")
        renamed = old != new and isinstance(old, str) and isinstance(new, str)
        text = f"{old} is now {new}" if renamed else f"{name} changed their profile"
        return clean(text), {"profile": True}
    deed = _DEEDS.get(word) if isinstance(word, str) else None
    if not deed:
        return None
    if word == "leave" and event.get("sender") != user:
        deed = "was unbanned" if before.get("membership") == "ban" else "was removed"
    return clean(f"{name or user} {deed}"), {"membership": word, "user": clean(user)}
