"""Long text in parts: nothing lost, counted as the platform counts, fences balanced.

A part ends where a reader would pause: after a paragraph, else a line, else a sentence, else a
word, else between two characters as people see them, never inside one. What is stored is where the
parts end; a code block that a cut goes through is closed at the end of a part and opened again at
the start of the next, and those added lines are no part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from threadline.core.adapters import Unit

Clusters = Callable[[str], Sequence[str]]

# No platform's messages are shorter, so what is added to a part always leaves room for the text.
SHORTEST = 160
# In bytes: an opening line that is longer is opened again without its words.
LONGEST_OPENING = 40
LONGEST_MARK = 20
# A pause is taken where the part is at least this full; else the next smaller kind of pause.
FULL_ENOUGH = 0.5
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.M)
_PAUSES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?。！？]\s+"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Fence:
    """An open code block: the line that opened it, and what closes it."""

    opening: str
    mark: str


def length(text: str, unit: Unit) -> int:
    """How long a text is as the platform counts.

    >>> [length("né🎉", unit) for unit in Unit]
    [3, 4, 7]
    """
    match unit:
        case Unit.CHARACTERS:
            return len(text)
        case Unit.UTF16:
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case Unit.BYTES:
            return len(text.encode("utf-8", "surrogatepass"))


def cuts(text: str, limit: int, unit: Unit, clusters: Clusters) -> tuple[int, ...]:
    """Where each part ends, in characters of the text; empty where one message is enough.

    `clusters` parts a text into characters as people see them.
    """
    if length(text, unit) <= limit:
        return ()
    ends: list[int] = []
    start = 0
    fence: Fence | None = None
    while start < len(text):
        end = _end(text, start, fence, limit, unit, clusters)
        ends.append(end)
        fence = open_at(text, end, start, fence)
        start = end
    return tuple(ends)


def parts(text: str, ends: Sequence[int]) -> list[str]:
    """The messages, with the lines added that close and open a code block.

    >>> parts("```py\\na\\nb\\n```", [8, 13])
    ['```py\\na\\n```', '```py\\nb\\n```']
    """
    if not ends:
        return [text]
    made: list[str] = []
    start = 0
    fence: Fence | None = None
    for end in ends:
        after = open_at(text, end, start, fence)
        made.append(_dressed(text[start:end], fence, after))
        start, fence = end, after
    return made


def open_at(text: str, end: int, start: int = 0, fence: Fence | None = None) -> Fence | None:
    """The code block that is open where a text is cut, None outside of one.

    `fence` is the one that was open at `start`.

    >>> open_at("```py\\nx = 1\\n", 12)
    Fence(opening='```py', mark='```')
    """
    for found in _FENCE.finditer(text, start, end):
        mark, words = found[1], found[2].strip()
        if fence is None:
            # With a backtick in its words it is code inside a line, not a block.
            if len(mark) <= LONGEST_MARK and not ("`" in words and mark[0] == "`"):
                opening = found[0].strip()
                if length(opening, Unit.BYTES) > LONGEST_OPENING:
                    opening = mark
                fence = Fence(opening, mark)
        elif mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not words:
            fence = None
    return fence


def _dressed(piece: str, before: Fence | None, after: Fence | None) -> str:
    if before is not None:
        piece = f"{before.opening}\n{piece}"
    if after is not None:
        piece += f"\n{after.mark}" if not piece.endswith("\n") else after.mark
    return piece


def _end(
    text: str, start: int, fence: Fence | None, limit: int, unit: Unit, clusters: Clusters
) -> int:
    """Where the part that begins here ends: as far as fits with its added lines, at a pause."""
    room = limit - (0 if fence is None else length(fence.opening, unit) + 1)
    if len(text) - start <= room:
        rest = _dressed(text[start:], fence, open_at(text, len(text), start, fence))
        if length(rest, unit) <= limit:
            return len(text)
    furthest = _furthest(text, start, room, unit, clusters)
    while True:
        end = _whole_line(text, start, _pause(text, start, furthest))
        after = open_at(text, end, start, fence)
        piece = _dressed(text[start:end], fence, after)
        over = length(piece, unit) - limit
        if over <= 0 or end <= start + 1:
            return end
        # The line that closes the block needs room as well.
        shorter = _furthest(text, start, length(text[start:end], unit) - over, unit, clusters)
        furthest = shorter if shorter < end else max(start + 1, end - 1)


def _furthest(text: str, start: int, room: int, unit: Unit, clusters: Clusters) -> int:
    """The last border between two characters people see that fits; at least one of them.

    One that alone is longer than a message is cut between code points.
    """
    window = text[start : start + max(room, 1) + 1]
    used, end = 0, start
    for cluster in clusters(window):
        used += length(cluster, unit)
        if used > room:
            break
        end += len(cluster)
    if end == start + len(window) and end < len(text):
        # The window's last character may go on behind it.
        end -= len(clusters(window)[-1])
    if end > start:
        return end
    for size in range(1, len(window) + 1):
        if length(window[:size], unit) > room:
            return start + max(1, size - 1)
    return start + len(window)


def _whole_line(text: str, start: int, end: int) -> int:
    """Not inside a line that opens or closes a block, where that can be helped."""
    line = text.rfind("\n", 0, end) + 1
    found = _FENCE.match(text, line)
    return line if found is not None and start < line < end < found.end() else end


def _pause(text: str, start: int, furthest: int) -> int:
    least = start + int((furthest - start) * FULL_ENOUGH)
    for pause in _PAUSES:
        ends = [found.end() for found in pause.finditer(text, start, furthest)]
        # White space that the search ran into at the border may go on behind it: still a border.
        good = [end for end in ends if end > least]
        if good:
            return good[-1]
    return furthest
