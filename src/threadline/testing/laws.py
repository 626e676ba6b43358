"""What a law of the contract is, and what all of them look at a dialect with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from threadline.core.adapters import Account, Capabilities
from threadline.core.errors import ThreadlineError
from threadline.core.model import ConversationRef, InboundMessage
from threadline.core.rules.admission import checked
from threadline.core.rules.limits import LIMITS
from threadline.core.wire import ApiCall, Heard, OutboundMessage, Request
from threadline.testing.specimen import LawBroken, Specimen

# Two ids and a part, as the outbox makes them.
KEY, OTHER_KEY = "0000000000001.7zzzzzzzzzzzz.1", "0000000000001.7zzzzzzzzzzzy.1"
STEPS = 8


@dataclass(frozen=True, slots=True)
class Law:
    """One law: what has to hold, what to do where it does not, and how it is looked at.

    `check` raises `LawBroken` with what was seen. `applies` says whether a dialect can be held to
    it at all.
    """

    name: str
    sentence: str
    advice: str
    check: Callable[[Specimen], None]
    applies: Callable[[Specimen], bool] = lambda specimen: True

    def hold(self, specimen: Specimen) -> None:
        """Nothing, or `LawBroken` with all that a reader needs; it comes from the dialect's own
        exception, where there was one."""
        __tracebackhide__ = True
        try:
            self.check(specimen)
        except LawBroken as error:
            raise LawBroken(
                f"{specimen.name} breaks a law of the contract.\n"
                f"  Law:  {self.name}: {self.sentence}\n"
                f"  Seen: {error}\n"
                f"  Do:   {self.advice}"
            ) from error.__context__

    def __str__(self) -> str:
        return self.name


def broken(seen: str) -> NoReturn:
    """Raise `LawBroken` with what was seen."""
    raise LawBroken(seen)


def tried(what: str, call: Callable[[], Any]) -> Any:
    """What a call answers; an exception of it is a broken law."""
    try:
        return call()
    except LawBroken:
        raise
    except Exception as error:
        broken(f"{what} raised {type(error).__name__}: {error}"[:1500])


def short(value: object, most: int = 300) -> str:
    """A value as a failure shows it."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def parsed(specimen: Specimen, dialect: Any, request: Request, title: str) -> Heard:
    """What is heard, held to what may be recorded at all."""
    heard = tried(f"parse of {title} {short(request.body)}", lambda: dialect.parse(request))
    if not isinstance(heard, Heard):
        broken(f"parse of {title} gave {short(heard)}, not a Heard.")
    for message in heard.messages:
        _recordable(specimen, message, title, request)
    for receipt in heard.receipts:
        _ours(specimen, receipt.conversation, f"a receipt in {title}")
        if not isinstance(receipt.message_id, str) or not receipt.message_id:
            broken(f"a receipt in {title} names no message: {short(receipt)}")
    for word in heard.skipped:
        if not isinstance(word, str) or not 0 < len(word) <= 200 or not word.isprintable():
            broken(f"{title} is skipped under {short(word)}, which is no short printable word.")
    return heard


def _recordable(specimen: Specimen, message: InboundMessage, title: str, request: Request) -> None:
    try:
        checked(message, LIMITS)
    except ThreadlineError as error:
        broken(
            f"a message in {title} may not be recorded ({error}): {short(message)}\n"
            f"        It was heard in {short(request.body, 1000)}"
        )
    if not message.message_id:
        broken(f"a message in {title} has no id, so its redelivery would be another one.")
    refs = (message.conversation, message.parent, *message.same_as)
    for ref in refs:
        if ref is not None:
            _ours(specimen, ref, title)
    if message.actor.is_self != (message.direction == "outbound"):
        broken(f"a message in {title} is {message.direction} and its actor.is_self says otherwise.")


def _ours(specimen: Specimen, ref: ConversationRef, title: str) -> None:
    account = specimen.account
    mine = (account.scope_id, account.provider, account.account_id)
    if (ref.scope_id, ref.provider, ref.account_id) != mine:
        broken(f"{title} has the address {ref}, which is not in {'/'.join(mine[1:])}.")


def heard_in(specimen: Specimen) -> dict[str, Heard]:
    """What the account hears in each of its recorded webhooks."""
    dialect = specimen.made()
    return {
        title: parsed(specimen, dialect, specimen.signed(request), f"webhook {title!r}")
        for title, request in specimen.webhooks.items()
    }


def rooms(specimen: Specimen) -> list[ConversationRef]:
    """Where it may be asked to speak: where somebody was heard, and where else it is said to."""
    found = dict.fromkeys(specimen.places)
    for heard in heard_in(specimen).values():
        found.update(dict.fromkeys(one.conversation for one in heard.messages))
    if not found:
        broken("no webhook of the specimen says anything, and it has no `places`.")
    return list(found)


def saying(ref: ConversationRef, text: str, key: str = KEY, **more: Any) -> OutboundMessage:
    """Something to say."""
    return OutboundMessage(conversation=ref, text=text, key=key, session_id="agent", **more)


def rendered(dialect: Any, message: OutboundMessage) -> ApiCall:
    """The call that says it."""
    call = tried(f"render of {short(message.text)}", lambda: dialect.render(message))
    if not isinstance(call, ApiCall):
        broken(f"render of {short(message.text)} gave {short(call)}, not an ApiCall.")
    return call


def calls(specimen: Specimen, dialect: Any) -> Iterator[tuple[str, ApiCall]]:
    """Every call a dialect can be asked for, by what it is for."""
    refs = rooms(specimen)
    for ref in refs:
        yield "render", rendered(dialect, saying(ref, "hello"))
        yield "render an answer", rendered(dialect, saying(ref, "**hello**", reply_to="5001"))
    for name, arguments in (
        ("history", (refs[0],)),
        ("open_child", (refs[0], None, "a title", KEY)),
        ("open_direct", (_address(specimen), KEY)),
        ("check", ()),
        ("challenge", ("words",)),
        ("look_up", (saying(refs[0], "hello"),)),
    ):
        if hasattr(dialect, name):
            made = tried(name, partial(getattr(dialect, name), *arguments))
            yield name, made
    if hasattr(dialect, "webhook"):
        for url in ("https://line.example/v1/webhooks/x/y", None):
            call = tried("webhook", partial(dialect.webhook, url))
            if call is not None:
                yield "webhook", call


def _address(specimen: Specimen) -> str:
    return next((one.address for one in specimen.directs.values()), "101")


def connecting(specimen: Specimen) -> Account:
    """The account as it is while it is being connected: nobody knows yet who it is."""
    return replace(specimen.account, account_id="", capabilities=Capabilities())
