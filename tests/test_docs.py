"""The docs run: every example works as printed, every name exists, every page is complete."""

from __future__ import annotations

import ast
import importlib
import io
import os
import pkgutil
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

import threadline
from tests.http.conftest import Served
from tests.warm import PROGRAM, Popen, run
from threadline import Threadline, ThreadlineError
from threadline.config import PREFIX, Settings

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "threadline"
REFERENCE = ROOT / "docs" / "reference"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "changes" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXPORTS = ROOT / "tests" / "data" / "exports"
# What the docs call the reader's own files, and what stands for them here.
FILES = {
    "slack-export.zip": "slack-export-made-2.zip",
    "chat.txt": "whatsapp-made-ios-en-gb.txt",
    "result.json": "telegram-single-tgparser-1.json",
    "list.mbox": "mbox-mimekit-1.mbox",
}

# Commands that end when they are stopped.
GOES_ON = {"serve", "attach", "simulate"}
STOPPED = (0, -signal.SIGTERM)

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
_HEADING = re.compile(r"^(#+) +(.+?)\s*$", re.M)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_NAMED = re.compile(r"`([\w/]+\.py):([\w.]+)`")
_FILE = re.compile(r"`((?:core|flows|stores|archives|entrypoints|testing|tests|scripts)/[\w/.]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}: {self.text.strip().splitlines()[0][:40]}"


def name_of(page: Path) -> str:
    """A page as people say it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    return [Block(page, kind.strip(), text) for kind, text in _FENCE.findall(page.read_text())]


def prose(page: Path) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def headings(page: Path, level: int) -> list[str]:
    """The headings of one level, without the marks of code."""
    found = _HEADING.findall(prose(page))
    return [text.strip("`") for marks, text in found if len(marks) == level]


def anchors(page: Path) -> set[str]:
    """The places inside a page that a link can name."""
    found = (text.lower() for _, text in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in found}


def with_output() -> list[tuple[Block, str | None]]:
    """Every Python block, and what it prints where the page says so."""
    found: list[tuple[Block, str | None]] = []
    for page in PAGES:
        all_ = blocks(page)
        for block, following in zip(all_, [*all_, None][1:], strict=True):
            if block.kind == "python":
                is_output = following is not None and following.kind == "text output"
                found.append((block, following.text if following and is_output else None))
    return found


def commands(page: Path) -> list[str]:
    """The commands of ours that a page tells the reader to type, in order."""
    return [
        line.removeprefix("$ ").strip()
        for block in blocks(page)
        if block.kind in {"sh", "console"}
        for line in block.text.splitlines()
        if line.removeprefix("$ ").startswith("threadline ")
    ]


def targets(page: Path) -> Iterator[str]:
    """The `make` targets a page names."""
    yield from re.findall(r"\bmake ([a-z]+)\b(?=[`\s]*(?:#|`|$))", page.read_text(), re.M)


@pytest.mark.parametrize(
    ("block", "output"), with_output(), ids=[str(block) for block, _ in with_output()]
)
def test_a_python_example_does_what_it_says(
    block: Block, output: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()

    with redirect_stdout(printed):
        exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})

    if output is not None:
        assert printed.getvalue() == output


def test_the_embedded_example_of_the_readme_may_be_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README says below it."""
    monkeypatch.chdir(tmp_path)
    texts = [block.text for block in blocks(ROOT / "README.md")]
    at = next(number for number, text in enumerate(texts) if "Threadline.open" in text)
    [example, output] = texts[at : at + 2]
    printed = io.StringIO()

    with redirect_stdout(printed):
        for _ in range(2):
            exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})

    assert printed.getvalue() == output * 2


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_the_commands_of_a_page_work_as_printed(page: Path, tmp_path: Path) -> None:
    """One after the other in one folder; those that go on until they are stopped go on beside."""
    for name, real in FILES.items():
        shutil.copy(EXPORTS / real, tmp_path / name)
    write_files(page, tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
    environment |= {"THREADLINE_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    environment |= {"THREADLINE_PORT": "0", "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"}

    with ExitStack() as stack:
        for command in commands(page):
            words = [PROGRAM, *shlex.split(command, comments=True)[1:]]
            if words[1] in GOES_ON:
                stack.enter_context(going_on(words, tmp_path, environment))
                continue
            words, file = (words[:-2], words[-1]) if ">" in words else (words, None)
            done = run(words, cwd=tmp_path, env=environment, text=True)

            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if file is not None:
                (tmp_path / file).write_text(done.stdout)


@contextmanager
def going_on(words: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A command that is started, says that it is ready, and is stopped in the end."""
    with (
        (folder / "errors").open("a") as errors,
        Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), (folder / "errors").read_text()
            yield
        finally:
            process.terminate()
        assert process.wait(timeout=60) in STOPPED, (folder / "errors").read_text()


def write_files(page: Path, folder: Path) -> None:
    """The blocks of a page that are files, under the names it gives them."""
    for block in blocks(page):
        kind, _, name = block.kind.partition(" ")
        if kind == "python" and name.endswith(".py"):
            (folder / name).write_text(block.text)


@pytest.mark.acceptance("L4")
@pytest.mark.parametrize("how", ["a command", "Python"])
def test_the_agents_of_the_page_on_attaching_answer(how: str, tmp_path: Path) -> None:
    """Both of them, at a real server."""
    write_files(ROOT / "docs" / "how-to" / "attach.md", tmp_path)
    served = Served(tmp_path)
    served.start()
    client = served.client()
    about = {"provider": "web", "account_id": "office", "conversation_id": "x", "kind": "room"}
    room = f"/v1/conversations/{client.post('/v1/conversations', json=about).json()['id']}"
    client.put(f"{room}/binding", json={"session_id": "helper"})
    client.put(f"{room}/members/reader", json={"policy": "all"})
    token = client.post("/v1/tokens", json={"kind": "session", "session_id": "helper"}).json()
    words = [sys.executable, "session.py"]
    if how == "a command":
        program = Path(sys.executable).with_name("threadline")
        words = [str(program), "attach", "--session", "helper", "--", sys.executable, "agent.py"]
    own = {"THREADLINE_URL": served.url, "THREADLINE_TOKEN": token["token"]}

    with subprocess.Popen(words, cwd=tmp_path, env=served.environment | own) as agent:
        client.post(f"{room}/transcript", json={"text": "Hello", "actor": {"id": "ada"}})
        client.post(f"{room}/members/reader/ack", json={"sequence": 1})
        heard = client.get("/v1/sessions/reader/inbox", params={"wait": 60}).json()["records"]
        agent.terminate()
    client.close()
    served.kill()

    assert [one["text"].partition(" (")[0] for one in heard] == ["You said: Hello"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_make_targets_a_page_names_exist(page: Path) -> None:
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))

    assert set(targets(page)) <= known


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_inside_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_source_file_a_page_names_exists(page: Path) -> None:
    missing = [
        name
        for name in _FILE.findall(prose(page))
        if not (SRC / name).exists() and not (ROOT / name).exists()
    ]

    assert missing == []


def defined(path: Path) -> set[str]:
    """Every class, function and method of a file, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, methods)}
    return found


def test_every_function_in_the_life_of_a_message_exists() -> None:
    named = _NAMED.findall((ROOT / "docs" / "life-of-a-message.md").read_text())

    assert len(named) > 20
    assert [f"{file}:{name}" for file, name in named if name not in defined(SRC / file)] == []


def public_names() -> list[str]:
    """What `threadline/__init__.py` says it gives, in its order: one explicit name per line."""
    tree = ast.parse((SRC / "__init__.py").read_text())
    aliases = [
        alias
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("threadline.")
        for alias in node.names
    ]
    assert all(alias.asname == alias.name for alias in aliases)
    return [alias.name for alias in aliases]


def test_the_public_names_are_those_of_the_reference_page() -> None:
    named = [one for one in headings(REFERENCE / "api.md", 3) if not one.startswith("tl.")]

    assert named == public_names() == vars(threadline)["__all__"]
    assert [getattr(threadline, name).__name__ for name in named] == named


def test_every_method_of_every_flow_has_a_heading() -> None:
    class Nothing:
        """A store nobody asks anything of."""

    flows = {
        name: flow
        for name, flow in vars(Threadline(Nothing())).items()  # type: ignore[arg-type]
        if name != "store" and not name.startswith("_")
    }
    methods = {
        f"tl.{name}.{method}"
        for name, flow in flows.items()
        for method, value in vars(type(flow)).items()
        if callable(value) and not method.startswith("_")
    }

    assert set(headings(REFERENCE / "api.md", 4)) == methods
    assert {one[3:] for one in headings(REFERENCE / "api.md", 3) if one[:3] == "tl."} == set(flows)


def errors(root: type[ThreadlineError] = ThreadlineError) -> Iterator[type[ThreadlineError]]:
    """Every refusal there is, in whatever module it is defined."""
    if root is ThreadlineError:
        for module in pkgutil.walk_packages(threadline.__path__, "threadline."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    yield root
    for below in root.__subclasses__():
        if below.__module__.startswith("threadline."):
            yield from errors(below)


def test_every_error_code_has_a_heading_and_its_own_sentence() -> None:
    page = (REFERENCE / "errors.md").read_text()

    assert set(headings(REFERENCE / "errors.md", 2)) == {error.code for error in errors()}
    for error in errors():
        sentence = (error.__doc__ or "").strip().splitlines()[0]
        assert f"`{error.__name__}`, status {error.status}. *{sentence}*" in page


def test_every_setting_has_a_heading_and_its_default() -> None:
    named = headings(REFERENCE / "settings.md", 2)

    assert named == [PREFIX + one.name.upper() for one in fields(Settings)]


@pytest.mark.parametrize(
    ("script", "page"), [("help", "cli.md"), ("routes", "http.md"), ("fuzzed", "fuzz.md")]
)
def test_the_pages_that_a_script_writes_are_what_it_says(script: str, page: str) -> None:
    """If this fails: `.venv/bin/python scripts/help.py`, `routes.py` or `fuzzed.py`."""
    made = subprocess.run(
        [sys.executable, "-c", f"import {script}, sys; sys.stdout.write({script}.page())"],
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        check=True,
    )

    assert (REFERENCE / page).read_text("utf-8") == made.stdout


def test_every_change_is_of_a_known_kind() -> None:
    fragments = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]

    assert fragments
    assert all(re.fullmatch(r"[a-z0-9-]+\.(feature|fix|breaking)\.md", one) for one in fragments)


def test_decisions_are_numbered_without_a_gap() -> None:
    pages = sorted((ROOT / "docs" / "why").glob("*.md"))

    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert page.read_text().startswith(f"# {page.name[:4]} ")
        for part in ("**Context.**", "**Choice.**", "**What we gave up.**"):
            assert part in page.read_text(), page.name
