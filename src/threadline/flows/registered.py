"""Who speaks for an account, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from threadline.core.adapters import Account, Capabilities, Registration
from threadline.core.errors import WrongKey
from threadline.core.ports import LISTENER, WAIT, Loaded
from threadline.flows.sealing import opened, unseal

AccountKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterState:
    """Who speaks for an account, as it is shown. `secret` is there right after it was made, never
    again.

    An adapter elsewhere has a `callback`, a connected account an `installation`. `waits_until` is
    set while the platform asks the whole account to wait. Where a listener fetches its events,
    `heard_at` says when it last did and `trouble` why it cannot.
    """

    scope_id: str
    provider: str
    account_id: str
    callback: str
    capabilities: Capabilities
    created_at: datetime
    waits_until: datetime | None = None
    secret: str | None = field(default=None, repr=False)
    installation: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    heard_at: datetime | None = None
    trouble: str = ""


def adapter_state(loaded: Loaded, row: Registration, now: datetime) -> AdapterState:
    wait = loaded.get(WAIT, (row.scope_id, row.provider, row.account_id, ""))
    until = None if wait is None else wait.until
    listener = loaded.get(LISTENER, (row.scope_id, row.provider, row.account_id))
    return AdapterState(
        scope_id=row.scope_id,
        provider=row.provider,
        account_id=row.account_id,
        callback=row.callback,
        capabilities=row.capabilities,
        created_at=row.created_at,
        waits_until=until if until is not None and now < until else None,
        installation=row.installation,
        settings=row.settings,
        heard_at=None if listener is None else listener.heard_at,
        trouble="" if listener is None else listener.trouble,
    )


def account_of(loaded: Loaded, registration: Registration) -> Account:
    """The account as its dialect needs it, with its secret opened."""
    try:
        secret = unseal(loaded, registration.secret)
    except WrongKey:
        secret = ""
    return Account(
        scope_id=registration.scope_id,
        provider=registration.provider,
        account_id=registration.account_id,
        callback=registration.callback,
        secret=secret if registration.callback else "",
        capabilities=registration.capabilities,
        installation=registration.installation,
        credentials={} if registration.callback else opened(secret),
        settings=registration.settings,
    )
