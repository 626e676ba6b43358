"""One event that no program can read costs itself: everybody else is heard, and no page is the last
one because it is empty. A wire that is a list stands for the homeserver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadline.adapters.matrix import Matrix
from threadline.core.adapters import Account, Past
from threadline.core.model import ConversationRef, Kind
from threadline.core.wire import ApiCall, ApiResponse, Request
from threadline.transports.matrix import MatrixTransport

ME = "@bot:example.org"
ACCOUNT = Account(
    scope_id="default",
    provider="matrix",
    account_id=ME,
    credentials={"access_token": "t0ken", "hs_token": "hs"},
    settings={"api": "https://matrix.example.org"},
)
# 4 KB of brackets, deeper than most stacks; a number of more digits than Python reads.
HOSTILE = {"deep": "[" * 2_000 + "]" * 2_000, "long number": "1" * 5_000, "huge": "1e999"}


def event(number: int, content: str, sender: str = "@ada:example.org") -> str:
    """An event as text."""
    return (
        f'{{"type":"m.room.message","event_id":"$e{number}","sender":"{sender}","room_id":"!r:x",'
        f'"origin_server_ts":1700000000000,"content":{content}}}'
    )


GOOD = event(1, '{"msgtype":"m.text","body":"please do not lose me"}')


def bad(what: str) -> str:
    """An event with something hostile in it."""
    said = f'{{"msgtype":"m.text","body":"x","x":{HOSTILE[what]}}}'
    return event(2, said, "@mallory:evil.example")


def names(request: Request) -> list[str | None]:
    """The ids of what is heard in it."""
    return [one.message_id for one in Matrix(ACCOUNT).parse(request).messages]


@pytest.mark.parametrize("what", HOSTILE)
def test_a_pushed_transaction_keeps_what_others_said(what: str) -> None:
    body = f'{{"events":[{bad(what)},{GOOD}]}}'.encode()
    assert names(Request(method="PUT", path="/", headers={}, body=body)) == ["$e2", "$e1"]


class Wire(MatrixTransport):
    """A homeserver that holds one answer, and gives it until it is taken."""

    answer = b""

    async def perform(self, call: ApiCall) -> ApiResponse:
        """See above."""
        if "/sync" in call.url:
            return ApiResponse(status=200, body=self.answer)
        if "/account_data/" in call.url:
            return ApiResponse(status=200, body=b'{"@ada:example.org": [{}, "!other:x"]}')
        return ApiResponse(status=404)


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_listener_is_not_deaf_for_ever(what: str) -> None:
    """The same answer would come at every try."""
    wire = Wire()
    timeline = f'{{"timeline":{{"events":[{GOOD},{bad(what)}],"limited":false}}}}'
    wire.answer = f'{{"next_batch":"s2","rooms":{{"join":{{"!r:x":{timeline}}}}}}}'.encode()
    batch = await anext(wire.listen(ACCOUNT, "s1"))
    assert batch.cursor == "s2"
    assert names(batch.requests[0]) == ["$e1", "$e2"]


class Cut(MatrixTransport):
    """Cuts a timeline off, and gives an empty page of it first that names the next one."""

    async def perform(self, call: ApiCall) -> ApiResponse:
        """See above."""
        old, new = json.loads(GOOD), json.loads(event(3, '{"msgtype":"m.text","body":"new"}'))
        said: Any = {}
        if "/sync" in call.url:
            line = {"events": [new], "limited": True, "prev_batch": "p1"}
            said = {"next_batch": "s2", "rooms": {"join": {"!r:x": {"timeline": line}}}}
        elif "from=p1" in call.url:
            said = {"chunk": [], "start": "p1", "end": "p2"}
        elif "from=p2" in call.url:
            said = {"chunk": [old], "start": "p2"}
        return ApiResponse(status=200, body=json.dumps(said).encode())


async def test_an_empty_page_is_not_the_end_of_what_was_cut_off() -> None:
    """The specification of GET /messages says so."""
    batch = await anext(Cut().listen(ACCOUNT, "s1"))
    assert names(batch.requests[0]) == ["$e1", "$e3"]
    assert not batch.gap


def test_an_empty_page_is_not_the_beginning_of_a_room() -> None:
    dialect = Matrix(ACCOUNT)
    ref = ConversationRef("matrix", ME, "!r:x", kind=Kind.ROOM)
    answer = ApiResponse(status=200, body=b'{"chunk":[],"start":"p1","end":"p2"}')
    past = dialect.read_history(ref, dialect.history(ref), answer)
    assert isinstance(past, Past)
    assert past.older is not None
