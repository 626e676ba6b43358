"""Writes docs/reference/fuzz.md from what `make fuzz` found, so that no figure is typed by hand.

`python scripts/fuzzed.py` after `make fuzz`; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "providers" / "forged.json"
PAGE = ROOT / "docs" / "reference" / "fuzz.md"

HEAD = """# Forged and bent webhooks

`make fuzz` sends webhooks to the route that providers call, on a real socket. Each is made from one
that was recorded: as the platform signs it; with bytes of its body turned, cut or grown, or values
of its JSON or form replaced; with another character in its signature, without it, or signed with
another secret; too old; not signed at all; and bent first, then signed, which is what a platform
might send one day. Every request that the platform would not have signed has to be turned away with
401, every other one taken with 200, and none may break the server. `make test` runs a slice of it.

Where the platform only shows a secret in a header (Telegram, Matrix), a bent body is a true one:
there is nothing in it that could be judged.

"""


def page() -> str:
    """The page as it has to be."""
    rows = json.loads(RESULTS.read_text("utf-8"))
    names = ["requests", "forged", "forged_accepted", "signed", "signed_taken", "server_errors"]
    head = ["provider", "requests", "forged", "of them taken", "signed", "of them taken", "5xx"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * len(names)]
    for row in [*rows, {"provider": "all"} | {n: sum(r[n] for r in rows) for n in names}]:
        cells = [row["provider"], *(f"{row[name]:,}" for name in names)]
        lines.append("| " + " | ".join(cells) + " |")
    seeds = ", ".join(sorted({str(row["seed"]) for row in rows}))
    return HEAD + "\n".join(lines) + f"\n\nSeed {seeds}; `make fuzz SEED=N` repeats a run.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
