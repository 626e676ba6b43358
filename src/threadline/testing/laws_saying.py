"""The laws of saying: people read what was written, nobody is called by accident, each answer has
one meaning."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from threadline.core.adapters import (
    Children,
    Connectable,
    Fetching,
    Identity,
    Lookup,
    Opening,
    Past,
    Remembering,
)
from threadline.core.deliveries import Failure
from threadline.core.model import Attachment, ConversationRef
from threadline.core.rules.splitting import cuts, length, parts
from threadline.core.values import ident
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused, Request, Sent
from threadline.testing.laws import (
    KEY,
    STEPS,
    Law,
    broken,
    parsed,
    rendered,
    rooms,
    saying,
    short,
    tried,
)
from threadline.testing.laws_hearing import QUICK
from threadline.testing.mutations import ODD, mutated, of_another_kind
from threadline.testing.specimen import Specimen

# No sign of these is markup anywhere; what only looks like an entity is among them. Space around a
# text is not: platforms trim it.
PLAIN = st.lists(
    st.sampled_from(
        (
            *(
                "word",
                "né",
                "ẞ",
                "日本語",
                "שלום",
                "👩‍🚀",
                "🎉",
                "e\u0301",
                "𝕏",
                "0",
                "?",
                ",",
                ";",
            ),
            *("a < b", "a & b", "&amp;", "&lt;b&gt;", "<b>", "</b>", '"quoted"', "they're", "50%"),
            *("© – …", "x\ny", "C:/x", "{}", "$HOME", "a=b", "\N{NO-BREAK SPACE}y"),
        )
    ),
    min_size=1,
    max_size=30,
).map(lambda pieces: " ".join(pieces).strip())
MARKS = ("**{}**", "*{}*", "_{}_", "__{}__", "~~{}~~", "`{}`", "# {}", "> {}", "- {}", "1. {}")
WORDS = st.lists(st.from_regex(r"w[0-9]{1,3}", fullmatch=True), min_size=1, max_size=6)
MARKED = st.lists(
    st.builds(lambda mark, words: mark.format(" ".join(words)), st.sampled_from(MARKS), WORDS),
    min_size=1,
    max_size=8,
).flatmap(lambda pieces: st.sampled_from([" ".join(pieces), "\n".join(pieces)]))
SIGNS = st.lists(
    st.sampled_from(
        (
            *("*", "**", "_", "__", "~~", "`", "```", "[", "](https://e.org/a_(b)?c=1&d=2)", ")"),
            *("```py\n", "~~~\n", "\n", "\r\n", " ", "# ", "> ", "- ", "|", "\\", "<", "&", "word"),
            *("@ada", "<@101>", "🎉", "e\u0301", "&amp;", '"'),
        )
    ),
    max_size=50,
).map("".join)


def _round_trip(specimen: Specimen) -> None:
    dialect = specimen.made()
    ref = rooms(specimen)[0]

    def comes_back(text: str) -> None:
        shown = specimen.shows(rendered(dialect, saying(ref, text)))
        if shown != text:
            broken(f"{short(text)} was said, and people read {short(shown)}.")
        if specimen.says is None:
            return
        request = specimen.signed(specimen.says(shown))
        found = parsed(specimen, dialect, request, "what a person says").messages
        if [one.text for one in found] != [text]:
            heard = [one.text for one in found]
            broken(f"a person says {short(text)}, and {short(heard)} is heard.")

    @settings(max_examples=specimen.examples * 2, **QUICK)
    @given(PLAIN)
    @example('They\'re "quoted" © 50% – <b>ok</b> & co.')
    @example("&amp;lt; 👩‍🚀👩🏽‍🚀 \N{ZERO WIDTH JOINER} שלום")
    def plain(text: str) -> None:
        comes_back(text)

    @settings(max_examples=specimen.examples, **QUICK)
    @given(MARKED)
    def marked(text: str) -> None:
        shown = specimen.shows(rendered(dialect, saying(ref, text)))
        words, read = re.findall(r"w\d+", text), re.findall(r"w\d+", shown)
        if words != read:
            broken(f"{short(text)} was said, and of its words people read {short(shown)}.")

    plain()
    marked()


def _limits(specimen: Specimen) -> None:
    dialect = specimen.made()
    can, ref = dialect.capabilities, rooms(specimen)[0]

    def fits(text: str) -> None:
        if length(text, can.unit) > can.max_length:
            return
        shown = specimen.shows(rendered(dialect, saying(ref, text)))
        if length(shown, can.unit) > can.max_length:
            broken(
                f"a text of {length(text, can.unit)} {can.unit} is shown with "
                f"{length(shown, can.unit)}, and {can.max_length} are allowed: {short(text)}"
            )

    @settings(max_examples=specimen.examples, **QUICK)
    @given(SIGNS | PLAIN)
    def full(text: str) -> None:
        fits(text)
        size = max(1, length(text, can.unit))
        fits(text * (can.max_length // size))

    full()
    for piece in ("word 👩‍🚀 né. ", "日本語", "x", "line\n"):
        text = piece * (3 * can.max_length // length(piece, can.unit))
        ends = cuts(text, can.max_length, can.unit, list)
        said = [
            specimen.shows(rendered(dialect, saying(ref, part, part=number, parts=len(ends) or 1)))
            for number, part in enumerate(parts(text, ends), 1)
        ]
        if "".join(said) != text:
            broken(f"{short(text)} in {len(said)} parts is not what people read in them.")
        if any(length(one, can.unit) > can.max_length for one in said):
            broken(f"a part of {short(text)} is longer than {can.max_length} {can.unit}.")


def _any_text(specimen: Specimen) -> None:
    dialect = specimen.made()
    places = rooms(specimen)

    @settings(max_examples=specimen.examples * 2, **QUICK)
    @given(
        st.sampled_from(places),
        SIGNS | st.text(max_size=60) | st.sampled_from([x for x in ODD if isinstance(x, str)]),
        st.none() | st.sampled_from(["5001", "$1", "x/../y", "\x00", "9" * 40]),
        st.integers(1, 3),
    )
    @example(places[0], "\ud800", None, 1)
    @example(places[0], "a\x00b\r\nc", None, 1)
    @example(places[0], "", None, 1)
    def anything(ref: ConversationRef, text: str, reply_to: str | None, part: int) -> None:
        message = saying(ref, text, reply_to=reply_to, part=part, parts=3)
        call = rendered(dialect, message)
        if not call.method.isalpha() or "://" not in call.url or not call.url.isascii():
            broken(f"{short(text)} is said by {call.method} {short(call.url)}.")
        for name, value in call.headers.items():
            if "\n" in name + value or "\r" in name + value:
                broken(f"{short(text)} puts a line feed into the header {name}.")

    anything()


def _inert(specimen: Specimen) -> None:
    dialect = specimen.made()
    for ref in rooms(specimen):
        for sign in specimen.mentions:
            for form in ("{}", "**{}** now", "see [{}](https://e.org)", "`{}`", "x\n{}\n> {}"):
                text = form.replace("{}", sign)
                pinged = list(specimen.pings(rendered(dialect, saying(ref, text))))
                if pinged:
                    broken(f"{short(text)} notifies {short(pinged)} in {ref}.")


# --- answers -------------------------------------------------------------------------------------


def _answers(specimen: Specimen) -> st.SearchStrategy[ApiResponse]:
    """Any status with any body: bytes, and what the platform says, bent."""
    known = _known(specimen)

    def bent(answer: ApiResponse, random: Random) -> bytes:
        return mutated(Request(method="", path="", headers={}, body=answer.body), random).body

    bodies = st.binary(max_size=80) | st.builds(
        bent, st.sampled_from(known), st.randoms(use_true_random=False)
    )
    names = sorted({name for one in known for name in one.headers} | {"retry-after", "location"})
    return st.builds(
        lambda status, body, headers: ApiResponse(status=status, body=body, headers=headers),
        st.sampled_from([200, 201, 400, 403, 404, 409, 413, 429, 500, 503]) | st.integers(100, 999),
        bodies,
        st.dictionaries(st.sampled_from(names), st.text(max_size=30)),
    )


def _known(specimen: Specimen) -> list[ApiResponse]:
    """What the platform answers, as far as the specimen says."""
    call = rendered(specimen.made(), saying(rooms(specimen)[0], "hello"))
    refusals = [one.answer for one in specimen.refusals]
    return [specimen.takes(call), *refusals, *specimen.checks]


def _any_answer(specimen: Specimen) -> None:
    dialect = specimen.made()
    refs = rooms(specimen)
    answers = _answers(specimen)

    @settings(max_examples=specimen.examples * 4, **QUICK)
    @given(st.sampled_from(refs), st.sampled_from(["hello", "**hello**"]), answers)
    def read(ref: ConversationRef, text: str, answer: ApiResponse) -> None:
        step: Any = rendered(dialect, saying(ref, text, reply_to="5001"))
        step = _through(dialect.read, step, answer, "read")
        if not isinstance(step, Sent | Refused | Doubt):
            broken(f"{short(answer)} is read as {short(step)}.")
        if isinstance(step, Sent) and not 200 <= answer.status < 300:
            broken(f"{short(answer)} is taken for proof: {short(step)}.")
        if isinstance(step, Sent) and ident(step.message_id) is None:
            broken(f"{short(answer)} is proof under {short(step.message_id)}.")

    @settings(max_examples=specimen.examples, **QUICK)
    @given(st.sampled_from(refs), answers)
    def others(ref: ConversationRef, answer: ApiResponse) -> None:
        for name, step, reader, kinds in _readers(specimen, dialect, ref):
            made = _through(reader, step, answer, name)
            if not isinstance(made, kinds):
                broken(f"{name}: {short(answer)} is read as {short(made)}.")

    read()
    others()
    call = rendered(dialect, saying(refs[0], "**hello**", reply_to="5001"))
    for known in _known(specimen):
        for body in of_another_kind(known.body):
            for status in (known.status, 200, 400, 429, 500):
                answer = replace(known, status=status, body=body)
                step = _through(dialect.read, call, answer, "read")
                if not isinstance(step, Sent | Refused | Doubt):
                    broken(f"{short(answer)} is read as {short(step)}.")


def _through(reader: Any, call: ApiCall, answer: ApiResponse, name: str) -> Any:
    """What it comes to where every further call is answered alike."""
    step: Any = call
    for _ in range(STEPS):
        step = tried(f"{name} of {short(answer)}", partial(reader, step, answer))
        if not isinstance(step, ApiCall):
            return step
    broken(f"{name} goes on asking for ever while it is answered {short(answer)}.")


def _readers(
    specimen: Specimen, dialect: Any, ref: ConversationRef
) -> list[tuple[str, ApiCall, Any, Any]]:
    found: list[tuple[str, ApiCall, Any, Any]] = []
    no = Refused | Doubt
    if isinstance(dialect, Connectable):
        found.append(("read_check", dialect.check(), dialect.read_check, Identity | no))
    if isinstance(dialect, Remembering):
        reader: Any = lambda call, answer: dialect.read_history(ref, call, answer)  # noqa: E731
        found.append(("read_history", dialect.history(ref), reader, Past | no))
    if isinstance(dialect, Children):
        reader = lambda call, answer: dialect.read_child(ref, call, answer)  # noqa: E731
        call = dialect.open_child(ref, None, "a title", KEY)
        found.append(("read_child", call, reader, ConversationRef | no))
    if isinstance(dialect, Opening):
        for direct in list(specimen.directs.values())[:1]:
            reader = lambda call, answer, a=direct.address: dialect.read_direct(a, call, answer)  # noqa: E731
            call = dialect.open_direct(direct.address, KEY)
            found.append(("read_direct", call, reader, ConversationRef | no))
    if isinstance(dialect, Fetching):
        for file in (Attachment(id="f1"), Attachment(id="f/1", url="https://files.example/1")):
            reader = lambda call, answer, f=file: dialect.read_file(f, call, answer)  # noqa: E731
            found.append(("read_file", dialect.file(file), reader, bytes | no))
    if isinstance(dialect, Lookup):
        found.append(("found", dialect.look_up(saying(ref, "hello")), dialect.found, Sent | no))
    return found


def _refusals(specimen: Specimen) -> None:
    dialect = specimen.made()
    for ref in rooms(specimen)[:3]:
        call = rendered(dialect, saying(ref, "hello"))
        for refusal in specimen.refusals:
            step = _through(dialect.read, call, refusal.answer, "read")
            if not isinstance(step, Refused) or step.failure is not refusal.failure:
                broken(
                    f"{short(refusal.answer)} is {refusal.failure}, and is read as {short(step)}."
                )
            if refusal.wait is not None and step.wait != refusal.wait:
                broken(f"{short(refusal.answer)} states {refusal.wait} s; read was {step.wait}.")
            if not step.reason or not step.reason.isprintable():
                broken(f"the reason of {short(refusal.answer)} is {short(step.reason)}.")
        for status, body in ((500, b""), (502, b"<html>"), (504, b"{}"), (408, b"")):
            step = _through(dialect.read, call, ApiResponse(status=status, body=body), "read")
            if not isinstance(step, Doubt):
                broken(
                    f"a bare {status} may come from behind the deed; it is read as {short(step)}."
                )
        for status in (400, 401, 403, 404):
            step = _through(dialect.read, call, ApiResponse(status=status), "read")
            if not isinstance(step, Refused):
                broken(f"a bare {status} says no; it is read as {short(step)}.")
        step = _through(dialect.read, call, ApiResponse(status=200, body=b"<html>"), "read")
        if not isinstance(step, Doubt):
            broken(f"a 200 that names no message proves nothing; it is read as {short(step)}.")
        answer = ApiResponse(status=429)
        step = _through(dialect.read, call, answer, "read")
        if not isinstance(step, Refused) or step.failure is not Failure.RATE_LIMITED:
            broken(f"a bare 429 is a rate limit; it is read as {short(step)}.")
    limited = [one for one in specimen.refusals if one.failure is Failure.RATE_LIMITED]
    if not any(one.wait is not None for one in limited):
        broken("`refusals` has no rate limit with its `wait`.")


SAYING = (
    Law(
        "round-trip",
        "people read what was written, sign for sign, and what they write is heard so.",
        "escape what the platform takes for markup when you render, undo exactly that when you "
        "parse, and leave every other sign alone.",
        _round_trip,
    ),
    Law(
        "limits",
        "a text that fits is not rendered longer, and a long one loses nothing in its parts.",
        "count max_length in the platform's own unit, and keep what rendering adds out of it or "
        "below it.",
        _limits,
    ),
    Law(
        "any-text",
        "render answers with a call that may be sent, whatever the text and the ids.",
        "encode with errors='replace', and quote every id that becomes part of a URL.",
        _any_text,
    ),
    Law(
        "inert",
        "no text notifies a crowd, or anybody, by what merely looks like a mention.",
        "switch mentions off in the call (allowed_mentions, parse modes), or escape their signs.",
        _inert,
    ),
    Law(
        "any-answer",
        "every status with every body means Sent, Refused, Doubt or a further call that ends.",
        "read bodies with json_object and ident of threadline.core.values, ask again at most once, "
        "and leave the rest to threadline.adapters.answers.by_status.",
        _any_answer,
    ),
    Law(
        "refusals",
        "a no is classified with its wait, and what may have been said is in doubt.",
        "map the platform's codes to Failure; a 5xx and a 200 without an id are Doubt, unless the "
        "platform promises otherwise.",
        _refusals,
    ),
)
