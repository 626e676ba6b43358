"""Imports: a generated export in a temporary folder, read and written as `threadline import` does.

Without the text index, which trails. Memory is this process's own, looked at while it runs.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import msgspec
import psutil

from bench.appending import flood_raw
from bench.machine import tuned
from bench.outcome import Row, Target, row
from bench.raw import Rows
from bench.sites import REAL, Site, Sites
from bench.sizes import Sizes
from bench.speech import TEXT, body
from threadline.archives import identify
from threadline.core.archive import Account, Options, Tally
from threadline.entrypoints.files import open_source
from threadline.flows.importing import CHUNK

RATE = Target("ours", ">=", 20_000, "a second")
FLAT = Target("ours", "<=", 1.1, "×")
ACCOUNT = Account(provider="telegram", account_id="7001")
MEBIBYTE = 1 << 20
CHATS = 5


def export(folder: Path, messages: int) -> Path:
    """A Telegram Desktop export of a whole account: some groups, so many messages in all."""
    file = folder / f"export-{messages}" / "result.json"
    file.parent.mkdir(exist_ok=True)
    with file.open("wb") as out:
        out.write(b'{"about":"","personal_information":{},"chats":{"about":"","list":[')
        for chat in range(CHATS):
            head = {"name": f"Group {chat}", "type": "private_supergroup", "id": 9_000 + chat}
            out.write(b"," if chat else b"")
            out.write(msgspec.json.encode(head)[:-1] + b',"messages":[')
            for number in range(1, messages // CHATS + 1):
                out.write(b",\n" if number > 1 else b"\n")
                out.write(msgspec.json.encode(_message(number)))
            out.write(b"]}")
        out.write(b"]}}")
    return file


def _message(number: int) -> dict[str, object]:
    moment = 1_700_000_000 + number
    return {
        "id": number,
        "type": "message",
        "date": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)),
        "date_unixtime": str(moment),
        "from": f"Person {number % 40}",
        "from_id": f"user{4_000 + number % 40}",
        "text": TEXT,
        "text_entities": [{"type": "plain", "text": TEXT}],
    }


async def rows(sites: Sites, sizes: Sizes, folder: Path) -> list[Row]:
    """All rows about imports."""
    found: list[Row] = []
    for site in sites.on(REAL):
        found += await _import(site, sizes, folder)
    return found


async def _import(site: Site, sizes: Sizes, folder: Path) -> list[Row]:
    file = export(folder, sizes.imported)
    process = psutil.Process()
    rates, raws, growths, most = [], [], [], 0.0
    memory: list[int] = []

    def look(_: int) -> None:
        memory.append(process.memory_info().rss)

    for _ in range(sizes.rounds):
        memory.clear()
        tally = Tally()
        async with site.open(await site.place()) as line:
            with tuned(), open_source(file) as source:
                items = identify(source).read(source, ACCOUNT, Options(), tally)
                began = time.perf_counter()
                summary = await line.importing.run(
                    items,
                    tally,
                    owner="bench",
                    account=ACCOUNT,
                    progress=look,
                )
                rates.append(summary.written / (time.perf_counter() - began))
        assert summary.written == sizes.imported // CHATS * CHATS, summary
        growths.append(max(memory) / memory[len(memory) // 2])
        most = max(most, max(memory) / MEBIBYTE)
        async with site.raw(await site.place()) as raw:
            await raw.begin(CHATS)
            raws.append(await flood_raw(raw, Rows(CHATS, body()), CHUNK, sizes.seconds))
    return [
        row(
            "import of an export",
            site.engine,
            site.disk,
            ours=median(rates),
            raw=median(raws),
            unit="a second",
            target=RATE,
            note=f"{sizes.imported:,} records",
        ),
        row(
            "import, most memory against memory after half of it",
            site.engine,
            site.disk,
            ours=median(growths),
            unit="×",
            target=FLAT,
            note=f"{most:.0f} MiB at most",
        ),
    ]
