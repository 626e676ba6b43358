"""What was allowed, refused and done on an agent's own initiative, in a chain that shows tampering.

Every entry carries a keyed hash over itself and the entry before: who holds the database alone can
neither change, take out nor add one unseen. Entries hold ids and reasons, never what was said.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from threadline.core.chains import FIRST, Chain, Entry
from threadline.core.draft import Draft
from threadline.core.model import (
    AdapterCaller,
    Caller,
    Controller,
    Guest,
    SessionCaller,
)
from threadline.core.ports import AUDIT, CHAIN, Loaded


def named(caller: Caller) -> str:
    """Who asked, as an entry says it."""
    match caller:
        case Controller(human=True):
            return "human"
        case Controller():
            return "controller"
        case SessionCaller(session):
            return f"session {session}"
        case AdapterCaller(_, provider, account):
            return f"adapter {provider}/{account}"
        case Guest(_, actor):
            return f"guest {actor.id}"


def audit(
    draft: Draft,
    scope: str,
    by: str,
    action: str,
    now: datetime,
    *,
    subject: str = "",
    **facts: Any,
) -> None:
    """Write one entry at the end of the scope's chain."""
    chain = draft.get(CHAIN, scope) or Chain()
    last = draft.get(AUDIT, (scope, chain.count)) if chain.count else None
    kept = {name: value for name, value in facts.items() if value not in (None, "", (), {})}
    entry = Entry(
        scope_id=scope,
        number=chain.count + 1,
        at=now,
        by=by,
        action=action,
        subject=subject,
        facts=kept,
    )
    before = FIRST if last is None else last.digest
    entry = replace(entry, digest=sealed(draft, entry, before))
    draft.put(AUDIT, (scope, entry.number), entry)
    head = head_of(draft, scope, entry.number, entry.digest)
    draft.put(CHAIN, scope, Chain(entry.number, head))


def head_of(loaded: Loaded, scope: str, number: int, digest: bytes) -> bytes:
    """The keyed hash over where a chain ends: an entry's own digest would fit a shorter one."""
    if not number:
        return FIRST
    return loaded.id_key("audit.head", f"{scope} {number} {digest.hex()}")


def sealed(loaded: Loaded, entry: Entry, before: bytes) -> bytes:
    """The keyed hash over an entry and the one before it."""
    body = {
        "scope": entry.scope_id,
        "number": entry.number,
        "at": entry.at.isoformat(),
        "by": entry.by,
        "action": entry.action,
        "subject": entry.subject,
        "facts": entry.facts,
        "before": before.hex(),
    }
    text = json.dumps(body, sort_keys=True, default=str, ensure_ascii=True)
    return loaded.id_key("audit", text)
