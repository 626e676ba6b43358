"""Which test proves which acceptance id: `make acceptance`, or quickly with `--collect-only`."""

from __future__ import annotations

import sys

from citing import Promise, main, owners

if __name__ == "__main__":
    promises = [
        Promise(one, owner, sentence)
        for owner, sentences in owners()["acceptance"].items()
        for one, sentence in sentences.items()
    ]
    sys.exit(main("acceptance", promises, sys.argv[1:]))
