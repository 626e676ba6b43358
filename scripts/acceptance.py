"""Which test proves which acceptance id: `make acceptance`, or quickly with `--collect-only`."""

from __future__ import annotations

import sys

from citing import Promise, main, owners


def promises() -> list[Promise]:
    """The sentences of the acceptance list."""
    found = [
        Promise(one, owner, sentence)
        for owner, sentences in owners()["acceptance"].items()
        for one, sentence in sentences.items()
    ]
    return found


if __name__ == "__main__":
    sys.exit(main("acceptance", promises(), sys.argv[1:]))
