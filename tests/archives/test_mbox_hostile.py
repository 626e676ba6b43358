"""Mail archives that break off, swell or lie: no mail harms another, and nothing is hidden."""

from __future__ import annotations

import base64
import io
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.archives.mbox import Mbox
from threadline.core.archive import Account, Ended, Item, Options, Place, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import InboundMessage

ACCOUNT = Account(provider="mail", account_id="agent@lists.example")
FROM = b"From ann@a.example Fri Apr  1 09:00:00 2016\n"


@dataclass
class Held:
    """A source that is in memory."""

    files: dict[str, bytes]
    title: str = "mails"

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])


def read(data: bytes, **options: Any) -> tuple[list[Item], Tally]:
    tally = Tally()
    source = Held({"list.mbox": data})
    return list(Mbox().read(source, ACCOUNT, Options(**options), tally)), tally


def said(items: list[Item]) -> list[InboundMessage]:
    return [item for item in items if isinstance(item, InboundMessage)]


def mail(*headers: str, body: str | bytes = "hi", sender: str = "Ann <ann@a.example>") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = "\n".join([f"From: {sender}", *headers]).encode("utf-8", "surrogateescape")
    return FROM + head + b"\n\n" + data + b"\n\n"


def only(data: bytes, **options: Any) -> InboundMessage:
    [message] = said(read(data, **options)[0])
    return message


def test_a_large_file_in_a_mail_is_counted_and_not_held() -> None:
    data = base64.b64encode(bytes(3000)) + b"\n"
    head = "--o\nContent-Type: text/plain\n\nsee below\n--o\nContent-Type: application/zip\n"
    body = f"{head}Content-Transfer-Encoding: base64\n\n".encode() + data * 8000 + b"--o--\n"
    archive = mail("Content-Type: multipart/mixed; boundary=o", body=body)

    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        message = only(archive)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert message.attachments[0].size == 3000 * 8000
    assert message.text == "see below"
    assert peak - before < 4 * 1024 * 1024 < len(archive)


def test_a_mail_without_end_is_cut_and_said_to_be() -> None:
    items, tally = read(mail(body=(b"words " * 1000 + b"\n") * 2000))

    [message] = said(items)
    assert len(message.text.encode()) <= 4 * 1024 * 1024
    assert "too large" in tally.problems[0]
    assert "longer than 4 MiB" in tally.problems[1]


def test_an_archive_cut_inside_a_part_is_noted(exports: Path) -> None:
    data = (exports / "mbox-mimekit-1.mbox").read_bytes()
    inside = data.index(b"Body of message 4.", data.index(b"Message 4"))

    whole, _ = read(data)
    items, tally = read(data[: inside + 5])

    assert len(said(items)) == len(said(whole))
    assert any("breaks off inside one of its parts" in problem for problem in tally.problems)


def test_an_archive_cut_anywhere_gives_only_mails_that_were_in_it(exports: Path) -> None:
    data = (exports / "mbox-made-1.mbox").read_bytes()
    whole = [message.message_id for message in said(read(data)[0])]

    for offset in range(1, len(data), 1733):
        try:
            items, tally = read(data[:offset])
        except ArchiveError:
            assert offset < 100
            continue
        ids = [message.message_id for message in said(items)]
        assert ids[:-1] == whole[: max(0, len(ids) - 1)]
        assert len(tally.problems) <= 2


@pytest.mark.parametrize(
    "cut", ["From bob@b.exam", "From bob@b.example Sat Apr  2 09:00:00 2016\n"]
)
def test_an_archive_that_ends_in_a_separator_is_noted(cut: str) -> None:
    items, tally = read(mail(body="one") + cut.encode())

    assert [message.text for message in said(items)] == ["one"]
    assert "no mail behind this From line" in tally.problems[0]


def test_an_archive_that_ends_in_headers_is_noted() -> None:
    _, tally = read(FROM + b"From: ann@a.example\nSubject: hal")

    assert tally.problems == ["list.mbox: line 1: the mail ends in its headers."]


HOSTILE = [
    "From: " + "(" * 5000 + "a@b",
    "From: " + "<" * 5000,
    "From: =?utf-8?B?====?= =?hex?Q?00?= =?punycode?Q?a?= <a@b>",
    "Subject: =?iso-2022-jp?B?GyRC?= =?utf-7?Q?+AGEA?= \x00 \udcff",
    "Date: " + "9" * 6000,
    "Date: Mon, 1 Jan 99999999999 00:00:00 +00",
    "Message-ID: <" + "x" * 5000 + "@y>",
    "Message-ID: <\x00@y>",
    "Message-ID: <>",
    "References: " + "<a" * 5000,
    "Content-Type: text/plain; charset=" + "x" * 5000,
    "Content-Type: text/plain; charset=unicode_escape",
    "Content-Type: text/plain; charset*=utf-8''%00%ff",
    "Content-Type: ///;;;===",
    "Content-Type: image/png; name*999999999999999999999999=x; name*0=a; name*0=b",
    "Content-Type: multipart/mixed",
    "Content-Type: multipart/mixed; boundary=" + "[" * 500,
    "Content-Type: message/rfc822",
    "Content-Transfer-Encoding: uuencode",
    "Content-Transfer-Encoding: base64",
    "Content-Transfer-Encoding: quoted-printable",
    "Content-Disposition: attachment; filename=" + "../" * 500 + "\x00",
    "Content-ID: <\udcff\x00>",
    "no colon here at all",
]


@pytest.mark.parametrize("header", HOSTILE, ids=[header[:24] for header in HOSTILE])
def test_a_hostile_header_harms_no_other_mail(header: str) -> None:
    bad = FROM + header.encode("utf-8", "surrogateescape") + b"\n\nbody \x00 =\xff\n\n"
    good = mail("Message-ID: <good@x>", body="good")

    items, tally = read(bad + good)

    assert said(items)[-1].text == "good"
    assert len(said(items)) + tally.skipped["malformed"] >= 2
    for message in said(items):
        for text in (message.text, message.actor.name, message.actor.id, str(message.metadata)):
            assert "\x00" not in text
            text.encode()
        for attachment in message.attachments:
            assert "/" not in attachment.name
            assert "\x00" not in attachment.name + attachment.id


def test_parts_nested_without_end_harm_no_other_mail() -> None:
    body = "".join(
        f"--b{n}\nContent-Type: multipart/mixed; boundary=b{n + 1}\n\n" for n in range(3000)
    )

    items, tally = read(
        mail("Content-Type: multipart/mixed; boundary=b0", body=body) + mail(body="good")
    )

    assert said(items)[-1].text == "good"
    assert tally.problems


@pytest.mark.parametrize("data", [b"hello\n", b"From me to you\nhello\n", b"\xff\xfe\n\x00", b"{}"])
def test_what_does_not_begin_with_a_from_line_is_refused(data: bytes) -> None:
    assert not Mbox().recognises(Held({"list.mbox": data}))
    with pytest.raises(ArchiveError, match=r"list\.mbox: line 1"):
        read(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", FROM, FROM + b"From: a@b\n"]))
def test_random_bytes_are_refused_by_name_or_read(data: bytes, before: bytes) -> None:
    source = Held({"list.mbox": before + data})
    Mbox().recognises(source)
    try:
        items = list(Mbox().read(source, ACCOUNT, Options(), Tally()))
    except ArchiveError as refused:
        items, where = [], str(refused)
    else:
        where = "list.mbox"
    assert "list.mbox" in where
    for message in said(items):
        message.text.encode()
        assert "\x00" not in message.text


WORDS = [
    *(FROM, b"\n", b"--x\n", b"--x--\n", b"From: a@b\n", b"Message-ID: <a@b>\n", b">From \n"),
    *(b"Content-Type: multipart/mixed; boundary=x\n", b"Content-Type: text/html\n", b"QUJD\n"),
    *(b"Content-Transfer-Encoding: base64\n", b"Content-Type: image/png\n", b"<p>\xff<!\n"),
    *(b"Content-Type: message/rfc822\n", b"In-Reply-To: <a@b> <c@d>\n", b" folded\n"),
]
LINES = st.lists(st.sampled_from(WORDS), max_size=25)


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_no_order_of_lines_ends_the_reading_with_an_error(lines: list[bytes]) -> None:
    items, _ = read(FROM + b"".join(lines))

    assert all(isinstance(item, Place | InboundMessage | Ended) for item in items)


@pytest.mark.parametrize("markup", ["<a ", "<b>", "<!--", "<", "<a href='", "</", "&#", "<pre>"])
def test_broken_markup_is_read_in_bounded_time(markup: str) -> None:
    started = time.perf_counter()

    [message] = said(read(mail("Content-Type: text/html", body="hi " + markup * 250_000))[0])

    assert message.text.startswith("hi")
    assert time.perf_counter() - started < 20
