"""What adding a provider touches: its own files, and the lists that name it. Nothing else knows it.

Docstrings and comments may name platforms; what runs may not. Where it does after all, the file is
listed here with the reason, and a file that needs no exception any more has to leave the list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadline.adapters.registry import OURS
from threadline.testing.simulators import SIMULATORS

ROOT = Path(__file__).parent.parent.parent
SRC = ROOT / "src" / "threadline"
NAMES = sorted(one.name for one in OURS)

# Where a provider lives, and the three lists it has a line in.
PLACES = (
    "adapters/{name}*.py",
    "transports/{name}*.py",
    "testing/simulators/{name}*.py",
    "adapters/registry.py",
    "testing/simulators/__init__.py",
    "testing/scenes.py",
)
# A platform that runs anywhere is its own test: no simulator stands for it.
REAL = {"matrix"}
# The archives read files that people exported: another ability, with a list of its own.
ARCHIVES = ("archives/*.py", "core/archive.py")
SHARED = ("core/{name}.py",)
EXCEPTIONS: dict[str, tuple[set[str], str]] = {
    "adapters/twilio*.py": ({"whatsapp"}, "Twilio carries WhatsApp, under addresses named so"),
    "testing/simulators/twilio*.py": ({"whatsapp"}, "the same"),
    "entrypoints/http/webhooks.py": ({"matrix"}, "a homeserver appends this path by itself"),
    "entrypoints/logs.py": ({"slack", "telegram"}, "SDKs whose loggers would show credentials"),
    "entrypoints/cli/connecting.py": ({"discord", "slack", "telegram"}, "examples in a help text"),
    "entrypoints/cli/granting.py": ({"telegram"}, "examples in a help text"),
    "entrypoints/cli/knowing.py": ({"slack"}, "examples in a help text"),
    "entrypoints/mcp/shapes.py": ({"telegram"}, "examples in the description of a tool"),
    "entrypoints/cli/care.py": ({"discord", "telegram"}, "examples in a help text"),
    "entrypoints/cli/demo_platform.py": ({"matrix"}, "a real homeserver repeats nothing on order"),
    "testing/homeserver.py": ({"matrix"}, "the real platform, instead of a simulator"),
    "entrypoints/cli/attached.py": ({"slack"}, "the word, not the platform"),
    "entrypoints/cli/importing.py": ({"slack", "whatsapp"}, "the archives' options and examples"),
    "entrypoints/cli/demo_import.py": (
        {"discord", "matrix", "slack", "telegram", "whatsapp"},
        "a sample of each archive",
    ),
    "entrypoints/cli/demo_story.py": ({"slack"}, "the sample with the longest room"),
}


def named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every word of a file that runs: names, attributes, keywords, and texts that are no doc."""
    docs = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str(text)) if node not in docs:
                yield text, line
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                yield text, line
            case ast.alias(name=text) | ast.keyword(arg=str(text)):
                yield text, line
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield text, line
            case ast.AsyncFunctionDef(name=text):
                yield text, line


def knows(file: Path) -> dict[str, list[int]]:
    """The providers that a file names in what runs, and where."""
    tree = ast.parse(file.read_text("utf-8"))
    found: dict[str, list[int]] = {}
    for text, line in named(tree):
        for name in NAMES:
            if re.search(rf"(?<![a-z]){name}(?![a-z])", text, re.I):
                found.setdefault(name, []).append(line)
    return found


def allowed(file: Path, name: str) -> bool:
    """Whether a file may name a provider."""
    inside = file.relative_to(SRC)
    patterns = [one.replace("{name}", name) for one in (*PLACES, *ARCHIVES, *SHARED)]
    patterns += [one for one, (names, _) in EXCEPTIONS.items() if name in names]
    return any(inside.match(one) for one in patterns)


FILES = sorted(SRC.rglob("*.py"))


def strangers() -> list[str]:
    """Where a provider is named that is no place of it."""
    return [
        f"{file.relative_to(SRC)}:{lines[0]} names {name}"
        for file in FILES
        for name, lines in knows(file).items()
        if not allowed(file, name)
    ]


def test_nothing_but_a_providers_own_places_knows_its_name() -> None:
    assert strangers() == []


def test_every_exception_is_still_needed() -> None:
    for pattern, (names, _) in EXCEPTIONS.items():
        files = [file for file in FILES if file.relative_to(SRC).match(pattern)]
        assert {name for file in files for name in knows(file)} >= names, pattern


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if account.provider == 'telegram': pass", ["telegram"]),
        ("from threadline.adapters.discord import Discord", ["discord"]),
        ("URL = f'https://matrix.org/{x}'", ["matrix"]),
        ("def whatsapp_text(text): ...", ["whatsapp"]),
        ('def f():\n    """Such as slack/T1/C9."""\n    # Or Telegram.', []),
    ],
)
def test_a_name_in_what_runs_is_found(code: str, found: list[str], tmp_path: Path) -> None:
    """The check above can fail."""
    file = tmp_path / "new.py"
    file.write_text(code)

    assert sorted(knows(file)) == found


@pytest.mark.parametrize("name", sorted(one.name for one in OURS))
def test_every_provider_has_all_that_the_page_on_adding_one_names(name: str) -> None:
    """A dialect, a simulator or the real platform, a specimen and a page."""
    assert (SRC / "adapters" / f"{name}.py").exists()
    assert name in SIMULATORS or name in REAL
    assert (ROOT / "tests" / "providers" / "specimens" / f"{name}.py").exists()
    assert (ROOT / "docs" / "how-to" / f"{name}.md").exists()
