"""The entries of an audit, and the chain they hang on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

FIRST = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened. `subject` is what it happened to."""

    scope_id: str
    number: int
    at: datetime
    by: str
    action: str
    subject: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Chain:
    """How many entries a scope has, and a digest that says that it ends there."""

    count: int = 0
    digest: bytes = FIRST
