"""A Chromium for the browser tests: found where there is one, else installed from the system's
packages. Prints where it is.

    python scripts/browser.py
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
PACKAGES = ("chromium", "fonts-inter", "fonts-noto-color-emoji")
PLACES = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)


def candidates() -> Iterator[str]:
    """Where a Chromium may be, the one that was asked for first."""
    if named := os.environ.get("CHROMIUM"):
        yield named
    for name in NAMES:
        if found := shutil.which(name):
            yield found
    own = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")
    yield from map(str, sorted(own.glob("chromium-*/chrome-linux*/chrome"), reverse=True))
    yield from map(str, PLACES)


def find() -> str | None:
    """The first that is there."""
    return next((one for one in candidates() if os.access(one, os.X_OK)), None)


def install() -> None:
    """Debian's package, and the letters that the pictures are made with."""
    apt = shutil.which("apt-get")
    if apt is None:
        raise SystemExit("There is no Chromium. Install one, or name it in CHROMIUM.")
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        done = subprocess.run([*sudo, apt, *words], env=quiet, stdout=sys.stderr, check=False)
        if done.returncode:
            raise SystemExit(f"`apt-get {' '.join(words)}` failed; install a Chromium by hand.")


def ready() -> str:
    """Where a Chromium is, after it was installed if need be."""
    found = find()
    if found is None:
        # Several test processes may find out at the same time; one of them installs.
        with (Path(tempfile.gettempdir()) / "threadline-browser.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = find()
            if found is None:
                install()
                found = find()
    if found is None:
        raise SystemExit("A Chromium was installed and cannot be found; name it in CHROMIUM.")
    return found


if __name__ == "__main__":
    print(ready())
