"""A session's side over HTTP: what it hears, what it answers.

    async with Session(url, token) as session:
        async for record in session.inbox():
            await session.reply(record, f"You said: {record.text}")

Every call may be made again after a lost connection, and is: what is read is acknowledged once it
was handled, and what is said has a key, so that nothing is lost and nothing is said twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from threadline.core import errors
from threadline.core.errors import (
    ConfigError,
    HydrationPending,
    IdempotencyConflict,
    NotFound,
    ServerUnreachable,
    ThreadlineError,
    Unauthenticated,
)
from threadline.core.model import Actor, ConversationRef, Event

# The server says every 15 seconds that it is still there.
SILENCE_SECONDS: Final = 45.0
PATIENCE_SECONDS: Final = 60.0
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0
PASSED_OVER: Final = 100
MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# What passes by itself, or with the help of whoever runs the server.
PASSING: Final = frozenset({429, 502, 503, 504, 507})
# Why a stream ended that is to be opened again.
GOES_ON: Final = frozenset({"over", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as this session gets it. `data` is all of it, as the server sent it.

    `speaker` says that this session is to answer, `wake` that the record is to wake it.
    """

    conversation: str
    ref: ConversationRef
    sequence: int
    event: Event
    actor: Actor
    text: str
    message_id: str | None
    reply_to: str | None
    recorded_at: datetime
    sent_at: datetime | None
    speaker: bool
    wake: bool
    data: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """A record as a stream or a page tells it."""
        sent = data.get("sent_at")
        return cls(
            conversation=data["conversation"],
            ref=ConversationRef(**data["ref"]),
            sequence=data["sequence"],
            event=Event(data["event"]),
            actor=Actor(**data["actor"]),
            text=data["text"],
            message_id=data.get("message_id"),
            reply_to=data.get("reply_to"),
            recorded_at=datetime.fromisoformat(data["recorded_at"]),
            sent_at=None if sent is None else datetime.fromisoformat(sent),
            speaker=data["speaker"],
            wake=data["wake"],
            data=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What became of something that was said. `repeated`: it had been said before, and once."""

    id: str
    conversation: str
    state: str
    reason: str
    sequence: int | None
    repeated: bool

    @classmethod
    def of(cls, data: Mapping[str, Any], *, repeated: bool) -> Self:
        """A delivery as the server tells it."""
        return cls(
            id=data["id"],
            conversation=data["conversation"],
            state=data["state"],
            reason=data["reason"],
            sequence=data["sequence"],
            repeated=repeated or data["repeated"],
        )


class Pause:
    """How long to wait before trying again: twice as long each time, up to half a minute."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._first = self._next = first
        self._longest = longest

    def next(self) -> float:
        """Seconds, with jitter, so that many who lost one server do not come back as one."""
        now, self._next = self._next, min(self._next * 2, self._longest)
        return now * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It went well."""
        self._next = self._first


class Session:
    """A session's connection to a threadline server.

    `url` is the server's, `token` a session's token. A controller's token speaks for any session
    of its scope, which is then named with `session`. `patience` is for how many seconds a call is
    tried again while the server cannot be reached. Entering raises `ServerUnreachable`,
    `Unauthenticated`, and `ConfigError` for a token that is not this session's.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        session: str | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        host = urlsplit(url).hostname
        if not url.startswith(("http://", "https://")) or not host:
            raise ConfigError(f"{url!r} is no address of a server, such as http://127.0.0.1:8080.")
        self.url = url.rstrip("/")
        self.name = session or ""
        self._patience = patience
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30.0, read=90.0),
            # A proxy of the environment has no business between here and this very machine.
            trust_env=host not in LOOPBACK,
        )

    async def __aenter__(self) -> Self:
        try:
            me = await self._once("GET", "/v1/me")
            given = me.get("session_id")
            if me["kind"] not in ("session", "controller"):
                raise ConfigError(f"this is {me['kind']}'s token; make one for a session.")
            if given is None and not self.name:
                raise ConfigError("a controller's token needs the session's name beside it.")
            if given is not None and self.name not in ("", given):
                raise ConfigError(f"the token is {given!r}'s, not {self.name!r}'s.")
            self.name = given or self.name
            await self._once("GET", self._own())
        except BaseException:
            await self._http.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def inbox(
        self, *, every: bool = False, acknowledge: bool = True
    ) -> AsyncGenerator[Record, None]:
        """The records this session is to answer, for ever; with `every` all that it may read.

        Each comes once in this iteration, whatever happens to the connection. With `acknowledge` a
        record is acknowledged when the next one is asked for, and one that is passed over at once;
        else what you do not `ack` comes again the next time. Raises `Unauthenticated` once the
        token is revoked, and whatever else the server refuses for good.
        """
        handed: dict[str, int] = {}
        passed: dict[str, int] = {}
        live: set[str] = set()
        async with contextlib.aclosing(self._events()) as events:
            async for name, data in events:
                if name == "caught_up":
                    live.add(data["conversation"])
                elif name == "record":
                    record = Record.of(data)
                    if record.sequence <= handed.get(record.conversation, record.sequence - 1):
                        continue
                    handed[record.conversation] = record.sequence
                    if every or (record.speaker and record.wake):
                        yield record
                        passed.pop(record.conversation, None)
                        if acknowledge:
                            await self._read(record.conversation, record.sequence)
                        continue
                    passed.setdefault(record.conversation, record.sequence)
                else:
                    continue
                place = data["conversation"]
                through = handed.get(place)
                if not acknowledge or through is None or place not in passed:
                    continue
                if place in live or through - passed[place] >= PASSED_OVER:
                    del passed[place]
                    await self._read(place, through)

    async def _read(self, conversation: str, sequence: int) -> None:
        """Acknowledge on the way; where that is not possible now, it comes again another time."""
        with contextlib.suppress(NotFound, HydrationPending):
            await self.ack(conversation, sequence)

    async def ack(self, record: Record | str, sequence: int | None = None) -> None:
        """This record was handled, with all before it; or a conversation's id and a sequence."""
        place = record if isinstance(record, str) else record.conversation
        through = sequence if isinstance(record, str) else record.sequence
        path = f"/v1/conversations/{quote(place, safe='')}/members/{quote(self.name, safe='')}/ack"
        await self.request("POST", path, json={"sequence": through})

    async def reply(self, record: Record, text: str, *, key: str | None = None) -> Said:
        """Answer a record, once: answering it again changes nothing, whatever the words.

        Who wants to say more about it gives a `key` of his own, under which other words are an
        `IdempotencyConflict`. Raises `Unauthorized` where the session may not speak.
        """
        own = f"reply/{record.conversation}/{record.sequence}" if key is None else key
        try:
            return await self.say(record.conversation, text, key=own, reply_to=record.sequence)
        except IdempotencyConflict as known:
            if key is not None or "delivery" not in known.facts:
                raise
            path = f"/v1/deliveries/{known.facts['delivery']}"
            return Said.of(await self.request("GET", path), repeated=True)

    async def say(
        self,
        conversation: str,
        text: str,
        *,
        key: str | None = None,
        reply_to: int | str | None = None,
        files: Sequence[str] = (),
    ) -> Said:
        """Say something in a conversation (its id), with `files` that were given before (`give`).
        With the same `key` it is said once."""
        said = await self.request(
            "POST",
            f"/v1/conversations/{quote(conversation, safe='')}/messages",
            json={
                "session_id": self.name,
                "text": text,
                "reply_to": reply_to,
                "attachments": [{"id": one} for one in files],
            },
            key=secrets.token_hex(16) if key is None else key,
        )
        return Said.of(said, repeated=False)

    async def give(self, content: bytes, name: str = "", type: str = "") -> str:
        """Give a file to be said within a day; the answer is its id, for `say`.

        Raises `FileTooLarge` and `FilesFull`.
        """
        answer = await self._patiently(
            "POST",
            "/v1/files",
            params={"name": name, "session": self.name},
            content=content,
            type=type,
            key=secrets.token_hex(16),
        )
        found: str = answer.json()["id"]
        return found

    async def context(
        self, conversation: str, *, budget: int | None = None, format: str = "messages"
    ) -> dict[str, Any]:
        """What was said in a conversation so far, within a budget, for a language model."""
        params = {"session": self.name, "format": format}
        if budget is not None:
            params["budget"] = str(budget)
        path = f"/v1/conversations/{quote(conversation, safe='')}/context"
        return await self.request("GET", path, params=params)

    async def file(self, record: Record | str, number: int = 0, *, sequence: int = 0) -> bytes:
        """The bytes of a file of a record, counted from 0; or of a conversation's id and sequence.

        Raises `FileGone`, `FileTooLarge`, `FileForbidden`, `FileUnreachable`, `NotFound`.
        """
        place = record if isinstance(record, str) else record.conversation
        at = sequence if isinstance(record, str) else record.sequence
        path = f"/v1/conversations/{quote(place, safe='')}/records/{at}/attachments/{number}"
        return (await self._patiently("GET", path)).content

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Any other route. The call is made again while the server cannot be reached.

        Raises the error that the server's problem names, and `ServerUnreachable`.
        """
        answer = await self._patiently(method, path, json=json, params=params, key=key)
        found: dict[str, Any] = answer.json()
        return found

    async def _patiently(self, method: str, path: str, **asked: Any) -> httpx.Response:
        """An answer that is none of trouble which passes."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        pause = Pause()
        while True:
            try:
                return await self._answered(method, path, **asked)
            except ThreadlineError as refused:
                if getattr(refused, "status", 0) not in PASSING or loop.time() >= until:
                    raise
                await asyncio.sleep(pause.next())

    async def _once(self, method: str, path: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self._answered(method, path)).json()
        return found

    async def _answered(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        content: bytes | None = None,
        type: str = "",
    ) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        if type:
            headers["Content-Type"] = type
        try:
            answer = await self._http.request(
                method, path, json=json, params=params, headers=headers, content=content
            )
        except httpx.TransportError as lost:
            raise self._unreachable(lost) from None
        if answer.is_success:
            return answer
        raise refusal_of(answer)

    def _unreachable(self, lost: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"{self.url} does not answer ({type(lost).__name__}). Is `threadline serve` running?",
            url=self.url,
        )

    def _own(self, path: str = "") -> str:
        return f"/v1/sessions/{quote(self.name, safe='')}{path}"

    async def _events(self) -> AsyncGenerator[tuple[str, Any], None]:
        """What the stream tells, over as many connections as it takes."""
        pause = Pause()
        timeout = httpx.Timeout(30.0, read=SILENCE_SECONDS)
        path = self._own("/stream")
        while True:
            try:
                async with self._http.stream("GET", path, timeout=timeout) as answer:
                    if not answer.is_success:
                        await answer.aread()
                        refused = refusal_of(answer)
                        if answer.status_code not in PASSING:
                            raise refused
                    else:
                        async for name, data in events_of(answer):
                            pause.reset()
                            if name == "end":
                                self._judge(data["reason"])
                                break
                            yield name, data
            except httpx.TransportError:
                pass
            await asyncio.sleep(pause.next())

    @staticmethod
    def _judge(reason: str) -> None:
        """Raise where a stream that ended for this reason is not to be opened again."""
        if reason == "revoked":
            raise Unauthenticated("the token was revoked or has expired.")
        if reason not in GOES_ON and reason in KINDS and KINDS[reason].status not in PASSING:
            raise KINDS[reason]()


async def events_of(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """The server-sent events of an answer: names, and data decoded.

    Lines end with a line feed and nothing else: a text may hold what other readers break lines at.
    """
    rest = bytearray()
    async for chunk in answer.aiter_bytes():
        rest += chunk
        while (end := rest.find(b"\n\n")) >= 0:
            block = bytes(rest[:end])
            del rest[: end + 2]
            fields = dict(
                line.split(b": ", 1) for line in block.split(b"\n") if line[:1] not in (b":", b"")
            )
            if b"event" in fields:
                yield fields[b"event"].decode(), json.loads(fields[b"data"])
        if len(rest) > MAX_EVENT_BYTES:
            raise ServerUnreachable("what it streams is no stream of events.")


def _kinds(root: type[ThreadlineError]) -> dict[str, type[ThreadlineError]]:
    found = {root.code: root}
    for below in root.__subclasses__():
        if below.__module__ == errors.__name__:
            found |= _kinds(below)
    return found


KINDS: Final = _kinds(ThreadlineError)


def refusal_of(answer: httpx.Response) -> ThreadlineError:
    """The error a problem names; of one that is no problem of ours, what can be said about it."""
    try:
        problem = answer.json()
        code, title, message = problem["code"], problem["title"], problem["detail"]
        facts = {str(name): value for name, value in problem["facts"].items() if name != "detail"}
    except (ValueError, KeyError, TypeError, AttributeError):
        if answer.status_code in PASSING:
            return ServerUnreachable(f"(it answers with status {answer.status_code})")
        return ThreadlineError(f"the answer has status {answer.status_code} and is no problem.")
    kind = KINDS.get(code, ThreadlineError)
    rest = message.removeprefix(title).removeprefix(" ")
    if rest == message:
        rest = message.removeprefix(f"{title.rstrip('.')}: ")
    error = kind(rest, **facts)
    if kind.code != code:
        error.facts["code"] = code
    return error
