"""DESIGN's table of who may call which route, as data. One line a route.

A line says for each kind of caller what it gets for an object of its own tenant, for one of another
tenant, and for one that is not there; a single word where the route is about no object. What is
left out is what most routes do: a controller all in its scope and nothing beyond, everybody else
nothing; without a token nobody gets in, and a guest's cookie is none.

| word | answer |
|---|---|
| `ok` | 2xx |
| `401` | nobody is known |
| `403` | this kind of token never may, or the address lies outside what it covers |
| `404` | there is no such thing, or it is not the caller's to know |
| `409` | the caller may, and what it asks does not fit what is there |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

CALLERS = (
    "nobody",
    "controller",
    "page",  # the controller's login, by its cookie
    "stranger",  # a controller of the other tenant
    "adapter",
    "neighbour",  # an adapter of another account in the same tenant
    "member",  # a session in the conversation, about itself
    "outsider",  # a session that is not in it, about itself
    "peer",  # the same about the member
    "unscoped",  # the member with a token that has neither `read` nor `publish` nor `send`
    "bound",  # the member with a token lent for this conversation alone
    "guest",
    "elsewhere",  # a guest of another room
)


@dataclass(frozen=True)
class Line:
    """What each caller gets, and what is sent. `{words}` stand for the world's names."""

    expected: dict[str, tuple[str, ...]]
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def objects(self) -> int:
        """How many of own, foreign and missing the route is asked for."""
        return len(self.expected["controller"])


def line(body: Any = None, query: Any = None, **said: str) -> Line:
    """A line with what most routes do for whoever it does not name."""
    usual = dict.fromkeys(CALLERS, "403")
    usual |= {"nobody": "401", "guest": "401", "elsewhere": "401"}
    usual |= {"controller": "ok 404 404", "stranger": "404 ok 404"}
    usual |= {"page": said.get("controller", usual["controller"])} | said
    width = len(usual["controller"].split())
    spread = {
        name: tuple(words.split()) if " " in words else (words,) * width
        for name, words in usual.items()
    }
    return Line(spread, body, query or {})


def everybody(word: str, body: Any = None) -> Line:
    """A line of a route that is open."""
    return line(body, **dict.fromkeys(CALLERS, word))


def guests(body: Any = None) -> Line:
    """A line of a route for guests: a token of another kind is not for it, the page is nobody."""
    return line(body, controller="403", stranger="403", page="401", guest="ok", elsewhere="ok")


def by_adapter(body: Any = None) -> Line:
    """A line of a route that the account's own adapter has as well."""
    return line(body, adapter="ok 404 404", neighbour="404")


def by_session(body: Any = None, **more: Any) -> Line:
    """A line of a route that a member has for itself, with the scope for it."""
    return line(body, member="ok 404 404", outsider="404", peer="403", **more)


def pushing(body: Any = None) -> Line:
    """A line about a session's push target: with the scope `push` it is the session's own."""
    return line(body, member="ok 403 403", outsider="ok 403 403", unscoped="ok 403 403")


def untargeted() -> Line:
    """The same where there is no target yet: whoever may ask is told so."""
    return line(
        controller="404 404 404",
        stranger="404 404 404",
        member="404 403 403",
        outsider="404 403 403",
        unscoped="404 403 403",
    )


def tools() -> Line:
    """The line of the tools: for every session, with those its scopes reach."""
    made = line(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        **ALONE | {"controller": "403", "stranger": "403"},
        **dict.fromkeys(("member", "outsider", "peer", "unscoped", "bound"), "ok"),
    )
    return replace(made, headers={"Accept": "application/json, text/event-stream"})


def settled() -> Line:
    """A line about what an operator does with a delivery; the one there is was delivered."""
    return line(controller="409 404 404", stranger="404 409 404")


NEW = {
    "provider": "web",
    "account_id": "office",
    "conversation_id": "new",
    "scope_id": "{scope}",
    "kind": "room",
}
SAID = {"text": "hello", "actor": {"id": "ada", "name": "Ada"}}
ONE = "/v1/conversations/{conversation}"
WHO = "/v1/sessions/{session}"
# Of a controller alone, where there is no object to be foreign.
ALONE = {"controller": "ok", "stranger": "ok"}

TABLE: dict[str, Line] = {
    "GET /openapi.json": everybody("ok"),
    "GET /openapi": everybody("ok"),
    "GET /openapi/openapi.json": everybody("ok"),
    "GET /openapi/{path}": everybody("404"),
    "GET /": everybody("ok"),
    "GET /docs": everybody("ok"),
    "GET /assets/{file}": everybody("ok ok 404"),
    "GET /chat": everybody("ok"),
    "GET /chat/{link}": everybody("ok"),
    "GET /chat/{link}/door": everybody("ok ok 404"),
    "GET /health": everybody("ok"),
    "GET /ready": everybody("ok"),
    "GET /metrics": everybody("ok"),
    "GET /v1/status": line(**ALONE),
    "GET /v1/me": line(
        **ALONE,
        adapter="ok",
        neighbour="ok",
        member="ok",
        outsider="ok",
        peer="ok",
        unscoped="ok",
        bound="ok",
    ),
    "GET /v1/conversations": line(**ALONE),
    "POST /v1/conversations": line(
        NEW, controller="ok 403", stranger="403 ok", adapter="ok 403", neighbour="403 403"
    ),
    f"GET {ONE}": line(
        member="ok 404 404",
        outsider="404",
        peer="404",
        bound="ok 404 404",
        adapter="ok 404 404",
        neighbour="404",
    ),
    f"GET {ONE}/context": line(
        query={"session": "{session}"},
        member="ok 404 404",
        outsider="404",
        peer="403",
        bound="ok 404 404",
    ),
    f"POST {ONE}/tokens": line(
        {"session_id": "{session}", "seconds": 60},
        member="ok 404 404",
        outsider="404",
        peer="403",
    ),
    f"POST {ONE}/children": line(
        {},
        controller="409 404 404",
        stranger="404 409 404",
        adapter="409 404 404",
        neighbour="404",
    ),
    f"PATCH {ONE}": line({"title": "Lobby"}),
    f"GET {ONE}/transcript": line(
        member="ok 404 404", outsider="404", peer="404", bound="ok 404 404"
    ),
    f"POST {ONE}/transcript": by_adapter(SAID),
    f"GET {ONE}/records/{{sequence}}/attachments/{{number}}": line(
        controller="404",
        stranger="404",
        member="404",
        outsider="404",
        peer="404",
        bound="404",
    ),
    f"GET {ONE}/stream": line(),
    f"POST {ONE}/hydration": by_adapter({"action": "begin", "mode": "prepending"}),
    f"POST {ONE}/hydration/records": line(
        {"token": "none", "records": []},
        controller="409 404 404",
        stranger="404 409 404",
        adapter="409 404 404",
        neighbour="404",
    ),
    f"GET {ONE}/members": line(),
    f"PUT {ONE}/members/{{session}}": line({}),
    f"PATCH {ONE}/members/{{session}}": line({"metadata": {"a": 1}}),
    f"GET {ONE}/members/{{session}}": by_session(bound="ok 404 404"),
    f"DELETE {ONE}/members/{{session}}": by_session(),
    f"GET {ONE}/members/{{session}}/backfill": by_session(bound="ok 404 404"),
    f"POST {ONE}/members/{{session}}/ack": by_session({"sequence": 1}, bound="ok 404 404"),
    f"PUT {ONE}/binding": by_adapter({"session_id": "{session}"}),
    f"GET {ONE}/binding": by_adapter(),
    f"DELETE {ONE}/binding": by_adapter(),
    f"PUT {ONE}/group": by_adapter({"mode": "open"}),
    f"GET {ONE}/group": by_adapter(),
    f"PUT {ONE}/group/participants/{{handle}}": by_adapter({"session_id": "{session}"}),
    f"DELETE {ONE}/group/participants/{{handle}}": by_adapter(),
    "PUT /v1/routes/{provider}/{account}": line({"session_id": "{fresh}"}, **ALONE),
    "DELETE /v1/routes/{provider}/{account}": line(**ALONE),
    "GET /v1/sessions": line(**ALONE),
    "POST /v1/sessions": line({"session_id": "{fresh}"}, **ALONE),
    f"GET {WHO}": line(member="ok 403 403", outsider="ok 403 403"),
    f"GET {WHO}/conversations": line(member="ok 403 403", outsider="ok 403 403"),
    f"GET {WHO}/inbox": line(member="ok 403 403", outsider="ok 403 403"),
    f"GET {WHO}/stream": line(member="ok 403 403", outsider="ok 403 403"),
    f"GET {WHO}/attachment": line(member="ok 403 403", outsider="404 403 403"),
    f"PUT {WHO}/attachment": line(
        {"holder": "h", "name": "n"}, member="ok 403 403", outsider="ok 403 403"
    ),
    f"DELETE {WHO}/attachment": line(
        query={"fence": "{fence}"}, member="ok 403 403", outsider="409 403 403"
    ),
    f"POST {WHO}/attachment/runs": line(
        {"conversation": "{conversation}", "fence": "{fence}", "first": 1, "last": 1},
        member="ok 403 403",
        outsider="404 403 403",
    ),
    f"PUT {WHO}/push": pushing({"url": "https://hook.example/in"}),
    f"GET {WHO}/push": untargeted(),
    f"DELETE {WHO}/push": pushing(),
    f"POST {WHO}/push/prove": untargeted(),
    f"POST {WHO}/aliases": line({"alias": "{fresh}"}),
    f"DELETE {WHO}/aliases/{{alias}}": line(),
    f"POST {WHO}/reassign": line({"to": "{spare}"}),
    f"POST {WHO}/retire": line(),
    f"POST {WHO}/tokens": line({}, **ALONE),
    f"POST {ONE}/messages": line(
        {"session_id": "{session}", "text": "hello"},
        member="ok 404 404",
        outsider="404",
        peer="403",
        bound="ok 404 404",
    ),
    "POST /v1/files": line(
        {},
        query={"session": "{session}"},
        member="ok 403 403",
        outsider="ok 403 403",
        peer="403",
        bound="ok 403 403",
    ),
    "GET /v1/files/{token}": everybody("404"),
    "POST /chat/files": guests({}),
    "POST /v1/send": line(
        {"session_id": "{session}", "to": {"session_id": "{spare}"}, "text": "hello"},
        member="ok 403 403",
        outsider="ok 403 403",
        peer="403",
    ),
    "GET /v1/sends": line(**ALONE, member="ok", outsider="ok", peer="ok", unscoped="ok"),
    "GET /v1/sends/{send_id}": line(
        member="ok 404 404", outsider="404", peer="404", unscoped="ok 404 404"
    ),
    "POST /v1/sends/{send_id}/cancel": line(
        member="ok 404 404", outsider="404", peer="404", unscoped="403"
    ),
    "GET /v1/people": line(**ALONE),
    "POST /v1/people": line({"name": "Ann"}, **ALONE),
    "GET /v1/people/find": line(query={"by": "{contact}"}),
    "GET /v1/people/{person}": line(),
    "PATCH /v1/people/{person}": line({"name": "Ann"}),
    "POST /v1/people/{person}/merge": line({"other": "{other_person}"}),
    "POST /v1/people/{person}/split": line({"contact": "{contact}"}),
    "POST /v1/people/{person}/code": line({}),
    "GET /v1/consent": line(query={"person": "{person}"}),
    "PUT /v1/consent": line({"person": "{person}", "state": "off"}),
    f"GET {WHO}/accounts": line(member="ok 403 403", outsider="ok 403 403"),
    f"PUT {WHO}/accounts/{{provider}}/{{account}}": line(**ALONE),
    f"DELETE {WHO}/accounts/{{provider}}/{{account}}": line(),
    "GET /v1/limits": line(**ALONE),
    "PUT /v1/limits": line({"recipient_per_hour": 9}, **ALONE),
    "GET /v1/audit": line(**ALONE),
    "GET /v1/audit/verify": line(**ALONE),
    "GET /v1/deliveries": line(**ALONE, member="ok", outsider="ok", peer="ok", unscoped="ok"),
    "GET /v1/deliveries/{delivery}": line(
        member="ok 404 404", outsider="404", peer="404", unscoped="ok 404 404", bound="ok 404 404"
    ),
    "GET /v1/deliveries/{delivery}/steps": line(
        member="ok 404 404", outsider="404", peer="404", unscoped="ok 404 404"
    ),
    "POST /v1/deliveries/{delivery}/cancel": line(
        controller="409 404 404",
        stranger="404 409 404",
        member="409 404 404",
        outsider="404",
        peer="404",
        unscoped="409 404 404",
    ),
    "POST /v1/deliveries/{delivery}/confirm": settled(),
    "POST /v1/deliveries/{delivery}/resend": settled(),
    "POST /v1/deliveries/{delivery}/drop": settled(),
    "GET /v1/adapters": line(**ALONE, adapter="ok", neighbour="ok"),
    "POST /v1/adapters": line(
        {
            "provider": "web",
            "account_id": "office",
            "scope_id": "{scope}",
            "callback": "https://127.0.0.1:1/",
        },
        controller="409 403",
        stranger="403 409",
        adapter="409 403",
        neighbour="403 403",
    ),
    "GET /v1/adapters/{provider}/{account}": line(
        controller="404", stranger="404", adapter="404", neighbour="403"
    ),
    "DELETE /v1/adapters/{provider}/{account}": line(
        controller="404", stranger="404", adapter="404", neighbour="403"
    ),
    "POST /v1/webhooks/{provider}/{account}": everybody("404"),
    "GET /v1/webhooks/{provider}/{account}": everybody("404"),
    "PUT /v1/webhooks/{provider}/{account}/_matrix/app/v1/transactions/{transaction}": everybody(
        "404"
    ),
    "GET /v1/providers/{provider}": line(controller="400", stranger="400"),
    "POST /v1/accounts": line({"provider": "nobody"}, controller="400", stranger="400"),
    "POST /v1/accounts/{provider}/{account}/check": line(controller="404", stranger="404"),
    f"POST {ONE}/history": line({}, controller="409 404 404", stranger="404 409 404"),
    "POST /v1/inbound": line(
        {"conversation": {"conversation_id": "lobby", "kind": "room"}, **SAID},
        controller="403",
        stranger="403",
        adapter="ok",
        neighbour="ok",
    ),
    "POST /mcp": tools(),
    "GET /v1/search": line(query={"q": "hello"}, **ALONE, member="ok", outsider="ok", peer="ok"),
    "GET /v1/tokens": line(**ALONE),
    "POST /v1/tokens": line({"kind": "controller"}, **ALONE),
    "DELETE /v1/tokens/{token}": line(member="404", outsider="404", peer="404", unscoped="404"),
    f"GET {ONE}/links": line(),
    f"POST {ONE}/links": line({}),
    "DELETE /v1/links/{link}": line(),
    "POST /chat/{link}": everybody("ok ok 404", {"name": "{fresh}"}),
    "GET /chat/me": guests(),
    "DELETE /chat/me": guests(),
    "GET /chat/messages": guests(),
    "POST /chat/messages": guests({"text": "hello", "client_id": "{fresh}"}),
    "GET /chat/stream": guests(),
    "GET /chat/messages/{sequence}/attachments/{number}": line(
        controller="403", stranger="403", page="401", guest="404", elsewhere="404"
    ),
    "POST /login": everybody("ok", {"token": "{secret}"}),
    "GET /login": line(**ALONE),
    "DELETE /login": line(**ALONE),
}
