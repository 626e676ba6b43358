"""Every promise of a finished capability has a test, and the check of that can fail."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def citing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What both scripts share."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("citing")


def cited(*ids: str, outcome: str = "passed") -> dict[str, Any]:
    """A test as it was reported."""
    return {"cites": list(ids), "outcome": outcome}


def test_nothing_that_is_finished_lacks_a_test(citing: ModuleType) -> None:
    """Neither a sentence of the acceptance list nor a reported failure; one look serves both."""
    code, found = citing.gather("acceptance", "case", collect=True)
    finished = set(citing.owners()["finished"])

    assert code == 0
    for script, cited in zip(("acceptance", "cases"), found, strict=True):
        promises = importlib.import_module(script).promises()
        assert promises
        assert citing.judge(promises, cited, finished, ran=False) == []


@pytest.mark.parametrize(
    ("tests", "ran", "wrong"),
    [
        ({"t1": cited("A1"), "t2": cited("A1")}, True, ""),
        ({}, True, "A1 has no test"),
        ({}, False, "A1 has no test"),
        ({"t1": cited("A1"), "t2": cited("A1", outcome="failed")}, True, "A1 is not proven: t2"),
        ({"t1": cited("A1", outcome="skipped")}, True, "A1 is not proven: t1"),
        ({"t1": cited("A1", outcome="")}, True, "A1 is not proven: t1"),
        ({"t1": cited("A1", outcome="")}, False, ""),
        ({"t1": cited("A1"), "t2": cited("Z9")}, True, "t2 cites Z9"),
    ],
)
def test_what_is_finished_and_not_proven_is_named(
    citing: ModuleType, tests: dict[str, Any], ran: bool, wrong: str
) -> None:
    promises = [citing.Promise("A1", "ledger", "one"), citing.Promise("H1", "later", "two")]

    sentences = citing.judge(promises, tests, {"ledger"}, ran=ran)

    assert len(sentences) == bool(wrong)
    assert all(sentence.startswith(wrong) for sentence in sentences)
