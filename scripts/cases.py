"""Which test answers which reported failure: `make cases`, or quickly with `--collect-only`."""

from __future__ import annotations

import json
import sys

from citing import ROOT, Promise, main, owners

GIVEN = ROOT / "tests" / "cases" / "given.jsonl"


def promises() -> list[Promise]:
    """The reported failures. Raises `SystemExit` where one has no owner."""
    titles = {}
    for line in GIVEN.read_text("utf-8").splitlines():
        case = json.loads(line)
        titles[case["id"]] = case["title"]
    found = [
        Promise(one, owner, titles.get(one, "?"))
        for owner, ids in owners()["cases"].items()
        for one in ids
    ]
    missing = set(titles) - {promise.id for promise in found}
    if missing:
        sys.exit(f"nobody owns {', '.join(sorted(missing))}; see tests/acceptance.toml.")
    return found


if __name__ == "__main__":
    sys.exit(main("case", promises(), sys.argv[1:]))
