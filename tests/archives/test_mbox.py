"""Mail archives: mails are found, woven into conversations and read, whatever they hold."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import pytest

from threadline.archives.mbox import Mbox
from threadline.core.archive import Account, Ended, Item, Options, Place, Tally
from threadline.core.model import InboundMessage, Kind

ACCOUNT = Account(provider="mail", account_id="agent@lists.example")
FILES = ["made-1", "mimekit-1", "mimekit-2", "nodembox-1", "nodembox-2"]
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


def counted(exports: Path, name: str) -> dict[str, Any]:
    for line in (exports.parent / "counts.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["file"] == f"exports/{name}":
            return row
    raise LookupError(name)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_an_archive_gives_the_figures_that_were_counted_independently(
    exports: Path, name: str
) -> None:
    file = f"mbox-{name}.mbox"
    row = counted(exports, file)

    items, tally = read((exports / file).read_bytes())

    def stamp(moment: datetime | None) -> str | None:
        return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"

    odd = ("no_message_id", "repeated_message_id", "no_date", "bad_date")
    for kind in ("messages", "system", *odd):
        assert tally.counts[kind] == row.get(kind, 0), kind
    assert len([item for item in items if isinstance(item, Place)]) == row["conversations"]
    assert len(tally.authors) == row["authors"]
    assert (stamp(tally.first), stamp(tally.last)) == (row["first"], row["last"])
    assert len(said(items)) == row["messages"]
    ids = {message.message_id for message in said(items)}
    assert len(ids) == row["messages"] - row.get("repeated_message_id", 0)


def test_a_place_comes_before_its_mails_and_an_end_after_them(exports: Path) -> None:
    items, _ = read((exports / "mbox-made-1.mbox").read_bytes())

    open_places = set()
    for item in items:
        match item:
            case Place(ref=ref):
                assert ref.kind is Kind.ROOM
                open_places.add(ref)
            case Ended(ref=ref):
                open_places.remove(ref)
            case InboundMessage(conversation=ref):
                assert ref in open_places
    assert not open_places


def test_no_other_file_is_taken_for_a_mail_archive(exports: Path) -> None:
    for folder in (exports, exports.parent / "webhooks"):
        for path in folder.iterdir() if folder.is_dir() else ():
            source = Held({path.name: path.read_bytes()})
            assert Mbox().recognises(source) == path.name.startswith("mbox-"), path.name


def test_words_in_every_charset_of_the_archive_are_read(exports: Path) -> None:
    items, tally = read((exports / "mbox-made-1.mbox").read_bytes())

    texts = "\n".join(message.text for message in said(items))
    names = {message.actor.name for message in said(items)}

    for word in ("Привет", "Grüße", "café – naïve", "raw éÿ bytes"):
        assert word in texts
    assert {"山田 花子", "Jürgen Größe"} <= names
    assert "\nFrom the start this line begins with From.\n>From an already quoted" in texts
    assert "<p>" not in texts
    assert not tally.problems


def test_answers_join_a_conversation_directly_and_over_others() -> None:
    data = (
        mail("Message-ID: <b@x>", "References: <a@x>")
        + mail("Message-ID: <c@x>", "In-Reply-To: Your mail <b@x> of Monday")
        + mail("Message-ID: <d@x>")
        + mail("Message-ID: <e@x>", "References:\n <z@x>\n <c@x>")
    )

    items, tally = read(data)

    assert [m.conversation.conversation_id for m in said(items)] == ["a@x", "a@x", "d@x", "a@x"]
    assert [m.reply_to for m in said(items)] == ["a@x", "b@x", None, "c@x"]
    assert tally.counts["replies"] == 3


def test_a_longer_archive_keeps_the_conversations_of_the_shorter() -> None:
    short = (
        mail("Message-ID: <a@x>")
        + mail("Message-ID: <b@x>", "In-Reply-To: <a@x>")
        + mail(body="no id")
        + mail(body="nor this")
    )
    long = short.rstrip() + b"\n\n" + mail("Message-ID: <a@x>", "In-Reply-To: <b@x>", body="again")

    before, after = said(read(short.rstrip())[0]), said(read(long)[0])

    def places(messages: list[InboundMessage]) -> list[tuple[str, str | None]]:
        return [(str(each.conversation), each.message_id) for each in messages]

    assert places(after)[:4] == places(before)
    assert after[4].conversation == after[0].conversation
    assert len(Counter(places(before))) == 4


def test_mails_that_name_each_other_in_a_circle_are_one_conversation() -> None:
    data = mail("Message-ID: <a@x>", "In-Reply-To: <b@x>") + mail(
        "Message-ID: <b@x>", "In-Reply-To: <a@x>"
    )

    assert len({m.conversation for m in said(read(data)[0])}) == 1


def test_a_line_of_text_that_begins_with_from_splits_no_mail() -> None:
    body = "hello\n\nFrom here on it is easy.\nReally.\n>From quoted\nFrom me: x\nFrom: y"

    message = only(mail("Message-ID: <a@x>", body=body))

    assert message.text == body.replace(">From", "From")


def test_separators_need_no_blank_line_before_them() -> None:
    data = b"From - \nFrom: a@x\n\none\nFrom - \nFrom: b@x\n\ntwo\n"

    assert [message.text for message in said(read(data)[0])] == ["one", "two"]


@pytest.mark.parametrize(
    ("header", "address", "name"),
    [
        ("Ann <Ann@A.example>", "ann@a.example", "Ann"),
        ("ann at a.example (Ann Lee)", "ann@a.example", "Ann Lee"),
        ('"Lee, Ann" <ann@a.example>', "ann@a.example", "Lee, Ann"),
        ("=?iso-8859-1?Q?J=FCrgen?= <j@a.example>", "j@a.example", "Jürgen"),
        ("=?utf-8?B?5bE=?= =?utf-8?B?sQ==?= <y@a.example>", "y@a.example", "山"),
        ("=?x-none?Q?=C3=BC?= <u@a.example>", "u@a.example", "ü"),
        ("J\udcfcrgen <j@a.example>", "j@a.example", "Jürgen"),
        ("ann@a.example", "ann@a.example", ""),
        ("a@b.example, c@d.example", "a@b.example", ""),
        ("MAILER-DAEMON", "mailer-daemon", ""),
    ],
)
def test_an_author_is_an_address_in_lower_case_and_a_readable_name(
    header: str, address: str, name: str
) -> None:
    message = only(mail("Message-ID: <a@x>", sender=header))

    assert (message.actor.id, message.actor.name) == (address, name)


def test_a_mail_without_a_sender_is_known_by_its_envelope() -> None:
    assert only(FROM + b"Subject: x\n\nhi\n").actor.id == "ann@a.example"
    _, tally = read(b"From - \nSubject: x\n\nhi\n")
    assert tally.problems == ["list.mbox: line 1: nobody is named as its author."]


@pytest.mark.parametrize(
    ("date", "sent"),
    [
        ("Fri, 01 Apr 2016 09:00:00 +0200", datetime(2016, 4, 1, 7, tzinfo=UTC)),
        ("1 Apr 2016 9:00:00 -0000", datetime(2016, 4, 1, 9, tzinfo=UTC)),
        ("Fri, 01 Apr 2016 09:00:00", datetime(2016, 4, 1, 7, tzinfo=UTC)),
        ("Thu, 99 Foo 2016 25:61:00 +9999", None),
        ("Mon, 31 Feb 2016 10:00:00 +0000", None),
        ("Fri, 31 Dec 9999 23:00:00 -1200", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_date_is_an_instant_or_nothing(date: str, sent: datetime | None) -> None:
    zone = ZoneInfo("Europe/Berlin")

    assert only(mail(f"Date: {date}"), zone=zone).sent_at == sent


def test_a_title_loses_the_marks_of_an_answer_and_the_mail_keeps_them() -> None:
    place, message, _ = read(mail("Subject: [list] RE: AW: Re[2]: Tea\n time"))[0]

    assert isinstance(place, Place)
    assert place.title == "[list] Tea time"
    assert isinstance(message, InboundMessage)
    assert message.metadata == {"subject": "[list] RE: AW: Re[2]: Tea time"}


def test_html_alone_is_read_as_a_person_sees_it() -> None:
    html = (
        "<html><head><title>no</title><style>p {}</style></head><body><p>Dear&nbsp;Ann,<br>"
        "hello &amp; <b>good</b> bye</p><ul><li>one<li>two</ul><pre>a\n  b</pre>"
        "<script>alert(1)</script></body>"
    )

    message = only(mail("Content-Type: text/html", body=html))

    assert message.text == "Dear Ann,\nhello & good bye\n\n- one\n- two\n\na\n  b"


def test_the_plain_alternative_is_taken_and_files_are_data() -> None:
    body = (
        "--o\nContent-Type: multipart/alternative; boundary=i\n\n"
        "--i\nContent-Type: text/html\n\n<p>html</p>\n"
        "--i\nContent-Type: text/plain; charset=utf-8\n\nplain\n--i--\n"
        "--o\nContent-Type: image/png; name*=utf-8''..%2F..%2F%C3%BC.png\n"
        "Content-Transfer-Encoding: base64\n\n" + "QUJD" * 4 + "\nQUI=\n\n"
        "--o\nContent-Type: text/plain\nContent-Disposition: attachment; filename=C:\\n\\a.txt\n\n"
        "not shown\n--o--\n"
    )

    message = only(mail("Content-Type: multipart/mixed; boundary=o", body=body))

    assert message.text == "plain"
    image, note = message.attachments
    assert (image.type, image.name, image.size) == ("image/png", "ü.png", 14)
    assert (note.type, note.name, note.size) == ("text/plain", "a.txt", 9)


def test_mails_of_several_files_share_their_conversations() -> None:
    source = Held(
        {
            "a.mbox": mail("Message-ID: <a@x>"),
            "b/mbox": mail("Message-ID: <b@x>", "In-Reply-To: <a@x>"),
            "c.txt": b"hello",
        }
    )

    items = list(Mbox().read(source, ACCOUNT, Options(), Tally()))

    assert Mbox().recognises(source)
    assert [str(m.conversation) for m in said(items)] == ["mail/agent@lists.example/a@x"] * 2
