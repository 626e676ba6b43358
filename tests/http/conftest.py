"""The server on a real socket, in this process on each store; and `threadline serve` as started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar

from tests.warm import PROGRAM, Popen, run
from threadline import Threadline
from threadline.core.model import Controller
from threadline.entrypoints.http.server import Server, ServerSettings, listening, make_app

LOBBY = {"provider": "web", "account_id": "office", "conversation_id": "lobby", "kind": "room"}
SECONDS = 60.0


@dataclass
class Event:
    """One server-sent event."""

    name: str
    data: Any
    id: str | None = None


class Events:
    """The events of a stream, one by one."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Event:
        """The next event; heartbeats are passed over. Raises `StopAsyncIteration` at the end."""
        fields: dict[str, str] = {}
        while True:
            line = await asyncio.wait_for(anext(self._lines), SECONDS)
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                return Event(fields["event"], json.loads(fields["data"]), fields.get("id"))

    async def records(self, count: int) -> list[str]:
        """The texts of the next records."""
        texts: list[str] = []
        while len(texts) < count:
            event = await self.next()
            if event.name == "record":
                texts.append(event.data["text"])
        return texts


@dataclass
class Site:
    """A server and who may call it."""

    url: str
    line: Threadline
    app: Any
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        """A client with a bearer token, or without one. It loads no certificates, since nothing
        here has one and they take longer than a test."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        made = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=SECONDS, verify=False)
        self.clients.append(made)
        return made

    async def controller(self, scope: str | None = "default") -> httpx.AsyncClient:
        """A controller of one scope, None for every scope."""
        made = await self.line.tokens.create("controller", scope=scope, caller=Controller(None))
        return self.client(made.token)

    async def adapter(
        self, provider: str = "web", account: str = "office", scope: str = "default"
    ) -> httpx.AsyncClient:
        """An adapter of one account."""
        made = await self.line.tokens.create(
            "adapter", provider=provider, account_id=account, scope=scope, caller=Controller(None)
        )
        return self.client(made.token)

    async def session(self, name: str, *scopes: str, scope: str = "default") -> httpx.AsyncClient:
        """A session's token; without scopes it has the usual ones."""
        made = await self.line.tokens.create(
            "session", session=name, scopes=scopes or None, scope=scope, caller=Controller(None)
        )
        return self.client(made.token)

    async def tidied(self) -> None:
        """Wait for the end of the server's own first round of upkeep: the next is half a minute
        later, and until then what is to be tidied is the test's."""
        [upkeep] = [one for one in self.app.state.pulses if one.name == "upkeep"]
        anybody = self.client()
        while upkeep.last_success is None:
            await anybody.get("/health")

    @asynccontextmanager
    async def stream(
        self, client: httpx.AsyncClient, path: str, **options: Any
    ) -> AsyncIterator[Events]:
        """Open a stream."""
        async with client.stream("GET", path, **options) as response:
            assert response.status_code == 200, await response.aread()
            yield Events(response)


ROUTED: list[Litestar] = []


@contextmanager
def application(line: Threadline, **options: Any) -> Iterator[Litestar]:
    """An application; its routes are those of an earlier test, because making them takes longer
    than most tests. `options` are those of `make_app`."""
    app = make_app(line, app=ROUTED.pop() if ROUTED else None, **options)
    yield app
    ROUTED.append(app)


@asynccontextmanager
async def running(tl: Threadline, **options: Any) -> AsyncIterator[Site]:
    """A server in this process on a store that is open. `options` are those of `make_app`."""
    settings = ServerSettings(port=0)
    with ExitStack() as stack:
        sock = stack.enter_context(listening(settings))
        settings = ServerSettings(port=sock.getsockname()[1])
        started = asyncio.Event()
        app = stack.enter_context(application(tl, settings=settings, **options))
        server = Server(app, settings, started.set)
        serving = asyncio.create_task(server._serve([sock]))
        await asyncio.wait_for(started.wait(), SECONDS)
        made = Site(settings.url, tl, app)
        try:
            yield made
        finally:
            for client in made.clients:
                await client.aclose()
            server.should_exit = True
            await serving


@pytest.fixture
async def site(tl: Threadline) -> AsyncIterator[Site]:
    """A server in this process, once on each store."""
    async with running(tl) as made:
        yield made


@pytest.fixture
async def boss(site: Site) -> httpx.AsyncClient:
    """A controller of the default scope."""
    return await site.controller()


@pytest.fixture
async def lobby(boss: httpx.AsyncClient) -> str:
    """The id of a conversation that is there."""
    made = await boss.post("/v1/conversations", json=LOBBY)
    assert made.status_code == 200, made.text
    found: str = made.json()["id"]
    return found


def message(text: str, **more: Any) -> dict[str, Any]:
    """A message somebody says."""
    return {"text": text, "actor": {"id": "ada", "name": "Ada"}, **more}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem an answer is; anything else fails."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert (found["status"], found["code"]) == (status, code), found
    assert found["title"]
    assert found["type"].endswith(code)
    return found


@dataclass
class Served:
    """`threadline serve` in an empty home."""

    folder: Path
    url: str = ""
    token: str = ""
    port: int = 0
    process: subprocess.Popen[str] | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Where the store and the administrator's token are."""
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """Ours, without anybody's settings."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("THREADLINE_")}
        return kept | {"THREADLINE_HOME": str(self.home), "NO_COLOR": "1"} | self.settings

    def start(self) -> None:
        """Start it, on the port it had before, and wait until it says that it listens."""
        with (self.folder / "log").open("a") as log:
            self.process = Popen(
                [PROGRAM, "serve", "--port", str(self.port), "--json"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "log").read_text()
        said = json.loads(line)
        self.url = said["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.token = Path(said["token_file"]).read_text().strip()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as an administrator would; the answer is its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(timeout=SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def command(self, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        """Run one command beside it."""
        return run([PROGRAM, *words], said=said, cwd=self.folder, env=self.environment, text=True)

    def client(self, token: str | None = None) -> httpx.Client:
        """A client with the administrator's token, or another."""
        bearer = {"Authorization": f"Bearer {token or self.token}"}
        return httpx.Client(base_url=self.url, headers=bearer, timeout=SECONDS, verify=False)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server a person started."""
    made = Served(tmp_path)
    made.start()
    yield made
    if made.process is not None:
        made.kill()
