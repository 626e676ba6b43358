"""A conversation belongs to a session: conflicts, generations, expiry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from threadline.core.errors import BindingConflict, InvalidInput
from threadline.core.model import About, Binding
from threadline.core.rules.membership import merged


class Keep:
    """The value of an argument that was not given: keep what is there."""


KEEP: Final = Keep()


def current(about: About, now: datetime) -> Binding | None:
    """The binding that holds at this instant; an expired one is none."""
    bound = about.binding
    if bound is None or (bound.expires_at is not None and now >= bound.expires_at):
        return None
    return bound


def bind(
    about: About,
    session: int,
    *,
    holder: str,
    expires_at: datetime | Keep | None,
    now: datetime,
    metadata: Mapping[str, Any] | None = None,
) -> About:
    """Bind, or renew the same session's binding under its generation.

    `holder` is the bound session's name, for the `BindingConflict` that names it. Leaving
    `expires_at` out keeps what it was; None clears it.
    """
    if isinstance(expires_at, datetime) and expires_at <= now:
        raise InvalidInput("expires_at is in the past.", expires_at=expires_at.isoformat())
    bound = current(about, now)
    if bound is not None and bound.session != session:
        raise BindingConflict(f"(it is {holder!r}) Unbind it first.", session_id=holder)
    if bound is not None:
        until = bound.expires_at if isinstance(expires_at, Keep) else expires_at
        kept = replace(bound, expires_at=until, metadata=merged(bound.metadata, metadata))
        return about if kept == bound else replace(about, binding=kept)
    until = None if isinstance(expires_at, Keep) else expires_at
    generation = about.generation + 1
    new = Binding(session, generation, until, merged({}, metadata))
    # A claim waits for nobody's binding but its own.
    return replace(about, binding=new, generation=generation, claim=None)


def unbind(about: About) -> About:
    """End the binding; its generation is never used again."""
    return replace(about, binding=None)
