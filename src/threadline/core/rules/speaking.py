"""Who speaks: one pure decision, fixed at commit. Never who reads.

The ten steps of `route`, the first that matches:

 1. explicit target, or exactly one participant named: it, and the cursor moves;
    anybody else asked for, or only strangers mentioned: `no_match`, nobody
 2. several participants named: the last addressed if among them, else the first; cursor unmoved
 3. reply to a record of a session that may speak here: it, and the cursor moves
 4. in a thread: last addressed there, else who said its root
 5. a group that speaks only when mentioned: nobody
 6. last addressed here
 7. the default handle
 8. no group at all: the claim of a send that is not confirmed yet, then the binding
 9. the account's default route, in a DM: it is bound in the same transaction
10. nobody

A bot's message stops after step 3.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from threadline.core.errors import InvalidInput
from threadline.core.model import (
    Direction,
    Event,
    GroupMode,
    InboundMessage,
    Participant,
)
from threadline.core.quick import quick
from threadline.core.rules.limits import Limits

_ZERO_WIDTH = dict.fromkeys([0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x180E])
_NAMED = re.compile(r"(?<![\w@＠.])[@＠]([^\W_][\w.\-]{0,63})")
_STARTS = re.compile(r"\s*([^\W_][\w.\-]{0,63})[:,](?=\s|$)")
_HANDLE = re.compile(r"[^\W_][\w.\-]{0,63}")
MAX_NAMED = 50


def fold(handle: str) -> str:
    """A handle as it is compared: NFC, casefold, without zero-width characters.

    >>> fold("Jose\\u0301") == fold("JOSÉ"), fold("jose") == fold("josé")
    (True, False)
    """
    if handle.isascii():
        return handle.casefold()
    bare = unicodedata.normalize("NFC", handle.translate(_ZERO_WIDTH))
    return unicodedata.normalize("NFC", bare.casefold())


def checked_handle(handle: str) -> str:
    """A handle as it will be shown. Raises `InvalidInput` where nobody could address it."""
    shown = handle.removeprefix("@").translate(_ZERO_WIDTH).strip()
    shown = unicodedata.normalize("NFC", shown)
    if not _HANDLE.fullmatch(shown):
        raise InvalidInput(
            f"handle {handle!r} must begin with a letter or digit and hold only letters, digits, "
            "'.', '-' and '_', at most 64.",
            handle=handle,
        )
    return shown


def _bare(name: str) -> str:
    """A handle that was given by itself, folded, without the sign before it."""
    return fold(name.strip().lstrip("@＠").strip())


def _plain(text: str) -> str:
    """A text as handles are looked for in it: NFC, without zero-width characters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.translate(_ZERO_WIDTH))


@dataclass(frozen=True, slots=True)
class Named:
    """Whom a message may mean, folded: the field, the mentions in order, the word it begins with.

    Every mention carries its spellings, longest first: `@b.` may mean `b.` or `b`.
    """

    explicit: str | None = None
    mentions: tuple[tuple[str, ...], ...] = ()
    start: str | None = None

    def handles(self) -> set[str]:
        """Every handle that has to be looked up."""
        found = {spelling for spellings in self.mentions for spelling in spellings}
        if self.explicit is not None:
            found.add(self.explicit)
        if self.start is not None:
            found.add(self.start)
        return found


def named(message: InboundMessage) -> Named:
    """Whom this message names, by its field, its mention entities and its text."""
    explicit = message.explicit_target
    text = message.text
    mentions: list[tuple[str, ...]] = [(_bare(one),) for one in message.mentions[:MAX_NAMED]]
    if "@" in text or "＠" in text:
        for found in _NAMED.findall(_plain(text))[:MAX_NAMED]:
            word = fold(found)
            short = word.rstrip(".-")
            mentions.append((word,) if short == word else (word, short))
    opening = text[:200]
    start = _STARTS.match(_plain(opening)) if ":" in opening or "," in opening else None
    return Named(
        explicit=None if explicit is None else _bare(explicit),
        mentions=tuple(mentions),
        start=fold(start[1]) if start else None,
    )


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that `route` looks at. Sessions are surrogate ids.

    `find` gives the participant a folded handle means (of the own group, else the parent's);
    `seats` the handles a session speaks under here.
    """

    message: InboundMessage
    named: Named
    find: Callable[[str | None], Participant | None]
    seats: Callable[[int | None], tuple[str, ...]]
    grouped: bool = False
    mode: GroupMode = GroupMode.OPEN
    default_handle: str | None = None
    last_addressed: str | None = None
    replied: int | None = None
    thread: bool = False
    root_said_by: int | None = None
    bound: int | None = None
    claimed: bool = False
    bound_names: frozenset[str] = frozenset()
    default_route: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Who was chosen, by which step, what the cursor becomes, and whether it is bound now."""

    session: int | None
    step: str
    cursor: str | None = None
    bind: bool = False


def route(scene: Scene) -> Choice:
    """Choose at most one speaker."""
    called = _called(scene)
    if called is not None:
        return called
    if scene.replied is not None:
        if handles := scene.seats(scene.replied):
            return Choice(scene.replied, "reply", fold(handles[0]))
        if not scene.grouped and scene.replied == scene.bound:
            return Choice(scene.replied, "reply")
    if scene.message.actor.is_bot:
        return Choice(None, "bot")
    last = scene.find(scene.last_addressed)
    if scene.thread:
        if last is not None:
            return Choice(last.session, "thread")
        root = scene.root_said_by
        if root is not None and (scene.seats(root) or root == scene.bound or not scene.grouped):
            return Choice(root, "thread")
    if scene.grouped and scene.mode is GroupMode.MENTION:
        return Choice(None, "mention")
    if last is not None:
        return Choice(last.session, "last_addressed")
    if (default := scene.find(scene.default_handle)) is not None:
        return Choice(default.session, "default")
    if not scene.grouped and scene.bound is not None:
        return Choice(scene.bound, "claim" if scene.claimed else "binding")
    if scene.default_route is not None and not scene.grouped:
        return Choice(scene.default_route, "default_route", bind=True)
    return Choice(None, "none")


def _called(scene: Scene) -> Choice | None:
    """Steps 1 and 2: whom the message itself asks for."""
    asked = scene.named
    if asked.explicit is not None:
        seat = scene.find(asked.explicit)
        if seat is not None:
            return Choice(seat.session, "explicit", fold(seat.handle))
        if not scene.grouped and scene.bound is not None and asked.explicit in scene.bound_names:
            return Choice(scene.bound, "explicit")
        return Choice(None, "no_match")
    if not scene.grouped:
        return None
    seats: dict[str, Participant] = {}
    words = [*asked.mentions, *([(asked.start,)] if asked.start else [])]
    for spellings in words:
        seat = next((it for word in spellings if (it := scene.find(word)) is not None), None)
        if seat is not None:
            seats.setdefault(fold(seat.handle), seat)
    if len(seats) == 1:
        [(handle, seat)] = seats.items()
        return Choice(seat.session, "explicit", handle)
    if seats:
        last = scene.find(scene.last_addressed)
        among = last is not None and fold(last.handle) in seats
        chosen = last if among and last is not None else next(iter(seats.values()))
        return Choice(chosen.session, "several")
    return Choice(None, "no_match") if asked.mentions else None


NAMED_STEPS = frozenset({"explicit", "several"})


def wakes(message: InboundMessage, choice: Choice, now: datetime, limits: Limits) -> bool:
    """Whether the message may wake its speaker, before any budget is asked (law 12)."""
    if choice.session is None or message.event is not Event.MESSAGE:
        return False
    if message.direction is not Direction.INBOUND or message.actor.is_self:
        return False
    if message.sent_at is not None and now - message.sent_at > limits.wake_within:
        return False
    return not message.actor.is_bot or choice.step in NAMED_STEPS
