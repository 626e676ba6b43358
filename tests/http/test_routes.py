"""Every route, every kind of caller, on what is its own, another's, and nobody's (L1).

The routes are enumerated from the application, so one without a line in `table.py` fails.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.http.conftest import Site
from tests.http.table import CALLERS, TABLE, Line
from threadline import Threadline
from threadline.core.ids import public
from threadline.core.model import Controller
from threadline.core.ports import Store
from threadline.core.sends import Repeat
from threadline.entrypoints.http.auth import GUEST_COOKIE, which_guest
from threadline.entrypoints.http.buckets import Buckets, GuestLimits
from threadline.entrypoints.http.server import ServerSettings, make_app

NUMBERS = itertools.count()
FOREIGN = 1
FULL = ("read", "publish", "send", "push")


def routes(app: Any) -> set[str]:
    """Every route with its method; `OPTIONS` is the framework's and says nothing of ours."""
    return {
        f"{method} {route.path_format}"
        for route in app.routes
        for method in route.methods
        if method != "OPTIONS"
    }


@dataclass
class World:
    """A tenant with one of everything, and how each caller shows who it is."""

    scope: str
    names: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)


MISSING = {
    "conversation": public(7),
    "session": "nobody-here",
    "delivery": public(7),
    "send_id": public(7),
    "person": public(7),
    "other_person": public(7),
    "contact": "telegram:nobody",
    "token": public(7),
    "link": public(7),
    "handle": "nobody-here",
    "alias": "nobody-here",
    "provider": "web",
    "account": "office",
    "file": "x",
    "path": "x",
}


async def world(tl: Threadline) -> World:
    """A tenant of its own."""
    made = World(f"tenant{next(NUMBERS)}")
    boss = Controller(made.scope)
    coder, other, spare = (f"{name}-{made.scope}" for name in ("coder", "other", "spare"))
    rooms = {}
    for name in ("lobby", "cellar"):
        ref = f"web/office/{name}?scope={made.scope}"
        rooms[name] = (await tl.conversations.ensure(ref, caller=boss)).id
    for session in (other, spare):
        await tl.sessions.create(session, caller=boss)
    await tl.speakers.participant(rooms["lobby"], "coder", coder, public=True, caller=boss)
    await tl.speakers.bind(rooms["lobby"], coder, caller=boss)
    await tl.sessions.alias(coder, f"alias-{made.scope}", caller=boss)
    await tl.speakers.default_route("web", "office", coder, caller=boss)
    said = await tl.outbound.publish(rooms["lobby"], coder, "hello", caller=boss)
    lease = await tl.attaching.attach(coder, holder="h", name="n", caller=boss)
    token = await tl.tokens.create("controller", scope=made.scope, caller=boss)
    link = await tl.links.create(rooms["lobby"], caller=boss)
    contact = f"telegram:{made.scope}"
    person = await tl.people.make("Ada", contacts=[contact], caller=boss)
    other_person = await tl.people.make("Ada", caller=boss)
    await tl.consents.grant(coder, "web", "office", caller=boss)
    planned = await tl.initiative.send(
        coder,
        f"web/office/lobby?scope={made.scope}",
        "hello",
        repeat=Repeat(at="08:30", zone="UTC"),
        caller=boss,
    )
    made.names = {
        "scope": made.scope,
        "conversation": rooms["lobby"],
        "session": coder,
        "other": other,
        "spare": spare,
        "delivery": said.id,
        "send_id": planned.id,
        "person": person.id,
        "other_person": other_person.id,
        "contact": contact,
        "token": token.id,
        "link": link.id,
        "door": link.secret or "",
        "handle": "coder",
        "fence": lease.fence,
        "alias": f"alias-{made.scope}",
        "provider": "web",
        "account": "office",
        "file": "base.css",
        "sequence": 1,
        "number": 0,
        "path": "x",
    }
    for caller, kind, more in (
        ("controller", "controller", {}),
        ("adapter", "adapter", {"provider": "web", "account_id": "office"}),
        ("neighbour", "adapter", {"provider": "web", "account_id": "annex"}),
        ("member", "session", {"session": coder, "scopes": FULL}),
        ("outsider", "session", {"session": other, "scopes": FULL}),
        ("unscoped", "session", {"session": coder, "scopes": ("push",)}),
    ):
        options: dict[str, Any] = more
        known = await tl.tokens.create(kind, scope=made.scope, caller=boss, **options)
        made.headers[caller] = {"Authorization": f"Bearer {known.token}"}
        if caller == "controller":
            made.names["secret"] = known.token or ""
    lent = await tl.tokens.lend(coder, rooms["lobby"], seconds=60, parent=None, caller=boss)
    made.headers["bound"] = {"Authorization": f"Bearer {lent.token}"}
    made.headers["peer"] = made.headers["outsider"]
    login = await tl.logins.log_in(made.names["secret"])
    made.headers["page"] = cookie("threadline_page", login.secret, login.bearer.csrf)
    for caller, room in (("guest", "lobby"), ("elsewhere", "cellar")):
        door = await tl.links.create(rooms[room], caller=boss)
        guest = await tl.guests.enter(door.secret or "", "Ada")
        made.headers[caller] = cookie(
            f"{GUEST_COOKIE}_{which_guest(door.secret or '')}", guest.secret, guest.csrf
        )
    made.headers["nobody"] = {}
    return made


def cookie(name: str, value: str, csrf: str) -> dict[str, str]:
    """What a browser sends, and the page."""
    return {"Cookie": f"{name}={value}", "X-CSRF-Token": csrf}


def filled(shape: Any, names: dict[str, Any]) -> Any:
    """A body with the names in it; a name alone stays a number."""
    if isinstance(shape, str):
        if shape[:1] == "{" and shape[1:-1] in names:
            return names[shape[1:-1]]
        return shape.format(**names)
    if isinstance(shape, dict):
        return {key: filled(value, names) for key, value in shape.items()}
    return [filled(one, names) for one in shape] if isinstance(shape, list) else shape


async def asked(
    client: httpx.AsyncClient,
    route: str,
    line: Line,
    caller: str,
    which: int,
    near: World,
    far: World,
) -> tuple[int, str]:
    """What the caller gets; a stream is closed as soon as it began."""
    target = {**near.names, **({}, far.names, MISSING)[which]} if which else dict(near.names)
    if "{conversation}" in route or which == 0:
        # A session asks about itself, whatever the conversation; a peer about the member.
        own = {
            "outsider": "other",
            "member": "session",
            "bound": "session",
            "unscoped": "session",
            "peer": "session",
        }
        if caller in own:
            target["session"] = near.names[own[caller]]
    target["fresh"] = target["transaction"] = f"fresh{next(NUMBERS)}"
    method, _, path = route.partition(" ")
    if path in ("/chat/{link}", "/chat/{link}/door"):
        target["link"] = target["door"] if which < 2 else "guess"
    headers = far.headers["controller"] if caller == "stranger" else near.headers[caller]
    body = None if line.body is None else filled(line.body, target)
    url = path.format(**target)
    async with client.stream(
        method, url, headers=line.headers | headers, params=filled(line.query, target), json=body
    ) as answer:
        text = "" if answer.status_code == 200 else (await answer.aread()).decode()
        return answer.status_code, text


def fits(status: int, word: str) -> bool:
    """Whether this is what the table says."""
    return 200 <= status < 300 if word == "ok" else status == int(word)


@pytest.mark.acceptance("L1")
def test_every_route_has_a_line_and_every_line_a_route() -> None:
    class Nothing:
        """A store nobody asks anything of."""

        kind = "sqlite"

    store: Store = Nothing()  # type: ignore[assignment]
    app = make_app(Threadline(store), settings=ServerSettings())

    assert routes(app) == set(TABLE)


@pytest.mark.acceptance("L1")
@pytest.mark.parametrize("route", sorted(TABLE))
async def test_a_route_answers_every_caller_as_the_table_says(site: Site, route: str) -> None:
    """What is refused is asked of one tenant, one after the other; what is allowed of a fresh one,
    because it may change it."""
    line = TABLE[route]
    site.app.state.buckets = Buckets(GuestLimits(entries=0, all_entries=0, requests=0))
    client = site.client()
    near, far = await world(site.line), await world(site.line)
    wrong: list[str] = []

    for caller, which in itertools.product(CALLERS, range(line.objects)):
        word = line.expected[caller][which]
        if word == "ok" and not route.startswith("GET "):
            near = await world(site.line)
            if which == FOREIGN:
                far = await world(site.line)
        status, text = await asked(client, route, line, caller, which, near, far)
        if not fits(status, word):
            place = ("own", "foreign", "missing")[which]
            wrong.append(f"{caller}, {place}: {status} instead of {word} {text[:200]}")

    assert wrong == []
