"""Platforms to talk to without an account: real HTTP and WebSockets, real signatures, real faults.

Each is a program of its own (`threadline simulate NAME`) and keeps its own count of what was really
said there. `ground.py` is what they have in common; a new one is a module with a class derived from
`Simulator`, and one line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadline.testing.simulators.ground import Simulator

SIMULATORS = {
    "telegram": "threadline.testing.simulators.telegram:Telegram",
    "whatsapp": "threadline.testing.simulators.whatsapp:WhatsApp",
    "twilio": "threadline.testing.simulators.twilio:Twilio",
    "discord": "threadline.testing.simulators.discord:Discord",
    "slack": "threadline.testing.simulators.slack:Slack",
}


def simulator(name: str) -> type[Simulator]:
    """The class of one of them, or the one that `module:Class` names.

    Raises `KeyError` where there is none of that name.
    """
    module, _, found = (name if ":" in name else SIMULATORS[name]).partition(":")
    made: type[Simulator] = getattr(import_module(module), found)
    return made
