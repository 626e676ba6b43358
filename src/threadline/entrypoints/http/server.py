"""The application: every route, one guard, one way to refuse; and how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ASGIApp

from threadline.core.errors import ConfigError
from threadline.entrypoints.http import (
    asked,
    auth,
    conversations,
    document,
    inbound,
    members,
    origins,
    publishing,
    searching,
    sessions,
    speakers,
    streams,
    tokens,
)
from threadline.entrypoints.http.limits import BODY_BYTES, Bodies, Segments, hurried
from threadline.entrypoints.http.problems import HANDLERS
from threadline.flows.every import Flows

MODULES: tuple[Any, ...] = (
    conversations,
    members,
    speakers,
    sessions,
    publishing,
    inbound,
    searching,
    streams,
    tokens,
)

Loop = Callable[[Flows, asyncio.Event], Coroutine[Any, Any, None]]

UPKEEP_SECONDS = 30.0
GOODBYE_SECONDS = 8
SENT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the server listens. `allowed_hosts` are further names it may be called by.

    A client has `header_seconds` for the head of a request and `body_seconds` for its body; one
    that does not read what it is sent for `slow_reader_seconds` is cut.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    allowed_hosts: tuple[str, ...] = field(default=())
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    slow_reader_seconds: float = 30.0

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host = "127.0.0.1" if self.host in origins.ANYWHERE else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def names(self) -> frozenset[str]:
        """Every name the server answers to."""
        own = {self.host} - origins.ANYWHERE
        return origins.LOOPBACK | own | {name.casefold() for name in self.allowed_hosts}


async def upkeep(line: Flows, stopping: asyncio.Event) -> None:
    """Tidy from time to time: windows, expired bindings, floors, keys."""
    while not stopping.is_set():
        await line.upkeep.round()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), UPKEEP_SECONDS)


async def doorman(app: Litestar) -> None:
    """Cut the streams of tokens that were revoked."""
    while not app.state.stopping.is_set():
        await app.state.doorman.look()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app.state.stopping.wait(), auth.LOOK_SECONDS)


def make_app(line: Flows, *, settings: ServerSettings) -> Litestar:
    """The application on an open store."""
    routes = [document.openapi, *(route for module in MODULES for route in module.ROUTES)]
    loops: list[Loop] = [upkeep]
    for module in MODULES:
        loops += getattr(module, "LOOPS", [])

    @contextlib.asynccontextmanager
    async def living(app: Litestar) -> AsyncIterator[None]:
        app.state.stopping = asyncio.Event()
        app.state.tasks = [
            asyncio.create_task(loop(line, app.state.stopping), name=loop.__name__)
            for loop in loops
        ]
        app.state.tasks.append(asyncio.create_task(doorman(app), name="doorman"))
        try:
            yield
        finally:
            app.state.stopping.set()
            await asyncio.gather(*app.state.tasks, return_exceptions=True)

    app = Litestar(
        routes,
        guards=[auth.guard, asked.guard],
        dependencies={
            "line": Provide(auth.provide_line),
            "caller": Provide(auth.provide_caller),
        },
        middleware=[Segments],
        request_class=asked.Asked,
        exception_handlers=HANDLERS,
        lifespan=[living],
        request_max_body_size=BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="threadline",
            version="1",
            openapi_router=Router(
                "/openapi", route_handlers=[], opt=auth.callers(auth.OPEN), include_in_schema=False
            ),
            use_handler_docstrings=True,
            render_plugins=[JsonRenderPlugin()],
            components=Components(
                security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}
            ),
            security=[{"bearer": []}],
        ),
        logging_config=None,
    )
    app.state.line = line
    app.state.parameters = asked.parameters(app)
    app.state.settings = settings
    app.state.doorman = auth.Doorman(line)
    app.state.streams = app.state.slow_readers = 0
    return app


def guarded(app: Litestar, settings: ServerSettings) -> ASGIApp:
    """The application behind what is judged before it: foreign hosts and pages, slow bodies."""
    return origins.Origins(Bodies(app, settings.body_seconds), settings.names)


class Server(uvicorn.Server):
    """Tells streams and loops to end before it waits for its connections."""

    def __init__(
        self, app: Litestar, settings: ServerSettings, told: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                guarded(app, settings),
                host=settings.host,
                port=settings.port,
                http=hurried(settings.header_seconds),
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                date_header=True,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=GOODBYE_SECONDS,
            )
        )
        self._app = app
        self._told = told

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """See `uvicorn.Server.startup`."""
        await super().startup(sockets)
        if self.started:
            self._told()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See `uvicorn.Server.capture_signals`. A signal only ends the serving: raised once more
        afterwards, it would end the process before the store and the hatch are closed."""
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, self.handle_exit, one, None)
        try:
            yield
        finally:
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(one)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        self._app.state.stopping.set()
        await super().shutdown(sockets)


@contextlib.contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """The socket the server will answer on. Raises `ConfigError` where it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What a reader does not take is kept by the kernel up to this, and no further.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
        try:
            sock.bind((settings.host, settings.port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {settings.host} port {settings.port}: "
                f"{error.strerror or error}. Choose another with --port or THREADLINE_PORT."
            ) from None
        yield sock


async def served(
    line: Flows, settings: ServerSettings, sock: socket.socket, started: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT; `started` is called when it answers."""
    server = Server(make_app(line, settings=settings), settings, started)
    await server.serve(sockets=[sock])
