"""Values as JSON data: the same shapes on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadline.core.model import ConversationRef, TranscriptRecord
    from threadline.core.recording import Taken
    from threadline.flows.context import Told
    from threadline.flows.replay import Handed


LONGEST = 1e9
SCALARS = frozenset((str, int, float, bool, type(None)))


def plain(value: Any) -> Any:
    """A value as JSON data; a conversation's ref becomes its fields, its text stands beside it."""
    import msgspec

    from threadline.core.model import ConversationRef

    # Most of what there is; asking what else it could be takes ten times as long.
    if type(value) in SCALARS:
        return value
    match value:
        case ConversationRef():
            return ref_of(value)
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(name): plain(one) for name, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(one) for one in value]
        case _ if hasattr(value, "__dataclass_fields__"):
            found = {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
            if isinstance(getattr(value, "ref", None), ConversationRef):
                found["text"] = str(value.ref)
            return found
        case _:
            return msgspec.to_builtins(value)


def ref_of(ref: ConversationRef) -> dict[str, Any]:
    """The fields of a conversation's ref."""
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(ref)
    del found["text"]
    return found


def span_of(seconds: float | None) -> timedelta | None:
    """Seconds as a span, whatever number they are; no number at all is none of them."""
    return None if seconds is None else timedelta(seconds=min(max(0.0, seconds), LONGEST))


def record_of(record: TranscriptRecord | None) -> Any:
    """A record without what only the store uses."""
    import msgspec

    if record is None:
        return None
    # Every reader gets every record by this, so not by `plain`: thirty times as dear, and a record
    # holds neither a conversation's ref nor a span.
    found = msgspec.to_builtins(record)
    del found["source"], found["target"]
    for name in ("attachments", "wakes"):
        found[name] = list(found[name])
    return found


def taken_of(taken: Taken) -> dict[str, Any]:
    """What became of a message."""
    return {
        "record": record_of(taken.record),
        "sequence": taken.sequence,
        "duplicate": taken.duplicate,
        "held": taken.held,
        "target_session_id": taken.target_session_id,
        "route": taken.route,
        "readers": taken.readers,
    }


def handed_of(handed: Handed) -> dict[str, Any]:
    """A record as a session gets it: where it stands, and whether it shall speak or wake."""
    return {
        **record_of(handed.record),
        "conversation": handed.conversation,
        "ref": ref_of(handed.ref),
        "speaker": handed.speaker,
        "wake": handed.wake,
    }


def context_of(told: Told) -> dict[str, Any]:
    """A context: `messages` or `text`, and what is not in it."""
    rendered = told.rendered
    found: dict[str, Any] = {
        "conversation": told.conversation,
        "ref": plain(told.ref),
        "session": told.session,
        "format": told.form.value,
    }
    if told.form.value == "text":
        found["text"] = rendered.text
    else:
        found["messages"] = [plain(line) for line in rendered.lines]
    return {
        **found,
        "head": told.head,
        "earliest": told.earliest,
        "visible_from": told.visible_from,
        "from": rendered.first,
        "pinned": list(rendered.pinned),
        "history": told.history.value,
        "reason": told.reason,
        "cut": plain(rendered.cut),
        "budget": {"unit": told.unit.value, "limit": told.budget, "used": rendered.used},
    }
