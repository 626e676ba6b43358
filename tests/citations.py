"""Writes down which test cites which promise, and how it went.

    pytest -p tests.citations --cited-as acceptance --citations FILE

Only the tests with that marker, or one of several, are run (or, with `--collect-only`, collected).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MARKERS = ("acceptance", "case")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write, and which marker counts."""
    parser.addoption("--citations", metavar="FILE", required=True)
    parser.addoption("--cited-as", choices=MARKERS, action="append", required=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what cites something, and let the ids travel with the reports."""
    kept = []
    for item in items:
        for marker in config.getoption("--cited-as"):
            ids = [str(one) for mark in item.iter_markers(marker) for one in mark.args]
            if ids:
                item.user_properties.append((marker, ids))
                kept.append(item)
    kept = list(dict.fromkeys(kept))
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


class Citations:
    """What was collected and what was reported."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: dict[str, dict[str, Any]] = {}

    def _note(self, nodeid: str, properties: list[tuple[str, Any]]) -> dict[str, Any]:
        cites = {name: ids for name, ids in properties if name in MARKERS}
        return self._tests.setdefault(nodeid, {"cites": cites, "outcome": ""})

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what will run; empty in a process that only distributes."""
        for item in session.items:
            self._note(item.nodeid, item.user_properties)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how it went; the worst of its phases counts."""
        test = self._note(report.nodeid.partition("@")[0], report.user_properties)
        if report.outcome != "passed" or test["outcome"] == "":
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        self._file.write_text(json.dumps(self._tests), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Listen where the reports come together."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Citations(Path(config.getoption("--citations"))))
