"""Dialects that each break one law: a law that lets its own pass could not fail."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tests.providers.specimens import discord, matrix, telegram, twilio, whatsapp
from threadline.adapters.discord import Discord
from threadline.adapters.matrix import Matrix
from threadline.adapters.telegram import Telegram
from threadline.adapters.twilio import Twilio
from threadline.adapters.whatsapp import WhatsApp
from threadline.core.adapters import Ask, Identity, Past
from threadline.core.deliveries import Failure
from threadline.core.model import Actor
from threadline.core.wire import ApiCall, Doubt, Heard, Refused, Sent
from threadline.testing import Specimen

SPECIMENS: dict[Any, Specimen] = {
    Discord: discord.SPECIMEN,
    Matrix: matrix.SPECIMEN,
    Telegram: telegram.SPECIMEN,
    Twilio: twilio.SPECIMEN,
    WhatsApp: whatsapp.SPECIMEN,
}
ME = Actor("7001", "sim_bot", is_bot=True)
CALLS = count()


@dataclass(frozen=True)
class Break:
    """How a dialect is broken, which law has to see it, and what it says of it."""

    law: str
    seen: str
    base: Any
    changes: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.law}: {self.seen}"

    def specimen(self) -> Specimen:
        """A provider that differs from ours in this only."""
        made = type(f"Broken{self.base.__name__}", (self.base,), self.changes)
        return replace(SPECIMENS[self.base], dialect=made, examples=60)


def heard(change: Any) -> dict[str, Any]:
    """`parse` with what it heard changed."""

    def parse(self: Any, request: Any) -> Heard:
        found: Heard = super(type(self), self).parse(request)
        made: Heard = change(found, request)
        return made

    return {"parse": parse}


def messages(**changes: Any) -> dict[str, Any]:
    """`parse` whose messages have other parts."""

    def change(found: Heard, request: Any) -> Heard:
        made = {name: value for name, value in changes.items() if not callable(value)}
        given = {name: value for name, value in changes.items() if callable(value)}
        told = [
            replace(one, **made, **{name: value(one) for name, value in given.items()})
            for one in found.messages
        ]
        return replace(found, messages=tuple(told))

    return heard(change)


def method(name: str, change: Any) -> dict[str, Any]:
    """A method whose answer is changed; `change` is given that and the arguments."""

    def changed(self: Any, *given: Any, **more: Any) -> Any:
        return change(getattr(super(type(self), self), name)(*given, **more), *given)

    return {name: changed}


def said(change: Any) -> dict[str, Any]:
    """`render` whose text is changed before it is written down."""

    def render(self: Any, message: Any) -> Any:
        return super(type(self), self).render(replace(message, text=change(message.text)))

    return {"render": render}


def unless_text(answer: Any, *given: Any) -> Any:
    """The answer, for bytes that are text; others raise."""
    given[-1].body.decode()
    return answer


def proven(**changes: Any) -> dict[str, Any]:
    """`read` whose proof has other parts."""

    def change(step: Any, *_: Any) -> Any:
        return replace(step, **changes) if isinstance(step, Sent) else step

    return method("read", change)


def refused(change: Any) -> dict[str, Any]:
    """`read` whose refusals are something else."""

    def changed(step: Any, call: Any, given: Any) -> Any:
        return change(step, given) if isinstance(step, Refused) else step

    return method("read", changed)


def capable(**changes: Any) -> dict[str, Any]:
    """Other capabilities."""

    def made(self: Any) -> Any:
        return replace(super(type(self), self).capabilities, **changes)

    return {"capabilities": property(made)}


def body(before: bytes, after: bytes) -> dict[str, Any]:
    """`render` with something else in the body of its call."""
    return method("render", lambda call, _: replace(call, body=call.body.replace(before, after)))


def moved(**parts: str) -> dict[str, Any]:
    """`parse` whose messages are somewhere else."""
    return messages(conversation=lambda one: replace(one.conversation, **parts))


def _below(ref: Any) -> Any:
    return replace(ref, conversation_id=f"x{ref.conversation_id}")


def declared() -> Iterator[Break]:
    """What it declares."""
    law = "abilities"
    yield Break(law, "history=False and has", Discord, capable(history=False))
    yield Break(law, "history=True and lacks", Telegram, capable(history=True))
    yield Break(law, "conversations=False", Discord, capable(child_conversations=False))
    yield Break(law, "of Children, and lacks", Telegram, {"open_child": lambda *_: None})
    yield Break(law, "max_length is 0", Telegram, capable(max_length=0))
    yield Break(law, "its actor is", Telegram, capable(actor=Actor("else")))
    yield Break(law, "under another key", Telegram, capable(idempotent=True))


def connected() -> Iterator[Break]:
    """What it asks for, and as whom it connects."""
    asks = Telegram.asks()
    another = Ask(name="colour", where="somewhere")
    for more, seen in (
        ((*asks, another), "has no colour"),
        ((*asks, asks[0]), "asks twice"),
        ((*asks, replace(another, optional=True)), "nothing depends on it"),
        ((asks[0], asks[2], asks[3]), "needs the credentials ['webhook_secret']"),
        ((*asks[:2], asks[3]), "reads the settings ['mode']"),
        ((replace(asks[0], where=" "), *asks[1:]), "where token is found"),
        ((replace(asks[0], default="x"), *asks[1:]), "default that everybody knows"),
    ):
        yield Break("asks", seen, Telegram, {"asks": classmethod(lambda cls, found=more: found)})
    human = replace(ME, is_bot=False)
    for who, seen in (
        (Identity(account_id="1", actor=ME), "that we are '1'"),
        (Identity(account_id="7001", actor=replace(ME, id="9")), "connects as '9'"),
        (Identity(account_id="7001", actor=human), "not a bot"),
        (Doubt(reason="no"), "read_check says"),
    ):
        changed = method(
            "read_check", lambda step, *_, it=who: step if isinstance(step, ApiCall) else it
        )
        yield Break("identity", seen, Telegram, changed)


def kept_apart() -> Iterator[Break]:
    """What it shows, keeps and touches."""
    shown = method("render", lambda call, *_: replace(call, route=call.url))
    yield Break("secrets", "shows the token", Telegram, shown)
    told = {"__repr__": lambda self: repr(self._account.credentials)}
    yield Break("secrets", "shows the token", WhatsApp, told)
    counting = heard(lambda found, _: replace(found, skipped=(str(next(CALLS)),)))
    yield Break("pure", "heard in two ways", Telegram, counting)
    chance = method("render", lambda call, *_: replace(call, key=str(random.random())))
    yield Break("pure", "rendered in two ways", Telegram, chance)
    altered = method("render", lambda call, message: message.metadata.update(x=1) or call)
    yield Break("pure", "changed the message", Telegram, altered)
    # This very module takes chance, so a dialect that is made here touches the world.
    yield Break("no-world", "random", Telegram, {"__module__": __name__})


def hearing() -> Iterator[Break]:
    """What it hears."""
    law = "recorded-events"
    silent = heard(lambda found, _: replace(found, skipped=()))
    yield Break(law, "gave nothing", WhatsApp, silent)
    yield Break(law, "has no id", Telegram, messages(message_id=None))
    yield Break(law, "not in telegram/7001", Telegram, moved(account_id="8"))
    naive = messages(sent_at=lambda one: one.sent_at and one.sent_at.replace(tzinfo=None))
    yield Break(law, "has no zone", Telegram, naive)
    stranger = messages(actor=lambda one: replace(one.actor, is_self=False))
    yield Break(law, "is_self says otherwise", Discord, stranger)
    two_lines = heard(lambda found, _: replace(found, skipped=("a\nb",)))
    yield Break(law, "no short printable", Telegram, two_lines)
    sure = heard(lambda found, request: json.loads(request.body)["entry"] and found)
    yield Break("any-bytes", "raised", WhatsApp, sure)
    yield Break("any-bytes", "raised UnicodeDecodeError", Telegram, heard(unless_text))


def believing() -> Iterator[Break]:
    """Whom it believes."""
    for base in SPECIMENS:
        yield Break("signature", "believed", base, method("verify", lambda *_: True))
        yield Break("signature", "is not believed", base, method("verify", lambda *_: False))
    part = method("verify", lambda good, request: good or b"application_id" in request.body)
    yield Break("signature", "was turned", Discord, part)

    def without_time(self: Any, request: Any) -> bool:
        return bool(Discord.verify(self, replace(request, received_at=None)))

    yield Break("signature", "after it was signed", Discord, {"verify": without_time})
    law = "any-header"
    yield Break(law, "raised UnicodeDecodeError", Telegram, method("verify", unless_text))
    yield Break(law, "neither True nor False", Telegram, method("verify", lambda *_: None))
    easy = method("verify", lambda good, request: good or bool(request.headers))
    yield Break(law, "is believed", Telegram, easy)


def made_once() -> Iterator[Break]:
    """Who makes ids and addresses."""
    law = "one-maker"
    yield Break(law, "message_id is", Discord, proven(message_id="x"))
    yield Break(law, "id_space is", Matrix, proven(id_space="x"))
    for base in (Discord, Matrix):
        further = messages(conversation=lambda one: _below(one.conversation))
        yield Break(law, "conversation is", base, further)
    yield Break(law, "somebody else's", Discord, messages(direction="inbound", actor=Actor("x")))
    yield Break(law, "names the key", Discord, messages(token="another"))

    def of_past(**changes: Any) -> dict[str, Any]:
        def change(page: Any, *_: Any) -> Any:
            if not isinstance(page, Past):
                return page
            told = [replace(one, **changes) for one in page.messages]
            return replace(page, messages=tuple(told))

        return method("read_history", change)

    yield Break(law, "and history has", Discord, of_past(message_id="m-5001"))
    yield Break(law, "in history", Matrix, of_past(text="other"))
    yield Break(law, "in history", Twilio, of_past(actor=Actor("x")))
    yield Break(law, "is empty", Discord, method("read_history", lambda *_: Past()))
    for name in ("read_direct", "read_child"):
        place = method(name, lambda ref, *_: replace(ref, conversation_id="x"))
        yield Break(law, "two addresses", Discord, place)


def saying() -> Iterator[Break]:
    """What it says."""
    escaped = said(lambda text: text.replace("&", "&amp;"))
    yield Break("round-trip", "people read", Discord, escaped)
    deaf = messages(text=lambda one: one.text.lower())
    yield Break("round-trip", "is heard", Discord, deaf)
    yield Break("round-trip", "of its words", WhatsApp, said(lambda it: it.replace("w1", "")))
    yield Break("limits", "are allowed", Discord, said(lambda text: text + "."))
    yield Break("limits", "is not what people read", Discord, said(lambda text: text[:1500]))
    law = "any-text"
    yield Break(law, "raised UnicodeEncodeError", Discord, said(lambda it: it.encode().decode()))
    loose = method("render", lambda call, message: replace(call, url=f"{call.url}?{message.text}"))
    yield Break(law, "is said by", Discord, loose)
    header = method("render", lambda call, message: replace(call, headers={"x": message.text}))
    yield Break(law, "line feed", Discord, header)
    loud = body(b'"parse":[]', b'"parse":["everyone"]')
    yield Break("inert", "notifies ['everyone']", Discord, loud)
    loud = body(b'"m.mentions":{}', b'"m.mentions":{"room":true}')
    yield Break("inert", "notifies", Matrix, loud)


def understanding() -> Iterator[Break]:
    """What answers mean to it."""
    law = "any-answer"
    yield Break(law, "raised UnicodeDecodeError", Telegram, method("read", unless_text))
    yes = method("read", lambda *_: Sent(message_id="1"))
    yield Break(law, "taken for proof", Telegram, yes)
    yield Break(law, "for ever", Telegram, {"read": lambda self, call, given: call})
    yield Break(law, "is read as None", Telegram, method("read", lambda *_: None))
    yield Break(law, "read_history", Discord, method("read_history", lambda *_: None))
    yield Break(law, "read_file", WhatsApp, method("read_file", lambda *_: "bytes"))
    law, no = "refusals", Refused(failure=Failure.PERMANENT, reason="no")
    sure = method("read", lambda step, *_: no if isinstance(step, Doubt) else step)
    yield Break(law, "behind the deed", Telegram, sure)
    yield Break(law, "is rate_limited", Discord, refused(lambda *_: no))
    hasty = refused(lambda step, _: replace(step, wait=None))
    yield Break(law, "read was None", Matrix, hasty)
    unsure = refused(lambda step, given: step if given.body else Doubt(reason="?"))
    yield Break(law, "a bare 400 says no", Discord, unsure)


BREAKS = [
    one
    for part in (
        *(declared, connected, kept_apart, hearing, believing, made_once, saying, understanding),
    )
    for one in part()
]
