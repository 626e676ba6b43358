"""The official client at a real server: over HTTP, and through `threadline mcp` as a process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from tests.http.conftest import LOBBY, Served, Site, message
from tests.http.conftest import served as served
from tests.http.conftest import site as site
from tests.warm import PROGRAM
from threadline.entrypoints.mcp.speech import ERROR

FULL = ("read", "publish", "send")
Way = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def over_http(
    served: Served | Site, token: str, *, mode: str = "auto", **headers: str
) -> AsyncIterator[Client]:
    """The official client at `/mcp`."""
    own = {"Authorization": f"Bearer {token}", **headers}
    async with (
        httpx2.AsyncClient(headers=own, timeout=60.0, trust_env=False) as http,
        Client(streamable_http_client(f"{served.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(served: Served, token: str, *, mode: str = "auto") -> AsyncIterator[Client]:
    """The official client, which starts `threadline mcp` itself."""
    environment = {**served.environment, "THREADLINE_TOKEN": token, "THREADLINE_URL": served.url}
    process = StdioServerParameters(command=PROGRAM, args=["mcp"], env=environment)
    async with Client(process, mode=mode) as client:
        yield client


WAYS: dict[str, Way] = {"http": over_http, "stdio": over_stdio}


@pytest.fixture(params=sorted(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    """How the client comes in, once each."""
    return WAYS[request.param]


@dataclass
class Town:
    """A running server with a room that a session answers in, and one that is not its own."""

    served: Served
    lobby: str = ""
    cellar: str = ""
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    def boss(self, method: str, path: str, **more: Any) -> Any:
        """What an administrator's request answers."""
        with self.served.client() as client:
            answer = client.request(method, path, **more)
            assert answer.is_success, answer.text
            return answer.json()

    def token(self, *scopes: str, session: str = "coder") -> str:
        """A session's token with these scopes."""
        body = {"kind": "session", "session_id": session, "scopes": scopes or FULL}
        made = self.boss("POST", "/v1/tokens", json=body)
        secret: str = made["token"]
        self.tokens[secret] = made
        return secret

    def revoke(self, secret: str) -> None:
        """End a token."""
        self.boss("DELETE", f"/v1/tokens/{self.tokens[secret]['id']}")

    def say(self, *texts: str, where: str = "", **more: Any) -> None:
        """A person says something in the lobby."""
        for text in texts:
            path = f"/v1/conversations/{where or self.lobby}/transcript"
            self.boss("POST", path, json=message(text, **more))

    def transcript(self, where: str = "") -> list[dict[str, Any]]:
        """All that was said."""
        path = f"/v1/conversations/{where or self.lobby}/transcript"
        found: list[dict[str, Any]] = self.boss("GET", path)["records"]
        return found

    def said(self, where: str = "") -> list[str]:
        """The texts of it."""
        return [one["text"] for one in self.transcript(where)]


@pytest.fixture
def town(served: Served) -> Town:
    """`coder` answers in the lobby; `other` in the cellar."""
    made = Town(served)
    for name, session in (("lobby", "coder"), ("cellar", "other")):
        about = LOBBY | {"conversation_id": name}
        place = made.boss("POST", "/v1/conversations", json=about)["id"]
        setattr(made, name, place)
        body = {"session_id": session, "policy": "all"}
        made.boss("PUT", f"/v1/conversations/{place}/binding", json=body)
    return made


def text_of(result: CallToolResult) -> str:
    """The text a model is shown."""
    return "\n".join(one.text for one in result.content if isinstance(one, TextContent))


async def used(client: Client, tool: str, **given: Any) -> Any:
    """What a tool gives; anything else fails."""
    result = await client.call_tool(tool, given)
    assert not result.is_error, text_of(result)
    return result.structured_content


async def refused(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """The refusal of a tool; anything else fails."""
    result = await client.call_tool(tool, given)
    assert result.is_error, result.structured_content
    found: dict[str, Any] = (result.meta or {})[ERROR]
    assert text_of(result).startswith(f"{found['code']}: {found['message']}")
    assert found["what_to_do"]
    return found
