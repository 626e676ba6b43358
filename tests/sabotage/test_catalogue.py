"""A slice of the sabotage catalogue: breaking the code turns its tests red."""

from __future__ import annotations

import importlib

import pytest
from sabotage.__main__ import ROOT, Sabotage, broken, catalogue

QUICK = [entry for entry in catalogue() if entry.quick]


def test_the_catalogue_has_at_least_twenty_breaks_and_no_name_twice() -> None:
    names = [entry.name for entry in catalogue()]

    assert len(names) >= 20
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name.replace(" ", "-"))
def test_every_break_still_applies_exactly_once(entry: Sabotage) -> None:
    text = (ROOT / entry.file).read_text("utf-8")

    assert text.count(entry.old) == 1
    for test in entry.tests:
        file, _, name = test.partition("::")
        module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        assert not name or hasattr(module, name.partition("[")[0]), test


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name.replace(" ", "-"))
def test_a_quick_break_is_noticed(entry: Sabotage) -> None:
    assert broken(entry).noticed
