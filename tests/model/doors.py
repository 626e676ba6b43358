"""The machine's subject behind the HTTP entrance: a real server, and flows that ask it.

What changes something is asked of the server and of nobody else. What only reads is asked of both,
and has to be the same. What has no route (the clock's rounds, a provider's signature) goes past it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from tests.conftest import Store
from tests.http.conftest import application
from tests.model.machine import LIMITS
from threadline import Threadline
from threadline.core import errors
from threadline.core.errors import NotFound, ThreadlineError
from threadline.core.model import Controller, ConversationRef, InboundMessage, TranscriptRecord
from threadline.core.recording import Taken
from threadline.core.rules.binding import KEEP
from threadline.entrypoints.http.conversations import conversation_of, transcript_of
from threadline.entrypoints.http.members import backfill_of
from threadline.entrypoints.http.server import Server, ServerSettings, listening
from threadline.entrypoints.shapes import handed_of, plain
from threadline.flows.replay import Gap, Handed

ADAPTER = ("slack", "T1")


def error_of(said: dict[str, Any]) -> ThreadlineError:
    """The refusal behind a problem."""
    known = [one for one in vars(errors).values() if isinstance(one, type)]
    kinds = {one.code: one for one in known if issubclass(one, ThreadlineError)}
    return kinds[said["code"]](said["detail"])


def body_of(message: InboundMessage) -> dict[str, Any]:
    """A message as it is sent."""
    found = plain(message)
    names = ("text", "actor", "message_id", "direction", "event", "explicit_target", "reply_to")
    more = ("revises", "sent_at")
    return {name: found[name] for name in (*names, *more) if found[name] is not None}


def taken_of(ref: ConversationRef, said: dict[str, Any]) -> Taken | ThreadlineError:
    """What became of a message."""
    if "error" in said:
        return error_of(said["error"])
    record = said["record"] and msgspec.convert(said["record"], TranscriptRecord)
    facts = {name: said[name] for name in ("sequence", "duplicate", "held")}
    return Taken(conversation=0, ref=ref, record=record, **facts)


class Door:
    """A server on the store, and those who may come in."""

    def __init__(self, store: Store) -> None:
        self.flows = Threadline(store, LIMITS)
        self._stack = ExitStack()
        self._clients: list[httpx.AsyncClient] = []

    async def open(self) -> None:
        """Begin to serve."""
        sock = self._stack.enter_context(listening(ServerSettings(port=0)))
        settings = ServerSettings(port=sock.getsockname()[1])
        started = asyncio.Event()
        self.url = settings.url
        app = self._stack.enter_context(application(self.flows, settings=settings))
        self._server = Server(app, settings, started.set)
        self._serving = asyncio.create_task(self._server._serve([sock]))
        await started.wait()

    async def close(self) -> None:
        """End it."""
        for client in self._clients:
            await client.aclose()
        self._server.should_exit = True
        await self._serving
        self._stack.close()

    async def client(self, scope: str, kind: str, **about: Any) -> httpx.AsyncClient:
        """A client with a token of its own."""
        made = await self.flows.tokens.create(kind, scope=scope, caller=Controller(None), **about)
        bearer = {"Authorization": f"Bearer {made.token}"}
        self._clients.append(
            httpx.AsyncClient(base_url=self.url, headers=bearer, timeout=60, verify=False)
        )
        return self._clients[-1]

    async def enter(self, scope: str) -> Subject:
        """The flows of a scope, from outside."""
        provider, account = ADAPTER
        return Subject(
            self.flows,
            {owner: await self.client(scope, "controller") for owner in ("importer", "other")},
            await self.client(scope, "adapter", provider=provider, account_id=account),
        )


class Subject:
    """The flows as the machine knows them, asked over HTTP."""

    def __init__(
        self, flows: Threadline, owners: dict[str, httpx.AsyncClient], adapter: httpx.AsyncClient
    ) -> None:
        self.flows = flows
        self.owners = owners
        self.boss = owners["importer"]
        self.adapter = adapter
        self.ids: dict[str, str] = {}
        self.upkeep = flows.upkeep
        self.conversations = Conversations(self)
        self.inbound = Inbound(self)
        self.members = Members(self)
        self.replay = Replay(self)
        self.hydration = Hydration(self)
        self.speakers = Speakers(self)
        self.sessions = Sessions(self)

    async def ask(
        self, method: str, path: str, client: httpx.AsyncClient | None = None, **options: Any
    ) -> Any:
        """The answer. Raises what was refused."""
        answer = await (client or self.boss).request(method, path, **options)
        if answer.status_code >= 400:
            raise error_of(answer.json())
        return answer.json()

    def at(self, ref: ConversationRef, *more: str) -> str:
        """The path of a conversation, and of something in it."""
        return "/".join((f"/v1/conversations/{self.ids[ref.text]}", *(quote(one) for one in more)))


class Part:
    """One flow."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.flows = subject.flows
        self.ask = subject.ask
        self.at = subject.at


class Conversations(Part):
    """See `flows.conversations`."""

    async def ensure(self, ref: ConversationRef, *, caller: Any) -> Any:
        said = await self.ask(
            "POST",
            "/v1/conversations",
            json={name: it for name, it in plain(ref).items() if it is not None},
        )
        self.subject.ids[ref.text] = said["id"]
        return SimpleNamespace(**said)

    async def show(self, ref: ConversationRef, *, caller: Any) -> Any:
        state = await self.flows.conversations.show(ref, caller=caller)
        assert await self.ask("GET", self.at(ref)) == conversation_of(state)
        return state

    async def transcript(self, ref: ConversationRef, *, caller: Any, **params: Any) -> Any:
        page = await self.flows.conversations.transcript(ref, caller=caller, **params)
        said = await self.ask("GET", self.at(ref, "transcript"), params=params)
        assert said == transcript_of(page)
        return page

    async def change(
        self, ref: ConversationRef, *, max_retained_entries: Any, max_age: Any, caller: Any
    ) -> None:
        seconds = None if max_age is None else max_age.total_seconds()
        body = {"max_retained_entries": max_retained_entries, "max_age": seconds}
        await self.ask("PATCH", self.at(ref), json=body)


class Inbound(Part):
    """See `flows.inbound`. What a provider signed has no route of its own yet."""

    async def append(self, message: InboundMessage, *, caller: Any) -> Any:
        if message.signed:
            return await self.flows.inbound.append(message, caller=caller)
        path = self.at(message.conversation, "transcript")
        return taken_of(message.conversation, await self.ask("POST", path, json=body_of(message)))

    def _item(self, message: InboundMessage) -> dict[str, Any]:
        ref = message.conversation
        return body_of(message) | {"conversation": {"conversation_id": ref.conversation_id}}

    async def receive(self, message: InboundMessage, *, caller: Any) -> Any:
        if message.signed:
            return await self.flows.inbound.receive(message, caller=caller)
        body, client = self._item(message), self.subject.adapter
        return taken_of(
            message.conversation, await self.ask("POST", "/v1/inbound", client, json=body)
        )

    async def receive_all(self, messages: Iterable[InboundMessage], *, caller: Any) -> Any:
        batch = list(messages)
        if any(message.signed for message in batch):
            return await self.flows.inbound.receive_all(batch, caller=caller)
        body = {"messages": [self._item(message) for message in batch]}
        said = await self.ask("POST", "/v1/inbound", self.subject.adapter, json=body)
        return [
            taken_of(message.conversation, one)
            for message, one in zip(batch, said["results"], strict=True)
        ]


class Members(Part):
    """See `flows.members`."""

    async def join(
        self, ref: ConversationRef, name: str, *, policy: str, n: int | None, caller: Any
    ) -> None:
        await self.ask("PUT", self.at(ref, "members", name), json={"policy": policy, "n": n})

    async def leave(
        self, ref: ConversationRef, name: str, *, reason: str | None, evict: bool, caller: Any
    ) -> None:
        params = {"evict": evict} | ({} if reason is None else {"reason": reason})
        await self.ask("DELETE", self.at(ref, "members", name), params=params)

    async def update(
        self, ref: ConversationRef, name: str, *, override: Any, n: int | None, caller: Any
    ) -> None:
        await self.ask("PATCH", self.at(ref, "members", name), json={"override": override, "n": n})


class Replay(Part):
    """See `flows.replay`."""

    async def ack(self, ref: ConversationRef, name: str, sequence: int, *, caller: Any) -> Any:
        path = self.at(ref, "members", name, "ack")
        return SimpleNamespace(**await self.ask("POST", path, json={"sequence": sequence}))

    async def backfill(self, ref: ConversationRef, name: str, *, caller: Any, **params: Any) -> Any:
        path = self.at(ref, "members", name, "backfill")
        said = await self.ask("GET", path, params=params)
        page = await self.flows.replay.backfill(ref, name, caller=caller, **params)
        assert said == backfill_of(page)
        return page

    async def follow(self, name: str, *, once: bool, caller: Any) -> AsyncIterator[Any]:
        path = f"/v1/sessions/{quote(name)}/inbox"
        said = await self.ask("GET", path, params={"limit": 500})
        items = [it async for it in self.flows.replay.follow(name, once=once, caller=caller)]
        handed = [handed_of(it) for it in items if isinstance(it, Handed)]
        assert said["records"] == handed
        assert said["gaps"] == [plain(it) for it in items if isinstance(it, Gap)]
        for item in items:
            yield item


class Hydration(Part):
    """See `flows.hydration`. A window's owner is whose token opened it."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.drain = subject.flows.hydration.drain

    async def begin(self, ref: ConversationRef, *, owner: str, mode: Any, caller: Any) -> Any:
        body = {"action": "begin", "mode": mode}
        client = self.subject.owners[owner]
        return SimpleNamespace(
            **await self.ask("POST", self.at(ref, "hydration"), client, json=body)
        )

    async def records(
        self, ref: ConversationRef, token: str, messages: Sequence[InboundMessage], *, caller: Any
    ) -> Any:
        if any(message.signed for message in messages):
            return await self.flows.hydration.records(ref, token, messages, caller=caller)
        body = {"token": token, "records": [body_of(message) for message in messages]}
        said = await self.ask("POST", self.at(ref, "hydration", "records"), json=body)
        return [taken_of(ref, one) for one in said["results"]]

    async def complete(self, ref: ConversationRef, token: str, *, caller: Any) -> Any:
        return await self._end(ref, {"action": "complete", "token": token})

    async def fail(self, ref: ConversationRef, token: str, reason: str, *, caller: Any) -> Any:
        return await self._end(ref, {"action": "fail", "token": token, "reason": reason})

    async def _end(self, ref: ConversationRef, body: dict[str, Any]) -> Any:
        return SimpleNamespace(**await self.ask("POST", self.at(ref, "hydration"), json=body))


class Speakers(Part):
    """See `flows.speakers`."""

    async def bind(
        self, ref: ConversationRef, name: str, *, policy: Any, n: Any, expires_at: Any, caller: Any
    ) -> Any:
        body = {"session_id": name, "policy": policy, "n": n}
        if expires_at is not KEEP:
            body["expires_at"] = plain(expires_at)
        await self.ask("PUT", self.at(ref, "binding"), json=body)
        return await self.flows.speakers.binding(ref, caller=caller)

    async def unbind(self, ref: ConversationRef, *, caller: Any) -> Any:
        try:
            return SimpleNamespace(**await self.ask("DELETE", self.at(ref, "binding")))
        except NotFound:
            return None

    async def binding(self, ref: ConversationRef, *, caller: Any) -> Any:
        bound = await self.flows.speakers.binding(ref, caller=caller)
        try:
            assert await self.ask("GET", self.at(ref, "binding")) == plain(bound)
        except NotFound:
            assert bound is None
        return bound

    async def participant(
        self, ref: ConversationRef, handle: str, name: str, *, caller: Any
    ) -> None:
        path = self.at(ref, "group", "participants", handle)
        await self.ask("PUT", path, json={"session_id": name})

    async def remove_participant(self, ref: ConversationRef, handle: str, *, caller: Any) -> None:
        await self.ask("DELETE", self.at(ref, "group", "participants", handle))

    async def group(
        self, ref: ConversationRef, *, mode: Any, default_handle: Any, caller: Any
    ) -> None:
        body = {"mode": mode} | (
            {} if default_handle is KEEP else {"default_handle": default_handle}
        )
        await self.ask("PUT", self.at(ref, "group"), json=body)

    async def show_group(self, ref: ConversationRef, *, caller: Any) -> Any:
        group = await self.flows.speakers.show_group(ref, caller=caller)
        assert await self.ask("GET", self.at(ref, "group")) == plain(group)
        return group


class Sessions(Part):
    """See `flows.sessions`."""

    async def create(self, name: str, *, caller: Any) -> None:
        await self.ask("POST", "/v1/sessions", json={"session_id": name})

    async def show(self, name: str, *, caller: Any) -> Any:
        return SimpleNamespace(**await self.ask("GET", f"/v1/sessions/{quote(name)}"))

    async def reassign(self, old: str, new: str, *, caller: Any) -> None:
        await self.ask("POST", f"/v1/sessions/{quote(old)}/reassign", json={"to": new})

    async def retire(self, name: str, *, caller: Any) -> None:
        await self.ask("POST", f"/v1/sessions/{quote(name)}/retire")
