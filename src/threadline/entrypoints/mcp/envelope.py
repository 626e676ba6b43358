"""What others said, as a model is shown it: in blocks that nothing in them can end or open.

The boundary is made anew for each answer, so nobody can have said it before.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from threadline.core.context import Form, Material, Writer
from threadline.core.inert import attribute, boundary_of, inert_name, reading
from threadline.core.model import History
from threadline.core.rules.folding import Message
from threadline.entrypoints.mcp.shapes import LONGEST_TEXT

OWN = 'blocks with is="you" are'


def told(entries: Sequence[tuple[str, Message]], mine: frozenset[str]) -> str:
    """Records with the conversations they stand in, each in a block of its own.

    `mine` are the surrogate ids under which the session's own words are known.
    """
    writer = Writer(
        Material(
            key=secrets.token_bytes(32),
            mine=mine,
            head=0,
            visible_from=0,
            narrow=False,
            history=History.COMPLETE,
            reason="",
            window=[message for _, message in entries],
            more=False,
        ),
        Form.TEXT,
        LONGEST_TEXT,
        len,
        1,
    )
    said = [reading(writer.boundary, OWN)]
    for conversation, group in groupby(entries, key=lambda one: one[0]):
        said.append(f"In the conversation {conversation}:")
        for _, message in group:
            [line] = writer.lines(message, LONGEST_TEXT, unanswered=False)
            said.append(line.content)
    return "\n".join(said)


def listed(blocks: Iterable[tuple[Mapping[str, object], Sequence[str]]]) -> str:
    """Blocks with attributes of ours, and lines of which each holds others' words."""
    known = list(blocks)
    boundary = boundary_of(secrets.token_bytes(32), [line for _, lines in known for line in lines])
    name = f"data-{boundary}"
    said = [reading(boundary, OWN)]
    for attributes, lines in known:
        named = " ".join(f'{key}="{attribute(value)}"' for key, value in attributes.items())
        said += [f"<{name} {named}>", *(f"| {inert_name(one, 200)}" for one in lines if one)]
        said.append(f"</{name}>")
    return "\n".join(said)
