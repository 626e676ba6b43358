"""What a token opens: which tools are listed, which refuse, and to whom the door stays shut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest
from mcp.client import Client

from tests.http.conftest import problem
from tests.mcp.conftest import Town, Way, over_http, refused, used
from threadline.core.ids import public
from threadline.entrypoints.mcp.tools import TOOLS

SCOPES = ("read", "publish", "send", "push")
# DESIGN's table: which scope each tool needs.
NEEDS = {
    "list_conversations": "read",
    "read_thread": "read",
    "wait_for_messages": "read",
    "ack": "read",
    "get_context": "read",
    "reply": "publish",
    "send_message": "send",
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
SPOKEN = {"Accept": "application/json, text/event-stream"}


def arguments(town: Town, conversation: str) -> dict[str, dict[str, Any]]:
    """How each tool is called about a conversation."""
    place = {"conversation": conversation}
    return {
        "list_conversations": {},
        "read_thread": place,
        "wait_for_messages": {**place, "seconds": 0},
        "ack": {**place, "sequence": 1, "key": "k"},
        "get_context": place,
        "reply": {**place, "text": "hello", "key": "k"},
        "send_message": {"to": conversation, "text": "hello", "key": "s"},
    }


async def listed(client: Client) -> set[str]:
    """The names of the tools there are."""
    return {one.name for one in (await client.list_tools()).tools}


@pytest.mark.acceptance("L6")
async def test_a_token_has_the_tools_of_its_scopes_and_no_other(town: Town) -> None:
    """Every set of scopes, every tool: it is listed and works, or is neither."""
    town.say("hello")
    ways = arguments(town, town.lobby)
    assert set(ways) == set(NEEDS) == {one.name for one in TOOLS}

    for count in range(1, len(SCOPES) + 1):
        for scopes in itertools.combinations(SCOPES, count):
            async with over_http(town.served, town.token(*scopes)) as agent:
                known = {tool for tool, scope in NEEDS.items() if scope in scopes}
                assert await listed(agent) == known
                for tool, given in ways.items():
                    if tool == "send_message" and tool in known:
                        # The scope is one thing; which accounts were granted is another.
                        assert (await refused(agent, tool, **given))["code"] == "unauthorized"
                    elif tool in known:
                        await used(agent, tool, **given)
                    else:
                        said = await refused(agent, tool, **given)
                        assert said["code"] == "scope_missing"
                        assert said["facts"] == {"scope": NEEDS[tool]}


@pytest.mark.acceptance("L6")
async def test_without_the_scope_nothing_is_said_and_nothing_read(town: Town, way: Way) -> None:
    town.say("hello")

    async with way(town.served, town.token("read")) as reader:
        said = await refused(reader, "reply", conversation=town.lobby, text="no", key="k")
    async with way(town.served, town.token("publish")) as speaker:
        read = await refused(speaker, "read_thread", conversation=town.lobby)
        await used(speaker, "reply", conversation=town.lobby, text="yes", key="k")

    assert said["code"] == read["code"] == "scope_missing"
    assert town.said() == ["hello", "yes"]


@pytest.mark.acceptance("L6")
async def test_what_is_not_its_own_is_not_there(town: Town, way: Way) -> None:
    """A conversation of others and one that never was look the same, to every tool."""
    town.say("secret", where=town.cellar)

    async with way(town.served, town.token()) as agent:
        for tool in NEEDS:
            if tool == "list_conversations":
                continue
            foreign = await refused(agent, tool, **arguments(town, town.cellar)[tool])
            missing = await refused(agent, tool, **arguments(town, public(999))[tool])
            assert foreign == missing, tool
            # Where to write first is decided by what was granted, before anything is looked up.
            code = "unauthorized" if tool == "send_message" else "not_found"
            assert foreign["code"] == code, tool
        known = (await used(agent, "list_conversations"))["conversations"]

    assert [one["conversation"] for one in known] == [town.lobby]
    assert town.said(town.cellar) == ["secret"]


async def test_a_token_of_one_conversation_knows_no_other(town: Town, way: Way) -> None:
    """Though its session reads both."""
    path = f"/v1/conversations/{town.cellar}/members/coder"
    town.boss("PUT", path, json={"policy": "all"})
    town.say("here")
    town.say("there", where=town.cellar)
    body = {"session_id": "coder", "seconds": 600}
    lent = town.boss("POST", f"/v1/conversations/{town.lobby}/tokens", json=body)["token"]

    async with way(town.served, lent) as agent:
        known = (await used(agent, "list_conversations"))["conversations"]
        heard = (await used(agent, "wait_for_messages"))["records"]
        said = [
            await refused(agent, tool, **given)
            for tool, given in arguments(town, town.cellar).items()
            if tool != "list_conversations"
        ]
        await used(agent, "reply", conversation=town.lobby, text="yes", key="k")

    assert [one["conversation"] for one in known] == [town.lobby]
    assert [one["text"] for one in heard] == ["here"]
    assert [one["code"] for one in said[:-1]] == ["not_found"] * 5
    assert said[-1]["code"] == "scope_missing"
    assert town.said(town.cellar) == ["there"]


def test_only_a_sessions_token_is_let_in(town: Town) -> None:
    """No controller, no adapter, no cookie, nobody; each is told why."""
    adapter = {"kind": "adapter", "provider": "web", "account_id": "office"}
    tokens = {
        "controller": town.served.token,
        "adapter": town.boss("POST", "/v1/tokens", json=adapter)["token"],
    }

    for secret in tokens.values():
        with town.served.client(secret) as client:
            problem(client.post("/mcp", json=CALL, headers=SPOKEN), 403, "unauthorized")
    with httpx.Client(base_url=town.served.url, verify=False) as client:
        answer = client.post("/mcp", json=CALL, headers=SPOKEN)
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        client.headers["Authorization"] = "Bearer tl_s_guess"
        problem(client.post("/mcp", json=CALL, headers=SPOKEN), 401, "unauthenticated")
        del client.headers["Authorization"]
        login = client.post("/login", json={"token": town.token()})
        known = {**SPOKEN, "X-CSRF-Token": login.json().get("csrf", "")}
        problem(client.post("/mcp", json=CALL, headers=known), 401, "unauthenticated")


@pytest.mark.parametrize("kind", ["controller", "adapter"])
def test_the_process_says_why_it_will_not_start(town: Town, kind: str) -> None:
    """In words on standard error, where an agent's log shows them."""
    body: dict[str, str] = {"kind": kind}
    if kind == "adapter":
        body |= {"provider": "web", "account_id": "office"}
    secret = town.boss("POST", "/v1/tokens", json=body)["token"]
    town.served.settings["THREADLINE_TOKEN"] = secret

    done = town.served.command("mcp")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"this is {kind}'s token; make one for a session." in done.stderr


def test_the_process_wants_a_token_that_holds_and_a_server_that_runs(town: Town) -> None:
    """The administrator's token of this machine is never taken for it."""
    without = town.served.command("mcp")
    town.served.settings["THREADLINE_TOKEN"] = "tl_s_guess"
    wrong = town.served.command("mcp")
    town.served.settings["THREADLINE_TOKEN"] = town.token()
    fine = town.served.command("mcp")
    town.served.stop()
    alone = town.served.command("mcp", "--url", town.served.url)

    assert (without.returncode, without.stdout) == (2, "")
    assert "--token-file" in without.stderr
    assert wrong.returncode == 1
    assert "no token that holds" in wrong.stderr
    assert (fine.returncode, fine.stderr) == (0, "")
    assert alone.returncode == 1
    assert "Is `threadline serve` running?" in alone.stderr


async def test_no_tool_takes_a_path_or_an_address_and_each_change_has_a_key(town: Town) -> None:
    """What they take is a closed list; nothing beside it is accepted."""
    async with over_http(town.served, town.token()) as agent:
        tools = (await agent.list_tools()).tools

    taken = {name for one in tools for name in one.input_schema["properties"]}
    assert taken <= {
        "after",
        "before",
        "budget",
        "conversation",
        "key",
        "limit",
        "reply_to",
        "seconds",
        "sequence",
        "text",
        "to",
        "via",
        "at",
    }
    for one in tools:
        assert one.annotations is not None
        assert one.input_schema["additionalProperties"] is False
        assert one.output_schema is not None
        assert one.output_schema["type"] == "object"
        changes = not one.annotations.read_only_hint
        assert ("key" in one.input_schema["required"]) is changes, one.name
        assert "http" not in json.dumps(one.input_schema)


WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("reply", {"text": "hi"}),
    ("reply", {"text": "hi", "key": ""}),
    ("reply", {"text": "", "key": "k"}),
    ("reply", {"text": "hi", "key": "k", "reply_to": "1"}),
    ("reply", {"text": "hi", "key": "k", "url": "http://127.0.0.1/"}),
    ("ack", {"sequence": 1}),
    ("ack", {"sequence": 1.5, "key": "k"}),
    ("wait_for_messages", {"seconds": 61}),
    ("wait_for_messages", {"seconds": -1}),
    ("read_thread", {"limit": 0}),
    ("read_thread", {"path": "/etc/passwd"}),
    ("get_context", {"budget": 1}),
    ("list_conversations", {}),
)


async def test_arguments_that_do_not_fit_are_refused_by_name(town: Town) -> None:
    """And nothing is done."""
    async with over_http(town.served, town.token()) as agent:
        for tool, given in WRONG:
            said = await refused(agent, tool, conversation=town.lobby, **given)

            assert said["code"] == "arguments_wrong", (tool, given)
            assert "/etc" not in said["message"]

    assert town.said() == []


async def test_a_tool_that_is_none_is_refused(town: Town) -> None:
    async with over_http(town.served, town.token()) as agent:
        assert (await refused(agent, "run_command"))["code"] == "tool_unknown"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 421, "foreign_host"),
        ({"Origin": "https://evil.example"}, 403, "foreign_origin"),
        ({"Origin": "null"}, 403, "foreign_origin"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "foreign_origin"),
    ],
)
def test_a_foreign_page_or_name_does_not_reach_the_tools(
    town: Town, headers: dict[str, str], status: int, code: str
) -> None:
    """Also with a token that holds; without any of these the same request is answered."""
    with town.served.client(town.token()) as client:
        problem(client.post("/mcp", json=CALL, headers=SPOKEN | headers), status, code)
        assert client.post("/mcp", json=CALL, headers=SPOKEN).status_code == 200
        problem(client.get("/mcp", headers=SPOKEN), 405, "method_not_allowed")
