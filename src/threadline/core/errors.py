"""What threadline refuses, and how it says so.

The class is the code, the first line of its docstring is the sentence, `status` is what a door
answers with. An error is raised with facts, so that a program can read what a person can read.

>>> error = InvalidInput("the sequence must not be negative.", sequence=-3)
>>> str(error)
'The request is not acceptable: the sequence must not be negative.'
>>> error.code, error.status, error.facts
('invalid_input', 400, {'sequence': -3})
"""

from __future__ import annotations

import errno
import re
from typing import Any, ClassVar

# What a system says where a disk has no room left, or a quota or a limit none.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ThreadlineError(Exception):
    """Threadline could not do what was asked."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "threadline_error"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = _CAMEL.sub("_", cls.__name__).lower()

    def __init__(self, detail: str = "", **facts: Any) -> None:
        sentence = (type(self).__doc__ or "").strip().split("\n")[0]
        if detail.startswith("("):
            message = f"{sentence} {detail}"
        elif detail:
            message = f"{sentence.rstrip('.')}: {detail}"
        else:
            message = sentence
        super().__init__(message)
        self.detail = detail
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.detail, self.facts)


def _again(kind: type[ThreadlineError], detail: str, facts: dict[str, Any]) -> ThreadlineError:
    """The same error, in another process."""
    return kind(detail, **facts)


class InvalidInput(ThreadlineError):
    """The request is not acceptable."""

    status = 400


class InvalidConversation(InvalidInput):
    """The conversation's address is not complete."""


class KindMismatch(ThreadlineError):
    """The conversation is known under another kind."""

    status = 409


class TooLarge(ThreadlineError):
    """The content is larger than allowed."""

    status = 413


class FileGone(ThreadlineError):
    """The file is not there any more."""

    status = 410


class FileTooLarge(TooLarge):
    """The file is larger than allowed."""


class FileForbidden(ThreadlineError):
    """The platform does not give this file to this account."""

    status = 403


class FileUnreachable(ThreadlineError):
    """The file cannot be fetched at the moment; try again later."""

    status = 502


class FileNotCarried(ThreadlineError):
    """The file cannot be sent there."""

    status = 422


class FilesFull(ThreadlineError):
    """There is no room for another file."""

    status = 507


class NotFound(ThreadlineError):
    """There is no such thing, or it is not yours to know."""

    status = 404


class MembershipNotFound(NotFound):
    """The session is not a member of this conversation."""


class SessionNotFound(NotFound):
    """No session has this name."""


class SessionRetired(ThreadlineError):
    """The session was retired."""

    status = 410


class Unauthenticated(ThreadlineError):
    """The request carries no token that holds."""

    status = 401


class Unauthorized(ThreadlineError):
    """This caller may not do that."""

    status = 403


class CsrfMismatch(Unauthorized):
    """The request does not repeat the page's X-CSRF-Token."""


class NameTaken(ThreadlineError):
    """Somebody here has this name, or one that looks like it."""

    status = 409


class Limited(ThreadlineError):
    """That was too much at once; try again later."""

    status = 429


class HydrationPending(ThreadlineError):
    """The conversation's history is being imported; try again when that is done."""

    status = 409


class Conflict(ThreadlineError):
    """Somebody else has what only one can have."""

    status = 409


class HydrationConflict(ThreadlineError):
    """The import window does not allow that."""

    status = 409


class HistorySwept(HydrationConflict):
    """Retention already removed the beginning; nothing can be put in front of it."""


class StaleToken(HydrationConflict):
    """The import window belongs to somebody else by now."""


class BindingConflict(ThreadlineError):
    """The conversation is bound to another session."""

    status = 409


class BindingMismatch(ThreadlineError):
    """The binding is of another generation by now."""

    status = 409


class IdempotencyConflict(ThreadlineError):
    """The key was used for something else."""

    status = 409


class TokensUnavailable(ThreadlineError):
    """Tokens cannot be counted here."""

    status = 501


class McpUnavailable(ThreadlineError):
    """The Model Context Protocol is not spoken here."""

    status = 501


class AlreadyDone(ThreadlineError):
    """This was done under the same key already, and its answer is not given twice."""

    status = 409


class NoAdapter(ThreadlineError):
    """Nobody speaks for this account."""

    status = 409


class AlreadyAttached(ThreadlineError):
    """Another attach runs the session's agent."""

    status = 409


class AccountTaken(ThreadlineError):
    """Somebody else speaks for this account."""

    status = 409


class AttachmentLost(ThreadlineError):
    """The session's agent is run by somebody else by now."""

    status = 409


class CallbackFailed(ThreadlineError):
    """What was called did not answer as it has to."""

    status = 422


class ConsentRequired(ThreadlineError):
    """This recipient may not be written to first."""

    status = 403


class LimitReached(ThreadlineError):
    """This was written to often enough for now."""

    status = 429


class ReplyRouteConflict(ThreadlineError):
    """An answer would reach another session than the one that writes."""

    status = 409


class NoAddress(ThreadlineError):
    """There is no address for this recipient."""

    status = 404


class WindowClosed(ThreadlineError):
    """The provider takes only templates until this person writes again."""

    status = 409


class NotSent(ThreadlineError):
    """No channel took the message."""

    status = 409


class DeliveryConflict(ThreadlineError):
    """The delivery is in a state that does not allow that."""

    status = 409


class HandleConflict(ThreadlineError):
    """The handle means another participant here."""

    status = 409


class OutcomeUnknown(ThreadlineError):
    """The connection was lost while committing; it is not known whether the change was kept."""

    status = 503


class ServerUnreachable(ThreadlineError):
    """The threadline server cannot be reached."""

    status = 503


class StoreUnavailable(ThreadlineError):
    """The store cannot be reached at the moment."""

    status = 503


class StoreBusy(ThreadlineError):
    """Another threadline server holds this store."""

    status = 503


class StoreFull(ThreadlineError):
    """The disk is full; nothing was written."""

    status = 507


class StoreDamaged(ThreadlineError):
    """The database is damaged or is no threadline store."""


class SchemaNewer(ThreadlineError):
    """The database was written by a newer threadline."""


class WrongKey(ThreadlineError):
    """The store was made with another key."""


class ArchiveError(ThreadlineError):
    """The export cannot be imported."""

    status = 400


class ConfigError(ThreadlineError):
    """The settings are not right."""
