"""The laws of hearing: everything is counted, nothing is believed unsigned, ids are made once."""

from __future__ import annotations

import string
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from threadline.core.adapters import Children, Opening, Past, Remembering
from threadline.core.model import ConversationRef, InboundMessage
from threadline.core.wire import ApiCall, Request, Sent
from threadline.testing.laws import (
    KEY,
    STEPS,
    Law,
    broken,
    heard_in,
    parsed,
    rendered,
    rooms,
    saying,
    short,
    tried,
)
from threadline.testing.mutations import mutated, of_another_kind
from threadline.testing.specimen import Seal, Specimen

QUICK = dict[str, Any](
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
# Every byte of the shortest webhook is changed, and of each other one so many.
BYTES_EACH = 24
# Of a longer one it would take long to change every value.
MOST_BYTES = 5_000


def _count(heard: Any) -> int:
    return len(heard.messages) + len(heard.receipts) + len(heard.skipped) + int(heard.foreign)


def _recorded(specimen: Specimen) -> None:
    if not specimen.webhooks and specimen.says is not None:
        broken("the specimen has no `webhooks`.")
    for title, heard in heard_in(specimen).items():
        if not _count(heard) and title not in specimen.quiet:
            broken(f"webhook {title!r} gave nothing: no message, no receipt, no skip, no foreign.")
    if specimen.says is not None and not any(h.messages for h in heard_in(specimen).values()):
        broken("none of the webhooks says a message, so nothing of what follows was looked at.")


def _any_bytes(specimen: Specimen) -> None:
    dialect = specimen.made()
    requests = [specimen.signed(one) for one in specimen.webhooks.values()]
    requests = requests or [Request(method="POST", path="/", headers={}, body=b"{}")]

    @settings(max_examples=specimen.examples * 5, **QUICK)
    @given(st.sampled_from(requests), st.randoms(use_true_random=False))
    def bent(request: Request, random: Random) -> None:
        parsed(specimen, dialect, mutated(request, random), "a bent webhook")

    @settings(max_examples=specimen.examples, **QUICK)
    @given(st.sampled_from(requests), st.binary(max_size=200) | st.text(max_size=99).map(_utf8))
    def anything(request: Request, body: bytes) -> None:
        parsed(specimen, dialect, replace(request, body=body), "any bytes")

    bent()
    anything()
    for request in requests:
        if len(request.body) <= MOST_BYTES:
            for body in of_another_kind(request.body):
                parsed(specimen, dialect, replace(request, body=body), "a webhook of another kind")
    for body in (b'{"a":' + b"[" * 100_000, b"9" * 10_000, b"", b"null", b"\xff\xfe", b"[1]"):
        for request in requests[:3]:
            parsed(specimen, dialect, replace(request, body=body), "odd bytes")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- signatures ----------------------------------------------------------------------------------


def _verified(specimen: Specimen, dialect: Any, request: Request) -> bool:
    found = tried(
        f"verify of {short(dict(request.headers))} {short(request.body)}",
        lambda: dialect.verify(request),
    )
    if type(found) is not bool:
        broken(f"verify answered {short(found)}, neither True nor False.")
    return found


def _signature(specimen: Specimen) -> None:
    if specimen.sign is None:
        _nothing_is_believed(specimen)
        return
    dialect = specimen.made()
    ordered = sorted(specimen.webhooks.items(), key=lambda one: (len(one[1].body), one[0]))
    for number, (title, request) in enumerate(ordered):
        signed = specimen.signed(request)
        if not _verified(specimen, dialect, signed):
            broken(f"webhook {title!r} as the platform signs it is not believed.")
        every = range(len(signed.body))
        size = max(1, len(every) // BYTES_EACH)
        for at in every if number == 0 else every[number % size :: size]:
            body = bytearray(signed.body)
            body[at] ^= 1 << at % 8
            where = f"bit {at % 8} of byte {at} of webhook {title!r} was turned"
            _not_believed(specimen, dialect, signed, replace(signed, body=bytes(body)), where)
        for ended in (signed.body[:-1], signed.body + b" ", signed.body + b"0", b""):
            where = f"the body of webhook {title!r} became {short(ended[-20:])}"
            _not_believed(specimen, dialect, signed, replace(signed, body=ended), where)
        _headers_count(specimen, dialect, request, signed, title)
        other = replace(signed, query={**signed.query, "added": "1"})
        if _verified(specimen, dialect, other) and dialect.parse(other) != dialect.parse(signed):
            broken(f"with a query that was not signed, webhook {title!r} says something else.")
        _only_in_time(specimen, dialect, signed, title)
    _without_secret(specimen)


def _not_believed(
    specimen: Specimen, dialect: Any, signed: Request, other: Request, where: str
) -> None:
    if specimen.seal is Seal.NOTHING or other.body == signed.body:
        return
    if _verified(specimen, dialect, other):
        if specimen.seal is Seal.MEANING and dialect.parse(other) == dialect.parse(signed):
            return
        broken(f"{where}, and it is still believed.")


def _headers_count(
    specimen: Specimen, dialect: Any, bare: Request, signed: Request, title: str
) -> None:
    proofs = [name for name, v in signed.headers.items() if bare.headers.get(name) != v]
    if not proofs and bare.query == signed.query:
        broken("`sign` adds neither a header nor a query.")
    for name in proofs:
        given = signed.headers[name]
        without = {key: value for key, value in signed.headers.items() if key != name}
        if _verified(specimen, dialect, replace(signed, headers=without)):
            broken(f"webhook {title!r} is believed without its header {name}.")
        for at in range(len(given)):
            changed = given[:at] + another(given[at]) + given[at + 1 :]
            headers = {**signed.headers, name: changed}
            if _verified(specimen, dialect, replace(signed, headers=headers)):
                broken(f"webhook {title!r} is believed with {name}: {changed}")


def another(sign: str) -> str:
    """Another letter or digit, whatever case it is read in."""
    known = string.digits + string.ascii_lowercase
    return known[(known.find(sign.lower()) + 1) % len(known)]


def _only_in_time(specimen: Specimen, dialect: Any, signed: Request, title: str) -> None:
    if specimen.window is None:
        return
    if signed.received_at is None:
        broken("the specimen has a `window`, and its webhooks no `received_at`.")
    for late in (specimen.window * 1.01, -specimen.window * 1.01):
        if _verified(specimen, dialect, replace(signed, received_at=signed.received_at + late)):
            broken(f"webhook {title!r} is believed {late} after it was signed.")


def _without_secret(specimen: Specimen) -> None:
    bare = replace(specimen.account, credentials={}, settings={})
    dialect = tried("making it without credentials", lambda: specimen.made(bare))
    blank = replace(bare, credentials=dict.fromkeys(specimen.account.credentials, ""))
    for title, request in specimen.webhooks.items():
        for signed in (specimen.signed(request), specimen.signed(request, blank)):
            if _verified(specimen, dialect, signed):
                broken(f"webhook {title!r} is believed by an account that has no secret.")


def _nothing_is_believed(specimen: Specimen) -> None:
    for title, request in specimen.webhooks.items():
        if _verified(specimen, specimen.made(), request):
            broken(f"webhook {title!r} is believed, and the specimen cannot sign.")


def _any_header(specimen: Specimen) -> None:
    dialect = specimen.made()
    signed = [specimen.signed(one) for one in specimen.webhooks.values()]
    names = sorted({name for one in signed for name in one.headers} | {"authorization"})
    fields = sorted({name for one in signed for name in one.query} | {"token"})
    method = st.sampled_from(["POST", "GET", "PUT", "\x00"])
    known = {(name, value) for one in signed for name, value in one.headers.items()}
    known |= {(name, value) for one in signed for name, value in one.query.items()}

    @settings(max_examples=specimen.examples * 3, **QUICK)
    @given(
        method,
        st.dictionaries(st.sampled_from(names), st.text(max_size=140)),
        st.dictionaries(st.sampled_from(fields), st.text(max_size=20)),
        st.binary(max_size=80),
    )
    def headers(method: str, given: dict[str, str], query: dict[str, str], body: bytes) -> None:
        request = Request(method=method, path="/", headers=given, body=body, query=query)
        made_up = not known & {*given.items(), *query.items()}
        if _verified(specimen, dialect, request) and made_up:
            broken(f"{short(given)} {short(query)} {short(body)} is believed.")

    headers()


# --- one maker -----------------------------------------------------------------------------------


def _one_maker(specimen: Specimen) -> None:
    dialect = specimen.made()
    heard = heard_in(specimen)
    for title, found in heard.items():
        for message in found.messages:
            ref = message.conversation
            again = tried("ConversationRef.parse", partial(ConversationRef.parse, str(ref)))
            if again != ref:
                broken(f"the address {ref} in webhook {title!r} does not survive being text.")
    for ref in rooms(specimen):
        _said_is_heard(specimen, dialect, ref)
    if isinstance(dialect, Remembering):
        _needed(specimen.past, "past", "it can be asked for history")
        for title, answers in specimen.past.items():
            _same_past(specimen, dialect, _first(heard, title), answers, title)
    if isinstance(dialect, Opening):
        _needed(specimen.directs, "directs", "it opens conversations with people")
        for title, direct in specimen.directs.items():
            opened = _opened(dialect, direct)
            _same_place(opened, _first(heard, title).conversation, f"open_direct and {title!r}")
    if isinstance(dialect, Children) and specimen.says is not None:
        _needed(specimen.children, "children", "it opens threads")
        for title, child in specimen.children.items():
            call = dialect.open_child(child.room, child.root, "a title", KEY)
            made = dialect.read_child(child.room, call, child.answer)
            _same_place(made, _first(heard, title).conversation, f"open_child and {title!r}")


def _needed(given: Any, name: str, why: str) -> None:
    if not given:
        broken(f"{why}, so the specimen needs `{name}`.")


def _first(heard: dict[str, Any], title: str) -> InboundMessage:
    if title not in heard or not heard[title].messages:
        broken(f"there is no webhook {title!r} that says a message.")
    found: InboundMessage = heard[title].messages[0]
    return found


def _said_is_heard(specimen: Specimen, dialect: Any, ref: ConversationRef) -> None:
    """What is proven has the address and the id of what comes back."""
    message = saying(ref, "hello")
    call = rendered(dialect, message)
    answer = specimen.takes(call)
    sent = tried("read of the platform's yes", lambda: dialect.read(call, answer))
    if not isinstance(sent, Sent):
        broken(f"the platform's yes {short(answer.body)} is read as {short(sent)}, not as Sent.")
    where = sent.conversation or ref
    if where != ref:
        broken(f"what was said in {ref} is proven to be in {where}.")
    if specimen.echoes is None:
        return
    echo = specimen.signed(specimen.echoes(call, answer))
    found = parsed(specimen, dialect, echo, "the echo").messages
    if len(found) != 1:
        broken(f"the echo {short(echo.body)} gave {len(found)} messages.")
    back = found[0]
    for what, ours, theirs in (
        ("conversation", where, back.conversation),
        ("message_id", sent.message_id, back.message_id),
        ("id_space", sent.id_space, back.id_space),
        ("text", message.text, back.text),
    ):
        if ours != theirs:
            broken(f"{what} is {short(ours)} in what was sent, and {short(theirs)} in its echo.")
    if not back.actor.is_self:
        broken("the echo of our own message is somebody else's.")
    if back.token not in (None, KEY):
        broken(f"the echo names the key {short(back.token)}, and it was said under {KEY!r}.")


def _same_past(
    specimen: Specimen, dialect: Any, message: InboundMessage, answers: Any, title: str
) -> None:
    call: ApiCall | None = dialect.history(message.conversation)
    found: list[InboundMessage] = []
    for _ in range(STEPS):
        if call is None:
            break
        asked = call
        read = partial(dialect.read_history, message.conversation, asked, answers(asked))
        page = tried("read_history", read)
        if not isinstance(page, Past):
            broken(f"the page of history for {title!r} is read as {short(page)}.")
        found = [*page.messages, *found]
        call = page.older
    if not isinstance(message, InboundMessage) or not found:
        broken(f"the history that goes with webhook {title!r} is empty.")
    same = [one for one in found if one.message_id == message.message_id]
    if len(same) != 1:
        ids = [one.message_id for one in found]
        broken(f"{message.message_id!r} was heard in {title!r}, and history has {short(ids)}.")
    for name in ("conversation", "id_space", "text", "direction", "event", "reply_to", "revises"):
        live, past = getattr(message, name), getattr(same[0], name)
        if live != past:
            broken(f"{name} is {short(live)} when heard and {short(past)} in history ({title!r}).")
    if message.actor.id != same[0].actor.id:
        broken(f"{message.actor.id!r} said {title!r}, and {same[0].actor.id!r} in history.")


def _opened(dialect: Any, direct: Any) -> Any:
    step = dialect.open_direct(direct.address, KEY)
    for _ in range(STEPS):
        if not isinstance(step, ApiCall):
            break
        step = dialect.read_direct(direct.address, step, direct.answers(step))
    return step


def _same_place(made: Any, heard: ConversationRef, what: str) -> None:
    if not isinstance(made, ConversationRef):
        broken(f"{what}: no conversation came of it but {short(made)}.")
    if made != heard:
        broken(f"{what} give two addresses: {made} and {heard}.")


HEARING = (
    Law(
        "recorded-events",
        "every recorded event gives records, receipts, or a counted skip, and may be recorded.",
        "add a case for the event, or name it in Heard.skipped; bend values that no transcript "
        "takes with threadline.core.values.",
        _recorded,
    ),
    Law(
        "any-bytes",
        "whatever bytes come, parse answers, and what it answers may be recorded.",
        "take every value with the total readers of threadline.core.values (json_object, ident, "
        "said); catch InvalidConversation where an address is made, and skip.",
        _any_bytes,
    ),
    Law(
        "signature",
        "only what the platform signed is believed, to the last byte and in its time.",
        "compute the signature over request.body as it is, compare with hmac.compare_digest, "
        "answer False without a secret, and hold the signed time against request.received_at.",
        _signature,
    ),
    Law(
        "any-header",
        "whatever headers and bytes come, verify answers True or False, and never by accident.",
        "encode texts with errors='replace' or 'surrogatepass' before you compare them, and let "
        "nothing raise.",
        _any_header,
    ),
    Law(
        "one-maker",
        "parse, read, history and openings give the same message the same id and address.",
        "make refs in one function and ids in one function, and call them from everywhere.",
        _one_maker,
    ),
)
