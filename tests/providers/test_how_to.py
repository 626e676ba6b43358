"""The provider of the how-to page works as printed: its contract, then a server that speaks it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.conftest import Served

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "add-a-provider.md"


def install(folder: Path) -> Path:
    """The files of the page, and what `pip install` would write about them: no network needed."""
    folder.mkdir()
    found = re.findall(r"^```(?:python|toml) (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    for name, text in found:
        (folder / name).write_text(text)
    about = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n"
    )
    lines = []
    for group, points in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of the page, installed."""
    return install(tmp_path / "package")


def path_with(package: Path) -> str:
    """Where Python looks for modules, this one first."""
    return os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])


def contract_of(package: Path) -> subprocess.CompletedProcess[str]:
    """Its own suite, as its author runs it."""
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_pigeon.py"]
    return subprocess.run(
        [sys.executable, *words],
        cwd=package,
        env={**os.environ, "PYTHONPATH": path_with(package), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_provider_of_the_page_keeps_the_contract(package: Path) -> None:
    done = contract_of(package)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b17 passed\b", done.stdout), done.stdout


def test_a_mistake_in_it_is_told_as_the_page_says(package: Path) -> None:
    file = package / "pigeon.py"
    file.write_text(file.read_text().replace('stamp.encode() + b"." + request.body', "b'x'"))
    test = package / "test_pigeon.py"
    test.write_text(test.read_text().replace('stamp.encode() + b"." + request.body', "b'x'"))

    said = contract_of(package).stdout

    told = re.findall(r"^```text\n(pigeon breaks.*?)^```$", PAGE.read_text(), re.M | re.S)
    for line in told[0].strip().splitlines():
        assert line.strip(" …") in said, line


@pytest.fixture
def served(tmp_path: Path, package: Path) -> Iterator[Served]:
    """A server that knows the package and may call this machine."""
    settings = {"THREADLINE_ADAPTERS_ALLOW_PRIVATE": "1", "PYTHONPATH": path_with(package)}
    made = Served(tmp_path, settings=settings)
    made.start()
    yield made
    if made.process is not None:
        made.kill()


def test_a_server_speaks_it_as_it_does_its_own(served: Served, package: Path) -> None:
    """Connected, heard by a signed webhook, answered, and heard again after a kill -9."""
    loft = subprocess.Popen(
        [sys.executable, "loft.py"],
        cwd=package,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert loft.stdin is not None
    assert loft.stdout is not None
    answers = {"api": loft.stdout.readline().strip(), "token": "coo-coo-1"}
    answers |= {"signing_secret": "seed-and-water"}
    given = [word for name, value in answers.items() for word in ("--set", f"{name}={value}")]
    made = served.command("connect", "pigeon", *given, "--public-url", served.url)
    assert made.returncode == 0, made.stderr
    assert "pigeon/loft-1 as The Loft" in made.stdout

    loft.stdin.write("Is anybody up there?\n")
    bound = served.command("bind", "pigeon/loft-1/roof", "helper", "--policy", "all")
    assert bound.returncode == 0, bound.stderr
    with served.client() as boss:
        heard = boss.get("/v1/sessions/helper/inbox", params={"wait": 30}).json()
        assert "Is anybody up there?" in str(heard)
    said = served.command("publish", "pigeon/loft-1/roof", "**Yes.**", "--as", "helper")
    assert said.returncode == 0, said.stderr
    assert loft.stdout.readline() == "roof: **Yes.**\n"
    served.kill()
    served.start()
    loft.stdin.write("Good.\n")
    loft.stdin.close()
    assert loft.wait(timeout=60) == 0
    loft.stdout.close()

    with served.client() as boss:
        [room] = boss.get("/v1/conversations").json()["conversations"]
        page = boss.get(f"/v1/conversations/{room['id']}/transcript").json()["records"]
        url = f"{served.url}/v1/webhooks/pigeon/loft-1"
        assert boss.post(url, json={"type": "message"}).status_code == 401
    assert {one["text"] for one in page} == {"Is anybody up there?", "**Yes.**", "Good."}
    assert served.stop() == 0
