"""What users' tests stand on: the contract of dialects, simulated platforms, a clock that stands.

Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadline.testing.clock import StillClock as StillClock
    from threadline.testing.laws import Law as Law
    from threadline.testing.providers import contract as contract
    from threadline.testing.providers import laws_for as laws_for
    from threadline.testing.simulation import Simulation as Simulation
    from threadline.testing.specimen import Child as Child
    from threadline.testing.specimen import Direct as Direct
    from threadline.testing.specimen import LawBroken as LawBroken
    from threadline.testing.specimen import Refusal as Refusal
    from threadline.testing.specimen import Seal as Seal
    from threadline.testing.specimen import Specimen as Specimen

_PLACES = {
    "StillClock": "clock",
    "Law": "laws",
    "contract": "providers",
    "laws_for": "providers",
    "Simulation": "simulation",
    **dict.fromkeys(("Child", "Direct", "LawBroken", "Refusal", "Seal", "Specimen"), "specimen"),
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
