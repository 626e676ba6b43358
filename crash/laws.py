"""The laws, judged over the rows of a store: what holds by itself, and what was acknowledged.

Each function yields a sentence per violation; nothing yielded is good news. The rows are read by
plain SQL, so that the judge shares no reading code with the accused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import apsw
import msgspec

from crash.ledger import CHIEF, Ledger
from threadline.core.rules.speaking import fold
from threadline.stores.codec import Codec

Row = tuple[Any, ...]

QUERIES = {
    "conversations": "select id, address, next_sequence, lowest_sequence, earliest_sequence,"
    " session, body from conversations",
    "records": "select conversation, sequence, digest, body from records"
    " order by conversation, sequence",
    "ids": "select conversation, key, sequence from ids",
    "members": "select conversation, session, last_read, closed_at, gate, body from members",
    "participants": "select conversation, handle, session from participants",
    "holds": "select conversation, key, position, size, body from holds"
    " order by conversation, position",
    "sessions": "select id, name, body from sessions",
    "names": "select name, session from names",
    "addresses": "select address, conversation from addresses",
    "parked": "select reason from parked",
    "deliveries": "select conversation, id, state, body from deliveries",
}


class _Grant(msgspec.Struct):
    expires_at: str | None = None


class _Member(msgspec.Struct):
    grants: dict[str, _Grant] = {}
    handles: tuple[str, ...] = ()


class _Binding(msgspec.Struct):
    session: int


class _Window(msgspec.Struct):
    mode: str
    closing: str | None = None


class _About(msgspec.Struct):
    members: int = 0
    held: int = 0
    held_bytes: int = 0
    hydration: str = "live_only"
    deliveries: int = 0
    binding: _Binding | None = None
    window: _Window | None = None


class _Record(msgspec.Struct):
    text: str
    event: str
    message_id: str | None = None
    id_space: str = ""
    direction: str = "inbound"


class _Delivery(msgspec.Struct):
    sequence: int | None = None
    message_ids: tuple[str, ...] = ()


class _Session(msgspec.Struct):
    retired_at: str | None = None
    successor: int | None = None


# Thousands of states differ in a few rows only.
_known = lru_cache(200_000)
_about = _known(msgspec.json.Decoder(_About).decode)
_member = _known(msgspec.json.Decoder(_Member).decode)
_record = _known(msgspec.json.Decoder(_Record).decode)
_delivery = _known(msgspec.json.Decoder(_Delivery).decode)
_session = _known(msgspec.json.Decoder(_Session).decode)


@lru_cache
def codec_of(key: bytes) -> Codec:
    """One codec per key, so that what it answered once is known."""
    return Codec(key)


@_known
def _id_key(codec: Codec, space: str, message_id: str) -> bytes:
    return codec.id_key(space, message_id)


@_known
def _digest(codec: Codec, conversation: int, sequence: int, body: str) -> bytes:
    return codec.digest(conversation, sequence, body)


@dataclass(slots=True)
class Rows:
    """All rows of a store, read on one committed state."""

    conversations: list[Row] = field(default_factory=list)
    records: list[Row] = field(default_factory=list)
    ids: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    participants: list[Row] = field(default_factory=list)
    holds: list[Row] = field(default_factory=list)
    sessions: list[Row] = field(default_factory=list)
    names: list[Row] = field(default_factory=list)
    addresses: list[Row] = field(default_factory=list)
    parked: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)


def read_sqlite(connection: apsw.Connection) -> Rows:
    """The rows of a SQLite store; no rows where its tables were not made yet."""
    connection.execute("begin")
    try:
        if not connection.execute(
            "select 1 from sqlite_schema where name = 'deliveries'"
        ).fetchall():
            return Rows()
        return Rows(**{name: connection.execute(q).fetchall() for name, q in QUERIES.items()})
    finally:
        connection.execute("commit")


class Judge:
    """The rows of one moment, looked up in the ways the laws need."""

    def __init__(self, rows: Rows, codec: Codec) -> None:
        self.rows = rows
        self.codec = codec
        self.abouts = {row[0]: _about(row[6]) for row in rows.conversations}
        self.counters = {row[0]: (row[2], row[3], row[4]) for row in rows.conversations}
        self.room = {row[0]: row[1] for row in rows.conversations}
        self.number = {row[0]: row[1] for row in rows.addresses}
        self.records: dict[int, dict[int, _Record]] = defaultdict(dict)
        for conversation, sequence, _, body in rows.records:
            self.records[conversation][sequence] = _record(body)
        self.ids = {(row[0], bytes(row[1])): row[2] for row in rows.ids}
        self.holds = {(row[0], bytes(row[1])): row[2] for row in rows.holds}
        self.members = {(row[0], row[1]): (row[2], row[3], _member(row[5])) for row in rows.members}
        self.names: dict[str, int] = {row[0]: row[1] for row in rows.names}
        self.called = {row[0]: row[1] for row in rows.sessions}
        self.sessions = {row[0]: _session(row[2]) for row in rows.sessions}

    # --- what holds by itself ----------------------------------------------------------------

    def structure(self) -> Iterator[str]:
        """Laws 2, 3, 16 and the pairs that may not drift apart."""
        yield from self._order()
        yield from self._unique()
        yield from self._seats()
        yield from self._waiting()
        yield from self._proofs()
        for (reason,) in self.rows.parked:
            yield f"a message was parked: {reason}"
        for address, number in self.number.items():
            if number not in self.abouts:
                yield f"the address {address} leads nowhere"
        for name, number in self.names.items():
            if number not in self.sessions:
                yield f"the name {name} leads nowhere"

    def _order(self) -> Iterator[str]:
        for number, (following, lowest, earliest) in self.counters.items():
            sequences = list(self.records.get(number, {}))
            if sequences != list(range(earliest, following)):
                room = self.room[number]
                yield f"{room}: {earliest} to {following - 1} are due, there are {sequences[:50]}"
            if lowest > earliest:
                yield f"{self.room[number]}: lowest {lowest} lies above earliest {earliest}"
        for number in set(self.records) - set(self.counters):
            yield f"conversation {number}: records without a conversation"
        for number, sequence, digest, body in self.rows.records:
            if bytes(digest) != _digest(self.codec, number, sequence, body):
                yield f"conversation {number}: record {sequence} is not what was written"

    def _unique(self) -> Iterator[str]:
        for number, records in self.records.items():
            seen: dict[bytes, int] = {}
            texts: dict[str, int] = {}
            for sequence, record in records.items():
                if record.event == "message" and record.text:
                    if record.text in texts:
                        where = f"{texts[record.text]} and {sequence}"
                        yield f"conversation {number}: {record.text!r} is at {where}"
                    texts[record.text] = sequence
                if record.message_id is None:
                    continue
                key = _id_key(self.codec, record.id_space, record.message_id)
                if key in seen:
                    where = f"{seen[key]} and {sequence}"
                    yield f"conversation {number}: {record.message_id} is at {where}"
                seen[key] = sequence
                if self.ids.get((number, key)) != sequence:
                    found = self.ids.get((number, key))
                    yield f"conversation {number}: the id of record {sequence} leads to {found}"
        for (number, key), where in self.ids.items():
            counters = self.counters.get(number)
            if counters is None:
                yield f"conversation {number}: an id without a conversation"
            elif where is not None and where >= counters[2] and where not in self.records[number]:
                yield f"conversation {number}: an id leads to {where}, which is not there"
            if (number, key) in self.holds and where is not None:
                yield f"conversation {number}: an id is held and recorded at {where}"

    def _seats(self) -> Iterator[str]:
        open_seats: dict[int, int] = defaultdict(int)
        for (number, session), (last_read, closed_at, member) in self.members.items():
            where = f"{self.room.get(number)} {self.called.get(session)}"
            counters = self.counters.get(number)
            if counters is None or session not in self.sessions:
                yield f"{where}: a membership of nothing"
                continue
            if last_read is not None and last_read >= counters[0]:
                yield f"{where}: read {last_read}, the head is {counters[0] - 1}"
            if closed_at is None:
                open_seats[number] += 1
            if (closed_at is None) != bool(member.grants):
                yield f"{where}: closed at {closed_at} with grants {list(member.grants)}"
            bound = self.abouts[number].binding
            belongs = bound is not None and bound.session == session
            if ("binding" in member.grants) != belongs:
                yield f"{where}: the binding is {bound}, the grants are {list(member.grants)}"
            handles = {
                handle
                for at, handle, owner in self.rows.participants
                if at == number and owner == session
            }
            if {fold(one) for one in member.handles} != handles:
                yield f"{where}: participants {sorted(handles)}, membership {member.handles}"
            if bool(handles) != ("group" in member.grants):
                yield f"{where}: handles {sorted(handles)}, grants {list(member.grants)}"
        for number, about in self.abouts.items():
            if about.members != open_seats[number]:
                found = open_seats[number]
                yield f"{self.room[number]}: {about.members} members counted, {found} are there"
            bound = about.binding
            if bound is not None and (number, bound.session) not in self.members:
                yield f"{self.room[number]}: bound to a session that is no member"
        for number, handle, session in self.rows.participants:
            if (number, session) not in self.members:
                yield f"{self.room.get(number)}: {handle} is no member"
        for row in self.rows.conversations:
            bound = self.abouts[row[0]].binding
            if row[5] != (None if bound is None else bound.session):
                yield f"{row[1]}: the column says {row[5]}, the binding {bound}"

    def _waiting(self) -> Iterator[str]:
        count: dict[int, int] = defaultdict(int)
        size: dict[int, int] = defaultdict(int)
        for number, _, _, weight, _ in self.rows.holds:
            count[number] += 1
            size[number] += weight
        for number, about in self.abouts.items():
            if (about.held, about.held_bytes) != (count[number], size[number]):
                yield f"{self.room[number]}: {about.held} counted as held, {count[number]} are"
            gated = about.window is not None and about.window.mode == "gated"
            if count[number] and not gated:
                yield f"{self.room[number]}: {count[number]} wait for no import"
            if (about.hydration == "pending") != (about.window is not None):
                yield f"{self.room[number]}: it is {about.hydration}, its window {about.window}"

    def _proofs(self) -> Iterator[str]:
        """Law 9: what was said has its intent, and what was delivered has its record."""
        proven: dict[int, set[int | None]] = defaultdict(set)
        count: dict[int, int] = defaultdict(int)
        for number, delivery, state, body in self.rows.deliveries:
            count[number] += 1
            found = _delivery(body)
            record = self.records[number].get(found.sequence or 0)
            if state != "delivered":
                yield f"{self.room.get(number)}: delivery {delivery} is {state}"
            elif record is None or record.message_id not in found.message_ids:
                yield f"{self.room.get(number)}: delivery {delivery} has the record {record}"
            proven[number].add(found.sequence)
        for number, records in self.records.items():
            for sequence, record in records.items():
                # A notice is the system's own; nobody was asked to say it.
                spoken = record.direction == "outbound" and record.event != "notice"
                if spoken and sequence not in proven[number]:
                    yield f"{self.room[number]}: record {sequence} was said by nobody"
        for number, about in self.abouts.items():
            if about.deliveries != count[number]:
                found_here = count[number]
                yield f"{self.room[number]}: {about.deliveries} counted, {found_here} deliveries"

    # --- what was acknowledged ---------------------------------------------------------------

    def kept(self, ledger: Ledger) -> Iterator[str]:
        """Law 1: everything acknowledged is there, exactly once, as it was answered."""
        yield from ledger.broken
        yield from self._messages(ledger)
        for (room, name), sequence in ledger.read.items():
            # Until a reassignment has moved a room, the predecessor's row is the one that is read.
            sessions = self.chain() if name == CHIEF else [self.names.get(name, -1)]
            rows = [self.members.get((self.number.get(room, -1), one)) for one in sessions]
            cursors = [row[0] for row in rows if row is not None and row[0] is not None]
            read = max(cursors, default=None)
            if read is None or read < sequence:
                yield f"{room} {name}: acknowledged to {sequence}, the cursor is {read}"
        for key, allowed in ledger.allowed.items():
            if (value := self.value(key)) not in allowed:
                yield f"{key}: it is {value!r}, acknowledged was one of {allowed}"

    def _messages(self, ledger: Ledger) -> Iterator[str]:
        for (room, message_id), sequence in ledger.said.items():
            number = self.number.get(room, -1)
            key = (number, _id_key(self.codec, "", message_id))
            at = self.ids.get(key)
            if at is None:
                if sequence is not None or key not in self.holds:
                    yield f"{room} {message_id}: acknowledged at {sequence}, it is lost"
            elif sequence is not None and at != sequence:
                yield f"{room} {message_id}: acknowledged at {sequence}, it is at {at}"
            elif at >= self.counters[number][2]:
                record = self.records[number].get(at)
                if record is None or (record.text != message_id and record.event == "message"):
                    yield f"{room} {message_id}: acknowledged at {at}, there is {record}"
        for (room, text), sequence in ledger.plain.items():
            number = self.number.get(room, -1)
            record = self.records[number].get(sequence)
            swept = number in self.counters and sequence < self.counters[number][2]
            if not swept and (record is None or record.text != text):
                yield f"{room} {text}: acknowledged at {sequence}, there is {record}"
        last: dict[str, tuple[bool, int]] = {}
        for room, message_id in ledger.held:
            key = (self.number.get(room, -1), _id_key(self.codec, "", message_id))
            at = self.ids.get(key)
            place = (at is None, self.holds.get(key, 0) if at is None else at)
            if room in last and place < last[room]:
                yield f"{room} {message_id}: held later, stands earlier"
            last[room] = place

    def chain(self) -> list[int]:
        """The sessions that were reassigned one to the next, the last one last."""
        number = self.names.get(f"{CHIEF}-0")
        found: list[int] = []
        while number is not None:
            found.append(number)
            session = self.sessions.get(number)
            number = None if session is None else session.successor
        return found

    def chief(self) -> int | None:
        """The session at the end of the chain of reassignments."""
        return next(reversed(self.chain()), None)

    def value(self, key: str) -> Any:
        """What a key of the ledger stands for, as the rows say it."""
        match key.split(" "):
            case ["seat", room, name]:
                number, session = self.number.get(room, -1), self.names.get(name, -1)
                found = self.members.get((number, session))
                return True if found is not None and "manual" in found[2].grants else None
            case ["bind", room]:
                about = self.abouts.get(self.number.get(room, -1))
                bound = None if about is None else about.binding
                return None if bound is None else self._name(bound.session)
            case ["handle", room, handle]:
                number = self.number.get(room, -1)
                for at, word, session in self.rows.participants:
                    if (at, word) == (number, handle):
                        return self._name(session)
                return None
            case ["window", room]:
                about = self.abouts.get(self.number.get(room, -1))
                return True if about is not None and about.window is not None else None
            case ["chief"]:
                number = self.chief()
                return None if number is None else self.called[number]
            case ["open"]:
                return True
        raise ValueError(f"unknown key {key}")

    def _name(self, session: int) -> str:
        name = self.called.get(session, str(session))
        return CHIEF if session == self.chief() else name

    def settle(self, ledger: Ledger) -> None:
        """After a death: what was in flight has happened, or it has not.

        A window that was closing is closed by whoever comes by.
        """
        for key in ledger.allowed:
            ledger.allowed[key] = {self.value(key)}
            about = self.abouts.get(self.number.get(key.partition(" ")[2], -1))
            if key.startswith("window") and about and about.window and about.window.closing:
                ledger.allowed[key].add(None)


def violations(rows: Rows, codec: Codec, ledger: Ledger) -> list[str]:
    """All laws over one state."""
    judge = Judge(rows, codec)
    return [*judge.structure(), *judge.kept(ledger)]
