"""A server as it comes pushes to nothing inside; the setting opens that."""

from __future__ import annotations

from tests.http.conftest import Served, problem
from tests.push.receiver import receiving

PATH = "/v1/sessions/coder/push"


async def test_addresses_inside_are_refused_unless_the_setting_allows_them(served: Served) -> None:
    """Both as `threadline serve` reads it from its environment."""
    async with receiving() as canary:
        inside = {"url": canary.url}
        named = {"url": f"https://localhost:{canary.port}/"}
        with served.client() as boss:
            boss.post("/v1/sessions", json={"session_id": "coder"})
            problem(boss.put(PATH, json=inside), 400, "address_refused")
            assert boss.put(PATH, json=named).status_code == 200
            refused = problem(boss.post(PATH + "/prove"), 409, "push_not_proven")
        served.stop()
        served.settings["THREADLINE_PUSH_ALLOW_PRIVATE"] = "1"
        served.start()
        with served.client() as boss:
            assert boss.put(PATH, json=inside).status_code == 200

        assert canary.connections == 0
    assert refused["facts"]["fault"] == "address_refused"
