"""The demo's chapter about tools: the official MCP client, which has a session's token and no more.

It is told an address and a token, as the settings of any agent that knows the protocol are. The SDK
is an extra: only this chapter opens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from threadline.entrypoints.cli.demo_house import House, Somebody
from threadline.entrypoints.cli.demo_steps import Steps
from threadline.entrypoints.cli.demo_writing import YES

CLERK = "clerk"
GREETS = "Good evening, is anybody there?"
ASKS = "Is there bread left?"
ANSWER = "Two loaves."
NEWS = "The bread of tomorrow is in the oven."
NEVER = "This is never said."
READING, ALL = ("read",), ("read", "publish", "send")
WAIT_SECONDS = 50


def available() -> bool:
    """Whether the SDK is installed."""
    try:
        import mcp.client  # noqa: F401
    except ImportError:
        return False
    return True


@asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[Any]:
    """The official client at `/mcp`, over streamable HTTP."""
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60.0, trust_env=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


@dataclass(slots=True)
class Tools:
    """The chapter, in one house. `who` talks with the client; `other` is nobody it may read or
    write to."""

    steps: Steps
    house: House
    who: Somebody
    other: Somebody
    _table: Table = field(init=False)

    async def told(self) -> bool:
        """All of it. Answers whether every promise was kept."""
        self.steps.title(
            "Tools: any agent that speaks MCP",
            f"The official client is given {self.house.url}/mcp and the token of the session",
            f"`{CLERK}`, whose conversation with {self.who.name} this is. Nothing else is its own.",
        )
        if not available():
            self.steps.console.print(
                "The SDK is not installed, so nothing is shown: pip install 'threadline[mcp]'.",
                style="yellow",
                markup=False,
            )
            return True
        house, who = self.house, self.who
        await who.says(GREETS)
        greeted = await house.recorded(who, GREETS)
        theirs = await house.place(who, GREETS)
        foreign = await house.place(self.other, YES)
        await house.line.speakers.bind(theirs, CLERK, policy="all")
        await house.line.consents.grant(CLERK, *who.account)
        whole = await self._works(theirs, foreign)
        narrow = await self._reads(theirs)
        return whole and narrow and greeted.person_id is not None

    async def _works(self, theirs: str, foreign: str) -> bool:
        """With every scope it reads, waits, replies, acknowledges and sends, where it may."""
        who, before = self.who, await self.who.said()
        self._begin(f"scopes {', '.join(ALL)}")
        async with connected(self.house.url, await self.house.token(CLERK, *ALL)) as client:
            tools = [one.name for one in (await client.list_tools()).tools]
            places = await self._use(client, "list_conversations")
            read = await self._use(client, "read_thread", conversation=theirs)
            greeting = read["records"][-1]
            await self._use(
                client, "ack", conversation=theirs, sequence=greeting["sequence"], key="greeting"
            )
            waiting = asyncio.create_task(
                client.call_tool("wait_for_messages", {"seconds": WAIT_SECONDS})
            )
            await who.says(ASKS)
            heard = self._done("wait_for_messages", await waiting)
            asked = heard["records"][-1]
            replied = await self._use(
                client,
                "reply",
                conversation=theirs,
                text=ANSWER,
                reply_to=asked["sequence"],
                key="bread",
            )
            await self._use(
                client, "ack", conversation=theirs, sequence=asked["sequence"], key="bread-read"
            )
            sent = await self._use(client, "send_message", to=who.to, text=NEWS, key="news")
            again = await self._use(client, "send_message", to=who.to, text=NEWS, key="news")
            stopped = await self._use(
                client, "send_message", to=self.other.to, text=NEVER, key="never"
            )
            strange = await self._use(client, "read_thread", conversation=foreign)
            self.steps.console.print(f"It lists {len(tools)} tools: {', '.join(tools)}.")
        self.steps.console.print(self._table)
        kept = [
            [one["conversation"] for one in places["conversations"]] == [theirs],
            greeting["text"] == GREETS,
            (asked["text"], asked["answer"]) == (ASKS, True),
            replied["state"] == sent["state"] == "delivered",
            again["repeated"] is True,
            await who.said() == [*before, ANSWER, NEWS],
            (stopped["code"], strange["code"]) == ("consent_required", "not_found"),
        ]
        return self.steps.verdict(
            all(kept),
            f"it reads, waits, replies and sends; {who.judge} shows each once; "
            f"{self.other.name}, who said stop, and what is not its own stay out of its reach",
        )

    async def _reads(self, theirs: str) -> bool:
        """With one scope it has the tools of that scope."""
        who, before = self.who, await self.who.said()
        self._begin("scope read")
        async with connected(self.house.url, await self.house.token(CLERK, *READING)) as client:
            tools = [one.name for one in (await client.list_tools()).tools]
            read = await self._use(client, "read_thread", conversation=theirs)
            refused = [
                await self._use(client, "reply", conversation=theirs, text=NEVER, key="no"),
                await self._use(client, "send_message", to=who.to, text=NEVER, key="no"),
            ]
            self.steps.console.print(
                f"With a token of the scope read it lists {len(tools)}, and no other works:"
            )
        self.steps.console.print(self._table)
        kept = [
            not {"reply", "send_message"} & set(tools),
            NEWS in [one["text"] for one in read["records"]],
            all((one["code"], bool(one["facts"])) == ("scope_missing", True) for one in refused),
            await who.said() == before,
        ]
        return self.steps.verdict(all(kept), "a token's scopes are all that it can do")

    # --- what came of it ----------------------------------------------------------------------

    def _begin(self, title: str) -> None:
        self._table = Table("tool", "what came of it", header_style="bold", box=SIMPLE_HEAD)
        self._table.title, self._table.title_justify = title, "left"

    async def _use(self, client: Any, tool: str, **given: Any) -> dict[str, Any]:
        return self._done(tool, await client.call_tool(tool, given))

    def _done(self, tool: str, result: Any) -> dict[str, Any]:
        """What a tool gave, or its refusal as data."""
        from threadline.entrypoints.mcp.speech import ERROR

        found: dict[str, Any] = (
            (result.meta or {}).get(ERROR, {}) if result.is_error else result.structured_content
        )
        self._table.add_row(tool, Text(told(tool, found)))
        return found


def told(tool: str, found: dict[str, Any]) -> str:
    """What a tool gave, in a few words."""
    match tool, found:
        case _, {"code": code, "message": message}:
            return f"refused, {code}: {message}"
        case "list_conversations", {"conversations": places}:
            return f"{len(places)} of its own, {sum(one['unread'] for one in places)} unread"
        case "read_thread" | "wait_for_messages", {"records": [*_, last]}:
            mine = ", to be answered" if last["answer"] else ""
            return f"{last['name']}: “{last['text']}”{mine}"
        case "ack", {"read_to": read_to}:
            return f"read through record {read_to}"
        case _, {"state": state, "sequence": sequence, "repeated": repeated}:
            return f"{state}, record {sequence}" + (", not said again" if repeated else "")
    return "nothing"
