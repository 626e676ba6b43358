"""What the routes about links, guests and logins answer with."""

from __future__ import annotations

from datetime import datetime

from threadline.core.model import BackfillPolicy
from threadline.entrypoints.http.answers import Record, Shape


class Link(Shape):
    """A room link without its secret."""

    id: str
    conversation: str
    name: str
    policy: BackfillPolicy
    n: int | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class MadeLink(Link):
    """A room link right after it was made: where it leads, shown once."""

    url_path: str
    url: str


class Links(Shape):
    """A page of a room's links."""

    links: list[Link]
    next: str | None


class Door(Shape):
    """Where a link leads. `guest` is the word for whoever comes in by it with this browser."""

    title: str
    guest: str


class InRoom(Shape):
    """A guest in its room. `writes` says whether it may speak, `csrf` is what its page repeats,
    `guest` which of a browser's guests it is: the query of whatever the page asks names it."""

    conversation: str
    title: str
    name: str
    actor_id: str
    csrf: str
    policy: BackfillPolicy
    n: int | None
    writes: bool
    expires_at: datetime
    guest: str


class Said(Shape):
    """What became of a guest's words. `record` is null while they are held."""

    record: Record | None
    duplicate: bool
    held: bool


class Login(Shape):
    """A login of the page. `csrf` is what it repeats; a null scope is every scope."""

    csrf: str
    kind: str
    scope_id: str | None
    expires_at: datetime | None


class Over(Shape):
    """Nothing is left to say."""
