"""What became of each channel: told in order, once each, whichever way the send ended."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.initiative.conftest import met, said
from threadline import Threadline
from threadline.core.errors import (
    FileNotCarried,
    IdempotencyConflict,
    InvalidConversation,
    InvalidInput,
    NotFound,
)
from threadline.core.files import Bounds
from threadline.core.model import Attachment, Controller
from threadline.core.ports import Store
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus
from threadline.flows.uploads import RecordFile
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(40_000)
HUMAN = Controller(human=True)
LOBBY = "web/office/lobby"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture(scope="module")
def discord(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Discord; each test has a person of its own."""
    with Simulation("discord", tmp_path_factory.mktemp("second")) as made:
        yield made


@dataclass
class Both:
    """A person who is reached on Telegram first and on Discord then, and may be given files."""

    line: Threadline
    telegram: Simulation
    discord: Simulation
    user: int
    person: str
    dm: str

    @property
    def to(self) -> str:
        """As a recipient."""
        return f"person:{self.person}"

    async def ended(self, sent: SendStatus) -> SendStatus:
        """The send when all that was due is done."""
        for _ in range(3):
            await self.line.initiative.round()
            await self.line.outbox.round()
        return await self.line.initiative.show(sent.id)

    async def file(self) -> Attachment:
        """A file that the agent gave."""
        given = await self.line.uploads.give(
            PICTURE, name="cat.png", type="image/png", session="agent"
        )
        return given.attachment

    def seen(self) -> list[str]:
        """What the person sees on Discord."""
        return [one["text"] for one in self.discord.effects("message", place=self.dm)]


@pytest.fixture
async def both(
    store: Store, telegram: Simulation, discord: Simulation, tmp_path: Path
) -> AsyncIterator[Both]:
    """A line with files, a bot on each platform, both granted."""
    bounds = Bounds(folder=str(tmp_path / "files"))
    line = Threadline(store, allow_private=True, files=bounds)
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    given = {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
    await line.accounts.connect("discord", given)
    await line.sessions.create("agent")
    await line.consents.grant("agent", "telegram", "7001")
    await line.consents.grant("agent", "discord", "700")
    user = next(PEOPLE)
    await met(line, telegram, user)
    dm = discord.do("dm", user=f"second {user}")
    person = await line.people.show(f"telegram:{user}")
    await line.people.change(
        person.id, contacts=[f"discord:{dm['recipients'][0]['id']}"], verified=True, caller=HUMAN
    )
    await line.consents.set("on", person=person.id, about="discord", caller=HUMAN)
    yield Both(line, telegram, discord, user, person.id, dm["id"])
    await line.outbox.close()


def outcomes(sent: SendStatus) -> list[tuple[str, str]]:
    """What became of each channel."""
    return [(one["provider"], one["outcome"]) for one in sent.tried]


@pytest.mark.acceptance("H10")
async def test_what_keeps_failing_gives_way_to_a_channel_that_is_left_and_the_last_one_waits(
    both: Both, clock: StillClock
) -> None:
    """After so many attempts the next one is tried; of the last one only its age makes an end."""
    file = await both.file()
    both.line.uploads.cabinet.drop([one.key for one in both.line.uploads.cabinet.links()])
    sent = await both.line.initiative.send("agent", both.to, "hello", attachments=[file])
    begun = clock.at
    for number in range(13):
        await both.ended(sent)
        clock.move(seconds=min(2**number, 300))
    first = await both.ended(sent)
    assert clock.at - begun < timedelta(minutes=30)
    assert outcomes(first)[0] == ("telegram", "failed")
    assert "12 attempts failed" in first.tried[0]["reason"]

    clock.move(hours=1)
    last = await both.ended(sent)
    assert outcomes(last) == [("telegram", "failed"), ("discord", "expired")]
    assert last.state is SendState.EXPIRED
    assert both.seen() == []


@pytest.mark.acceptance("H10")
async def test_a_second_channel_that_was_refused_later_is_told_as_well(both: Both) -> None:
    """The first fails at the platform, the second is forbidden meanwhile."""
    both.telegram.do("block", user=both.user)
    sent = await both.line.initiative.send("agent", both.to, "hello")
    await both.line.consents.set("off", person=both.person, about="discord", caller=HUMAN)
    done = await both.ended(sent)
    assert outcomes(done) == [("telegram", "failed"), ("discord", "consent_required")]
    assert done.state is SendState.FAILED
    assert both.seen() == []


async def test_what_a_scheduled_send_tried_in_vain_is_told(both: Both, clock: StillClock) -> None:
    """Both channels are refused at the moment it is due; and one that is refused alone."""
    later = clock() + timedelta(hours=1)
    two = await both.line.initiative.send("agent", both.to, "hello", at=later)
    to = f"telegram:{both.user}"
    one = await both.line.initiative.send("agent", to, "hello", via="telegram", at=later)
    for about in ("telegram", "discord"):
        await both.line.consents.set("off", person=both.person, about=about, caller=HUMAN)
    clock.move(hours=1)
    assert outcomes(await both.ended(two)) == [
        ("telegram", "consent_required"),
        ("discord", "consent_required"),
    ]
    assert outcomes(await both.ended(one)) == [("telegram", "consent_required")]


async def test_a_thread_has_one_address_where_its_id_is_its_own(
    both: Both, clock: StillClock
) -> None:
    """Below its room it would be a second conversation, and the answer would stand in the first."""
    later = clock() + timedelta(hours=1)
    for deed in (
        both.line.conversations.ensure("discord/700/1/2"),
        both.line.initiative.send("agent", "discord/700/1/2", "hello"),
        both.line.initiative.send("agent", "discord/700/1/2", "hello", at=later),
    ):
        with pytest.raises(InvalidConversation, match="discord/700/2"):
            await deed


async def test_an_error_of_another_kind_is_told_with_its_channel_too(
    both: Both, clock: StillClock
) -> None:
    """The grant is withdrawn between the plan and the second channel."""
    both.telegram.do("block", user=both.user)
    sent = await both.line.initiative.send("agent", both.to, "hello")
    await both.line.consents.withdraw("agent", "discord", "700")
    done = await both.ended(sent)
    assert outcomes(done) == [("telegram", "failed"), ("discord", "unauthorized")]
    assert (done.state, both.seen()) == (SendState.FAILED, [])


CHANGED: dict[str, dict[str, Any]] = {
    "to": {"to": LOBBY},
    "text": {"text": "other"},
    "via": {"via": "telegram"},
    "at": {"at": timedelta(hours=3)},
    "intent": {"intent": "other"},
    "intent_for": {"intent_for": timedelta(hours=1)},
    "about": {"about": (LOBBY, 1)},
    "attachments": {"attachments": [RecordFile(conversation=LOBBY, sequence=1)]},
    "another file": {"attachments": [RecordFile(conversation=LOBBY, sequence=1, number=1)]},
    "metadata": {"metadata": {"template": {"name": "hello", "language": "en"}}},
}


@pytest.mark.parametrize("what", CHANGED)
async def test_a_key_stands_for_every_argument(both: Both, clock: StillClock, what: str) -> None:
    """Another value of any of them is another request, and nothing is said."""
    asked: dict[str, Any] = {"to": both.to, "text": "once", "intent": "report", "key": "k"}
    first = await both.line.initiative.send("agent", **asked)
    assert (await both.line.initiative.send("agent", **asked)).id == first.id
    changed = dict(CHANGED[what])
    if "at" in changed:
        changed["at"] = clock() + changed["at"]
    with pytest.raises(IdempotencyConflict):
        await both.line.initiative.send("agent", **(asked | changed))
    await both.line.outbox.round()
    assert said(both.telegram, both.user) == ["once"]


# --- files -----------------------------------------------------------------------------------


async def record_of(both: Both) -> RecordFile:
    """A file that was said in a room the agent reads."""
    await both.line.conversations.ensure(LOBBY)
    await both.line.speakers.bind(LOBBY, "agent", policy="all")
    said_there = await both.line.outbound.publish(
        LOBBY, "agent", "here", attachments=[await both.file()]
    )
    assert said_there.sequence is not None
    return RecordFile(conversation=LOBBY, sequence=said_there.sequence)


def files_at(platform: Simulation, place: str) -> list[int]:
    """How many files each message there has."""
    found = platform.effects("message", place=place)
    return [len(one["files"]) if "files" in one else int("file" in one) for one in found]


async def test_a_file_of_a_record_is_written_first_and_a_repeat_takes_no_second_copy(
    both: Both,
) -> None:
    part = await record_of(both)
    for _ in range(2):
        sent = await both.line.initiative.send(
            "agent", both.to, "look", attachments=[part], key="once"
        )
    done = await both.ended(sent)
    assert done.state is SendState.DELIVERED
    assert files_at(both.telegram, str(both.user)) == [1]


async def test_a_file_goes_with_its_send_to_the_second_channel(both: Both) -> None:
    """Given or of a record: what the first did not take, the second says."""
    both.telegram.do("block", user=both.user)
    for file in (await both.file(), await record_of(both)):
        sent = await both.line.initiative.send("agent", both.to, "look", attachments=[file])
        done = await both.ended(sent)
        assert outcomes(done) == [("telegram", "failed"), ("discord", "delivered")]
    assert files_at(both.discord, both.dm) == [1, 1]


async def test_what_takes_no_files_is_passed_over(both: Both) -> None:
    """By `auto`; who named the account is told so."""
    many = [await both.file() for _ in range(2)]
    sent = await both.line.initiative.send("agent", both.to, "two", attachments=many)
    done = await both.ended(sent)
    assert outcomes(done) == [("telegram", "file_not_carried"), ("discord", "delivered")]
    assert files_at(both.discord, both.dm) == [2]
    with pytest.raises(FileNotCarried):
        await both.line.initiative.send(
            "agent", both.to, "two", via="telegram", attachments=[await both.file() for _ in many]
        )


async def test_a_file_of_a_record_waits_as_long_as_its_send_and_one_that_was_given_a_day(
    both: Both, clock: StillClock
) -> None:
    """What could not be said when it is due is refused when it is asked for."""
    part, given = await record_of(both), await both.file()
    later = clock() + timedelta(days=3)
    with pytest.raises(InvalidInput, match="waits a day"):
        await both.line.initiative.send("agent", both.to, "late", at=later, attachments=[given])
    gone = RecordFile(conversation=LOBBY, sequence=part.sequence, number=7)
    with pytest.raises(NotFound):
        await both.line.initiative.send("agent", both.to, "late", at=later, attachments=[gone])
    sent = await both.line.initiative.send("agent", both.to, "late", at=later, attachments=[part])
    clock.move(days=3)
    await both.line.upkeep.round()
    assert (await both.ended(sent)).state is SendState.DELIVERED
    assert files_at(both.telegram, str(both.user)) == [1]
