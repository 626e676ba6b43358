"""The demo's three agents: rules instead of a model, attached over the public API like any other.

`python -m threadline.entrypoints.cli.demo_agents NAME URL TOKEN_FILE` is one of them. None keeps
anything of its own: what it needs it reads from the transcript, so it may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from threadline.client import Record, Session
from threadline.core.errors import ConsentRequired, ServerUnreachable

MINUTES = "minutes"
ARCHIVE = "archive"
REMINDER = "reminder"
PAGE = 500
SHOWN = 6
LONGEST = timedelta(hours=24)

_HANDLE = re.compile(rf"(?i)^\s*(?:{ARCHIVE}|{MINUTES}|{REMINDER})[:,]|@[\w-]+[:,]?")
_DECISION = re.compile(r"(?i)\b(decided|decision|agreed|we will|let's)\b")
_TASK = re.compile(r"(?i)\b(todo|to do|action|please)\b")
_DELAY = re.compile(
    r"(?i)\bin\s+(a|an|\d{1,5})\s*(second|sec|s|minute|min|m|hour|h)s?\b[\s,:.-]*(?:to\b)?(.*)",
    re.S,
)
_YES = re.compile(r"(?i)^\W*(yes|do it|go ahead|sure|ok)\b")
_ASKED = "you asked me"
HOW_TO_ASK = (
    "Tell me when: “in 20 seconds: look at the oven”. I write first then; answer “yes, do it”, or "
    "“stop”, after which I never write first again until you say “start”."
)
_UNITS = {"s": 1, "m": 60, "h": 3600}
_SMALL_WORDS = (
    "a about all an and any are as at be been but by can did do does for from had has have he her "
    "his how i in is it me my of on or our said say says she so that the their there they this "
    "to was we were what when where which who why will with you your"
)
_SMALL = frozenset(_SMALL_WORDS.split())


async def said_in(session: Session, conversation: str, newest: int) -> list[dict[str, Any]]:
    """The newest records of a conversation, oldest first."""
    found: list[dict[str, Any]] = []
    before: int | None = None
    while len(found) < newest:
        page = await session.request(
            "GET",
            f"/v1/conversations/{conversation}/transcript",
            params={"order": "desc", "limit": str(min(PAGE, newest)), "view": "records"}
            | ({} if before is None else {"before": str(before)}),
        )
        found += page["records"]
        if not page["records"] or page["next"] is None:
            break
        before = page["records"][-1]["sequence"]
    return found[::-1]


def _line(text: str, most: int = 120) -> str:
    """A text as one short line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _name(record: Any) -> str:
    """What people call whoever said it."""
    found: str = record["actor"]["name"] or record["actor"]["id"]
    return found


def _items(title: str, lines: list[str]) -> list[str]:
    """The newest few under a title; nothing where there are none."""
    return [f"{title}:", *(f"• {line}" for line in lines[-SHOWN:])] if lines else []


def minutes_of(records: list[dict[str, Any]]) -> str:
    """What was talked about: who, what was decided, what is to do, which questions are open."""
    said = [
        one
        for one in records
        if one["event"] == "message" and not one["actor"]["is_bot"] and not one["source_session_id"]
    ]
    if not said:
        return "Nobody has said anything yet that I could write down."
    people = Counter(_name(one) for one in said)
    answered = {one["reply_to"] for one in records if one["reply_to"]}
    decided, tasks, questions = [], [], []
    for one in said:
        line = f"{one['actor']['name'] or one['actor']['id']}: {_line(one['text'])}"
        if _DECISION.search(one["text"]):
            decided.append(line)
        elif _TASK.search(one["text"]):
            tasks.append(line)
        elif one["text"].rstrip().endswith("?") and one["message_id"] not in answered:
            questions.append(line)
    who = ", ".join(f"{name} ({count})" for name, count in people.most_common(SHOWN))
    lines = [f"Minutes of {len(said)} messages by {who}."]
    lines += _items("Decided", decided) + _items("To do", tasks) + _items("Open", questions)
    if len(lines) == 1:
        lines.append("Nothing was decided and nothing is open. Write “we decided …” or “todo …”.")
    return "\n".join(lines)


async def keep_minutes(session: Session, record: Record) -> None:
    """Answer with what was said so far."""
    records = await said_in(session, record.conversation, 2_000)
    earlier = [one for one in records if one["sequence"] < record.sequence]
    await session.reply(record, minutes_of(earlier))


def words_of(text: str) -> list[str]:
    """What to look for: the words of a question that mean something."""
    words = re.findall(r"[\w'-]+", _HANDLE.sub(" ", text).casefold())
    return [word for word in dict.fromkeys(words) if word not in _SMALL and len(word) > 1]


async def search_archive(session: Session, record: Record) -> None:
    """Answer with where the words of the question stand in everything that was imported."""
    words = words_of(record.text)
    if not words:
        await session.reply(record, "Ask me about something, such as “@archive ubuntu upgrade”.")
        return
    hits: list[dict[str, Any]] = []
    while words and not hits:
        answer = await session.request("GET", "/v1/search", params={"q": " ".join(words)})
        hits = [
            hit
            for hit in answer["hits"]
            if hit["conversation"] != record.conversation and hit["record"]["text"]
        ]
        if not hits:
            # One word less: the shortest says least.
            words.remove(min(words, key=len))
    if not hits:
        await session.reply(record, "I find nothing about that in what I may read.")
        return
    lines = [f"About “{' '.join(words)}”, what was recorded last comes first:"]
    for hit in hits[:SHOWN]:
        found, ref = hit["record"], hit["ref"]
        day = (found["sent_at"] or found["recorded_at"])[:10]
        place = f"{ref['provider']}/{ref['account_id']}"
        lines.append(
            f"• {_name(found)}, {day}, {place} record {found['sequence']}: {_line(found['text'])}"
        )
    if len(hits) > SHOWN:
        lines.append(f"… and {len(hits) - SHOWN} more.")
    await session.reply(record, "\n".join(lines))


def asked_for(text: str) -> tuple[timedelta, str] | None:
    """How long to wait, and for what; None where no delay is named."""
    found = _DELAY.search(_HANDLE.sub(" ", text))
    if found is None:
        return None
    number = 1 if found[1].casefold() in ("a", "an") else int(found[1])
    return timedelta(seconds=number * _UNITS[found[2][0].casefold()]), _line(found[3].strip(" .,"))


async def remind(session: Session, record: Record) -> None:
    """Plan to write first, at the time that was asked for, or act on the answer to that.

    The ledger keeps the plan: this process may be gone by then.
    """
    asked = asked_for(record.text)
    if asked is None:
        about = await reminded_of(session, record) if _YES.search(record.text) else ""
        await session.reply(record, f"Done: {about}" if about else HOW_TO_ASK)
        return
    delay, about = asked
    if delay > LONGEST:
        await session.reply(record, "That is more than I can promise; a day is the most.")
        return
    words = f"{_name(record.data)}, {_ASKED} {spoken(delay)} ago to come back"
    plan = {
        "session_id": session.name,
        "to": record.conversation,
        "text": f"{words}: {about}." if about else f"{words}.",
        "at": (record.recorded_at + delay).isoformat(),
    }
    # The key makes it one plan, however often this process is killed in between.
    key = f"reminder/{record.conversation}/{record.sequence}"
    try:
        await session.request("POST", "/v1/send", json=plan, key=key)
    except ConsentRequired:
        await session.reply(record, "You told me to stop. Say “start”, and ask again.")
        return
    what = f" about “{about}”" if about else ""
    await session.reply(record, f"I will come back in {spoken(delay)}{what}.")


async def reminded_of(session: Session, record: Record) -> str:
    """What the newest reminder before a record was about, empty where there is none."""
    for one in reversed(await said_in(session, record.conversation, PAGE)):
        if one["sequence"] < record.sequence and _ASKED in one["text"]:
            return str(one["text"]).partition("to come back: ")[2]
    return ""


def spoken(delay: timedelta) -> str:
    """A delay as people say it."""
    seconds = int(delay.total_seconds())
    for size, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0 and seconds >= size:
            count = seconds // size
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "no time"


AGAIN_SECONDS = 0.5

Answer = Callable[[Session, Record], Awaitable[None]]
ANSWERS: dict[str, Answer] = {
    MINUTES: keep_minutes,
    ARCHIVE: search_archive,
    REMINDER: remind,
}


async def attend(name: str, url: str, token: str) -> None:
    """Be one of the agents, for as long as the token holds."""
    while True:
        try:
            async with Session(url, token) as session:
                async for record in session.inbox():
                    await ANSWERS[name](session, record)
                return
        except ServerUnreachable:
            # It was killed as well, and is being started again.
            await asyncio.sleep(AGAIN_SECONDS)


if __name__ == "__main__":
    asyncio.run(attend(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text("ascii").strip()))
