"""The tools over the official SDK, whichever way its messages come in.

Only what serves or bridges opens this file: the SDK takes longer to load than all the rest.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as Listed

from threadline.core.errors import ThreadlineError
from threadline.entrypoints.logs import logger, told
from threadline.entrypoints.mcp.desk import Desk
from threadline.entrypoints.mcp.refusals import refused
from threadline.entrypoints.mcp.shapes import schema_of
from threadline.entrypoints.mcp.tools import INSTRUCTIONS, TOOLS, Tool, call, open_to

# Where a refusal stands as data. It is no structured content: some clients hold that against the
# schema of what the tool gives when it works.
ERROR = "threadline/error"

_log = logger("mcp")
Context = ServerRequestContext[Any, Any]


def server_of(desk: Desk) -> Server[Any]:
    """A server that speaks for one caller."""

    async def listed(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        tools = [_listed(one) for one in open_to(desk.caller)]
        return ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")

    async def called(context: Context, params: CallToolRequestParams) -> CallToolResult:
        async def tell(waited: float, whole: float) -> None:
            await context.session.report_progress(waited, whole, "Nothing yet.")

        try:
            answer = await call(replace(desk, tell=tell), params.name, params.arguments or {})
        except ThreadlineError as error:
            return refusal(error)
        except Exception as error:
            from threadline.entrypoints.http.problems import Defect

            _log.error("defect", tool=_known(params.name), **told(error))
            return refusal(Defect())
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=msgspec.to_builtins(answer.data),
        )

    return speaking(listed, called)


def speaking(listed: Any, called: Any) -> Server[Any]:
    """A server under our name. Requests are traced where they come in, and not here again."""
    made: Server[Any] = Server(
        "threadline",
        title="threadline",
        version=version("threadline"),
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )
    made.middleware.clear()
    return made


def refusal(error: ThreadlineError) -> CallToolResult:
    """A refusal, for a model to read and for a program to act on."""
    said = refused(error)
    text = f"{said['code']}: {said['message']} {said['what_to_do']}"
    facts = ", ".join(f"{name} = {value}" for name, value in said["facts"].items())
    return CallToolResult(
        content=[TextContent(type="text", text=f"{text} ({facts})" if facts else text)],
        is_error=True,
        _meta={ERROR: said},
    )


def _known(name: str) -> str:
    return name if name in {one.name for one in TOOLS} else "(unknown)"


@cache
def _listed(tool: Tool) -> Listed:
    return Listed(
        name=tool.name,
        title=tool.title,
        description=tool.about,
        input_schema=schema_of(tool.asks),
        output_schema=schema_of(tool.gives),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.changes,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=tool.scope != "read",
        ),
    )
