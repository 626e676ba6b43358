"""`python -m bench [PART …] [--quick]`: measure, print the table, keep it in `results.json`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from importlib import metadata
from pathlib import Path

import uvloop
from rich.console import Console

from bench import appending, growth, importing, machine, platforms, reading, starting, web
from bench.outcome import PAGE, RESULTS, Results, Row, fill, save, table
from bench.sites import PostgresSite, Sites, sites
from bench.sizes import FULL, QUICK, Sizes

WIDTH = 170
PARTS = ("appends", "readers", "growth", "import", "web", "platforms", "start")


async def measure(
    wanted: tuple[str, ...], sizes: Sizes, found: Sites, folder: Path
) -> tuple[list[Row], list[str]]:
    """The rows of these parts, in the order of the table, and what was left out."""
    rows: list[Row] = []
    left_out = list(found.left_out)
    if "appends" in wanted:
        rows += await appending.rows(found, sizes)
    if "readers" in wanted:
        rows += await reading.rows(found, sizes)
    if "import" in wanted:
        rows += await importing.rows(found, sizes, folder)
    if "growth" in wanted:
        rows += await growth.rows(found, sizes)
    if "web" in wanted:
        rows += await web.rows(found, sizes, folder)
    if "platforms" in wanted:
        rows += await platforms.rows(found, sizes, folder)
    if "start" in wanted:
        more, reasons = starting.rows(sizes)
        rows += more
        left_out += reasons
    return rows, left_out


async def postgres_version(found: Sites) -> str:
    """The version of the server that is measured."""
    for site in found.sites:
        if isinstance(site, PostgresSite):
            async with site.raw(await site.place()) as raw:
                return await raw.version()
    return "none"


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all where none is named")
    parser.add_argument("--quick", action="store_true", help="a minute, and rougher")
    parser.add_argument("--results", type=Path, help="where the rows are kept; - keeps nothing")
    given = parser.parse_args()
    wanted = tuple(given.parts) or PARTS
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    with tempfile.TemporaryDirectory(prefix="threadline-bench-") as name:
        folder = Path(name)
        with console.status("measuring …"), sites(folder) as found:
            loop = f"uvloop {metadata.version('uvloop')}, garbage collector frozen"
            sizes = QUICK if given.quick else FULL

            async def run() -> Results:
                version = await postgres_version(found)
                facts = machine.facts(folder, loop=loop, postgres=version)
                rows, left_out = await measure(wanted, sizes, found, folder)
                return Results(machine=facts, quick=given.quick, rows=rows, left_out=left_out)

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                results = runner.run(run())
    console.print(table(results))
    for reason in results.left_out:
        console.print(f"left out: {reason}")
    keep(results, given.results, whole=wanted == PARTS)


def keep(results: Results, path: Path | None, *, whole: bool) -> None:
    """Write the rows down, and into the page that shows them; a part of a run replaces nothing."""
    if path is not None:
        if str(path) != "-":
            save(results, path)
    elif whole:
        save(results, RESULTS)
        PAGE.write_text(fill(PAGE.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
