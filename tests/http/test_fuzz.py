"""Requests made up from the OpenAPI document: nothing breaks, and every answer is a documented one.

The short slice is for every day. `make fuzz` sets `THREADLINE_FUZZ` to how many requests each
operation gets in each mode; `THREADLINE_FUZZ_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.http.conftest import LOBBY, Served, message

EXAMPLES = int(os.environ.get("THREADLINE_FUZZ", "4"))
SEED = int(os.environ.get("THREADLINE_FUZZ_SEED") or random.randrange(10**9))
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# These answer for as long as they are read; what they say is proven in `test_streams`.
ENDLESS = ("/v1/conversations/{conversation}/stream", "/v1/sessions/{session}/stream")
MODES = schemathesis.GenerationMode


class World:
    """A server with something in it, and who may call."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.calls: Counter[str] = Counter()
        self.session = requests.Session()
        boss = served.client()
        room = boss.post("/v1/conversations", json=LOBBY).json()["id"]
        boss.put(f"/v1/conversations/{room}/binding", json={"session_id": "coder"})
        boss.put(f"/v1/conversations/{room}/group/participants/dev", json={"session_id": "coder"})
        boss.post(f"/v1/conversations/{room}/transcript", json=message("hello", message_id="m1"))
        words = {"session_id": "coder", "text": "hello"}
        said = boss.post(f"/v1/conversations/{room}/messages", json=words).json()
        boss.put("/v1/sessions/coder/accounts/web/office")
        boss.put("/v1/consent", json={"conversation": room, "state": "on"})
        people = [
            boss.post("/v1/people", json={"name": "Ann", "contacts": contacts}).json()["id"]
            for contacts in (["telegram:4711"], [])
        ]
        first = boss.post("/v1/send", json=words | {"to": room}).json()["id"]
        adapter = {"kind": "adapter", "provider": "web", "account_id": "office"}
        own = {"kind": "session", "session_id": "coder", "scopes": ["read", "publish", "send"]}
        self.tokens = [served.token] * 4 + [
            boss.post("/v1/tokens", json=body).json()["token"] for body in (adapter, own)
        ]
        self.adapter = self.tokens[4]
        self.known: dict[str, list[Any]] = {
            "conversation": [room],
            "session": ["coder", "other", "a/b", "ü%2f"],
            "session_id": ["coder", "other"],
            "handle": ["dev", "ops"],
            "alias": ["x"],
            "delivery": [said["id"]],
            "provider": ["web"],
            "account": ["office"],
            "to": [{"session_id": "other"}, room, "session:other", f"person:{people[0]}"],
            "send_id": [first],
            "person": people,
            "other": people,
            "by": ["telegram:4711"],
            "contact": ["telegram:4711"],
            "repeat": [{"at": "08:30", "zone": "UTC"}],
            "kind": ["room", "controller"],
            "sequence": [0, 1, 2],
            "action": ["begin", "complete", "fail"],
            "conversation_id": ["lobby", "C1"],
        }
        boss.close()

    def blend(self, data: st.DataObject, values: Any) -> Any:
        """What was made up, with names of things that are there in most of the places."""
        if not isinstance(values, dict):
            return values
        known = [name for name in values if name in self.known]
        return values | {
            name: data.draw(st.sampled_from(self.known[name]), name)
            for name in known
            if data.draw(st.integers(0, 9), "known") < 8
        }

    def call(self, case: Any, **headers: str) -> Any:
        """Send it; a wait is cut short."""
        if case.query and "wait" in case.query and case.operation.path.endswith("/inbox"):
            case.query["wait"] = 0
        return case.call(
            base_url=self.served.url,
            session=self.session,
            headers=headers,
            timeout=60,
        )


@pytest.fixture
def world(store_url: str, key: bytes, tmp_path: Path) -> Iterator[World]:
    """A server that is worth asking, once on each store."""
    file = tmp_path / "key"
    file.write_text(key.hex())
    about = {"THREADLINE_STORE": store_url, "THREADLINE_KEY_FILE": str(file)}
    served = Served(tmp_path, settings=about)
    served.start()
    found = World(served)
    yield found
    found.session.close()
    assert served.stop() == 0
    assert "defect" not in (tmp_path / "log").read_text()


def each(
    world: World,
    mode: schemathesis.GenerationMode,
    test: Callable[[Any, st.DataObject], None],
    examples: int,
    *,
    endless: bool = False,
    tokens_alone: bool = False,
) -> None:
    """Run it on every operation of the document, or on those that only a token opens."""
    document = httpx.get(f"{world.served.url}/openapi.json").json()
    # Who calls is said by the tests; made-up tokens have one of their own. An operation that says
    # it needs no security is for everybody, so a token makes no difference there.
    del document["security"], document["components"]["securitySchemes"]
    if tokens_alone:
        for path, item in document["paths"].items():
            document["paths"][path] = {
                name: one for name, one in item.items() if one.get("security") != []
            }
    schema = schemathesis.openapi.from_dict(document)
    print(f"THREADLINE_FUZZ_SEED={SEED}")
    for found in schema.get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]
        if operation.path in ENDLESS and not endless:
            continue
        if mode is MODES.NEGATIVE and takes_anything(
            document["paths"][operation.path][operation.method]
        ):
            continue

        @seed(SEED)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def asked(case: Any, data: st.DataObject) -> None:
            test(case, data)

        asked()


def takes_anything(operation: dict[str, Any]) -> bool:
    """Whether any text is a name: there is nothing to get wrong, and it takes long to find none."""
    plain = {"type", "description"}
    return "requestBody" not in operation and all(
        one["name"] == "q"
        or (
            one["in"] == "path"
            and one["schema"]["type"] == "string"
            and one["schema"].keys() <= plain
        )
        for one in operation.get("parameters") or ()
    )


def test_what_fits_the_document_is_answered_as_it_says(world: World) -> None:
    """No 5xx, no other status, media type, header or field than the document has."""

    def test(case: Any, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(world.tokens), "token")
        if case.operation.path == "/v1/inbound":
            token = world.adapter
        case.path_parameters = world.blend(data, case.path_parameters)
        case.body = world.blend(data, case.body)
        answer = world.call(case, Authorization=f"Bearer {token}")
        world.calls[str(answer.status_code)] += 1
        case.validate_response(answer, checks=CHECKS)

    each(world, MODES.POSITIVE, test, EXAMPLES)

    print(f"{world.calls.total()} requests: {dict(world.calls)}")
    assert world.calls["200"] >= world.calls.total() // 10, "a run that proves little"


def test_what_does_not_fit_the_document_is_refused(world: World) -> None:
    """With a problem, whatever part of the request it is that does not fit."""

    def test(case: Any, data: st.DataObject) -> None:
        token = world.adapter if case.operation.path == "/v1/inbound" else world.served.token
        answer = world.call(case, Authorization=f"Bearer {token}")
        world.calls[str(answer.status_code)] += 1
        case.validate_response(answer, checks=CHECKS)

    each(world, MODES.NEGATIVE, test, EXAMPLES)

    print(f"{world.calls.total()} requests: {dict(world.calls)}")
    assert world.calls["400"]


def test_nothing_is_answered_without_a_token_that_holds(world: World) -> None:
    """Neither without one nor with another one, also where the request itself is nonsense."""

    def test(case: Any, data: st.DataObject) -> None:
        if case.operation.path in ENDLESS:
            case.path_parameters = world.blend(data, case.path_parameters)
        token = data.draw(st.sampled_from([None, "tl_c_no", "", "\x7f", world.served.token[:-1]]))
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        answer = world.call(case, **headers)
        world.calls[str(answer.status_code)] += 1
        assert answer.status_code in (401, 404, 405, 400), answer.status_code
        case.validate_response(answer, checks=CHECKS[:-1])

    each(world, MODES.POSITIVE, test, max(2, EXAMPLES // 3), endless=True, tokens_alone=True)

    assert world.calls["401"] >= world.calls.total() // 2
