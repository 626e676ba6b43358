"""The contract of every dialect, ours or a third party's, as tests of its own suite.

A provider's tests hand in what only they know, and get a test for each law:

    from threadline.testing import Specimen, contract

    test_the_contract = contract(Specimen(account=…, webhooks=…, …))

Without pytest: `for law in laws_for(specimen): law.hold(specimen)`. A law that is broken says which
it is, what was seen, and what to do.
"""

from __future__ import annotations

from typing import Any

from threadline.testing.laws import Law
from threadline.testing.laws_hearing import HEARING
from threadline.testing.laws_saying import SAYING
from threadline.testing.laws_shape import SHAPE
from threadline.testing.specimen import Specimen

LAWS: tuple[Law, ...] = (*SHAPE, *HEARING, *SAYING)


def laws_for(specimen: Specimen) -> list[Law]:
    """The laws that this dialect is held to. Raises `LawBroken` where there is none of its name."""
    return [law for law in LAWS if law.applies(specimen)]


def contract(specimen: Specimen) -> Any:
    """A pytest test of every law, to be bound to a name that begins with `test`."""
    import pytest

    @pytest.mark.parametrize("law", laws_for(specimen), ids=str)
    def test_a_law_of_the_contract_holds(law: Law) -> None:
        __tracebackhide__ = True
        law.hold(specimen)

    return test_a_law_of_the_contract_holds
