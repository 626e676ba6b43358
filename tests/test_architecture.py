"""The house: which room opens onto which, what is pure, and how large a file may grow.

Every room opens only onto `core`. Only `entrypoints` may also open `flows`. Only `app.py` and the
command line see the whole house. Nothing opens `entrypoints`. `testing` is for users' tests, so
nothing of ours stands on it; it finds a dialect by its name, and its pytest fixtures open a ledger.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from threadline.testing.purity import calls, imports, io_of

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "threadline"

ROOMS = ("core", "flows", "adapters", "archives", "stores", "transports", "entrypoints", "testing")
OPENS = {room: {"core"} for room in ROOMS} | {"entrypoints": {"core", "flows"}}
CLI = "entrypoints/cli"
SIMULATE = tuple(
    f"{CLI}/{name}.py" for name in ("demo_house", "demo_means", "demo_platform", "simulating")
)
# These are not in a room. `app` is the composition root; the others may open what is named.
DOORS = {
    "app.py": set(ROOMS) - {"entrypoints", "testing"},
    "config.py": {"core"},
    "client.py": {"core"},
}
WHOLE_HOUSE = set(ROOMS) - {"testing"} | {"app", "client", "config", "threadline"}

# What users' tests are given may open what is named, at the moment it is used.
GIVEN = {
    "testing/specimen.py": {"core", "adapters"},
    "testing/plugin.py": {"threadline"},
}
# A test's server starts with the environment, without our settings in it.
ENVIRONMENT = {"config.py", "testing/plugin.py"}

PURE = ("core", "adapters", "archives")
# What `core` may use beside the standard library: nothing. `archives` decode with these.
DECODERS = frozenset({"ijson", "msgspec"})

MAX_LINES = 450
# A file with one noun's whole story may be longer; none of these may grow past its number.
LONGER = {
    "core/model.py": 640,
    "flows/speakers.py": 650,
    "flows/replay.py": 500,
    "flows/sessions.py": 500,
    "flows/hydration.py": 490,
    "stores/codec.py": 495,
    "client.py": 470,
}


@dataclass(frozen=True)
class File:
    """One Python file: where it is, what it says."""

    path: Path
    unsaved: str = ""

    @cached_property
    def text(self) -> str:
        """What it says."""
        return self.unsaved or self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """What it says, parsed."""
        return ast.parse(self.text, str(self.path))

    @property
    def lines(self) -> int:
        """How long it is."""
        return self.text.count("\n")

    @property
    def name(self) -> str:
        """Its path inside the package, or inside the repository."""
        base = SRC if self.path.is_relative_to(SRC) else ROOT
        return self.path.relative_to(base).as_posix()

    @property
    def room(self) -> str:
        """The room it is in; its own name where it is in none."""
        return self.name.split("/")[0]


@cache
def files_under(folder: Path) -> tuple[File, ...]:
    """Every Python file below a folder."""
    return tuple(File(path) for path in sorted(folder.rglob("*.py")))


def opened(file: File) -> set[str]:
    """The rooms of ours a file opens, its own left out; `threadline` for the package itself."""
    found = set()
    for module in imports(file.tree):
        first, _, rest = module.partition(".")
        if first == "threadline":
            room = rest.split(".")[0]
            known = room in ROOMS or (SRC / f"{room}.py").exists()
            found.add(room if known else "threadline")
    return found - {file.room.removesuffix(".py")}


def allowed(file: File) -> set[str]:
    """The rooms a file may open."""
    if file.name in SIMULATE:
        return WHOLE_HOUSE | {"testing"}
    if file.name.startswith(f"{CLI}/") or file.name == f"{CLI}.py":
        return WHOLE_HOUSE
    if file.name == "__init__.py":
        return {"app", "core", "flows"}
    return DOORS.get(file.name) or GIVEN.get(file.name) or OPENS.get(file.room, set())


def violations(file: File) -> set[str]:
    """The rooms a file opens and may not."""
    return opened(file) - allowed(file)


def environment_reads(tree: ast.AST) -> list[int]:
    """The lines that read the environment."""
    names = {"os.environ", "os.environb", "os.getenv", "environ", "getenv"}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in names
    ]


def module_edits(tree: ast.AST) -> list[int]:
    """The lines that put something into `sys.modules` or take it out."""
    edits = {"pop", "popitem", "clear", "update", "setdefault", "__setitem__", "__delitem__"}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Attribute() as base, ctx=ast.Store() | ast.Del()):
                if ast.unparse(base) == "sys.modules":
                    found.append(node.lineno)
            case ast.Attribute(value=ast.Attribute() as base, attr=name):
                if ast.unparse(base) == "sys.modules" and name in edits:
                    found.append(node.lineno)
            case ast.Call(args=[ast.Attribute() as first, *_]):
                called = ast.unparse(node.func)
                if ast.unparse(first) == "sys.modules" and called.endswith(("setitem", "delitem")):
                    found.append(node.lineno)
            case _:
                continue
    return found


SOURCE = files_under(SRC)


def test_every_file_is_in_a_room_or_a_known_door() -> None:
    known = {*ROOMS, "__init__.py", *DOORS}

    assert {file.room for file in SOURCE} <= known
    assert {"core", "flows", "archives", "stores", "entrypoints"} <= {f.room for f in SOURCE}


@pytest.mark.parametrize("file", SOURCE, ids=lambda file: file.name)
def test_a_room_opens_only_onto_what_it_may(file: File) -> None:
    assert violations(file) == set()


def test_nothing_opens_the_entrypoints_or_stands_on_the_testing_room() -> None:
    inside = [file for file in SOURCE if file.room not in {"entrypoints", "testing"}]

    assert [file.name for file in inside if opened(file) & {"entrypoints", "testing"}] == []
    # The commands that people try a platform with are the simulators' own entrance.
    opens = [file.name for file in SOURCE if "testing" in opened(file)]
    assert tuple(opens) == SIMULATE


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("stores", "from threadline.flows.replay import Replay"),
        ("core", "from threadline.stores import sqlite"),
        ("flows", "import threadline.archives"),
        ("flows", "from threadline import Threadline"),
        ("archives", "from threadline.entrypoints.files import open_source"),
        ("entrypoints", "from threadline.stores.sqlite import SqliteStore"),
    ],
)
def test_a_door_that_is_not_allowed_is_found(room: str, line: str) -> None:
    """The check above can fail."""
    body = f"def late() -> None:\n    {line}\n"
    assert violations(File(SRC / room / "new.py", body))


def test_the_core_imports_the_standard_library_only() -> None:
    foreign = {
        f"{file.name}: {module}"
        for file in SOURCE
        if file.room == "core"
        for module in imports(file.tree)
        if module.split(".")[0] not in sys.stdlib_module_names | {"threadline"}
    }

    assert foreign == set()


def test_the_archives_use_the_standard_library_and_decoders() -> None:
    used = {
        module.split(".")[0]
        for file in SOURCE
        if file.room == "archives"
        for module in imports(file.tree)
    }

    assert used - sys.stdlib_module_names - {"threadline"} <= DECODERS


@pytest.mark.parametrize("file", [f for f in SOURCE if f.room in PURE], ids=lambda file: file.name)
def test_the_pure_rooms_touch_nothing(file: File) -> None:
    """No file, no socket, no clock, no chance, no log, no await."""
    assert io_of(file.tree) == []


@pytest.mark.parametrize(
    "line",
    [
        "import os.path",
        "from time import monotonic",
        "from pathlib import Path",
        "import logging",
        "open('x')",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "date.today()",
        "print('x')",
    ],
)
def test_what_touches_the_world_is_found(line: str) -> None:
    """The check above can fail."""
    assert io_of(ast.parse(line))


def test_reading_a_member_of_a_source_is_not_opening_a_file() -> None:
    assert io_of(ast.parse("source.open(name)")) == []


def test_nobody_but_the_settings_and_the_command_line_reads_the_environment() -> None:
    readers = [
        f"{file.name}:{line}"
        for file in SOURCE
        if file.name not in ENVIRONMENT and not file.name.startswith(f"{CLI}/")
        for line in environment_reads(file.tree)
    ]

    assert readers == []
    assert environment_reads(ast.parse("import os\nhome = os.environ['HOME']"))


def test_nobody_edits_the_modules_that_are_loaded() -> None:
    edits = [
        f"{file.name}:{line}"
        for folder in (SRC, ROOT / "tests")
        for file in files_under(folder)
        for line in module_edits(file.tree)
    ]

    assert edits == []


@pytest.mark.parametrize(
    "line",
    [
        "sys.modules['x'] = y",
        "del sys.modules['x']",
        "sys.modules.pop('x')",
        "monkeypatch.setitem(sys.modules, 'x', y)",
    ],
)
def test_an_edit_of_the_loaded_modules_is_found(line: str) -> None:
    """The check above can fail."""
    assert module_edits(ast.parse(line))


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{file.name}:{line}"
        for file in SOURCE
        if not file.name.startswith(f"{CLI}/")
        for name, line in calls(file.tree)
        if name == "print"
    ]

    assert printing == []


@pytest.mark.parametrize("file", SOURCE, ids=lambda file: file.name)
def test_a_file_fits_into_a_head(file: File) -> None:
    assert file.lines <= LONGER.get(file.name, MAX_LINES)


def test_every_exception_to_the_length_is_still_needed() -> None:
    lines = {file.name: file.lines for file in SOURCE}

    assert [name for name in LONGER if lines.get(name, 0) <= MAX_LINES] == []
