"""Matrix histories: every wrapper is read, every event becomes what it was, none half."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from threadline.archives.matrix import MatrixExport
from threadline.core.archive import Account, Ended, Item, Options, Place, Tally
from threadline.core.model import Direction, Event, InboundMessage, Kind

ACCOUNT = Account(provider="matrix", account_id="@agent:hs.example")
ROOM = "!room:hs.example"
FILES = ["matrix-elementexport-made-1.json", "matrix-nio-events-1.jsonl", "matrix-nio-sync.json"]


@dataclass
class Held:
    """A source that is in memory."""

    files: dict[str, bytes]
    title: str = "history"

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])


def read(data: bytes, **options: Any) -> tuple[list[Item], Tally]:
    tally = Tally()
    source = Held({"events.json": data})
    return list(MatrixExport().read(source, ACCOUNT, Options(**options), tally)), tally


def event(kind: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    number = more.pop("number", 1)
    return {
        "type": kind,
        "event_id": f"${number}",
        "sender": "@ann:hs.example:8448",
        "room_id": ROOM,
        "origin_server_ts": 1_700_000_000_000 + number,
        "content": content,
        **more,
    }


def text(body: str, number: int = 1, **content: Any) -> dict[str, Any]:
    return event("m.room.message", {"msgtype": "m.text", "body": body, **content}, number=number)


def element(*events: Any) -> bytes:
    head = {"room_name": "Kitchen", "room_creator": "Ann", "topic": "", "export_date": "today"}
    return json.dumps({**head, "exported_by": "Ann", "messages": list(events)}, indent=1).encode()


def said(items: list[Item]) -> list[InboundMessage]:
    return [item for item in items if isinstance(item, InboundMessage)]


def tell(*events: Any, **options: Any) -> list[InboundMessage]:
    return said(read(element(*events), **options)[0])


def counted(exports: Path, name: str) -> dict[str, Any]:
    for line in (exports.parent / "counts.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["file"] == f"exports/{name}":
            return row
    raise LookupError(name)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_an_export_gives_the_figures_that_were_counted_independently(
    exports: Path, name: str
) -> None:
    row = counted(exports, name)

    items, tally = read((exports / name).read_bytes())

    def stamp(moment: datetime | None) -> str:
        return "" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"

    kinds = ("messages", "system", "edits", "reactions", "deleted", "encrypted")
    for kind in kinds:
        assert tally.counts[kind] == row.get(kind, 0), kind
    assert sum(tally.counts[kind] for kind in kinds) == row["events"]
    assert len(tally.authors) == row["authors"]
    assert (stamp(tally.first), stamp(tally.last)) == (row["first"], row["last"])
    rooms = [item for item in items if isinstance(item, Place) and item.thread_root is None]
    # Events that name no room are a place of their own; the figure counts the rooms named.
    assert len([room for room in rooms if not room.metadata]) == row["conversations"]
    messages = [each for each in said(items) if each.event is Event.MESSAGE]
    assert len(messages) == row["messages"]
    assert not tally.problems


@pytest.mark.acceptance("D11")
def test_threads_are_conversations_beside_their_room(exports: Path) -> None:
    items, tally = read((exports / FILES[0]).read_bytes())

    threads = [item for item in items if isinstance(item, Place) and item.thread_root]

    assert len(threads) == tally.counts["threads"] == 122
    for thread in threads:
        assert thread.ref.kind is Kind.THREAD
        assert thread.parent == thread.ref.parent
        assert thread.ref.conversation_id == thread.thread_root


def test_a_place_comes_before_its_messages_and_an_end_after_them(exports: Path) -> None:
    items, _ = read((exports / FILES[0]).read_bytes())

    open_places = set()
    for item in items:
        match item:
            case Place(ref=ref):
                assert ref not in open_places
                open_places.add(ref)
            case Ended(ref=ref):
                open_places.remove(ref)
            case InboundMessage(conversation=ref):
                assert ref in open_places
    assert not open_places


def test_no_other_file_is_taken_for_a_matrix_export(exports: Path) -> None:
    for folder in (exports, exports.parent / "webhooks"):
        for path in folder.iterdir() if folder.is_dir() else ():
            source = Held({path.name: path.read_bytes()})
            assert MatrixExport().recognises(source) == path.name.startswith("matrix-"), path.name


def test_all_wrappers_are_recognised_and_say_the_same() -> None:
    one, two = text("one"), text("two", 2)
    wrapped = {
        "export": element(one, two),
        "messages": json.dumps({"start": "a", "chunk": [one, two], "end": "b"}).encode(),
        "list": json.dumps([one, two]).encode(),
        "lines": b"\n".join(json.dumps(each).encode() for each in (one, two)) + b"\n",
        "sync": json.dumps(
            {
                "next_batch": "s1",
                "rooms": {"join": {ROOM: {"timeline": {"events": [one, two]}}}},
            }
        ).encode(),
    }
    for wrapper, data in wrapped.items():
        assert MatrixExport().recognises(Held({"a.json": data})), wrapper
        assert [each.text for each in said(read(data)[0])] == ["one", "two"], wrapper


def test_a_page_that_was_fetched_backwards_is_told_forwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threadline.archives.matrix.BLOCK", 3)
    chunk = [text(str(number), number) for number in range(10, 0, -1)]

    items, _ = read(json.dumps({"chunk": chunk, "start": "a"}).encode())

    assert [each.text for each in said(items)] == [str(number) for number in range(1, 11)]


def test_a_message_keeps_its_sender_with_the_port_its_time_and_its_name() -> None:
    member = event(
        "m.room.member",
        {"membership": "join", "displayname": "Ann"},
        state_key="@ann:hs.example:8448",
    )

    *_, message = tell(member, text("hello", 2))

    assert message.actor.id == "@ann:hs.example:8448"
    assert message.actor.name == "Ann"
    assert message.message_id == "$2"
    assert message.sent_at == datetime(2023, 11, 14, 22, 13, 20, 2000, tzinfo=UTC)
    assert message.conversation == ACCOUNT.ref(ROOM)


def test_what_we_said_ourselves_is_outbound() -> None:
    [message] = tell({**text("mine"), "sender": "@agent:hs.example"})
    [named] = tell(text("mine"), self_id="@ann:hs.example:8448")

    assert message.actor.is_self
    assert named.direction is Direction.OUTBOUND


def test_an_edit_revises_its_target_with_the_new_text() -> None:
    new = {"m.new_content": {"msgtype": "m.text", "body": "right"}}
    related = {"m.relates_to": {"rel_type": "m.replace", "event_id": "$1"}}

    _, edit = tell(text("wrong"), text(" * right", 2, **new, **related))

    assert (edit.event, edit.revises, edit.text) == (Event.EDIT, "$1", "right")


def test_a_redacted_event_is_the_deletion_of_itself() -> None:
    because = event("m.room.redaction", {"reason": "oops"}, number=9, sender="@mod:hs.example")
    gone = event("m.room.message", {}, unsigned={"redacted_because": because})

    [delete] = tell(gone)

    assert (delete.event, delete.message_id, delete.revises) == (Event.DELETE, "delete:$1", "$1")
    assert delete.actor.id == "@mod:hs.example"
    assert delete.metadata == {"reason": "oops"}


def test_a_reaction_belongs_to_what_it_reacts_to() -> None:
    relation = {"rel_type": "m.annotation", "event_id": "$1", "key": "👍"}

    _, reaction = tell(text("hi"), event("m.reaction", {"m.relates_to": relation}, number=2))

    assert (reaction.event, reaction.revises, reaction.text) == (Event.REACTION, "$1", "👍")


def test_a_rich_reply_loses_its_fallback_and_a_real_quote_stays() -> None:
    answer = {"m.relates_to": {"m.in_reply_to": {"event_id": "$1"}}}

    rich = tell(text("> <@bob:hs> one\n> two\n\nyes\n> quoted", 2, **answer))[0]
    quote = tell(text("> he said\n\nno", 2, **answer))[0]
    alone = tell(text("> <@bob:hs> one\n\nyes"))[0]

    assert (rich.text, rich.reply_to) == ("yes\n> quoted", "$1")
    assert quote.text == "> he said\n\nno"
    assert alone.text == "> <@bob:hs> one\n\nyes"


def test_what_happens_in_a_thread_stays_in_it_and_its_root_in_the_room() -> None:
    fallback = {"is_falling_back": True, "m.in_reply_to": {"event_id": "$1"}}
    thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": "$1", **fallback}}
    edit = {"m.relates_to": {"rel_type": "m.replace", "event_id": "$2"}}
    like = {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$2", "key": "x"}}

    root, reply, change, reaction = tell(
        text("root"),
        text("reply", 2, **thread),
        text("* better", 3, **edit, **{"m.new_content": {"body": "better"}}),
        event("m.reaction", like, number=4),
    )

    ref = ACCOUNT.ref("$1", parent_conversation_id=ROOM)
    assert root.conversation == ACCOUNT.ref(ROOM)
    assert {reply.conversation, change.conversation, reaction.conversation} == {ref}
    assert (reply.thread_root, reply.parent, reply.reply_to) == ("$1", ACCOUNT.ref(ROOM), None)


def test_only_coming_and_going_is_membership() -> None:
    def member(number: int, membership: str, name: str, **more: Any) -> dict[str, Any]:
        content = {"membership": membership, "displayname": name}
        return event("m.room.member", content, number=number, **{"state_key": "@bob:hs", **more})

    told = tell(
        member(1, "invite", "Bob"),
        member(2, "join", "Bob", sender="@bob:hs"),
        member(3, "join", "Bobby", sender="@bob:hs"),
        member(4, "leave", "Bobby"),
        member(
            5, "join", "C", state_key="@c:hs", unsigned={"prev_content": {"membership": "join"}}
        ),
    )

    assert [each.event for each in told] == [
        Event.MEMBER,
        Event.MEMBER,
        Event.NOTICE,
        Event.MEMBER,
        Event.NOTICE,
    ]
    assert [each.metadata.get("profile") for each in told] == [None, None, True, None, True]
    assert told[2].text == "Bob is now Bobby"
    assert told[3].text == "Bobby was removed"


def test_notices_emotes_stickers_and_polls_are_messages() -> None:
    question = {"question": {"m.text": [{"body": "Tea?"}]}, "answers": [{"m.text": "yes"}]}
    told = tell(
        event("m.room.message", {"msgtype": "m.emote", "body": "waves"}),
        event("m.sticker", {"body": "wave", "url": "mxc://hs/st"}, number=2),
        event("m.poll.start", {"m.poll": question}, number=3),
    )

    assert [each.event for each in told] == [Event.MESSAGE] * 3
    assert told[0].metadata == {"msgtype": "m.emote"}
    assert told[1].attachments[0].url == "mxc://hs/st"
    assert told[2].text == "Tea?\n- yes"


def test_an_encrypted_event_leaves_its_id_to_a_readable_export() -> None:
    [notice] = tell(event("m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2"}))

    assert (notice.event, notice.message_id) == (Event.NOTICE, "encrypted:$1")


def test_an_attachment_is_data_and_its_name_no_path() -> None:
    file = {"url": "mxc://hs/m", "v": "v2"}
    content = {"msgtype": "m.file", "body": "../../etc/passwd", "file": file}

    [message] = tell(event("m.room.message", {**content, "info": {"size": 7}}))

    assert message.attachments[0].name == "passwd"
    assert (message.attachments[0].id, message.attachments[0].size) == ("mxc://hs/m", 7)


def test_names_without_escaping_do_not_hide_the_messages() -> None:
    data = element(text("hello")).replace(b'"Kitchen"', b'"The "big", {red} kitchen\\"')

    items, _ = read(data)

    assert MatrixExport().recognises(Held({"export.json": data}))
    assert [each.text for each in said(items)] == ["hello"]
    assert isinstance(items[0], Place)
    assert items[0].title == 'The "big", {red} kitchen\\'


def test_events_without_a_room_are_one_conversation_the_user_may_name() -> None:
    line = text("hello")
    del line["room_id"]

    [message] = said(read(json.dumps(line).encode(), conversation="!named:hs")[0])
    place, *_ = read(json.dumps(line).encode())[0]

    assert message.conversation.conversation_id == "!named:hs"
    assert isinstance(place, Place)
    assert (place.ref.conversation_id, place.metadata) == ("history", {"unnamed": True})


def test_several_files_of_a_folder_are_one_history() -> None:
    member = event("m.room.name", {"name": "Kitchen"}, state_key="")
    files = {
        "a.json": json.dumps({"chunk": [text("one")]}).encode(),
        "b.json": json.dumps({"chunk": [member, text("two", 2)]}).encode(),
        "c.json": b'{"something": "else"}',
        "d.png": b"\x89PNG",
    }
    source = Held(files)

    items = list(MatrixExport().read(source, ACCOUNT, Options(), Tally()))

    assert MatrixExport().recognises(source)
    assert [each.text for each in said(items) if each.event is Event.MESSAGE] == ["one", "two"]
    assert [item.title for item in items if isinstance(item, Place)] == ["Kitchen"]
