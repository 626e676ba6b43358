"""Discord's way of writing: mentions and cards read back, and our keys inside its nonces."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import sha256
from typing import Any

from threadline.core.ids import number_of, public
from threadline.core.model import Attachment
from threadline.core.values import file_name, ident, person_name, records, said, size, web

NONCE = 25
MAX_PART = 9_999
MAX_EDITION = 1_023

_KEY = re.compile(r"([0-9a-z]{13})\.([0-9a-z]{13})\.([1-9]\d{0,3})(?:\.([1-9]\d{0,3}))?")
_TAG = re.compile(r"<(?:@!?(\d{1,20})|a?(:\w{1,32}:)\d{1,20})>")


def nonce(key: str) -> str:
    """A delivery's key in at most 25 characters, so that the echo hands it back.

    A key of a lane is two ids and two small numbers, which fit exactly. A short key of another
    make stands as it is; of a longer one there is a digest, which is unique and is not read back.

    >>> len(nonce("0000000000001.7zzzzzzzzzzzz.12"))
    25
    >>> key_in(nonce("0000000000001.7zzzzzzzzzzzz.12"))
    '0000000000001.7zzzzzzzzzzzz.12'
    """
    found = _KEY.fullmatch(key)
    if found is not None:
        conversation, delivery = number_of(found[1]), number_of(found[2])
        part, edition = int(found[3]), int(found[4] or 0)
        if conversation is not None and delivery is not None and edition <= MAX_EDITION:
            packed = ((conversation << 63 | delivery) << 14 | part) << 10 | edition
            # 150 bits are 25 letters of six bits each.
            return urlsafe_b64encode((packed << 2).to_bytes(19)).decode()[:NONCE]
    if len(key) < NONCE and key.isascii() and key.isprintable():
        return f".{key}"
    return "~" + urlsafe_b64encode(sha256(key.encode()).digest()).decode()[: NONCE - 1]


def key_in(given: object) -> str | None:
    """The key behind a nonce of ours; None where it is none.

    >>> key_in(".key"), key_in("1457536592850714624"), key_in(None)
    ('key', None, None)
    """
    if not isinstance(given, str) or not given:
        return None
    if given[0] == ".":
        return given[1:] or None
    if len(given) != NONCE or not re.fullmatch(r"[\w-]+", given, re.ASCII):
        return None
    try:
        packed = int.from_bytes(urlsafe_b64decode(given + "A==")) >> 2
    except (Error, ValueError):
        return None
    edition, part = packed & 1_023, packed >> 10 & 16_383
    conversation, delivery = packed >> 87, packed >> 24 & (1 << 63) - 1
    if not 0 < part <= MAX_PART:
        return None
    key = f"{public(conversation)}.{public(delivery)}.{part}"
    return f"{key}.{edition}" if edition else key


def display_name(user: dict[str, Any], member: object = None) -> str:
    """What people see as the name of a user; empty where nothing says it."""
    nick = member.get("nick") if isinstance(member, dict) else None
    return person_name(nick, user.get("global_name"), user.get("username"))


def text_of(entry: dict[str, Any], me: str) -> str:
    """What was written; where nothing was, what was passed on, or what the cards say.

    Mentions of people become their names. A mention of ourselves loses its sign: it names the
    account, and where none of the sessions behind it is called so it is to mean nobody else. At
    the beginning it is an address (`simbot, help`), which finds the session of that name.
    """
    text = said(entry.get("content"))
    holder = entry
    if not text.strip():
        for holder in (entry, *snapshots(entry)):
            text = said(holder.get("content")) or "\n".join(_cards(holder))
            if text.strip():
                break
    names = {}
    for user in records(entry.get("mentions")) + records(holder.get("mentions")):
        user_id = ident(user.get("id"))
        name = display_name(user, user.get("member"))
        if user_id is not None and name:
            names[user_id] = name if user_id == me else f"@{name}"

    def read(found: re.Match[str]) -> str:
        name = found[2] or names.get(found[1], found[0])
        opens = found[1] == me and not text[: found.start()].strip()
        return name if not opens or text[found.end() :].startswith((",", ":")) else f"{name},"

    return _TAG.sub(read, text)


def snapshots(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that were passed on in this one."""
    found = [each.get("message") for each in records(entry.get("message_snapshots"))]
    return [each for each in found if isinstance(each, dict)]


def _cards(entry: dict[str, Any]) -> list[str]:
    lines = [
        said(each.get(part))
        for each in records(entry.get("embeds"))
        for part in ("title", "description")
    ]
    match entry.get("poll"):
        case {"question": {"text": str(question)}, **rest}:
            lines.append(said(question))
            for answer in records(rest.get("answers")):
                media = answer.get("poll_media")
                lines.append("- " + said(media.get("text") if isinstance(media, dict) else None))
    return [line for line in lines if line.strip("- ")]


def attachments_of(entry: dict[str, Any]) -> tuple[Attachment, ...]:
    """Files and stickers, its own and those passed on."""
    holders = [entry, *snapshots(entry)]
    files = [
        Attachment(
            id=ident(each.get("id")) or "",
            type=said(each.get("content_type")),
            name=file_name(each.get("filename")),
            size=size(each.get("size")),
            url=web(each.get("url")),
        )
        for holder in holders
        for each in records(holder.get("attachments"))
    ]
    stickers = [
        Attachment(id=ident(each.get("id")) or "", type="sticker", name=said(each.get("name")))
        for holder in holders
        for each in records(holder.get("sticker_items"))
    ]
    return tuple(files + stickers)
