"""The laws of DESIGN section 2 and the rules of section 3, written once more, as plainly as can be.

Nothing of `src` is used here. A room is a dictionary of records by sequence; a membership is a few
numbers; time is minutes. What the real thing answers is compared with this.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

HOLD = 6
LEASE = 10
GATE = 15
WAKE_WITHIN = 60
BOT_WAKES = 2

Policy = tuple[str, int | None]
ALL: Policy = ("all", None)
SINCE_JOIN: Policy = ("since_join", None)


class Refused(Exception):
    """What the real thing is expected to refuse; any of these codes is right."""

    def __init__(self, *codes: str) -> None:
        super().__init__(*codes)
        self.codes = codes


@dataclass(frozen=True)
class Message:
    """What is said. `names` are the handles it mentions, `old` says that it is hours old."""

    text: str = ""
    id: str | None = None
    event: str = "message"
    revises: str | None = None
    actor: str = "human"
    target: str | None = None
    names: tuple[str, ...] = ()
    reply_to: str | None = None
    old: bool = False
    signed: bool = False
    said_by: int | None = None

    @property
    def outbound(self) -> bool:
        """Whether it is ours."""
        return self.said_by is not None


@dataclass
class Record:
    """An entry of a transcript. `at` is the minute it was recorded."""

    sequence: int
    message: Message
    text: str
    hydrated: bool
    at: int
    target: int | None = None
    wakes: bool = False
    blanked: bool = False
    refused: bool = False


@dataclass
class Grant:
    """A policy, and the minute it ends."""

    policy: Policy
    ends: int | None = None


@dataclass
class Member:
    """A session in a room."""

    joined: int
    grants: dict[str, Grant]
    last_read: int | None = None
    override: Policy | None = None
    closed: bool = False
    evicted: bool = False
    gated: bool = False
    handles: list[str] = field(default_factory=list)


@dataclass
class Window:
    """An import."""

    owner: str
    mode: str
    number: int
    lease: int
    end: int | None
    closing: str | None = None


@dataclass
class Binding:
    """Whose the room is."""

    session: int
    generation: int
    ends: int | None


@dataclass
class Session:
    """An agent's seat."""

    id: int
    name: str
    retired: bool = False
    successor: int | None = None
    before: set[int] = field(default_factory=set)


@dataclass
class Room:
    """One conversation."""

    records: dict[int, Record] = field(default_factory=dict)
    next: int = 1
    lowest: int = 1
    earliest: int = 1
    ids: dict[str, int] = field(default_factory=dict)
    revisions: dict[str, list[int]] = field(default_factory=dict)
    held: list[Message] = field(default_factory=list)
    window: Window | None = None
    windows: int = 0
    hydration: str = "live_only"
    last_mode: str | None = None
    live: bool = False
    keep: int | None = None
    age: int | None = None
    binding: Binding | None = None
    generation: int = 0
    grouped: bool = False
    mode: str = "open"
    default: str | None = None
    last: str | None = None
    seats: dict[str, int] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    spent: int = 0
    gone: set[int] = field(default_factory=set)

    @property
    def head(self) -> int:
        """The newest sequence."""
        return self.next - 1

    @property
    def gated(self) -> bool:
        """Whether live traffic waits."""
        return self.window is not None and self.window.mode == "gated"

    @property
    def history(self) -> str:
        """How much of the past is there."""
        if self.earliest > self.lowest:
            return "partial"
        return {"complete": "complete", "live_only": "none"}.get(self.hydration, "partial")


@dataclass(frozen=True)
class Answer:
    """What became of a message."""

    sequence: int | None = None
    duplicate: bool = False
    held: bool = False


@dataclass(frozen=True)
class Slice:
    """What a reader gets: (sequence, speaker, wake) each, and what the page says besides."""

    records: tuple[tuple[int, bool, bool], ...]
    more: bool
    gap: tuple[int, int] | None
    last_read: int | None
    visible_from: int


class Reference:
    """Everything that is known. `seen` counts what happened, so that a run can show its worth."""

    seen: Counter[str]

    def __init__(self, rooms: int, seen: Counter[str]) -> None:
        self.now = 0
        self.seen = seen
        self.rooms = [Room() for _ in range(rooms)]
        self.sessions: dict[int, Session] = {}
        self.names: dict[str, int] = {}

    # --- sessions ----------------------------------------------------------------------------

    def named(self, name: str) -> Session:
        """The session behind a name."""
        if name not in self.names:
            raise Refused("session_not_found")
        found = self.sessions[self.names[name]]
        if found.retired:
            raise Refused("session_retired")
        return found

    def ensured(self, name: str) -> Session:
        """The session behind a name, made where the name is unknown."""
        return self.named(name) if name in self.names else self.create(name)

    def create(self, name: str) -> Session:
        """A session under an unknown or retired name, else the one there is."""
        if name in self.names and not self.sessions[self.names[name]].retired:
            return self.named(name)
        made = Session(len(self.sessions) + 1, name)
        self.sessions[made.id] = made
        self.names[name] = made.id
        return made

    def retire(self, name: str) -> None:
        """End everything of a session."""
        if name not in self.names:
            raise Refused("session_not_found")
        session = self.sessions[self.names[name]]
        session.retired = True
        for room in self.rooms:
            if room.binding is not None and room.binding.session == session.id:
                room.binding = None
            member = room.members.get(session.id)
            if member is not None and not member.closed:
                self._drop_handles(room, member)
                member.grants, member.closed = {}, True

    def reassign(self, old_name: str, new_name: str) -> None:
        """All of the old one's is the new one's; done again, it is done already."""
        known = self.sessions.get(self.names.get(old_name, 0))
        if known is not None and known.successor == self.names.get(new_name, -1):
            return
        old = self.named(old_name)
        if old_name == new_name:
            raise Refused("invalid_input")
        new = self.create(new_name)
        new.before |= {old.id} | old.before
        old.retired, old.successor = True, new.id
        for room in self.rooms:
            self._move(room, old.id, new.id)

    def _move(self, room: Room, old: int, new: int) -> None:
        if room.binding is not None and room.binding.session == old:
            room.binding.session = new
        theirs = room.members.get(old)
        if theirs is None or theirs.closed:
            return
        handles, live = theirs.handles, self.active(theirs)
        moved = Member(
            theirs.joined,
            self.valid(theirs),
            theirs.last_read,
            theirs.override,
            gated=theirs.gated,
            handles=list(handles),
        )
        theirs.grants, theirs.closed, theirs.handles = {}, True, []
        if not live:
            return
        for handle in handles:
            room.seats[handle] = new
        mine = room.members.get(new)
        if mine is not None:
            read = [it for it in (mine.last_read, moved.last_read) if it is not None]
            moved.last_read = max(read, default=None)
            moved.override = mine.override or moved.override
        if mine is not None and self.active(mine):
            self.seen["reassigned where both are present"] += 1
            grants = self.valid(mine)
            for by, grant in moved.grants.items():
                if by not in grants or self._breadth(room, moved, grant.policy) < self._breadth(
                    room, mine, grants[by].policy
                ):
                    grants[by] = grant
            moved.grants = grants
            if (mine.joined, mine.gated) < (moved.joined, moved.gated):
                moved.joined, moved.gated = mine.joined, mine.gated
            moved.handles = list(dict.fromkeys([*mine.handles, *moved.handles]))
        self.seen["reassigned"] += 1
        room.members[new] = moved

    # --- who reads ---------------------------------------------------------------------------

    def valid(self, member: Member) -> dict[str, Grant]:
        """The grants that have not ended."""
        return {
            by: grant
            for by, grant in member.grants.items()
            if grant.ends is None or self.now < grant.ends
        }

    def active(self, member: Member | None) -> bool:
        """Whether a membership counts at this minute."""
        return member is not None and not member.closed and bool(self.valid(member))

    def begins(self, room: Room, member: Member, policy: Policy) -> int:
        """The first sequence a policy shows."""
        kind, n = policy
        if kind == "all":
            return room.earliest
        if kind == "since_join":
            return member.joined + 1
        return max(room.lowest, member.joined - (n or 1) + 1)

    def _breadth(self, room: Room, member: Member, policy: Policy) -> tuple[bool, int]:
        return policy[0] == "since_join", self.begins(room, member, policy)

    def policy(self, room: Room, member: Member) -> Policy:
        """The override, else the widest grant."""
        if member.override is not None:
            return member.override
        policies = [grant.policy for grant in self.valid(member).values()]
        return min(policies, key=lambda one: self._breadth(room, member, one))

    def cursor(self, room: Room, member: Member) -> int:
        """Where reading starts behind."""
        start = self.begins(room, member, self.policy(room, member)) - 1
        return start if member.last_read is None else max(start, member.last_read)

    def seat(
        self,
        room: Room,
        session: int,
        by: str,
        policy: Policy,
        ends: int | None = None,
        renew: bool = False,
    ) -> Member:
        """Grant membership: the same stint while there is one, else a new one."""
        member = room.members.get(session)
        if member is not None and self.active(member):
            if renew or by not in self.valid(member):
                member.grants[by] = Grant(policy, ends)
            return member
        if member is None:
            member = room.members[session] = Member(0, {})
        member.joined, member.gated = room.head, room.gated
        member.grants = {by: Grant(policy, ends)}
        member.closed = member.evicted = False
        return member

    def revoke(self, room: Room, session: int, by: str) -> None:
        """Take a reason away; with the last one the membership ends."""
        member = room.members.get(session)
        if member is not None and by in member.grants:
            del member.grants[by]
            member.closed = not member.grants

    def join(self, at: int, name: str, policy: Policy) -> None:
        """By hand."""
        self.seat(self.rooms[at], self.ensured(name).id, "manual", policy)

    def leave(self, at: int, name: str, reason: str | None, evict: bool) -> None:
        """Take a reason away, all of them, or for good."""
        room = self.rooms[at]
        session = self.named(name)
        member = room.members.get(session.id)
        if member is None or (member.closed and not evict):
            raise Refused("membership_not_found")
        if evict or reason in (None, "group"):
            self._drop_handles(room, member)
        bound = room.binding
        if (evict or reason in (None, "binding")) and bound and bound.session == session.id:
            room.binding = None
        if evict or reason is None:
            member.grants, member.closed = {}, True
            member.evicted = member.evicted or evict
            self.seen["evicted"] += evict
        else:
            self.revoke(room, session.id, reason)

    def member(self, at: int, name: str) -> tuple[Room, Session, Member]:
        """Who may read, or the refusal."""
        room, session = self.rooms[at], self.named(name)
        for number in (session.id, *session.before):
            member = room.members.get(number)
            if member is not None and self.active(member):
                return room, session, member
        self.seen["expired grant is none"] += any(
            not one.closed for number, one in room.members.items() if number == session.id
        )
        raise Refused("membership_not_found")

    def override(self, at: int, name: str, policy: Policy | None) -> None:
        """Set or clear what the member may read."""
        _, _, member = self.member(at, name)
        member.override = policy

    def reader(self, at: int, name: str) -> tuple[Room, Session, Member]:
        """Who may read now."""
        room, session, member = self.member(at, name)
        if room.gated:
            raise Refused("hydration_pending")
        return room, session, member

    def ack(self, at: int, name: str, sequence: int) -> int | None:
        """Forward only, never past the head; under the cursor it is a no-op."""
        room, _, member = self.reader(at, name)
        if sequence > room.head or sequence < min(0, room.lowest - 1):
            raise Refused("invalid_input")
        lost = self.gap(room, member)
        if sequence > (lost[0] - 1 if lost else self.cursor(room, member)):
            self.seen["acknowledged"] += 1
            member.last_read = sequence
        return member.last_read

    def gap(self, room: Room, member: Member) -> tuple[int, int] | None:
        """What retention took unread; nothing from an `all` member before its first ack."""
        if self.policy(room, member)[0] == "all":
            if member.last_read is None:
                return None
            read = member.last_read
        else:
            read = self.cursor(room, member)
        if read + 1 >= room.earliest:
            return None
        self.seen["gap"] += 1
        return read + 1, room.earliest - 1

    def slice(self, at: int, name: str, limit: int, own: bool) -> Slice:
        """What the member has not read: contiguous behind its cursor."""
        room, session, member = self.reader(at, name)
        me = {session.id} | session.before
        policy = self.policy(room, member)
        cursor = self.cursor(room, member)
        all_of_it = [
            record
            for sequence, record in sorted(room.records.items())
            if sequence > cursor
            and sequence >= room.earliest
            and not (policy[0] == "since_join" and record.hydrated)
            and (own or record.message.said_by not in me)
        ]
        return Slice(
            tuple(
                (it.sequence, it.target in me, it.wakes and it.target in me)
                for it in all_of_it[:limit]
            ),
            len(all_of_it) > limit,
            self.gap(room, member),
            member.last_read,
            self.begins(room, member, policy),
        )

    # --- who speaks --------------------------------------------------------------------------

    def held_by(self, room: Room) -> Binding | None:
        """The binding that holds now."""
        bound = room.binding
        return bound if bound and (bound.ends is None or self.now < bound.ends) else None

    def bind(
        self, at: int, name: str, policy: Policy | None, minutes: int | None, keep: bool
    ) -> tuple[int, int | None]:
        """Bind, with the membership; answers generation and end."""
        room = self.rooms[at]
        current = self.held_by(room)
        known = name in self.names
        session = self.named(name) if known else None
        if current is not None and (session is None or current.session != session.id):
            raise Refused("binding_conflict")
        session = session or self.create(name)
        ends = None if minutes is None else self.now + minutes
        if current is not None:
            current.ends = current.ends if keep else ends
        else:
            if room.binding is not None and room.binding.session != session.id:
                self.revoke(room, room.binding.session, "binding")
            self.seen["bound after an expiry"] += room.binding is not None
            room.generation += 1
            room.binding = Binding(session.id, room.generation, None if keep else ends)
        bound = room.binding
        assert bound is not None
        member = room.members.get(session.id)
        before = self.valid(member).get("binding") if member else None
        chosen = policy or (before.policy if before else SINCE_JOIN)
        self.seat(room, session.id, "binding", chosen, bound.ends, renew=True)
        return bound.generation, bound.ends

    def unbind(self, at: int) -> int | None:
        """End the binding; answers its generation where one held."""
        room = self.rooms[at]
        current, old = self.held_by(room), room.binding
        room.binding = None
        if old is not None:
            self.revoke(room, old.session, "binding")
        return current.generation if current else None

    def sit(self, at: int, handle: str, name: str) -> None:
        """Give a session a handle; whoever had it gives it up."""
        room, session = self.rooms[at], self.ensured(name)
        before = room.seats.get(handle)
        if before is not None and before != session.id:
            self._give_up(room, before, handle)
        room.seats[handle] = session.id
        room.grouped = True
        member = self.seat(room, session.id, "group", ALL)
        if handle not in member.handles:
            member.handles.append(handle)

    def stand_up(self, at: int, handle: str) -> None:
        """Take a handle away."""
        room = self.rooms[at]
        if handle not in room.seats:
            raise Refused("not_found")
        self._drop(room, handle)

    def _drop(self, room: Room, handle: str) -> None:
        session = room.seats.pop(handle)
        room.last = None if room.last == handle else room.last
        room.default = None if room.default == handle else room.default
        self._give_up(room, session, handle)

    def _give_up(self, room: Room, session: int, handle: str) -> None:
        member = room.members.get(session)
        if member is not None:
            member.handles = [one for one in member.handles if one != handle]
            if not member.handles:
                self.revoke(room, session, "group")

    def _drop_handles(self, room: Room, member: Member) -> None:
        for handle in list(member.handles):
            if handle in room.seats:
                self._drop(room, handle)
        member.handles = []

    def group(self, at: int, mode: str | None, default: str | None) -> None:
        """Make or change the group; None keeps what there is."""
        room = self.rooms[at]
        room.grouped = True
        room.mode = mode or room.mode
        room.default = default or room.default

    def _route(self, room: Room, message: Message) -> tuple[int | None, bool]:
        """Who speaks, and whether the message named it."""
        if message.target is not None:
            if message.target in room.seats:
                room.last = message.target
                return room.seats[message.target], True
            bound = self.held_by(room)
            if not room.grouped and bound and self.sessions[bound.session].name == message.target:
                return bound.session, True
            return None, False
        if room.grouped and message.names:
            called = list(dict.fromkeys(one for one in message.names if one in room.seats))
            if not called:
                return None, False
            self.seen["several named"] += len(called) > 1
            if len(called) == 1:
                room.last = called[0]
                return room.seats[called[0]], True
            chosen = room.last if room.last in called else called[0]
            return room.seats[chosen or ""], True
        replied = self._author(room, message.reply_to)
        if replied is not None:
            member = room.members.get(replied)
            bound = self.held_by(room)
            if room.grouped and member is not None and not member.closed and member.handles:
                room.last = member.handles[0]
                self.seen["reply routed"] += 1
                return replied, False
            if not room.grouped and bound is not None and bound.session == replied:
                self.seen["reply routed"] += 1
                return replied, False
        if message.actor == "bot" or (room.grouped and room.mode == "mention"):
            return None, False
        for handle in (room.last, room.default):
            if room.grouped and handle in room.seats:
                return room.seats[handle], False
        bound = self.held_by(room)
        return (bound.session, False) if bound and not room.grouped else (None, False)

    def _author(self, room: Room, reply_to: str | None) -> int | None:
        sequence = room.ids.get(reply_to or "")
        record = None if sequence is None else room.records.get(sequence)
        if record is None or record.message.said_by is None:
            return None
        author = self.sessions[record.message.said_by]
        heirs = [one for one in self.sessions.values() if author.id in one.before]
        heirs = [one for one in [author, *heirs] if not one.retired]
        return heirs[0].id if heirs else None

    # --- what is said ------------------------------------------------------------------------

    def hear(self, at: int, message: Message, *, direct: bool) -> Answer:
        """A message comes in: known, refused, held, or recorded."""
        room = self.rooms[at]
        if message.id in room.ids:
            self.seen["duplicate"] += 1
            self._claim(room, message)
            return Answer(room.ids[message.id or ""], duplicate=True)
        if room.window is not None and room.gated:
            if direct:
                raise Refused("hydration_pending")
            waiting = [one.id for one in room.held]
            if message.id is not None and message.id in waiting:
                self.seen["held and duplicate"] += 1
                before = room.held[waiting.index(message.id)]
                if message.outbound and not before.outbound:
                    self.seen["claimed while held"] += 1
                    room.held[waiting.index(message.id)] = replace(before, said_by=message.said_by)
                return Answer(held=True, duplicate=True)
            room.held.append(message)
            self.seen["held"] += 1
            if len(room.held) > HOLD:
                self.seen["hold full"] += 1
                room.window.closing = room.window.closing or "failed"
            return Answer(held=True)
        return Answer(self._record(room, message))

    def _claim(self, room: Room, message: Message) -> None:
        """What a session said and was heard or imported first is the session's from then on."""
        record = room.records.get(room.ids[message.id or ""])
        if record is None or record.message.outbound or record.blanked or not message.outbound:
            return
        self.seen["claimed"] += 1
        record.message = replace(record.message, said_by=message.said_by)

    def _record(self, room: Room, message: Message, imported: bool = False) -> int:
        in_front = imported and room.window is not None and room.window.mode == "prepending"
        target, named, notice = None, False, False
        record = Record(0, message, message.text, imported, self.now)
        if not imported and message.event == "message" and not message.outbound:
            human = message.actor != "bot"
            room.spent = 0 if human else room.spent
            target, named = self._route(room, message)
            record.target = target
            if target is not None and not message.old:
                if human:
                    record.wakes = True
                elif named:
                    record.wakes = room.spent < BOT_WAKES
                    notice = room.spent == BOT_WAKES
                    room.spent += 1
        record.sequence = room.lowest - 1 if in_front else room.next
        self._revise(room, record)
        room.records[record.sequence] = record
        if message.id is not None:
            room.ids[message.id] = record.sequence
        self.seen["woken"] += record.wakes
        self.seen["machines stopped"] += notice
        self.seen["imported at the head"] += imported and not in_front
        self.seen["imported in front"] += in_front
        if in_front:
            room.lowest = room.earliest = record.sequence
        else:
            room.next += 1
        room.live = room.live or not imported
        if notice:
            said = Message("notice", event="notice", actor="system")
            room.records[room.next] = Record(room.next, said, "notice", False, self.now)
            room.next += 1
        return record.sequence

    def _revise(self, room: Room, record: Record) -> None:
        message = record.message
        if message.event in ("edit", "delete"):
            assert message.revises is not None
            sequence = room.ids.get(message.revises)
            target = None if sequence is None else room.records.get(sequence)
            others = room.revisions.setdefault(message.revises, [])
            if target is not None and not self._may(target, record):
                record.refused = True
                self.seen["revision refused"] += 1
                return
            if message.event == "delete":
                record.text = ""
                if target is not None:
                    self.seen["deleted"] += 1
                    target.text, target.blanked = "", True
                for one in self._edits(room, others):
                    if target is not None or self._may(one, record):
                        one.text, one.blanked = "", True
            elif (target is not None and target.blanked) or (
                target is None and any(self._deletes(room, number, record) for number in others)
            ):
                record.text, record.blanked = "", True
            others.append(record.sequence)
        elif message.event == "message" and message.id is not None:
            others = room.revisions.get(message.id, [])
            deleted = False
            for number in others:
                early = room.records.get(number)
                if early is None:
                    deleted = deleted or number in room.gone
                elif not self._may(record, early):
                    early.refused = True
                    self.seen["early revision refused"] += 1
                elif early.message.event == "delete":
                    deleted = True
            if deleted:
                self.seen["deleted before it came"] += 1
                record.text, record.blanked = "", True
                for one in self._edits(room, others):
                    one.text, one.blanked = "", True

    def _edits(self, room: Room, numbers: list[int]) -> list[Record]:
        found = [room.records[number] for number in numbers if number in room.records]
        return [one for one in found if one.message.event == "edit"]

    def _deletes(self, room: Room, number: int, edit: Record) -> bool:
        early = room.records.get(number)
        if early is None:
            return number in room.gone
        return early.message.event == "delete" and self._may(edit, early)

    @staticmethod
    def _may(target: Record, revision: Record) -> bool:
        if revision.message.event == "delete" and revision.message.signed:
            return True
        return target.message.actor == revision.message.actor

    # --- windows -----------------------------------------------------------------------------

    def begin(self, at: int, owner: str, mode: str | None) -> tuple[int, str]:
        """Open a window, or give the owner its own again; answers its number and mode."""
        room = self.rooms[at]
        window = room.window
        if window is not None:
            if window.owner != owner or mode not in (None, window.mode):
                raise Refused("hydration_pending")
            window.lease = self.now + LEASE
            return window.number, window.mode
        if mode is None and room.hydration == "failed":
            mode = room.last_mode
        mode = mode or ("prepending" if room.live else "gated")
        if mode == "prepending" and room.earliest > room.lowest:
            self.seen["history swept"] += 1
            raise Refused("history_swept")
        room.windows += 1
        end = self.now + GATE if mode == "gated" else None
        room.window = Window(owner, mode, room.windows, self.now + LEASE, end)
        room.hydration = "pending"
        return room.windows, mode

    def _open(self, room: Room, number: int) -> Window:
        if room.window is None:
            raise Refused("hydration_conflict")
        if room.window.number != number:
            raise Refused("stale_token")
        return room.window

    def imports(self, at: int, number: int, messages: list[Message]) -> list[Answer]:
        """Known ids are skipped, unknown ones go where the mode puts them."""
        room = self.rooms[at]
        window = self._open(room, number)
        if window.mode == "prepending" and room.earliest > room.lowest:
            self.seen["history swept"] += 1
            raise Refused("history_swept")
        window.lease = self.now + LEASE
        return [
            Answer(room.ids[one.id or ""], duplicate=True)
            if one.id in room.ids
            else Answer(self._record(room, one, imported=True))
            for one in messages
        ]

    def end(self, at: int, number: int, how: str) -> None:
        """Complete or fail."""
        room = self.rooms[at]
        self._open(room, number).closing = how
        self.drain(room)

    def drain(self, room: Room) -> None:
        """Close what is closing: settle who joined meanwhile, append what waited."""
        window = room.window
        if window is None or window.closing is None:
            return
        for member in room.members.values():
            if member.gated:
                self.seen["joined while gated"] += 1
                member.joined, member.gated = room.head, False
        held, room.held = room.held, []
        for message in held:
            if message.id not in room.ids:
                self._record(room, message)
            else:
                self._claim(room, message)
        room.hydration, room.last_mode, room.window = window.closing, window.mode, None

    # --- time --------------------------------------------------------------------------------

    def move(self, minutes: int) -> None:
        """Time passes; windows run out."""
        self.now += minutes
        for room in self.rooms:
            window = room.window
            if window is not None and (
                self.now >= window.lease or (window.end is not None and self.now >= window.end)
            ):
                window.closing = "failed"
                self.seen[f"{window.mode} window ran out"] += 1
                self.drain(room)

    def tidy(self) -> None:
        """A round of upkeep: expired bindings end, floors move."""
        for room in self.rooms:
            if room.binding is not None and self.held_by(room) is None:
                self.revoke(room, room.binding.session, "binding")
                self.seen["expired binding tidied"] += 1
                room.binding = None
            self.sweep(room)

    def sweep(self, room: Room) -> None:
        """Move the floor as retention says; ids stay for ever."""
        if room.gated:
            return
        floor = room.earliest
        if room.keep is not None:
            floor = max(floor, room.next - room.keep)
        if room.age is not None:
            old = [it.sequence for it in room.records.values() if it.at < self.now - room.age]
            floor = max([floor, *(sequence + 1 for sequence in old)])
        for sequence in [one for one in room.records if one < floor]:
            if room.records[sequence].message.event == "delete":
                room.gone.add(sequence)
            del room.records[sequence]
        self.seen["swept"] += floor > room.earliest
        room.earliest = floor
