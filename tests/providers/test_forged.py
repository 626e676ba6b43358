"""No forged webhook is taken, and no bent one breaks the server.

The short slice is for every day. `make fuzz` sets `THREADLINE_FUZZ_WEBHOOKS` to how many requests
there are in all; `THREADLINE_FUZZ_SEED` repeats a run, `THREADLINE_FUZZ_RESULTS` keeps its figures.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from tests.http.conftest import running
from tests.providers.forged import Found, Shot, fire, install, installed, judge
from tests.providers.specimens import discord, matrix, slack, telegram, twilio, whatsapp
from threadline import Threadline
from threadline.core.wire import Request
from threadline.testing import StillClock

REQUESTS = int(os.environ.get("THREADLINE_FUZZ_WEBHOOKS", "2000"))
SEED = int(os.environ.get("THREADLINE_FUZZ_SEED") or random.randrange(10**9))
RESULTS = os.environ.get("THREADLINE_FUZZ_RESULTS", "")
SIGNING = [discord, matrix, slack, telegram, twilio, whatsapp]


@pytest.mark.timeout(3600)
async def test_no_forged_webhook_is_taken_and_no_bent_one_breaks_the_server(
    sqlite_url: str, key: bytes
) -> None:
    print(f"THREADLINE_FUZZ_SEED={SEED}")
    specimens = [installed(one.SPECIMEN) for one in SIGNING]
    rows = []
    async with (
        Threadline.open(sqlite_url, key=key, clock=StillClock()) as line,
        running(line) as site,
    ):
        for specimen in specimens:
            await install(site, specimen)
        for specimen in specimens:
            found = await fire(site, specimen, SEED, REQUESTS // len(specimens))
            rows.append(found.row())
            print(rows[-1])

            assert found.wrong == []
            assert found.forged > found.true // 4, "a run that proves little"
            assert line.webhooks.counts[(specimen.name, "forged")] == found.forged
            assert line.webhooks.counts[(specimen.name, "recorded")] > 0
    print(f"{sum(row['requests'] for row in rows):,} requests")
    if RESULTS:
        Path(RESULTS).write_text(json.dumps(rows, indent=1) + "\n")


@pytest.mark.parametrize(("forged", "status"), [(True, 200), (True, 500), (False, 401)])
def test_a_wrong_answer_is_noticed(forged: bool, status: int) -> None:
    """The check above can fail."""
    found = Found("x", 1)
    shot = Shot(Request(method="POST", path="/", headers={}, body=b""), "body", forged)

    judge(found, shot, status, b"")

    assert len(found.wrong) == 1
