"""Matrix histories: Element's export.json, client-API answers, events as JSON lines.

Pipeline: find the events in whatever wraps them → learn from all of them (titles, names, which
event hangs in which thread) → read them again and say each one. The first reading goes to the end
of every file, so a file that breaks off is refused before anything was taken from it. What is held
between the two is ids and names, never bodies.
"""

# mypy: disable-error-code=import-untyped

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any, BinaryIO

import ijson

from threadline.archives.matrix_events import Found, Known, Teller
from threadline.core.archive import Account, Ended, Item, Options, Source, Tally, broken
from threadline.core.errors import ArchiveError
from threadline.core.matrix import at, relation, standing
from threadline.core.values import clean, decoded

HEAD = 64 * 1024
HEADER = 6 * HEAD  # five names, of one event (64 KiB) each at most, stand before the messages
LINE = 1024 * 1024
BLOCK = 10_000
DEPTH = 200

_STARTS = frozenset({"start_map", "start_array"})
_ENDS = frozenset({"end_map", "end_array"})
_ELEMENT = re.compile(rb'\s*\{\s*"room_name"\s*:')
_MESSAGES = re.compile(rb'\n[ \t]*"messages"\s*:\s*(?=\[\s*[{\]])')
_TITLE = re.compile(
    r'"room_name"\s*:\s*"(.*?)"\s*,\s*"(?:room_creator|topic|export_date|exported_by|messages)"\s*:',
    re.DOTALL,
)


class _Counted:
    """A stream behind what was already read of it; knows how far it was read."""

    def __init__(self, stream: BinaryIO, ahead: bytes, at: int) -> None:
        self.stream, self.ahead, self.at = stream, ahead, at

    def read(self, size: int = -1) -> bytes:
        if size and self.ahead:
            data, self.ahead = self.ahead, b""
            return data
        data = self.stream.read(size)
        self.at += len(data)
        return data


class MatrixExport:
    """Element's export, a `/sync` or `/messages` answer, or events one per line."""

    format = "Matrix export"

    def recognises(self, source: Source) -> bool:
        return any(_is_matrix(source, name) for name in _candidates(source)[:16])

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        names = source.names()
        if len(names) != 1:
            names = [name for name in _candidates(source) if _is_matrix(source, name)]
        if not names:
            raise broken(source.title, "no Matrix events were found here.")
        known = Known()
        teller = Teller(account, options, tally, known, source.title)
        for name in names:
            _learn(source, name, known, teller.room)
        for name in names:
            for found in _in_order(source, name, known.backwards[name]):
                if found.part in ("timeline", "chunk"):
                    yield from teller.tell(found)
        yield from (Ended(ref) for ref in teller.places)


def _candidates(source: Source) -> list[str]:
    names = source.names()
    if len(names) == 1:
        return names
    named = [name for name in names if name.endswith((".json", ".jsonl", ".ndjson"))]
    return sorted(named, key=lambda name: (not name.endswith("export.json"), name))


def _is_matrix(source: Source, name: str) -> bool:
    with source.open(name) as stream:
        head = stream.read(HEAD).removeprefix(b"\xef\xbb\xbf")
    if _ELEMENT.match(head):
        return b'"messages"' in head or b'"exported_by"' in head
    if _is_lines(head):
        return any(_is_event(_line(line)) for line in head.splitlines()[:50])
    keys = set()
    try:
        for found in _walk(head, name):
            if found.part == "key":
                keys.add(found.value)
            elif _is_event(found.value):
                return True
    except (ijson.JSONError, ArchiveError):
        pass  # as a head mostly does, it ends in the middle
    return "next_batch" in keys and not keys.isdisjoint({"rooms", "presence", "device_lists"})


def _is_event(value: object) -> bool:
    match value:
        case {"type": str(), "sender": str(sender), "content": dict(), **rest}:
            named = isinstance(rest.get("event_id"), str) or at(value) is not None
            return named and sender.startswith("@") and ":" in sender
    return False


def _is_lines(head: bytes) -> bool:
    """Whether each line is an event, bare or as the `body` of something: judged by the first."""
    lines = head.lstrip().splitlines()
    match _line(lines[0]) if lines else None:
        case {"type": str()}:
            return True
    return False


def _line(line: bytes) -> object:
    value = decoded(line)
    match value:
        case {"body": {"type": str()} as body} if "type" not in value:
            return body
    return value


def _events(source: Source, name: str) -> Iterator[Found]:
    """All of one file. Raises `ArchiveError` where it breaks off or is not what it says."""
    with source.open(name) as stream:
        head = stream.read(HEADER)
        bare = head.removeprefix(b"\xef\xbb\xbf")
        if _is_lines(bare):
            with source.open(name) as again:
                yield from _lines(again, name)
            return
        # Element has put names into its wrapper without escaping them: what stands before the
        # messages is not read as JSON.
        if _ELEMENT.match(bare) and (found := _MESSAGES.search(bare)):
            if title := _TITLE.search(bare[: found.end()].decode("utf-8", "replace")):
                yield Found(name, "title", _unescaped(title[1]))
            bare = b'{"messages":' + bare[found.end() :]
        counted = _Counted(stream, bare, len(head))
        try:
            yield from _walk(counted, name)
        except ijson.JSONError as error:
            what = str(error).split("\n")[0].strip()
            raise broken(
                f"{name}: offset {counted.at}",
                f"the JSON is broken or breaks off before here ({what}).",
                offset=counted.at,
            ) from None


def _unescaped(name: str) -> str:
    try:
        return str(json.loads(f'"{name}"', strict=False))
    except ValueError:
        return name


def _walk(stream: _Counted | bytes, name: str) -> Iterator[Found]:
    """The events in a document, wherever Matrix puts them; refuses one without such a place."""
    number, depth, known = 0, 0, False
    builder: Any = None
    place: list[str] = []
    # Plain events and a path of our own: ijson's prefixes grow with the square of the depth.
    for event, value in ijson.basic_parse(stream, use_float=True, buf_size=16 * 1024):
        if builder is None:
            if event in _ENDS:
                place.pop()
                continue
            if event == "map_key":
                place[-1] = value
                if len(place) == 1:
                    known = known or value == "next_batch"
                    yield Found(name, "key", value)
                continue
            found = _part(place)
            if found is None:
                known = known or (event == "start_array" and place in (["messages"], ["chunk"]))
                if event in _STARTS:
                    place.append("item")
                if len(place) > DEPTH:
                    raise broken(name, "the JSON is nested too deeply.")
                continue
            (part, room), builder = found, ijson.ObjectBuilder()
        builder.event(event, value)
        depth += (event in _STARTS) - (event in _ENDS)
        if depth > DEPTH:
            raise broken(name, "the JSON is nested too deeply.")
        if depth == 0:
            number, known = number + 1, True
            yield Found(f"{name}: event {number}", part, builder.value, room)
            builder = None
    if not known:
        raise broken(name, "no Matrix events were found here.")


def _part(place: list[str]) -> tuple[str, str | None] | None:
    """What stands at this place of a document, and in whose room."""
    match place:
        case ["messages", "item"] | ["item"]:
            return "timeline", None
        case ["chunk", "item"]:
            return "chunk", None
        case ["state", "item"]:
            # The members a page of `/messages` speaks of: as of no certain time.
            return "names", None
        case ["rooms", "join" | "leave", room, "timeline" | "state" as part, "events", "item"]:
            return part, room
    return None


def _lines(stream: BinaryIO, name: str) -> Iterator[Found]:
    for number in count(1):
        line = stream.readline(LINE)
        if not line:
            return
        whole, endless = line.endswith(b"\n"), False
        while not whole and (rest := stream.readline(LINE)):
            # An event has at most 64 KiB: what is so much longer is passed over, not held.
            whole, endless = rest.endswith(b"\n"), True
        if not endless and not line.strip():
            continue
        event = None if endless else _line(line.removeprefix(b"\xef\xbb\xbf"))
        where = f"{name}: line {number}"
        if event is None and not whole:
            raise broken(where, "the last line breaks off in the middle.", line=number)
        yield Found(where, "timeline", event)


def _learn(source: Source, name: str, known: Known, room_of: Callable[[Found], str]) -> None:
    rooms: dict[str, None] = {}
    title, chunk = "", 0
    first = last = None
    for found in _events(source, name):
        event = found.value
        if found.part == "title":
            title = found.value
            continue
        if found.part == "chunk":
            chunk, last = chunk + 1, at(event) or last
            first = first or last
        if not isinstance(event, dict) or not isinstance(event.get("content"), dict):
            continue
        room, content = room_of(found), event["content"]
        rooms[room] = None
        match event:
            case {"type": "m.room.member", "state_key": str(user)}:
                if isinstance(content.get("displayname"), str):
                    known.names.setdefault((room, user), clean(content["displayname"]))
                if found.part == "state":
                    known.members[room, user] = standing(content)
            case {"type": "m.room.name"} if isinstance(content.get("name"), str):
                known.titles[room] = clean(content["name"])
            case {"event_id": str(event_id)}:
                kind, root = relation(content)
                if kind == "m.thread" and root:
                    known.threads[event_id] = root
    for room in rooms:
        known.titles.setdefault(room, clean(title))
    newest_first = first is not None and last is not None and last < first
    known.backwards[name] = chunk if newest_first else 0


def _in_order(source: Source, name: str, backwards: int) -> Iterator[Found]:
    """A file's events, oldest first; a `/messages` answer may hold its page newest first."""
    if not backwards:
        yield from _events(source, name)
    for end in range(backwards, 0, -BLOCK):
        page = (found for found in _events(source, name) if found.part == "chunk")
        yield from reversed(list(islice(page, max(0, end - BLOCK), end)))
