"""A small company's rooms, as a page shows them: for the tests that look and for the pictures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

CODE = """The retry loop is the culprit:

```python
async def deliver(self, batch):
    for attempt in range(self.attempts):
        if await self._send(batch):
            return attempt
```

It never waits between attempts, so a slow webhook sees **five calls in 20 ms**."""

Say = dict[str, Any]


def person(name: str) -> Say:
    """Somebody who talks."""
    return {"id": f"u-{name.lower()}", "name": name}


RELEASE: list[Say] = [
    {"ago": 1498, "actor": "Ada", "text": "Who is on the release this week?"},
    {"ago": 1497, "actor": "Grace", "text": "Me, with Ken for the mobile side."},
    {"ago": 1497, "actor": "Grace", "text": "Freeze is Wednesday, noon."},
    {
        "ago": 1490,
        "actor": "Ken",
        "id": "notes",
        "text": "Draft of the notes is here: https://example.org/notes/2.4 (still rough).",
        "attachments": [
            {
                "id": "f1",
                "type": "application/pdf",
                "name": "release-2.4-draft.pdf",
                "size": 248_113,
            }
        ],
    },
    {
        "ago": 1488,
        "actor": "Ada",
        "event": "reaction",
        "revises": "notes",
        "text": "👀",
    },
    {
        "ago": 1487,
        "actor": "Grace",
        "event": "reaction",
        "revises": "notes",
        "text": "👀",
    },
    {
        "ago": 3,
        "actor": "Ada",
        "id": "slow",
        "text": "Staging webhooks are slow again. @atlas can you look at the outbox?",
    },
    {"session": "atlas", "reply": "slow", "text": CODE},
    {
        "actor": "Grace",
        "text": "That would explain the rate limit we hit.",
    },
    {
        "actor": "Ken",
        "id": "freeze",
        "text": "Do we move the freze then?",
    },
    {
        "actor": "Ken",
        "event": "edit",
        "revises": "freeze",
        "text": "Do we move the freeze then?",
    },
    {
        "actor": "Ada",
        "reply_to": "freeze",
        "text": "No. Small fix, and the tests for it are there already.",
    },
    {"actor": "Ken", "id": "gone", "text": "ah, wrong window"},
    {"actor": "Ken", "event": "delete", "revises": "gone"},
    {
        "session": "atlas",
        "text": "Fixed on `outbox-backoff`: 250 ms, doubled up to 30 s, with jitter. "
        "Staging has been quiet for ten minutes.",
    },
    {"actor": "Grace", "text": "Lovely. Merging after lunch 🎉"},
]


async def ensure(boss: httpx.AsyncClient, name: str, title: str, **more: Any) -> str:
    """The id of a room."""
    address = {"provider": "web", "account_id": "chat", "kind": "room", "conversation_id": name}
    answer = await boss.post("/v1/conversations", json={**address, "title": title, **more})
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["id"]
    return found


async def done(answer: httpx.Response) -> Any:
    """What was answered; a refusal fails."""
    assert answer.is_success, answer.text
    return answer.json()


async def talk(boss: httpx.AsyncClient, room: str, lines: list[Say]) -> None:
    """Say it, one after the other."""
    for one in lines:
        if "session" in one:
            words: Say = {"session_id": one["session"], "text": one["text"]}
            if "reply" in one:
                words["reply_to"] = one["reply"]
            await done(await boss.post(f"/v1/conversations/{room}/messages", json=words))
            continue
        body = {k: v for k, v in one.items() if k not in {"ago", "actor", "id"}}
        body["actor"] = person(one["actor"])
        if "ago" in one:
            at = datetime.now(UTC) - timedelta(minutes=one["ago"])
            body["sent_at"] = at.isoformat()
        if "id" in one:
            body["message_id"] = one["id"]
        elif "revises" in one:
            body["message_id"] = f"{one['event']}-{one['revises']}-{one['actor']}"
        await done(await boss.post(f"/v1/conversations/{room}/transcript", json=body))


async def company(boss: httpx.AsyncClient) -> dict[str, str]:
    """Rooms with all that a page can show; their ids by name."""
    rooms = {
        "release": await ensure(boss, "release-2-4", "Release 2.4"),
        "support": await ensure(boss, "support", "Support"),
        "design": await ensure(boss, "design", "Design reviews"),
        "ops": await ensure(boss, "C024BE91L", "ops", provider="slack", account_id="T02ACME"),
        "random": await ensure(boss, "C024BE7LH", "random", provider="slack", account_id="T02ACME"),
    }
    release = rooms["release"]
    at = f"/v1/conversations/{release}"
    await done(await boss.put(f"{at}/binding", json={"session_id": "atlas"}))
    for session, policy in (("scribe", "all"), ("lookout", "since_join")):
        await done(await boss.put(f"{at}/members/{session}", json={"policy": policy}))
    await talk(boss, release, RELEASE)
    head = (await done(await boss.get(at)))["head"]
    await done(await boss.post(f"{at}/members/atlas/ack", json={"sequence": head}))
    await done(await boss.post(f"{at}/members/scribe/ack", json={"sequence": head - 4}))

    support = f"/v1/conversations/{rooms['support']}"
    await done(await boss.put(f"{support}/group", json={"mode": "open", "default_handle": "help"}))
    for handle in ("help", "billing"):
        await done(
            await boss.put(
                f"{support}/group/participants/{handle}",
                json={"session_id": f"{handle}-desk", "public": True},
            )
        )
    await talk(boss, rooms["support"], [{"actor": "Noor", "text": "Hi!"}])

    ops = f"/v1/conversations/{rooms['ops']}/hydration"
    window = await done(await boss.post(ops, json={"action": "begin"}))
    history = [
        {
            "actor": person("Lin"),
            "text": f"Deploy {number} is out.",
            "message_id": f"d{number}",
            "sent_at": (datetime.now(UTC) - timedelta(days=3, minutes=-number)).isoformat(),
        }
        for number in range(1, 41)
    ]
    await done(
        await boss.post(f"{ops}/records", json={"token": window["token"], "records": history})
    )
    await done(
        await boss.post(
            ops,
            json={
                "action": "fail",
                "token": window["token"],
                "reason": "the provider ended the session after 40 of 312 messages",
            },
        )
    )
    return rooms
