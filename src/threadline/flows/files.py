"""The bytes of attachments, fetched when somebody asks for them.

What a message says about its files is in the record; the bytes stay where they are until a reader
of the record wants them. They are fetched with the account's credentials, from the hosts its
dialect names and nowhere else, within bounds of size and time, and kept on this machine's disk
under their hash. The record is looked at before anything is handed out: what was deleted there has
no bytes here, and what is kept of it leaves with the next round of upkeep.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import BinaryIO

from threadline.core.adapters import Account, Channels, Fetching
from threadline.core.deliveries import Failure
from threadline.core.draft import Draft
from threadline.core.errors import (
    FileForbidden,
    FileGone,
    FileTooLarge,
    FileUnreachable,
    InvalidInput,
    NoAdapter,
    NotFound,
)
from threadline.core.files import (
    HOPS,
    Bounds,
    Cabinet,
    File,
    Link,
    Upload,
    is_pinned,
    onwards,
    pinned,
    safe_name,
    safe_type,
    size_of,
)
from threadline.core.guests import slice_of
from threadline.core.model import (
    CONTROLLER,
    Attachment,
    Caller,
    Conversation,
    ConversationRef,
    Guest,
    Provenance,
    SessionCaller,
    TranscriptRecord,
)
from threadline.core.outside import AddressRefused
from threadline.core.ports import (
    ADAPTER,
    FILE,
    RECORD,
    Changes,
    Loaded,
    Needs,
    Store,
    Story,
    together,
)
from threadline.core.rules import authority, hydration, visibility
from threadline.core.rules.authority import Where
from threadline.core.uploads import belongs, link_of, upload_of
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Doubt,
    Lost,
    Overlong,
    Refused,
    Transport,
    Unsent,
)
from threadline.flows.looking import found, member_of, membership_rows, peeking, where_of
from threadline.flows.registered import account_of
from threadline.flows.visiting import present

STEPS = 6
AT_ONCE = 4
CHUNK = 500
# A file is asked for as it is: what is packed would be counted before it is unpacked.
AS_IT_IS = {"accept": "*/*", "accept-encoding": "identity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A file of a record that the caller may read, and who could fetch it."""

    link: Link
    attachment: Attachment
    ref: ConversationRef
    account: Account | None = field(repr=False)
    upload: Upload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindFile(Story[Spot]):
    """One file of one record, for whoever may read that record."""

    where: Where | None
    sequence: int
    number: int
    caller: Caller
    session: str | None = None

    def needs(self) -> Needs:
        """The conversation, and the session where one reads."""
        if self.where is None:
            return Needs()
        if self.session is None:
            return peeking(self.where)
        return peeking(self.where, (authority.scope_of(self.caller), self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership where a session reads."""
        if self.session is None or self.where is None:
            return Needs()
        needs = membership_rows(loaded, self.where, self.session)
        return Needs(rows=[*needs.rows, *needs.hold])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Spot]:
        """Raises `NotFound` for what the caller cannot read, `FileGone` for what was deleted."""
        first, live_only = None, False
        if isinstance(self.caller, Guest):
            visitor, way, conversation = present(loaded, self.caller, now)
            hydration.refuse_gated(conversation)
            first, live_only = slice_of(visitor, way, conversation)
        else:
            assert self.where is not None
            conversation = found(loaded, self.where, self.caller)
            if self.session is not None:
                draft = Draft(loaded)
                _, member = member_of(draft, conversation, self.session, now, caller=self.caller)
                hydration.refuse_gated(conversation)
                first = visibility.visible_from(member, conversation, now)
                live_only = visibility.live_only(member, conversation, now)
        record = loaded.get(RECORD, (conversation.id, self.sequence))
        hidden = first is not None and self.sequence < first
        if record is None or hidden or (live_only and record.provenance is Provenance.HYDRATED):
            raise NotFound(f"there is no record {self.sequence} here.", sequence=self.sequence)
        if record.blanked:
            raise FileGone("(the message was deleted)", sequence=self.sequence)
        if not 0 <= self.number < len(record.attachments):
            raise NotFound(
                f"record {self.sequence} has {len(record.attachments)} files, counted from 0.",
                sequence=self.sequence,
                number=self.number,
            )
        return Changes(), spot_of(loaded, conversation, record, self.number)


def spot_of(loaded: Loaded, place: Conversation, record: TranscriptRecord, number: int) -> Spot:
    """A file of a record, under the key its bytes are kept by here."""
    attachment, ref, conversation = record.attachments[number], place.ref, place.id
    given = upload_of(attachment)
    if given is not None:
        upload = loaded.get(FILE, given)
        if upload is None or not belongs(upload, record, conversation, place.about.parent):
            raise FileGone("(it was not given to us, or is not kept any more)")
        return Spot(
            link=link_of(given), attachment=attachment, ref=ref, account=None, upload=upload
        )
    name = f"{conversation}/{record.sequence}/{number}/{attachment.id}/{attachment.url}"
    row = loaded.get(ADAPTER, (ref.scope_id, ref.provider, ref.account_id))
    return Spot(
        link=Link(
            key=loaded.id_key("file", name).hex(),
            conversation=conversation,
            sequence=record.sequence,
            number=number,
        ),
        attachment=attachment,
        ref=ref,
        account=None if row is None else account_of(loaded, row),
    )


def file_of(attachment: Attachment, digest: str, content: BinaryIO) -> File:
    """Kept bytes as they are handed out."""
    size = content.seek(0, 2)
    content.seek(0)
    return File(
        name=safe_name(attachment.name, attachment.type),
        type=safe_type(attachment.type),
        size=size,
        sha256=digest,
        content=content,
    )


@dataclass(frozen=True, slots=True)
class ReadKept(Story[list[str]]):
    """Which of these kept files have no record any more that holds them."""

    links: tuple[Link, ...]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[str]]:
        """Their keys: the record was deleted or swept, or is another store's."""
        together(loaded, [(RECORD, (one.conversation, one.sequence)) for one in self.links])
        gone: list[str] = []
        for one in self.links:
            record = loaded.get(RECORD, (one.conversation, one.sequence))
            if record is None or record.blanked or one.number >= len(record.attachments):
                gone.append(one.key)
        return Changes(), gone


class Files:
    """Files of records."""

    def __init__(
        self,
        store: Store,
        channels: Channels | None = None,
        cabinet: Cabinet | None = None,
        bounds: Bounds | None = None,
        *,
        given: Cabinet | None = None,
    ) -> None:
        self._given = given
        self._store = store
        self._channels = channels
        self._cabinet = cabinet
        self.bounds = bounds or Bounds()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    @property
    def cabinet(self) -> Cabinet:
        """Where bytes are kept."""
        assert self._cabinet is not None
        return self._cabinet

    async def open(
        self,
        where: ConversationRef | str | None,
        sequence: int,
        number: int = 0,
        *,
        session: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> File:
        """A file of a record, with its bytes open; whoever opens it closes it.

        `number` counts the record's files from 0. The bytes come from the disk where they were
        asked for before, else from the platform, once however many ask at the same time. A
        controller may look through a `session`'s eyes; a guest names no place, it has one.

        Raises `NotFound` for what the caller cannot read, `NoAdapter` where nobody fetches files
        of this account, `FileGone`, `FileTooLarge`, `FileForbidden`, `FileUnreachable`.
        """
        if isinstance(caller, SessionCaller) and session is None:
            session = caller.session
        if not isinstance(caller, Guest):
            authority.may_read(caller, session)
            if where is None:
                raise InvalidInput("name the conversation.", field="conversation")
        if abs(sequence) >= 1 << 62:
            raise NotFound(f"there is no record {sequence} here.", sequence=sequence)
        story = FindFile(
            where=None if where is None else where_of(where),
            sequence=sequence,
            number=number,
            session=session,
            caller=caller,
        )
        spot = await self._store.read(story)
        kept = await self._found(spot)
        if kept is None and spot.upload is not None:
            raise FileGone("(it was said on the platform, and is not kept here any more)")
        if kept is None:
            await self._fetched(spot)
            # It may have been deleted while it was on its way: then nobody gets it.
            spot = await self._store.read(story)
            kept = await self._found(spot)
        if kept is None:
            raise FileUnreachable("(there is no room to keep it here)")
        return file_of(spot.attachment, *kept)

    async def read(
        self,
        where: ConversationRef | str | None,
        sequence: int,
        number: int = 0,
        *,
        session: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> bytes:
        """All bytes of a file of a record. As `open`, for files that fit into memory."""
        file = await self.open(where, sequence, number, session=session, caller=caller)
        with file.content:
            return await asyncio.to_thread(file.content.read)

    async def tidy(self) -> int:
        """Let go of what is kept for records that are not there any more; answers how many.

        Part of upkeep.
        """
        if self._cabinet is None:
            return 0
        links = await asyncio.to_thread(lambda: list(self.cabinet.links()))
        gone: list[str] = []
        for start in range(0, len(links), CHUNK):
            gone += await self._store.read(ReadKept(tuple(links[start : start + CHUNK])))
        if gone:
            await asyncio.to_thread(self.cabinet.drop, gone)
        return len(gone)

    def close(self) -> None:
        """Let go of the folders that were to go with the process."""
        for one in (self._cabinet, self._given):
            if one is not None:
                one.close()

    async def _found(self, spot: Spot) -> tuple[str, BinaryIO] | None:
        cabinet = self.cabinet if spot.upload is None else self._given
        assert cabinet is not None
        return await asyncio.to_thread(cabinet.find, spot.link.key)

    async def _fetched(self, spot: Spot) -> None:
        """Fetch it, or wait for whoever does already. Who gives up waiting stops nobody else."""
        key = spot.link.key
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._fetch(spot))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        await asyncio.shield(task)

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        # Also where nobody waits any more, a failure was looked at.
        if not task.cancelled():
            task.exception()

    async def _fetch(self, spot: Spot) -> None:
        async with self._turns:
            content = await self._content(spot)

        def keep() -> None:
            _, handle = self.cabinet.keep(spot.link, io.BytesIO(content))
            handle.close()

        await asyncio.to_thread(keep)

    async def _content(self, spot: Spot) -> bytes:
        ref, account, attachment = spot.ref, spot.account, spot.attachment
        if account is None or self._channels is None:
            raise NoAdapter(
                f"nothing speaks for {ref.provider}/{ref.account_id}, so nothing fetches its "
                "files. Connect the account.",
                provider=ref.provider,
            )
        dialect: object = self._channels.dialect(account)
        if not isinstance(dialect, Fetching):
            raise NoAdapter(f"{ref.provider} hands out no files.", provider=ref.provider)
        self.refuse_large(size_of(attachment))
        wire = self._channels.files(self.bounds.seconds)
        try:
            async with asyncio.timeout(self.bounds.seconds):
                return await self._steps(wire, dialect, attachment)
        except AddressRefused as error:
            raise FileForbidden(f"({error.detail})") from None
        except Overlong:
            self.refuse_large(self.bounds.file + 1)
            raise FileTooLarge from None
        except TimeoutError:
            raise FileUnreachable(f"(not within {self.bounds.seconds:g} seconds)") from None
        except (Unsent, Lost) as error:
            raise FileUnreachable(f"({error})") from None

    async def _steps(self, wire: Transport, dialect: Fetching, attachment: Attachment) -> bytes:
        call, hops = dialect.file(attachment), 0
        for _ in range(STEPS + HOPS):
            answer = await self._asked(wire, dialect.hosts, call)
            further = onwards(call, answer)
            # Where it leads elsewhere is not gone; the dialect may know what that means.
            if further is not None and is_pinned(further.url, dialect.hosts):
                hops += 1
                if hops > HOPS:
                    break
                call = further
                continue
            step = dialect.read_file(attachment, call, answer)
            if isinstance(step, bytes):
                if answer.headers.get("content-encoding", "identity").strip() != "identity":
                    raise FileUnreachable("(it came packed, which was not asked for)")
                self.refuse_large(len(step))
                return step
            if not isinstance(step, ApiCall):
                raise _refusal(step)
            call = step
        raise FileUnreachable("(the platform sends us on and on)")

    async def _asked(self, wire: Transport, hosts: Sequence[str], call: ApiCall) -> ApiResponse:
        """One call, at the hosts of the platform and nowhere else, wherever it was led from."""
        pinned(call.url, hosts)
        most = min(call.most, self.bounds.file)
        headers = {**call.headers, **AS_IT_IS} if call.method == "GET" else call.headers
        return await wire.perform(replace(call, most=most, headers=headers))

    def refuse_large(self, size: int) -> None:
        """Raise `FileTooLarge` for so many bytes."""
        if size > self.bounds.file:
            raise FileTooLarge(
                f"({self.bounds.file} bytes are allowed, see THREADLINE_FILE_MEGABYTES)",
                limit=self.bounds.file,
            )


def _refusal(
    said: Refused | Doubt,
) -> FileGone | FileForbidden | FileUnreachable | FileTooLarge:
    reason = f"({said.reason})"
    match said:
        case Refused(failure=Failure.NOT_FOUND):
            return FileGone(reason)
        case Refused(failure=Failure.RATE_LIMITED | Failure.TRANSIENT, wait=wait):
            return FileUnreachable(reason, **({} if wait is None else {"retry_after": wait}))
        case Refused():
            return FileForbidden(reason)
        case Doubt():
            return FileUnreachable(reason)
