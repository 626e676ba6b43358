"""Files given to us to be said: taken in, said once, handed to platforms, tidied away.

The bytes are on the disk of `THREADLINE_FILES`, which nodes on one PostgreSQL share; what they are
and whose is in the store, in the transaction that says them.
"""

from __future__ import annotations

import asyncio
import io
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import BinaryIO

from threadline.core.draft import Draft
from threadline.core.errors import FileGone, FilesFull, InvalidInput, NotFound
from threadline.core.files import Cabinet, File, Upload, digest_of, safe_name
from threadline.core.forms import media_type, multipart
from threadline.core.model import CONTROLLER, Attachment, Caller, Guest
from threadline.core.ports import (
    FILE,
    FILES_OWNED,
    RECORD,
    Changes,
    Loaded,
    Page,
    Store,
    Story,
)
from threadline.core.rules import authority
from threadline.core.seating import session_named
from threadline.core.uploads import UNSAID, borrowed, link_of, upload_of
from threadline.core.wire import ApiCall, Unsent
from threadline.flows.files import Files, file_of
from threadline.flows.keys import checked_key
from threadline.flows.leaving import (
    CHUNK,
    Forget,
    ReadSpare,
    ReadUnknown,
    ReadUseless,
    place_of,
)
from threadline.flows.visiting import present

NOT_HERE = "its file is not on this disk; nodes on one store share THREADLINE_FILES."
OF_RECORD = re.compile(r"record:(.+)/([0-9]{1,18})/([0-9]{1,9})")
# Of what is kept a guest fills one part in so many.
GUESTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadState:
    """A file that was taken in: what to name it by in `attachments`, and until when it waits."""

    id: str
    name: str
    type: str
    size: int
    sha256: str
    expires_at: datetime

    @property
    def attachment(self) -> Attachment:
        """As it is said."""
        return Attachment(id=self.id, type=self.type, name=self.name, size=self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a record that is to be said once more."""

    conversation: str
    sequence: int
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOf(Story[int]):
    """The number of a file that is given under a key: one for these bytes of this owner."""

    caller: Caller
    session: str | None
    key: str
    sha256: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Raises `SessionNotFound`, and for a guest `Revoked`."""
        owner = _owner(loaded, self.caller, self.session, now)
        made = loaded.id_key("given", f"{owner}/{self.sha256}/{self.key}")
        return Changes(), int.from_bytes(made[:8]) >> 2 | 1


def _owner(loaded: Loaded, caller: Caller, session: str | None, now: datetime) -> int:
    """The surrogate id of whose file it is: a name may be used again by somebody else."""
    draft = Draft(loaded)
    if isinstance(caller, Guest):
        return present(draft, caller, now)[0].id
    return session_named(draft, authority.scope_of(caller), session or "").id


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeIn(Story[Upload]):
    """Write down whose file it is, unless that is known. Its bytes are there already."""

    id: int
    caller: Caller
    session: str | None
    name: str
    type: str
    size: int
    sha256: str
    share: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Upload]:
        """Raises `SessionNotFound`; for a guest `Revoked` after it left, and `FilesFull` where it
        has given its share."""
        draft = Draft(loaded)
        scope = authority.scope_of(self.caller)
        owner = _owner(loaded, self.caller, self.session, now)
        if isinstance(self.caller, Guest):
            [(held,)] = draft.page(Page(FILES_OWNED, (owner,)))
            if held + self.size > self.share:
                raise FilesFull(f"(a guest gives at most {self.share} bytes)", limit=self.share)
        known = draft.get(FILE, self.id)
        if known is not None and (known.owner, known.sha256) == (owner, self.sha256):
            return draft.changes, known
        made = Upload(
            id=self.id,
            scope_id=scope,
            owner=owner,
            guest=isinstance(self.caller, Guest),
            name=self.name,
            type=self.type,
            size=self.size,
            sha256=self.sha256,
            created_at=now,
        )
        draft.put(FILE, made.id, made)
        return draft.changes, made


@dataclass(frozen=True, slots=True)
class FindLent(Story[Upload]):
    """The upload a short-lived path leads to."""

    token: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Upload]:
        """Raises `NotFound`, whatever is wrong with it."""
        number = borrowed(loaded, self.token, now)
        upload = None if number is None else loaded.get(FILE, number)
        at = upload is not None and place_of(loaded, upload)
        record = loaded.get(RECORD, at) if isinstance(at, tuple) else None
        gone = isinstance(at, tuple) and (record is None or record.blanked)
        if upload is None or upload.conversation is None or gone:
            raise NotFound("there is no such file.")
        return Changes(), upload


class Uploads:
    """Files that sessions and guests give to be said."""

    def __init__(
        self,
        store: Store,
        files: Files,
        cabinet: Cabinet | None = None,
        chance: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._store = store
        self._files = files
        self._cabinet = cabinet
        self._chance = chance
        self._unknown: frozenset[int] = frozenset()

    @property
    def most(self) -> int:
        """How many bytes a file may have."""
        return self._files.bounds.file

    @property
    def cabinet(self) -> Cabinet:
        """Where bytes are kept."""
        assert self._cabinet is not None
        return self._cabinet

    async def give(
        self,
        content: bytes | BinaryIO,
        *,
        name: str = "",
        type: str = "",
        session: str | None = None,
        key: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> UploadState:
        """Take a file in, to be said by this session within a day: its `id` goes into the
        `attachments` of what is said. A guest gives it for itself. The same bytes under the same
        `key` are the same file.

        Raises `FileTooLarge`, `FilesFull`, `InvalidInput` for an empty one, `Unauthorized`.
        """
        if not isinstance(caller, Guest):
            if session is None:
                session = getattr(caller, "session", None)
            if session is None:
                raise InvalidInput("name the session that will say it.", field="session")
            authority.may_say(caller, session, "publish")
        source = io.BytesIO(content) if isinstance(content, bytes) else content
        size = source.seek(0, io.SEEK_END)
        self._files.refuse_large(size)
        if not size:
            raise InvalidInput("the file is empty.", field="content")
        number = self._chance(62) + 1
        if checked_key(key) is not None:
            sha256 = await asyncio.to_thread(digest_of, source)
            number = await self._store.read(
                NumberOf(caller=caller, session=session, key=key or "", sha256=sha256)
            )
        kind = media_type(type)
        # Also what is only handed on is called by a name that is no path.
        called = safe_name(name, kind)
        digest = await self._kept(number, source, size)
        try:
            made = await self._store.run(
                TakeIn(
                    id=number,
                    caller=caller,
                    session=session,
                    name=called,
                    type=kind,
                    size=size,
                    share=self._files.bounds.given // GUESTS,
                    sha256=digest,
                )
            )
        except BaseException:
            # Under a key they may be those of an earlier time, and said by now. `tidy` knows.
            if key is None:
                await asyncio.shield(self._dropped([number]))
            raise
        return UploadState(
            id=made.attachment.id,
            name=made.name,
            type=made.type,
            size=made.size,
            sha256=made.sha256,
            expires_at=made.created_at + UNSAID,
        )

    async def copy(
        self, part: RecordFile, *, session: str, caller: Caller = CONTROLLER
    ) -> UploadState:
        """Take in a file of a record that this session may read, to be said elsewhere.

        Raises what `give` and `files.open` raise.
        """
        authority.may_say(caller, session, "publish")
        where = (part.conversation, part.sequence, part.number)
        file = await self._files.open(*where, session=session, caller=caller)
        with file.content:
            return await self.give(
                file.content, name=file.name, type=file.type, session=session, caller=caller
            )

    async def readable(
        self, part: RecordFile, *, session: str, caller: Caller = CONTROLLER
    ) -> None:
        """Raise what `copy` would, and take nothing in."""
        authority.may_say(caller, session, "publish")
        where = (part.conversation, part.sequence, part.number)
        file = await self._files.open(*where, session=session, caller=caller)
        file.content.close()

    async def lent(self, token: str) -> File:
        """The file a short-lived path leads to, for the platform that was given it.

        Raises `NotFound` and `FileGone`.
        """
        upload = await self._store.read(FindLent(token))
        kept = await asyncio.to_thread(self.cabinet.find, link_of(upload.id).key)
        if kept is None:
            raise FileGone
        return file_of(upload.attachment, *kept)

    async def filled(self, call: ApiCall) -> ApiCall:
        """A call with the bytes of its files in it; raises `Unsent` where they are not here."""
        named = [part.file for part in call.form if part.file is not None]
        if call.file is not None:
            named.append(call.file)
        contents: dict[str, bytes] = {}
        for one in named:
            content = await self._content(one)
            if content is None:
                raise Unsent(f"{safe_name(one.name, one.type)}: {NOT_HERE}")
            contents[one.id] = content
        if call.file is not None:
            headers = {**call.headers, "content-type": media_type(call.file.type)}
            return replace(call, body=contents[call.file.id], headers=headers)
        if call.form:
            boundary = secrets.token_hex(16)
            headers = {
                **call.headers,
                "content-type": f"multipart/form-data; boundary={boundary}",
            }
            return replace(call, body=multipart(call.form, contents, boundary), headers=headers)
        return call

    async def tidy(self) -> int:
        """Let go of what was not said within a day, and of what was said in records that are gone;
        answers how many. RecordFile of upkeep."""
        if self._cabinet is None:
            return 0
        found, after = 0, -1
        while True:
            gone, following = await self._store.read(ReadUseless(after))
            await self._forget(gone)
            found += len(gone)
            if following is None:
                return found + await self._tidy_unknown()
            after = following

    async def _tidy_unknown(self) -> int:
        """Let go of bytes that nothing is known of, now and the last time: in between, a row that
        was on its way has come."""
        links = await asyncio.to_thread(lambda: [one.sequence for one in self.cabinet.links()])
        unknown: set[int] = set()
        for start in range(0, len(links), CHUNK):
            chunk = tuple(links[start : start + CHUNK])
            unknown.update(await self._store.read(ReadUnknown(chunk)))
        gone = unknown & self._unknown
        self._unknown = frozenset(unknown - gone)
        if gone:
            await self._dropped(sorted(gone))
        return len(gone)

    async def _content(self, attachment: Attachment) -> bytes | None:
        number = upload_of(attachment)
        if number is None:
            return None
        kept = await asyncio.to_thread(self.cabinet.find, link_of(number).key)
        if kept is None:
            return None
        with kept[1] as content:
            return await asyncio.to_thread(content.read)

    async def _kept(self, number: int, content: BinaryIO, size: int) -> str:
        """Keep the bytes; where there is no room, what platforms have as well makes it."""

        def keep() -> str:
            digest, handle = self.cabinet.keep(link_of(number), content)
            handle.close()
            return digest

        try:
            return await asyncio.to_thread(keep)
        except FilesFull:
            await self._make_room(size)
        return await asyncio.to_thread(keep)

    async def _make_room(self, size: int) -> None:
        leaving: list[Upload] = []
        for one in await self._store.read(ReadSpare()):
            if sum(each.size for each in leaving) >= size:
                break
            leaving.append(one)
        await self._forget(leaving)

    async def _forget(self, gone: Sequence[Upload]) -> None:
        if gone:
            await self._dropped(await self._store.run(Forget(tuple(gone))))

    async def _dropped(self, numbers: Sequence[int]) -> None:
        keys = [link_of(one).key for one in numbers]
        await asyncio.to_thread(self.cabinet.drop, keys)


def reference(part: RecordFile) -> Attachment:
    """What stands for a file of a record in what is asked, so that asking again is the same."""
    return Attachment(id=f"record:{part.conversation}/{part.sequence}/{part.number}")


def record_file(attachment: Attachment) -> RecordFile | None:
    """The file of a record that an attachment stands for, None where it is something else.

    >>> record_file(reference(RecordFile(conversation="slack/T1/C1", sequence=4)))
    RecordFile(conversation='slack/T1/C1', sequence=4, number=0)
    """
    found = OF_RECORD.fullmatch(attachment.id)
    if found is None:
        return None
    return RecordFile(conversation=found[1], sequence=int(found[2]), number=int(found[3]))
