"""Files that are given to us to be said: whose they are, where they go, what cannot carry them.

An upload is nobody's until its owner says it, once, in one conversation; what nobody says within a
day leaves. In a record it is an attachment whose id begins with `file:`. Only its owner's words can
make it one, so an id that somebody guessed or copied leads nowhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from threadline.core.adapters import Capabilities, Registration
from threadline.core.draft import Draft
from threadline.core.errors import Conflict, FileNotCarried, InvalidInput
from threadline.core.files import PREFIX, Link, Upload, safe_name
from threadline.core.guests import PREFIX as GUEST
from threadline.core.ids import number_of, public
from threadline.core.model import Attachment, Direction, TranscriptRecord
from threadline.core.outside import AddressRefused, place
from threadline.core.ports import DELIVERY, FILE, Loaded, fetch
from threadline.core.wire import OutboundMessage

UNSAID = timedelta(days=1)
LENT = timedelta(minutes=15)
PATH = "/v1/files/"


def upload_of(attachment: Attachment) -> int | None:
    """The upload an attachment is, None where it is none."""
    if not attachment.id.startswith(PREFIX):
        return None
    return number_of(attachment.id.removeprefix(PREFIX))


def link_of(upload: int) -> Link:
    """Where its bytes are kept."""
    key = hashlib.sha256(f"upload/{upload}".encode()).hexdigest()
    return Link(key=key, conversation=0, sequence=upload, number=0)


def own(
    draft: Draft,
    attachments: Sequence[Attachment],
    owners: Iterable[int],
    scope: str,
    *,
    guest: bool = False,
    send: int | None = None,
) -> list[Upload | None]:
    """The uploads that these attachments are, in their order; None for what is none.

    A `send` says its own again where another channel did not take it.

    Raises `InvalidInput` for one that is not the owner's, `Conflict` for one that was said already.
    """
    numbers = [upload_of(one) for one in attachments]
    fetch(draft, FILE, [one for one in numbers if one is not None])
    found: list[Upload | None] = []
    for one, number in zip(attachments, numbers, strict=True):
        if not one.id.startswith(PREFIX):
            found.append(None)
            continue
        row = None if number is None else draft.get(FILE, number)
        known = row is not None and (row.scope_id, row.guest) == (scope, guest)
        if row is None or not known or row.owner not in set(owners) or row in found:
            raise InvalidInput(f"there is no file {one.id[:64]!r} of yours.", field="attachments")
        if row.conversation is not None and not _of_send(draft, row, send):
            raise Conflict(f"{row.attachment.id} was said already; give it once more.")
        found.append(row)
    return found


def _of_send(draft: Draft, upload: Upload, send: int | None) -> bool:
    """Whether it was said by this send already, through a channel that failed."""
    if send is None or upload.conversation is None or upload.delivery is None:
        return False
    earlier = draft.get(DELIVERY, (upload.conversation, upload.delivery))
    return earlier is not None and earlier.send == send


def carried(
    provider: str,
    there: Registration | None,
    attachments: Sequence[Attachment],
    uploads: Sequence[Upload | None],
) -> None:
    """Refuse what the account cannot carry, before anything is written. Raises `FileNotCarried`."""
    if not attachments or there is None:
        return
    can = there.capabilities
    if not can.attachments:
        raise FileNotCarried(f"{provider} takes no files here; say it without.")
    if can.max_files and len(attachments) > can.max_files:
        raise FileNotCarried(
            f"{provider} takes {can.max_files} at once; say the others by themselves.",
            limit=can.max_files,
        )
    for number, (one, upload) in enumerate(zip(attachments, uploads, strict=True)):
        try:
            if upload is not None:
                _carried(provider, can, upload)
            elif not there.callback:
                _linked(provider, can, one)
        except FileNotCarried as error:
            named = upload.attachment if upload is not None else one
            name = safe_name(named.name, named.type)
            raise FileNotCarried(
                f"{name}: {error.detail}", **error.facts, number=number, name=name
            ) from None
    together = sum(one.size for one in uploads if one is not None)
    if can.max_together and together > can.max_together:
        raise FileNotCarried(
            f"{provider} takes {can.max_together} bytes in one message, these files have "
            f"{together}; say them one by one.",
            limit=can.max_together,
        )


def _carried(provider: str, can: Capabilities, upload: Upload) -> None:
    if not can.uploads:
        raise FileNotCarried(
            f"{provider} takes files by their address only: give a public `url`, or connect the "
            "account with a `public_url` where it has that setting."
        )
    if can.max_file and upload.size > can.max_file:
        raise FileNotCarried(
            f"{provider} takes {can.max_file} bytes, the file has {upload.size}.",
            limit=can.max_file,
        )
    if not upload.size:
        raise FileNotCarried("it is empty, and platforms take no empty files.")


def _linked(provider: str, can: Capabilities, one: Attachment) -> None:
    if not can.links:
        raise FileNotCarried(
            f"{provider} takes the bytes themselves: give the file to `POST /v1/files`, and name "
            "the id it answers."
        )
    if one.url:
        try:
            place(one.url)
        except AddressRefused as error:
            raise FileNotCarried(f"its address is not public ({error.detail})") from None
    elif not one.id:
        raise FileNotCarried("it has neither an id nor a `url`.")


def said(
    draft: Draft,
    uploads: Iterable[Upload | None],
    conversation: int,
    *,
    delivery: int | None = None,
    sequence: int | None = None,
    local: bool,
) -> None:
    """Write down where these were said."""
    for one in uploads:
        if one is not None:
            row = replace(
                one, conversation=conversation, delivery=delivery, sequence=sequence, local=local
            )
            draft.put(FILE, row.id, row)


def appended(
    draft: Draft, attachments: Iterable[Attachment], conversation: int, sequence: int | None
) -> None:
    """Write down which record has a guest's files that waited for the end of an import."""
    numbers = [number for one in attachments if (number := upload_of(one)) is not None]
    fetch(draft, FILE, numbers)
    for number in numbers:
        row = draft.get(FILE, number)
        waited = row is not None and row.guest and row.sequence is None
        if row is not None and waited and row.conversation == conversation:
            draft.put(FILE, number, replace(row, sequence=sequence))


def named(
    attachments: Sequence[Attachment], uploads: Sequence[Upload | None]
) -> tuple[Attachment, ...]:
    """The attachments; of those that are uploads, what is known in place of what was claimed."""
    return tuple(
        one if upload is None else upload.attachment
        for one, upload in zip(attachments, uploads, strict=True)
    )


def belongs(
    upload: Upload, record: TranscriptRecord, conversation: int, parent: int | None
) -> bool:
    """Whether a record is the one that said this file, or a copy of it in a thread below."""
    if upload.conversation not in (conversation, parent):
        return False
    if upload.guest:
        return record.actor.id == GUEST + public(upload.owner)
    return record.direction is Direction.OUTBOUND and record.source is not None


def lent(
    draft: Draft, message: OutboundMessage, can: Capabilities, now: datetime
) -> OutboundMessage:
    """The message with a short-lived path to each upload, for a platform that fetches them."""
    if not can.fetches or not message.attachments:
        return message
    until = int((now + LENT).timestamp())
    paths = []
    for one in message.attachments:
        number = upload_of(one)
        url = one.url if number is None else PATH + _token(draft, number, until)
        paths.append(replace(one, url=url))
    return replace(message, attachments=tuple(paths))


def borrowed(loaded: Loaded, token: str, now: datetime) -> int | None:
    """The upload such a path leads to, None where it leads nowhere (any more)."""
    name, _, rest = token.partition(".")
    until, _, _ = rest.partition(".")
    number = number_of(name)
    if number is None or not until.isascii() or not until.isdecimal() or len(until) > 12:
        return None
    made = _token(loaded, number, int(until))
    holds = hmac.compare_digest(made.encode(), token.encode("utf-8", "replace"))
    return number if holds and now.timestamp() <= int(until) else None


def _token(loaded: Loaded, number: int, until: int) -> str:
    mark = loaded.id_key("lent", f"{number}/{until}").hex()
    return f"{public(number)}.{until}.{mark}"
