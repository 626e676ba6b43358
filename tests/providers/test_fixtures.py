"""pytest has our fixtures wherever we are installed, and the page about them works as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from threadline.testing import plugin
from threadline.testing.simulators import SIMULATORS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "test-your-agent.md"
POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of somebody's own, with the tests of the page, where threadline is installed."""
    info = tmp_path / "installed" / "threadline-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: threadline\nVersion: 0\n")
    points = "\n".join(f"{name} = {value}" for name, value in POINTS.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{points}\n")
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        (folder / name).write_text(text)
    return folder


def run(suite: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it as its author does."""
    path = [str(suite.parent / "installed"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *words],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_tests_of_the_page_pass(suite: Path) -> None:
    done = run(suite, "-q")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_every_fixture_is_there_and_says_what_it_is(suite: Path) -> None:
    listed = run(suite, "--fixtures", "-q").stdout

    names = ["ledger", "threadline_server", "connected_account"]
    for name in [*names, *(f"{one}_simulator" for one in SIMULATORS)]:
        assert re.search(rf"^{name} -- .*\n    \S", listed, re.M), name
        assert hasattr(plugin, name)


def test_a_suite_that_asks_for_none_imports_nothing_for_them(suite: Path) -> None:
    """Neither the library nor an HTTP client nor a simulator's server."""
    for file in suite.glob("test_*.py"):
        file.unlink()
    heavy = ["httpx", "aiohttp", "apsw", "msgspec", "litestar", "hypothesis.strategies"]
    (suite / "test_nothing.py").write_text(
        "import sys\n\n"
        "def test_nothing():\n"
        "    assert 'threadline.testing.plugin' in sys.modules\n"
        f"    assert not {{*{heavy}, 'threadline.app'}} & sys.modules.keys()\n"
    )

    done = run(suite, "-q", "-p", "no:hypothesispytest", "-p", "no:schemathesis")

    assert done.returncode == 0, done.stdout + done.stderr
