"""Long text in parts: nothing lost, nothing too long, no fence left open, no character cut."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.core.adapters import Unit
from threadline.core.rules.splitting import SHORTEST, cuts, length, parts
from threadline.flows.outbound import clusters

PIECES = ["word ", "x", "\n", "\n\n", ". ", "é", "e\u0301", "🎉", "👩‍👩‍👧‍👦", "🇩🇪", "字",
          "```\n", "\n```py\n", "~~~\n", "`", "    "]  # fmt: skip


def pieces(text: str, ends: tuple[int, ...]) -> list[str]:
    """The text between the cuts, without the lines added."""
    return [text[a:b] for a, b in zip((0, *ends), (*ends, len(text)), strict=True)][: len(ends)]


@pytest.mark.acceptance("G11")
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=700).map("".join),
    unit=st.sampled_from(list(Unit)),
    limit=st.integers(SHORTEST, 400),
)
@settings(max_examples=150, deadline=None)
def test_parts_joined_are_the_text_and_each_fits(text: str, unit: Unit, limit: int) -> None:
    """G11: in the platform's unit, on the borders of characters as people see them."""
    ends = cuts(text, limit, unit, clusters)

    made = parts(text, ends)

    assert all(length(one, unit) <= limit for one in made)
    if length(text, unit) <= limit:
        assert made == [text]
    else:
        assert "".join(pieces(text, ends)) == text
        assert all(pieces(text, ends))
        borders = {match.end() for match in regex.finditer(r"\X", text)}
        assert set(ends) <= borders


@pytest.mark.acceptance("G11")
@pytest.mark.case("B106")
def test_a_code_block_is_closed_and_opened_again_at_every_cut() -> None:
    """B106: every part is balanced, and reopens with the language it had."""
    code = "\n".join(f"print({n})  # the line {n}" for n in range(300))
    text = f"intro\n```py\n{code}\n```\nDone."

    ends = cuts(text, 2_000, Unit.CHARACTERS, clusters)
    made = parts(text, ends)

    assert len(made) > 3
    assert all(len(one) <= 2_000 for one in made)
    assert all(one.count("```") % 2 == 0 for one in made)
    assert all(one.startswith("```py\n") for one in made[1:])
    assert made[-1].endswith("\n```\nDone.")
    bare = [made[0].removesuffix("```")]
    bare += [one.removeprefix("```py\n").removesuffix("```") for one in made[1:-1]]
    bare.append(made[-1].removeprefix("```py\n"))
    assert "".join(bare) == text


def test_a_part_ends_where_a_reader_would_pause() -> None:
    """A paragraph before a line, a line before a sentence, a sentence before a word."""
    for pause in ("\n\n", "\n", ". ", " "):
        text = "x" * 120 + pause + "y" * 120

        [first, second] = parts(text, cuts(text, SHORTEST, Unit.CHARACTERS, clusters))

        assert (first, second) == ("x" * 120 + pause, "y" * 120)


def test_a_character_longer_than_a_message_is_cut_between_code_points() -> None:
    """Nothing is lost, whatever somebody stacks on a letter."""
    text = "a" + "\u0301" * 500

    made = parts(text, cuts(text, SHORTEST, Unit.CHARACTERS, clusters))

    assert "".join(made) == text
    assert max(map(len, made)) <= SHORTEST
