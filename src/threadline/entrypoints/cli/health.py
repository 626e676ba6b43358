"""What `threadline doctor` looks at, and what it advises."""

from __future__ import annotations

import shutil
import stat
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from threadline.config import Settings
from threadline.core.errors import NotFound, SchemaNewer, SessionRetired, StoreDamaged, WrongKey
from threadline.core.ids import number_of
from threadline.core.model import Controller, Hydration
from threadline.core.ports import PARKED, Changes, Loaded, Page, Story
from threadline.entrypoints.cli.door import ADVICE, Exit, Line, enter, sqlite_file
from threadline.entrypoints.cli.places import shown_url
from threadline.entrypoints.cli.shown import at, how_many
from threadline.flows.conversations import State
from threadline.flows.upkeep import ReadDue

LITTLE_SPACE = 256 * 1024 * 1024
MIB = 1024 * 1024
AT_MOST = 50


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth knowing that needs nothing done."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to be done, and what."""

    what: str
    advice: str
    is_damage: bool = False


@dataclass(slots=True)
class Report:
    """Everything that was found; of one sort at most `AT_MOST`."""

    facts: list[Fact] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    looked_at: int = 0

    def fact(self, name: str, value: object) -> None:
        """Note a fact."""
        self.facts.append(Fact(name, str(value)))

    def find(self, what: str, advice: str, *, is_damage: bool = False) -> None:
        """Note a finding."""
        self.findings.append(Finding(what, advice, is_damage))

    @property
    def code(self) -> Exit:
        """What the command ends with."""
        return Exit.REFUSED if self.findings else Exit.OK

    def plain(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "well": not self.findings,
            "facts": {one.name: one.value for one in self.facts},
            "findings": [asdict(one) for one in self.findings],
            "repaired": self.repaired,
            "conversations": self.looked_at,
        }


def outside(report: Report, settings: Settings) -> None:
    """What can be seen without opening the store."""
    report.fact("store", shown_url(settings.url))
    report.fact("home", settings.folder)
    report.fact("scope", settings.scope)
    file = sqlite_file(settings.url)
    if file is None:
        return
    if file.exists():
        size = sum(one.stat().st_size for one in (file, Path(f"{file}-wal")) if one.exists())
        report.fact("size", f"{size / MIB:,.1f} MiB")
    folder = next((one for one in (file.parent, *file.parents) if one.is_dir()), None)
    if folder is not None:
        free = shutil.disk_usage(folder).free
        report.fact("free space", f"{free / MIB:,.0f} MiB")
        if free < LITTLE_SPACE:
            report.find(
                f"only {free / MIB:,.0f} MiB are free on the disk of {file}.",
                "Free some space. A full disk refuses writes; nothing is half-written.",
            )
    key = Path(settings.key_file).expanduser() if settings.key_file else Path(f"{file}.key")
    if key.exists():
        report.fact("key", key)
        if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            report.find(f"others may read the key {key}.", f"Run: chmod 600 {key}")


@dataclass(frozen=True, slots=True)
class ReadParked(Story[list[tuple[datetime, str]]]):
    """The oldest messages that were put aside: when, and why."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[tuple[datetime, str]]]:
        """One page."""
        rows: list[Any] = loaded.page(Page(PARKED, (-1, -1, AT_MOST)))
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return Changes(), [(epoch + timedelta(microseconds=r[1]), r[3]) for r in rows]


async def examine(report: Report, settings: Settings, *, repair: bool) -> None:
    """Open the store and look at what is in it. That it does not open is a finding, too."""
    try:
        async with AsyncExitStack() as stack:
            tl = await enter(stack, settings)
            await _inside(report, Line(tl, settings), repair=repair)
    except (StoreDamaged, SchemaNewer, WrongKey) as error:
        report.find(
            str(error),
            ADVICE.get(error.code, "Nothing was looked at, and nothing was changed."),
            is_damage=isinstance(error, StoreDamaged),
        )


async def _inside(report: Report, line: Line, *, repair: bool) -> None:
    """Records, imports, bindings, messages that were put aside."""
    await _damage(report, line)
    await _due(report, line, repair=repair)
    await _conversations(report, line, repair=repair)
    await _parked(report, line)


async def _damage(report: Report, line: Line) -> None:
    count = 0
    async with line.tl.store.check() as found:
        async for sentence in found:
            count += 1
            if count <= AT_MOST:
                report.find(
                    sentence,
                    "Stop writing to this store and restore a backup beside it; then compare.",
                    is_damage=True,
                )
    report.fact("check", "every number and digest is right" if not count else f"{count} wrong")


async def _due(report: Report, line: Line, *, repair: bool) -> None:
    """Imports whose time is over, bindings that ran out."""
    if repair:
        done = await line.tl.upkeep.round()
        for number, what in (
            (done.windows, "import window"),
            (done.bindings, "expired binding"),
            (done.swept, "record past its retention"),
        ):
            if number:
                report.repaired.append(how_many(number, what))
        return
    for conversation in (await line.tl.store.read(ReadDue()))[:AT_MOST]:
        if conversation.about.window is not None:
            window = conversation.about.window
            report.find(
                f"{conversation.ref}: the import of {window.owner!r} did not end properly; "
                f"{how_many(conversation.about.held, 'message')} wait for it.",
                "Run `threadline doctor --repair`, then import the file again.",
            )
        else:
            report.find(
                f"{conversation.ref}: its binding expired and was not tidied away.",
                "Nobody is harmed: it does not count any more. `--repair` tidies it.",
            )


async def _conversations(report: Report, line: Line, *, repair: bool) -> None:
    """Every conversation of every page: who it is bound to, what its history says."""
    after: str | None = ""
    while after is not None:
        page, after = await line.tl.conversations.page(after=after, limit=500, caller=line.caller)
        for state in page:
            report.looked_at += 1
            if repair:
                number = number_of(state.id)
                assert number is not None
                report.repaired += await line.tl.upkeep.reconcile(number)
            if len(report.findings) < 20 * AT_MOST:
                await _look(report, line, state, line.caller)


async def _look(report: Report, line: Line, state: State, caller: Controller) -> None:
    if state.hydration is Hydration.FAILED:
        report.find(
            f"{state.ref}: its history is partial: {state.reason}.",
            "Import the export again; what is known already is skipped.",
        )
    if state.bound:
        bound = await line.tl.speakers.binding(state.ref, caller=caller)
        if bound is not None and await _is_gone(line, bound.session_id, caller):
            report.find(
                f"{state.ref}: binding to unknown session {bound.session_id!r}.",
                f"Messages are stored and wait. Run: threadline unbind {state.ref}, and bind "
                "it anew.",
            )
    if state.grouped:
        group = await line.tl.speakers.show_group(state.ref, caller=caller)
        for seat in group.participants:
            if await _is_gone(line, seat.session_id, caller):
                report.find(
                    f"{state.ref}: the handle @{seat.handle} is of unknown session "
                    f"{seat.session_id!r}.",
                    f"Run: threadline group {state.ref} --remove {seat.handle}",
                )


async def _is_gone(line: Line, session: str, caller: Controller) -> bool:
    try:
        state = await line.tl.sessions.show(session, caller=caller)
    except (NotFound, SessionRetired):
        return True
    return state.retired_at is not None


async def _parked(report: Report, line: Line) -> None:
    """Messages that could not be saved and were kept as they came."""
    for parked_at, reason in await line.tl.store.read(ReadParked()):
        report.find(
            f"a message that came {at(parked_at)} could not be saved: {reason}.",
            "It is kept in the table `parked` as it came. Send it again once the reason is gone.",
        )
