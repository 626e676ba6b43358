"""Webhooks that were bent, forged or signed anew, thousands of them, at the server's own route.

What is `forged` has to be turned away with 401. What is `true` is signed by the platform, however
odd it is: it has to be taken. Where only a header holds a secret, a bent body is a true one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from tests.http.conftest import Site
from threadline.core.wire import Request
from threadline.flows.accounts import WriteAccount
from threadline.flows.sealing import nonce
from threadline.testing.laws_hearing import another
from threadline.testing.mutations import mutated
from threadline.testing.specimen import Specimen

TOGETHER = 16
MANNERS = ("as it is", "body", "header", "without", "signed", "stranger", "late", "unsigned")


@dataclass(frozen=True, slots=True)
class Shot:
    """One request, and whether the platform would have sent it."""

    request: Request
    manner: str
    forged: bool


@dataclass
class Found:
    """What came of the requests of one provider."""

    provider: str
    seed: int
    forged: int = 0
    true: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """As it is kept."""
        taken = self.statuses["true 200"]
        accepted = sum(n for key, n in self.statuses.items() if key.startswith("forged 2"))
        broken = sum(n for key, n in self.statuses.items() if key.split()[1].startswith("5"))
        return {
            "provider": self.provider,
            "requests": self.forged + self.true,
            "forged": self.forged,
            "forged_accepted": accepted,
            "signed": self.true,
            "signed_taken": taken,
            "server_errors": broken,
            "seed": self.seed,
        }


def installed(specimen: Specimen) -> Specimen:
    """The specimen with an installation in the path that every server takes."""
    return replace(specimen, account=replace(specimen.account, installation="mine"))


async def install(site: Site, specimen: Specimen) -> None:
    """Connect its account without asking anybody: whom it asks is proven elsewhere."""
    one = specimen.account
    key = (one.scope_id, one.provider, one.account_id)
    await site.line.store.run(WriteAccount(key=key, account=one, fresh=nonce()))


def shots(specimen: Specimen, random: Random, count: int) -> Iterator[Shot]:
    """So many requests, each made from a recorded webhook."""
    strangers = replace(
        specimen.account,
        credentials={name: f"{value}x" for name, value in specimen.account.credentials.items()},
    )
    webhooks = list(specimen.webhooks.values())
    for _ in range(count):
        bare = random.choice(webhooks)
        signed = specimen.signed(bare)
        manner = random.choice(MANNERS)
        forged = True
        match manner:
            case "as it is":
                request, forged = signed, False
            case "body":
                request = replace(signed, body=mutated(signed, random).body)
                # The platform's own signature of it is what tells.
                forged = specimen.signed(replace(bare, body=request.body)) != request
            case "header":
                name = random.choice(_proofs(bare, signed))
                given = signed.headers[name]
                at = random.randrange(len(given))
                changed = given[:at] + another(given[at]) + given[at + 1 :]
                request = replace(signed, headers={**signed.headers, name: changed})
            case "without":
                name = random.choice(_proofs(bare, signed))
                headers = {key: v for key, v in signed.headers.items() if key != name}
                request = replace(signed, headers=headers)
            case "signed":
                request = specimen.signed(replace(bare, body=mutated(bare, random).body))
                forged = False
            case "stranger":
                request = specimen.signed(bare, strangers)
                forged = request != signed
            case "late" if specimen.window is not None:
                name = next(one for one in _proofs(bare, signed) if "timestamp" in one)
                stamp = str(int(signed.headers[name]) - random.randrange(301, 10**6))
                request = replace(signed, headers={**signed.headers, name: stamp})
            case _:
                other = {"authorization": "Bearer x", "x-forwarded-host": "evil.test"}
                request = replace(bare, headers={**bare.headers, **other})
        yield Shot(request, manner, forged)


def _proofs(bare: Request, signed: Request) -> list[str]:
    return [name for name, value in signed.headers.items() if bare.headers.get(name) != value]


async def fire(site: Site, specimen: Specimen, seed: int, count: int) -> Found:
    """Send them all, so many at once, and judge each answer."""
    found = Found(specimen.name, seed)
    waiting = shots(specimen, Random(f"{seed} {specimen.name}"), count)
    base = f"{site.url}/v1/webhooks/{specimen.name}/mine"

    async def shooter(web: aiohttp.ClientSession, number: int) -> None:
        for at, shot in enumerate(waiting):
            asked = shot.request
            path = f"/_matrix/app/v1/transactions/{number}-{at}" if asked.method == "PUT" else ""
            query = f"?{urlencode(asked.query, quote_via=quote)}" if asked.query else ""
            headers = {"content-type": "application/json", **asked.headers}
            async with web.request(
                asked.method, f"{base}{path}{query}", data=asked.body, headers=headers
            ) as answer:
                status, said = answer.status, await answer.read()
            judge(found, shot, status, said)

    async with aiohttp.ClientSession() as web:
        await asyncio.gather(*(shooter(web, number) for number in range(TOGETHER)))
    return found


def judge(found: Found, shot: Shot, status: int, said: bytes) -> None:
    """Count it, and keep what is wrong."""
    found.forged += shot.forged
    found.true += not shot.forged
    found.statuses[f"{'forged' if shot.forged else 'true'} {status}"] += 1
    if status != (401 if shot.forged else 200):
        kind = "forged" if shot.forged else "true"
        found.wrong.append(f"{found.provider}, {shot.manner} ({kind}): {status} {said[:200]!r}")
