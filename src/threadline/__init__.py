"""Threadline: the ledger between AI agents and the places where people talk.

A name is imported when it is first asked for, so that `import threadline` costs next to nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadline.app import Threadline as Threadline
    from threadline.core.errors import ThreadlineError as ThreadlineError
    from threadline.core.model import Actor as Actor
    from threadline.core.model import Attachment as Attachment
    from threadline.core.model import BackfillPolicy as BackfillPolicy
    from threadline.core.model import ConversationRef as ConversationRef
    from threadline.core.model import InboundMessage as InboundMessage
    from threadline.core.model import Kind as Kind
    from threadline.core.model import TranscriptRecord as TranscriptRecord
    from threadline.flows.replay import CaughtUp as CaughtUp
    from threadline.flows.replay import Gap as Gap
    from threadline.flows.replay import Handed as Handed
else:
    _HOMES = {
        "Threadline": "app",
        "ThreadlineError": "core.errors",
        "Actor": "core.model",
        "Attachment": "core.model",
        "BackfillPolicy": "core.model",
        "ConversationRef": "core.model",
        "InboundMessage": "core.model",
        "Kind": "core.model",
        "TranscriptRecord": "core.model",
        "CaughtUp": "flows.replay",
        "Gap": "flows.replay",
        "Handed": "flows.replay",
    }
    __all__ = list(_HOMES)

    def __getattr__(name):
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'threadline' has no attribute {name!r}")
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"threadline.{home}"), name)
        return found

    def __dir__():
        return [*globals(), *_HOMES]
