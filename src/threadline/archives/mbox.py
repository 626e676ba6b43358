"""Mail archives in one file (mbox): mails behind "From " lines, woven into conversations.

Two readings. The first takes ids only: mails that name each other, directly or over others, are
one conversation, and its id is the oldest ancestor its first mail knows of. The second says the
mails. Of a mail only what is shown is held; the bodies of attached files are counted and let go.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import policy
from email.message import Message
from email.parser import BytesParser
from typing import BinaryIO

from threadline.archives.mail import ELIDED, author, clean, content, headers, moment, subject, words
from threadline.core.archive import Account, Ended, Item, Options, Place, Source, Tally, broken
from threadline.core.model import (
    MAX_ID_BYTES,
    Actor,
    ConversationRef,
    Direction,
    InboundMessage,
    Kind,
)

HEAD = 64 * 1024
LINE = 1024 * 1024
MAX_HEAD = 1024 * 1024
MAX_BODY = 8 * 1024 * 1024

_FIELD = re.compile(rb">From |[\x21-\x39\x3b-\x7e]+[ \t]*:")
# "From - ", "From 184@xxx" as Google writes it, or a sender and a day as all others do.
_FROM = re.compile(rb"From (?:(?:-|\S+@\S+)\s*$|.*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*\d\d:\d\d)")
_QUOTED = re.compile(rb">+From ")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_IDS = re.compile(rb"^(message-id|in-reply-to|references)[ \t]*:(.*)$", re.I | re.M)
_ID = re.compile(r"<([^<>]+)>")
_BARE_ID = re.compile(r"\S+@\S+")
_BOUNDARY = re.compile(rb'boundary[ \t]*=[ \t]*(?:"([^"\r\n]+)"|([^\s;"]+))', re.I)
_IN_BASE64 = re.compile(rb"^content-transfer-encoding[ \t]*:\s*base64", re.I | re.M)
_FILED = re.compile(
    rb"^content-(?:type[ \t]*:[ \t]*(?!text/|multipart/|message/)\S"
    rb"|disposition[ \t]*:\s*attachment)",
    re.I | re.M,
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/=]*\s*")


@dataclass(slots=True)
class _Mail:
    """One mail while its lines come in: its ids, and of its body what is to be shown."""

    where: str
    envelope: bytes
    keep: bool
    head: list[bytes] = field(default_factory=list)
    body: list[bytes] = field(default_factory=list)
    ids: dict[str, list[str]] = field(default_factory=dict)
    digest: str = ""
    is_open: bool = True
    size: int = 0

    _hash: hashlib._Hash | None = None
    _blanks: int = 0
    _boundaries: set[bytes] = field(default_factory=set)
    _part: list[bytes] | None = None
    _elided: int | None = None

    @property
    def has_id(self) -> bool:
        return bool(self.ids.get("message-id"))

    @property
    def message_id(self) -> str:
        """The Message-ID, or for a mail without one an id made of its content."""
        return self.ids["message-id"][0] if self.has_id else f"content:{self.digest}"

    @property
    def references(self) -> list[str]:
        """The ids it names, oldest first."""
        named = [*self.ids.get("references", ()), *self.ids.get("in-reply-to", ())]
        return [each for each in named if each != self.message_id]

    @property
    def answers(self) -> str | None:
        """The mail it replies to; References end with it where In-Reply-To is missing."""
        named = self.ids.get("in-reply-to", [])[:1] or self.ids.get("references", [])[-1:]
        return named[0] if named and named[0] != self.message_id else None

    def take(self, line: bytes) -> None:
        if not self.is_open:
            self._take_body(line)
        elif not line.strip():
            self._end_head()
        elif self.size < MAX_HEAD and not line.startswith(b">From "):
            self.size += len(line)
            self.head.append(line)

    def close(self) -> _Mail:
        """The whole mail. One that ends in its headers stays marked as open."""
        if self.is_open:
            self._end_head()
            self.is_open = True
        self._flush()
        if self._hash is not None:
            self.digest = self._hash.hexdigest()[:40]
        return self

    def _end_head(self) -> None:
        self.is_open, self.size = False, 0
        head = _FOLD.sub(b" ", b"".join(self.head))
        for name, value in _IDS.findall(head):
            self.ids.setdefault(name.decode().lower(), _ids(value))
        if not self.has_id:
            self._hash = hashlib.sha256(b"\n".join(line.rstrip() for line in head.split(b"\n")))
        self._part = [head]
        self._begin_part()

    def _begin_part(self) -> None:
        head, self._part = _FOLD.sub(b" ", b"".join(self._part or ())), None
        self._boundaries.update(one or other for one, other in _BOUNDARY.findall(head))
        self._elided = 0 if _IN_BASE64.search(head) and _FILED.search(head) else None

    def _take_body(self, line: bytes) -> None:
        if _QUOTED.match(line):
            line = line[1:]
        if self._hash is not None:
            # Blank lines at the end belong to the archive: the next mail decides on them.
            if line.strip():
                self._hash.update(b"\n" * self._blanks + line.rstrip() + b"\n")
            self._blanks = 0 if line.strip() else self._blanks + 1
        if not self.keep:
            return
        mark = line.rstrip()[2:] if line.startswith(b"--") else b""
        if mark and (mark in self._boundaries or mark.removesuffix(b"--") in self._boundaries):
            self._flush()
            self._part = []
        elif self._part is not None:
            if not line.strip():
                self._begin_part()
            elif self.size <= MAX_BODY:
                self._part.append(line)
        elif self._elided is not None and _BASE64.fullmatch(line):
            self._elided += len(line.strip().rstrip(b"="))
            return
        else:
            self._flush()
        self._hold(line)

    def _flush(self) -> None:
        if self._elided:
            self._hold(f"{ELIDED}{self._elided * 3 // 4}\n".encode())
        self._elided = None

    def _hold(self, line: bytes) -> None:
        self.size += len(line)
        if self.size <= MAX_BODY:
            self.body.append(line)

    def parsed(self) -> Message:
        return BytesParser(policy=policy.compat32).parsebytes(
            b"".join([*self.head, b"\n", *self.body])
        )


class Mbox:
    """Mails behind "From " lines: mboxo, mboxrd, Google Takeout, list archives."""

    format = "mbox"

    def recognises(self, source: Source) -> bool:
        return any(_is_mbox(source, name) for name in _candidates(source)[:16])

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        names = source.names()
        if len(names) != 1:
            names = [name for name in _candidates(source) if _is_mbox(source, name)]
        if not names:
            raise broken(source.title, "no mails were found here.")
        conversations = _weave(_mails_of(source, names, keep=False))
        left = Counter(conversations)
        reader = _Reader(account, options, tally)
        for mail, conversation in zip(
            _mails_of(source, names, keep=True), conversations, strict=True
        ):
            ref = account.ref(conversation, kind=Kind.ROOM)
            yield from reader.say(mail, ref)
            left[conversation] -= 1
            if not left[conversation] and ref in reader.places:
                reader.places.remove(ref)
                yield Ended(ref)


def _candidates(source: Source) -> list[str]:
    names = source.names()
    if len(names) == 1:
        return names
    return [name for name in names if re.search(r"(^|[./])(mbox|mbx|mboxrd)$", name)]


def _is_mbox(source: Source, name: str) -> bool:
    with source.open(name) as stream:
        head = stream.read(HEAD).removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if not head:
        return name.endswith((".mbox", ".mbx", ".mboxrd"))
    first, _, rest = head.partition(b"\n")
    return _separates(first, rest, after_blank=True)


def _separates(line: bytes, following: bytes, *, after_blank: bool) -> bool:
    """Whether a mail begins here: two of three signs, because each alone occurs in texts.

    They are the blank line before, the form of the line, and a header behind it. A "From " that
    the end of the file tears off counts as well: it was the next mail.
    """
    if not line.startswith(b"From "):
        return False
    signs = after_blank + bool(_FROM.match(line)) + bool(_FIELD.match(following))
    return signs > 1 or (after_blank and not following and not line.endswith(b"\n"))


def _mails_of(source: Source, names: list[str], *, keep: bool) -> Iterator[_Mail]:
    for name in names:
        with source.open(name) as stream:
            yield from _mails(stream, name, keep=keep)


def _mails(stream: BinaryIO, name: str, *, keep: bool) -> Iterator[_Mail]:
    mail: _Mail | None = None
    number, at_start, after_blank = 0, True, True
    line = stream.readline(LINE).removeprefix(b"\xef\xbb\xbf")
    while line:
        following = stream.readline(LINE)
        number += at_start
        if at_start and _separates(line, following, after_blank=after_blank):
            if mail is not None:
                yield mail.close()
            mail = _Mail(f"{name}: line {number}", line, keep)
        elif mail is not None:
            mail.take(line)
        elif line.strip():
            raise broken(f"{name}: line {number}", "a mail archive begins with a From line.")
        at_start, after_blank = line.endswith(b"\n"), not line.strip()
        line = following
    if mail is not None:
        yield mail.close()


def _ids(value: bytes) -> list[str]:
    text = value.decode("utf-8", "replace").strip()
    found = _ID.findall(text) or ([text] if _BARE_ID.fullmatch(text) else [])
    return [_ident(each) for each in found if each.strip()]


def _ident(text: str) -> str:
    ident = clean("".join(text.split()))
    if len(ident.encode()) > MAX_ID_BYTES // 2:
        return f"long:{hashlib.sha256(ident.encode()).hexdigest()}"
    return ident


def _weave(mails: Iterator[_Mail]) -> list[str]:
    """The conversation of each mail, in the order of the mails."""
    ids: list[str] = []
    above: dict[str, str] = {}
    joined: dict[str, str] = {}

    def find(one: str) -> str:
        while (other := joined.setdefault(one, one)) != one:
            joined[one] = joined[other]
            one = other
        return one

    for mail in mails:
        ids.append(mail.message_id)
        references = mail.references
        # Only the first mail of an id is believed, so that a repeated id moves no conversation.
        above.setdefault(mail.message_id, references[0] if references else mail.message_id)
        home = find(mail.message_id)
        for other in references:
            joined[find(other)] = home
    first: dict[str, str] = {}
    for message_id in ids:
        first.setdefault(find(message_id), message_id)
    names = {home: _ancestor(message_id, above) for home, message_id in first.items()}
    return [names[find(message_id)] for message_id in ids]


def _ancestor(message_id: str, above: dict[str, str]) -> str:
    passed = {message_id}
    while (parent := above.get(message_id, message_id)) not in passed:
        passed.add(parent)
        message_id = parent
    return message_id


class _Reader:
    """Says each mail, and counts what it said."""

    def __init__(self, account: Account, options: Options, tally: Tally) -> None:
        self.account, self.options, self.tally = account, options, tally
        self.places: set[ConversationRef] = set()
        self.seen: set[str] = set()

    def say(self, mail: _Mail, ref: ConversationRef) -> Iterator[Item]:
        if not mail.head:
            self.tally.problem(mail.where, "there is no mail behind this From line.")
            return
        if mail.is_open:
            self.tally.problem(mail.where, "the mail ends in its headers.")
        if mail.size > MAX_BODY:
            self.tally.problem(mail.where, "the mail is too large; its end was left out.")
        try:
            message = self._message(mail, ref)
        except Exception as error:
            # The parser raises whatever it stumbles over (RecursionError, TypeError, LookupError):
            # one hostile mail must not end the import of all others.
            self.tally.problem(mail.where, f"the mail cannot be read ({type(error).__name__}).")
            return
        if message is None:
            self.tally.problem(mail.where, "nobody is named as its author.")
            return
        self._count(mail, message)
        if ref not in self.places:
            self.places.add(ref)
            yield Place(ref, subject(message.metadata.get("subject", ""))[1])
        yield message

    def _message(self, mail: _Mail, ref: ConversationRef) -> InboundMessage | None:
        parsed = mail.parsed()
        given = headers(parsed)
        actor = self._actor(given, mail.envelope)
        if actor is None:
            return None
        found = content(parsed, mail.message_id)
        for fault in found.faults:
            self.tally.problem(mail.where, fault)
        date = given.get("date", "").strip()
        sent = moment(date, self.options.zone)
        metadata = {"subject": subject(given.get("subject", ""))[0]}
        if date and sent is None:
            metadata["date"] = words(date)
        return InboundMessage(
            conversation=ref,
            text=found.text,
            actor=actor,
            message_id=mail.message_id,
            direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
            reply_to=mail.answers,
            attachments=tuple(found.attachments),
            sent_at=sent,
            metadata=metadata,
        )

    def _actor(self, given: dict[str, str], envelope: bytes) -> Actor | None:
        address, name = author(given.get("from", ""))
        if "@" not in address:
            sender = envelope[len("From ") :].split()[:1]
            address = (
                author(given.get("sender", ""))[0]
                or (name or address).casefold()
                or (clean(sender[0].decode("utf-8", "replace")) if sender else "")
            )
        if not address.strip("- "):
            return None
        ours = {self.account.account_id.casefold(), (self.options.self_id or "").casefold()}
        return Actor(address, name, is_self=address in ours)

    def _count(self, mail: _Mail, message: InboundMessage) -> None:
        counts = self.tally.counts
        self.tally.heard(message.actor.id, message.sent_at)
        counts["no_message_id"] += not mail.has_id
        counts["repeated_message_id"] += mail.has_id and mail.message_id in self.seen
        counts["no_date"] += message.sent_at is None and "date" not in message.metadata
        counts["bad_date"] += "date" in message.metadata
        counts["replies"] += message.reply_to is not None
        counts["attachments"] += len(message.attachments)
        self.seen.add(mail.message_id)
