"""Files that come with messages: their names, where they may be fetched, what is refused.

A sender's name for a file is data. It is shown, and made into a safe name where somebody saves the
file; it never names anything of ours. What is kept is named by the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, Protocol
from urllib.parse import quote, urljoin

from threadline.core.ids import public
from threadline.core.model import Attachment
from threadline.core.outside import AddressRefused, Place, place
from threadline.core.quick import quick
from threadline.core.wire import ApiCall, ApiResponse

MEBI = 1024 * 1024
NAME_BYTES = 120
HOPS = 4
PREFIX = "file:"
OCTETS = "application/octet-stream"
REDIRECTS = frozenset({301, 302, 303, 307, 308})

# What browsers draw or play and nothing in it runs. Anything else is bytes.
SHOWN_AS = frozenset(
    {
        *("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"),
        *("audio/mpeg", "audio/ogg", "audio/mp4", "audio/wav", "video/mp4", "video/webm"),
    }
)
_SUFFIX = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "video/mp4": ".mp4",
}
# Not in a name: what parts paths, what shells and Windows read, what is not seen.
_UNSAFE = re.compile(r'[<>:"|?*%;]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(?:\..*)?\Z", re.I)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How large a file may be, all that were fetched together, and all that were `given` to us, in
    bytes; how long fetching one may take, in seconds; where they are kept, empty for a folder that
    goes with the process."""

    file: int = 50 * MEBI
    kept: int = 1024 * MEBI
    given: int = 1024 * MEBI
    seconds: float = 60.0
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Which file of a record a kept one is. `number` counts from 0."""

    key: str
    conversation: int
    sequence: int
    number: int
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a record. `name` is safe to save it under, `type` a media type browsers run nothing
    of; `content` is open and has to be closed."""

    name: str
    type: str
    size: int
    sha256: str
    content: BinaryIO = field(repr=False, compare=False)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file given to us. `owner` is the surrogate id of a session, or of a `guest`.

    `conversation` is where it was said, None while it was not: by `delivery`, or as the record
    `sequence`. `local` says that ours is the only copy.
    """

    id: int
    scope_id: str
    owner: int
    guest: bool = False
    name: str
    type: str
    size: int
    sha256: str
    created_at: datetime
    conversation: int | None = None
    delivery: int | None = None
    sequence: int | None = None
    local: bool = False

    @property
    def said(self) -> int:
        """0 before it was said, 1 where ours is the only copy, 2 where a platform has it."""
        if self.conversation is None:
            return 0
        return 1 if self.local else 2

    @property
    def attachment(self) -> Attachment:
        """As a record has it."""
        return Attachment(
            id=PREFIX + public(self.id), type=self.type, name=self.name, size=self.size
        )


class Cabinet(Protocol):
    """Where bytes are kept on a disk, named by their hash. Its calls block.

    Raises `OSError` where the disk does not.
    """

    def find(self, key: str) -> tuple[str, BinaryIO] | None:
        """The hash and the bytes kept under a key, open; None where there are none (any more)."""

    def keep(self, link: Link, content: BinaryIO) -> tuple[str, BinaryIO]:
        """Keep bytes under a key; whatever was not asked for longest makes room. Raises `FilesFull`
        where nothing may leave by itself, and where the disk has no room."""

    def links(self) -> Iterator[Link]:
        """Everything that is kept, in no order."""

    def drop(self, keys: Sequence[str]) -> None:
        """Forget these, and the bytes that nothing else is kept under."""

    def close(self) -> None:
        """Remove what was to go with the process."""


def safe_name(name: str, kind: str = "") -> str:
    """A name for a file that is no path, whoever gave it: one segment, all of it to be seen.

    >>> safe_name("../../etc/passwd"), safe_name("a\\\\b\\x00c.txt"), safe_name("CON")
    ('passwd', 'bc.txt', '_CON')
    >>> safe_name("", "image/png"), safe_name("..")
    ('file.png', 'file')
    """
    text = unicodedata.normalize("NFC", name).replace("\\", "/").rstrip("/ .").rpartition("/")[2]
    text = "".join(one for one in text if unicodedata.category(one) not in _UNSEEN)
    text = " ".join(_UNSAFE.sub("_", text).split()).strip(" .~")
    text = _cut(text)
    if not text:
        text = "file" + _SUFFIX.get(kind.partition(";")[0].strip().casefold(), "")
    return f"_{text}" if _RESERVED.match(text) or text.startswith("-") else text


def _cut(text: str) -> str:
    """At most so many bytes of it, with its ending where that is short."""
    if len(text.encode()) <= NAME_BYTES:
        return text
    stem, dot, ending = text.rpartition(".")
    if not dot or not stem or len(ending.encode()) > 16:
        stem, dot, ending = text, "", ""
    room = NAME_BYTES - len((dot + ending).encode())
    return stem.encode()[:room].decode("utf-8", "ignore").rstrip(" .") + dot + ending


def safe_type(kind: str) -> str:
    """The media type a file is handed out as: what is not known to be harmless is bytes.

    >>> safe_type("image/png"), safe_type("text/html; charset=utf-8"), safe_type("photo")
    ('image/png', 'application/octet-stream', 'application/octet-stream')
    """
    plain = kind.partition(";")[0].strip().casefold()
    return plain if plain in SHOWN_AS else OCTETS


def disposition(name: str) -> str:
    """The header that has a browser save it under this safe name (RFC 6266).

    >>> disposition("naïve.txt")
    "attachment; filename=\\"na_ve.txt\\"; filename*=UTF-8''na%C3%AFve.txt"
    """
    plain = "".join(one if one.isascii() and one.isprintable() else "_" for one in name)
    plain = plain.replace("\\", "_").replace('"', "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def pinned(url: str, hosts: Iterable[str]) -> Place:
    """The place of a URL at one of these hosts: an origin, or `https://*.` and a name for all names
    below it. Raises `AddressRefused`.

    >>> pinned("https://cdn.example.org/x", ["https://*.example.org"]).host
    'cdn.example.org'
    >>> pinned("https://example.org.evil.net/x", ["https://*.example.org", "https://example.org"])
    Traceback (most recent call last):
        ...
    threadline.core.outside.AddressRefused: The address may not be called from here: ...
    """
    # Private addresses are judged where they are connected to.
    where = place(url, allow_private=True)
    for one in hosts:
        wild = one.replace("://*.", "://", 1)
        try:
            there = place(wild, allow_private=True)
        except AddressRefused:
            continue
        same = where.host == there.host if wild == one else where.host.endswith(f".{there.host}")
        if same and (where.scheme, where.port) == (there.scheme, there.port):
            return where
    raise AddressRefused("the platform keeps no files there.")


def is_pinned(url: str, hosts: Iterable[str]) -> bool:
    """Whether a URL is at one of these hosts.

    >>> is_pinned("https://a.example.org/x", ["https://*.example.org"]), is_pinned("x", [])
    (True, False)
    """
    try:
        pinned(url, hosts)
    except AddressRefused:
        return False
    return True


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL as a host to pin to; empty where it is none.

    >>> origin_of("https://graph.example.org/v26.0"), origin_of("nowhere")
    ('https://graph.example.org:443', '')
    """
    try:
        where = place(url, allow_private=True)
    except AddressRefused:
        return ""
    host = f"[{where.host}]" if ":" in where.host else where.host
    return f"{where.scheme}://{host}:{where.port}"


def onwards(call: ApiCall, answer: ApiResponse) -> ApiCall | None:
    """The call that an answer sends us to, None where it does not. Credentials stay at home: they
    go along only to the very origin they were meant for."""
    location = answer.headers.get("location", "")
    if answer.status not in REDIRECTS or call.method != "GET" or not location:
        return None
    try:
        url = urljoin(call.url, location)
    except ValueError:
        return None
    same = origin_of(url) == origin_of(call.url)
    known = {"authorization", "cookie"}
    kept = {k: v for k, v in call.headers.items() if same or k.lower() not in known}
    return ApiCall(
        method="GET",
        url=url,
        headers=kept,
        route=call.route,
        most=call.most,
        key=call.key,
        secret=call.secret if same else "",
    )


def digest_of(content: BinaryIO) -> str:
    """The SHA-256 of bytes from their beginning, to which they are set back."""
    made = hashlib.sha256()
    content.seek(0)
    while part := content.read(256 * 1024):
        made.update(part)
    content.seek(0)
    return made.hexdigest()


def is_ours(attachment: Attachment) -> bool:
    """Whether it is a file that was given to us."""
    return attachment.id.startswith(PREFIX)


def size_of(attachment: Attachment) -> int:
    """What its platform said it holds; 0 where that said nothing."""
    return attachment.size if attachment.size is not None and attachment.size > 0 else 0
