"""What `threadline doctor` looks at inside the store, and what it advises."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from threadline.config import Settings
from threadline.core.errors import (
    ConfigError,
    NotFound,
    SchemaNewer,
    SessionRetired,
    StoreBusy,
    StoreDamaged,
    StoreUnavailable,
    WrongKey,
)
from threadline.core.ids import number_of
from threadline.core.model import Controller, Hydration
from threadline.core.ports import PARKED, Changes, Loaded, Page, Story
from threadline.entrypoints.cli.connecting import every_account, trouble_of
from threadline.entrypoints.cli.door import ADVICE, Line, enter, sqlite_file
from threadline.entrypoints.cli.report import Report
from threadline.entrypoints.cli.shown import at, how_many
from threadline.entrypoints.cli.surroundings import ADMIN, leftover, names, port
from threadline.flows.conversations import State
from threadline.flows.search import Now
from threadline.flows.upkeep import ReadDue

AT_MOST = 50
FAR_BEHIND = 1_000
SKEW = timedelta(seconds=5)


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
    is_served = False
    try:
        async with AsyncExitStack() as stack:
            tl = await enter(stack, settings)
            is_served = _served(report, tl.store)
            await _inside(report, Line(tl, settings), repair=repair)
    except StoreBusy as error:
        is_served = True
        report.find(str(error), "Wait until it is done, or stop that process.")
    except (StoreUnavailable, ConfigError) as error:
        report.find(str(error), ADVICE.get(error.code, "Nothing was looked at in the store."))
    except (StoreDamaged, SchemaNewer, WrongKey) as error:
        report.find(
            str(error),
            ADVICE.get(error.code, "Nothing was looked at, and nothing was changed."),
            is_damage=isinstance(error, StoreDamaged),
        )
    port(report, settings, is_served=is_served)
    file = sqlite_file(settings.url)
    if file is not None:
        from threadline.stores.hatch import hatch_of

        leftover(report, hatch_of(file), is_served=is_served, repair=repair)


def _served(report: Report, store: object) -> bool:
    """Whether a server of this store runs: then it is reached through that server."""
    from threadline.stores.hatch import HatchStore

    if not isinstance(store, HatchStore):
        return False
    report.fact("server", "runs on this store")
    return True


async def _inside(report: Report, line: Line, *, repair: bool) -> None:
    """Records, imports, bindings, messages that were put aside."""
    await _clock(report, line)
    await _administrator(report, line)
    await _damage(report, line)
    await _due(report, line, repair=repair)
    await _conversations(report, line, repair=repair)
    await _counts(report, line)
    await _accounts(report, line)
    await _parked(report, line)


async def _clock(report: Report, line: Line) -> None:
    """Leases, expiry and the age of a message are judged by the store's clock."""
    off = await line.tl.store.read(Now()) - datetime.now(UTC)
    if abs(off) > SKEW:
        word = "ahead of" if off > timedelta(0) else "behind"
        report.find(
            f"the database's clock is {abs(off).total_seconds():,.0f} seconds {word} this "
            "machine's.",
            "Let both follow the same time server (chrony, systemd-timesyncd).",
        )


async def _administrator(report: Report, line: Line) -> None:
    """The administrator's token has to be one of this store."""
    file = line.settings.folder / ADMIN
    if not file.is_file():
        return
    if await line.tl.tokens.recognise(file.read_text("utf-8", "replace").strip()) is None:
        report.find(
            f"the token in {file} is not one of this store, or was revoked.",
            "`threadline serve` writes a new one at its next start.",
        )


async def _counts(report: Report, line: Line) -> None:
    """Who lags, what waits, what nobody reads."""
    await line.tl.census.complete()
    found = await line.tl.census.summary(caller=line.caller)
    report.fact("records", f"{found.counts.records:,}")
    report.fact("sessions", f"{found.counts.sessions:,}")
    for one in found.lagging:
        if one.behind >= FAR_BEHIND:
            report.find(
                f"{one.ref}: {one.session_id!r} is {one.behind:,} entries behind.",
                "Its reader does not run, or never acknowledges. Start it; or "
                f"`threadline leave {one.ref} {one.session_id}`, or ack where it should go on.",
            )
    if found.held:
        report.note(
            f"{how_many(found.held, 'message')} wait on the hold.",
            "They are appended when the import is done, or what they wait for has come.",
        )
    if lost := found.deliveries.get("uncertain", 0):
        report.find(
            f"of {how_many(lost, 'message')} that sessions sent it is not known whether they came.",
            "`threadline deliveries` lists them. Look whether they are there, then resend or drop.",
        )


async def _accounts(report: Report, line: Line) -> None:
    """What the platforms say about our accounts."""
    found = [one for one in await every_account(line) if one.installation]
    if found:
        report.fact("accounts", len(found))
    for one in found:
        if why := await trouble_of(line, one):
            report.find(
                f"{one.provider}/{one.account_id}: {why}",
                f"Where {one.provider} refuses the credentials, give new ones: threadline connect "
                f"{one.provider}. Where it cannot be called, it is this shell's way to it.",
            )


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
    silent: list[str] = []
    while after is not None:
        page, after = await line.tl.conversations.page(after=after, limit=500, caller=line.caller)
        for state in page:
            report.looked_at += 1
            if not state.members and state.next_sequence > 1:
                silent.append(str(state.ref))
            if repair:
                number = number_of(state.id)
                assert number is not None
                report.repaired += await line.tl.upkeep.reconcile(number)
            if len(report.findings) < 20 * AT_MOST:
                await _look(report, line, state, line.caller)
    if silent:
        report.note(
            f"{how_many(len(silent), 'conversation')} with messages and no reader: "
            f"{names(silent)}.",
            "They are kept. Let a session read one: threadline join REF SESSION",
        )


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
