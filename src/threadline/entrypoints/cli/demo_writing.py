"""The demo's chapter about writing first: an agent begins, a person answers hours later, and stops.

What is promised is judged by the transcript and by what the platform itself says people saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from threadline.client import Record, Session
from threadline.core.errors import ThreadlineError, Unauthorized
from threadline.core.inert import inert_text
from threadline.core.model import Event
from threadline.entrypoints.cli.demo_house import House, Somebody
from threadline.entrypoints.cli.demo_steps import Steps

REMINDER = "reminder"
HELLO = "Hello, I am at the office until six."
ASKS = "The oven is still on. Shall I switch it off?"
YES = "yes, do it"
DONE = "Done: the oven is off."
STOP = "stop"
TOO_LATE = "One more thing about the oven …"
TOMORROW = "Good morning. The oven is cold."
FIRST_HOURS, ANSWER_HOURS, NEXT_HOURS = 2, 5, 24
HOURS = FIRST_HOURS + ANSWER_HOURS + NEXT_HOURS


@dataclass(slots=True)
class Initiative:
    """The chapter, in one house, about one person."""

    steps: Steps
    house: House
    who: Somebody

    async def told(self) -> bool:
        """All of it. Answers whether every promise was kept."""
        token = await self.house.token(REMINDER, "read", "publish", "send")
        async with Session(self.house.url, token) as agent:
            return all([await self._first(agent), await self._stop(agent)])

    async def _first(self, agent: Session) -> bool:
        house, who = self.house, self.who
        account = "/".join(who.account)
        self.steps.title(
            "On its own initiative: an agent writes first",
            "The clock stands still from here on, and is moved. `reminder` answers nobody: it",
            f"writes to {who.name} at {who.to}, at a time of its choosing. Two have to allow that:",
            f"a controller grants it the account {account}; {who.name} consents by writing once.",
        )
        await who.says(HELLO)
        hello = await house.recorded(who, HELLO)
        self._line(who.name, HELLO)
        seen = await who.said()
        refused = await refusal(self._send(agent, ASKS, key="too-early"))
        self._line(REMINDER, ASKS, f"{refused.code}: the account is not granted")
        await house.line.consents.grant(REMINDER, *who.account)
        due = house.clock() + timedelta(hours=FIRST_HOURS)
        planned = await self._send(agent, ASKS, key="oven", at=due)
        self._line(REMINDER, ASKS, f"granted; {planned['state']} for {due:%H:%M}")
        early = await who.said()
        await self._pass(FIRST_HOURS)
        sent = await house.line.initiative.settled(await house.line.initiative.show(planned["id"]))
        self._line(REMINDER, ASKS, f"{sent.state.value} to {who.judge}")
        said = await who.said()
        await self._pass(ANSWER_HOURS)
        await who.says(YES)
        answer = await self._hears(agent, YES)
        self._line(who.name, YES, f"wakes {answer.data['target_session_id']}")
        context = await agent.context(answer.conversation, format="text")
        reply = await agent.reply(answer, DONE)
        await house.line.outbound.settled(await house.line.deliveries.show(reply.id))
        self._line(REMINDER, DONE)
        self._shown(context["text"])
        told = context["text"]
        in_order = -1 < told.find(ASKS) < told.find(YES)
        kept = [
            isinstance(refused, Unauthorized),
            seen == early,
            said == [*early, ASKS],
            await who.said() == [*early, ASKS, DONE],
            in_order,
            answer.data["person_id"] == hello.person_id,
        ]
        return self.steps.verdict(
            all(kept),
            f"written once and first; answered {ANSWER_HOURS} hours later; the context of "
            f"`{REMINDER}` holds both, in order",
        )

    async def _stop(self, agent: Session) -> bool:
        house, who = self.house, self.who
        self.steps.title(
            "Stop means stop",
            f"`{REMINDER}` has one more message planned, for tomorrow. {who.name} says one word.",
        )
        due = house.clock() + timedelta(hours=NEXT_HOURS)
        planned = await self._send(agent, TOMORROW, key="morning", at=due)
        self._line(REMINDER, TOMORROW, f"{planned['state']} for tomorrow at {due:%H:%M}")
        before = await who.said()
        await who.says(STOP)
        await house.recorded(who, STOP)
        self._line(who.name, STOP, "wakes nobody")
        now = await refusal(self._send(agent, TOO_LATE, key="late"))
        self._line(REMINDER, TOO_LATE, now.code)
        await self._pass(NEXT_HOURS)
        later = await house.line.initiative.settled(await house.line.initiative.show(planned["id"]))
        after = await who.said()
        self._line(REMINDER, TOMORROW, f"{later.state.value}, not sent")
        table = Table("sent", "outcome", "why", header_style="bold", box=SIMPLE_HEAD)
        table.add_row("right after it", now.code, Text(now.detail))
        table.add_row("planned before it", later.state.value, Text(later.reason))
        self.steps.console.print(table)
        self.steps.console.print(
            f"What {who.name} sees of us, as {who.judge} counts: {len(before)} before the word, "
            f"{len(after)} a day later."
        )
        kept = (now.code, later.state.value) == ("consent_required", "cancelled")
        return self.steps.verdict(
            kept and before == after,
            "nothing is sent to who said stop, neither new nor planned; the reason is typed",
        )

    # --- how it is done and shown -------------------------------------------------------------

    async def _send(self, agent: Session, text: str, *, key: str, at: Any = None) -> dict[str, Any]:
        body: Mapping[str, Any] = {
            "session_id": agent.name,
            "to": self.who.to,
            "text": text,
            "via": "/".join(self.who.account),
        }
        planned = {} if at is None else {"at": at.isoformat()}
        return await agent.request("POST", "/v1/send", json={**body, **planned}, key=key)

    async def _hears(self, agent: Session, text: str) -> Record:
        async with aclosing(agent.inbox()) as inbox:
            async for record in inbox:
                if record.event is Event.MESSAGE and record.text == text:
                    await agent.ack(record)
                    return record
        raise ThreadlineError("the inbox ended.")

    async def _pass(self, hours: int) -> None:
        await self.house.pass_hours(hours, self.who)
        self.steps.console.print(f"         … {hours} hours pass …", style="dim")

    def _line(self, who: str, text: str, note: str = "") -> None:
        shown = Text(f"  {self.house.time}  {who:<9} {text}")
        if note:
            shown.append(f"   {note}", style="cyan")
        self.steps.console.print(shown, soft_wrap=True)

    def _shown(self, context: str) -> None:
        """The words of a context that were said, as the agent gets them."""
        self.steps.console.print(
            f"\nThe context of `{REMINDER}` as it is woken, ready for a model:"
        )
        shown = Text(inert_text(context).strip(), style="dim")
        self.steps.console.print(Padding(shown, (0, 2, 1, 4)))


async def refusal(asked: Any) -> ThreadlineError:
    """What something is refused with. Raises `ThreadlineError` where it is not."""
    try:
        await asked
    except ThreadlineError as error:
        return error
    raise ThreadlineError("it was not refused.")
