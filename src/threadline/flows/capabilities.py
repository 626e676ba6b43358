"""What an adapter says about itself, checked: its callback, its secret, what it can do."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec

from threadline.core.adapters import Capabilities, Unit
from threadline.core.errors import InvalidInput
from threadline.core.model import Actor
from threadline.core.rules.splitting import SHORTEST

SECRET_BYTES = 32
SECRET_MARK = "whsec_"
LONGEST = 10_000_000
MAX_SETTLE = 24 * 3600.0
MAX_CALLBACK = 2_000


def new_secret() -> str:
    """A secret of our own making."""
    return SECRET_MARK + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def checked_secret(secret: str) -> str:
    """A signing secret. Raises `InvalidInput`, without saying what it was."""
    try:
        size = len(base64.b64decode(secret.removeprefix(SECRET_MARK), validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not secret.startswith(SECRET_MARK) or not 24 <= size <= 64:
        raise InvalidInput(
            "a secret is `whsec_` and 24 to 64 bytes in base64, as in Standard Webhooks.",
            field="secret",
        )
    return secret


def checked_callback(callback: str) -> str:
    """A callback's URL without a slash at its end. Raises `InvalidInput`."""
    problem = ""
    try:
        parts = urlsplit(callback)
        port = parts.port
    except ValueError:
        raise InvalidInput("the callback is no URL.", field="callback") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        problem = "begins with https:// and a host"
    elif parts.username is not None or parts.password is not None:
        problem = "holds no user and no password"
    elif parts.query or parts.fragment:
        problem = "has no query and no fragment"
    elif port == 0 or len(callback) > MAX_CALLBACK or not callback.isprintable():
        problem = f"has at most {MAX_CALLBACK} printable characters"
    if problem:
        raise InvalidInput(f"a callback {problem}.", field="callback")
    return callback.rstrip("/")


class _Given(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Capabilities as they are written in JSON; times in seconds."""

    max_length: int = Capabilities().max_length
    unit: str = "characters"
    attachments: bool = False
    edits: bool = False
    history: bool = False
    child_conversations: bool = False
    idempotent: bool = False
    idempotent_for: float | None = None
    settle_within: float = Capabilities().settle_within.total_seconds()
    answers_in_thread: bool = False
    actor: dict[str, str] | None = None


def read_capabilities(given: Mapping[str, Any] | Capabilities | None) -> Capabilities:
    """What an adapter says it can do. Raises `InvalidInput` naming the field."""
    if isinstance(given, Capabilities):
        return given
    try:
        read = msgspec.convert(dict(given or {}), _Given)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"capabilities: {error}.", field="capabilities") from None
    if not SHORTEST <= read.max_length <= LONGEST:
        raise InvalidInput(
            f"max_length is from {SHORTEST} to {LONGEST}.", field="capabilities.max_length"
        )
    spans = {"settle_within": read.settle_within, "idempotent_for": read.idempotent_for}
    for name, span in spans.items():
        if span is not None and not 0 <= span <= MAX_SETTLE:
            raise InvalidInput(
                f"{name} is from 0 to {MAX_SETTLE:.0f} seconds.", field=f"capabilities.{name}"
            )
    actor = None
    if read.actor is not None:
        if set(read.actor) - {"id", "name"} or not read.actor.get("id", "").strip():
            raise InvalidInput("actor is {id, name?}.", field="capabilities.actor")
        actor = Actor(read.actor["id"], read.actor.get("name", ""), is_bot=True, is_self=True)
    return Capabilities(
        max_length=read.max_length,
        unit=Unit.of(read.unit),
        attachments=read.attachments,
        edits=read.edits,
        history=read.history,
        child_conversations=read.child_conversations,
        idempotent=read.idempotent,
        idempotent_for=None
        if read.idempotent_for is None
        else timedelta(seconds=read.idempotent_for),
        settle_within=timedelta(seconds=read.settle_within),
        answers_in_thread=read.answers_in_thread,
        actor=actor,
    )
