"""What a bearer token stands for. The secret itself is never kept, only its keyed hash."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from threadline.core.model import Word
from threadline.core.quick import quick

SCOPES = ("read", "publish", "send", "push")


class TokenKind(Word):
    """Whom a token speaks for."""

    CONTROLLER = "controller"
    ADAPTER = "adapter"
    SESSION = "session"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token. `scope_id` None is every scope; `session` is a surrogate id, so that whoever gets
    an old name anew gets none of its tokens (J3). With a `conversation` it is good there and
    nowhere else, and only as long as `parent`, the token it was made with, holds. Only a
    controller's that is `human` grants consent."""

    id: int
    kind: TokenKind
    created_at: datetime
    name: str = ""
    scope_id: str | None = "default"
    provider: str = ""
    account_id: str = ""
    session: int | None = None
    scopes: tuple[str, ...] = field(default=())
    conversation: int | None = None
    parent: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    human: bool = False


@dataclass(frozen=True, slots=True)
class Login:
    """A page that was shown a token: it ends with the token (whose hash this is), or at `ends`."""

    token: bytes
    ends: datetime


def holds(token: Token, now: datetime) -> bool:
    """Whether the token may be used at this instant."""
    if token.revoked_at is not None:
        return False
    return token.expires_at is None or now < token.expires_at
