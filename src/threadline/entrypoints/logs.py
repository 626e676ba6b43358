"""What a server says about itself: one line an event, on standard error, without secrets.

An event has a name and facts, never a sentence with holes. What other libraries log goes the same
way. Whatever looks like a secret is blanked wherever it stands, fields that hold what people said
are dropped, and of an exception only its class and where it happened are told: its words may quote
the data it was about.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
import structlog
from structlog.types import EventDict, Processor

from threadline.core.errors import ConfigError

BLANK = "[redacted]"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "text")
LONGEST = 256
_lines: Callable[[str], Any] | None = None
FRAMES = 8
DEEPEST = 4

# Ours, Standard Webhooks', the providers', anything sent as a credential, a password in a URL.
SECRETS = re.compile(
    r"""tl_[A-Za-z0-9_\-]{4,}
    | whsec_[A-Za-z0-9+/=_\-]+
    | xox[a-z]-[A-Za-z0-9\-]+ | xapp-[A-Za-z0-9\-]+
    | \b\d{5,}:[A-Za-z0-9_\-]{20,}
    | \bEAA[A-Za-z0-9]{20,} | \bsyt_[A-Za-z0-9_]+
    | (?i:\b(?:bearer|basic|bot)\s+)[A-Za-z0-9+/=._~\-]{8,}
    | (?<=://)[^/\s:@]*:[^/\s@]+(?=@)
    | /chat/[A-Za-z0-9_\-]{16,}
    """,
    re.VERBOSE,
)
HIDDEN = re.compile(
    r"authorization|cookie|secret|password|passwd|signature|^link$|(^|_)token$|api_?key|csrf"
)
UNSAID = frozenset({"text", "body", "content", "locals", "payload", "data", "args", "headers"})


def redacted(value: Any, depth: int = 0) -> Any:
    """A value as it may be logged: bounded, in one line, and without what looks like a secret.

    >>> redacted("said with tl_abcdefgh"), redacted({"cookie": "x", "n": 1})
    ('said with [redacted]', {'cookie': '[redacted]', 'n': 1})
    """
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            safe = SECRETS.sub(BLANK, value)
            return safe if len(safe) <= LONGEST else f"{safe[:LONGEST]}…"
        case Mapping() if depth < DEEPEST:
            return {str(name): _field(str(name), one, depth) for name, one in value.items()}
        case list() | tuple() | set() | frozenset() if depth < DEEPEST:
            return [redacted(one, depth + 1) for one in value]
    return redacted(str(value), depth)


def _field(name: str, value: Any, depth: int) -> Any:
    plain = name.casefold()
    if plain in UNSAID or HIDDEN.search(plain):
        return BLANK
    return redacted(value, depth + 1)


def place_of(error: BaseException) -> list[str]:
    """Where an error happened, innermost last; files and lines only."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-FRAMES:]]


def told(error: BaseException) -> dict[str, Any]:
    """What may be said about an error: its class, its code where it is ours, and its place."""
    code = getattr(error, "code", None)
    return {
        "error": type(error).__name__,
        **({"code": code} if isinstance(code, str) else {}),
        "at": place_of(error),
    }


def _exceptions(_: Any, __: str, event: EventDict) -> EventDict:
    """An exception becomes its class and its place."""
    found = event.pop("exc_info", None)
    event.pop("stack_info", None)
    if found is True:
        found = sys.exc_info()
    if isinstance(found, tuple):
        found = found[1]
    if isinstance(found, BaseException):
        event.update(told(found))
    return event


def _foreign(_: Any, __: str, event: EventDict) -> EventDict:
    """What another library logged: its first line. The rest quotes what it worked on."""
    if "_record" in event:
        said = str(event.get("event", ""))
        event["event"] = said.strip().split("\n")[0]
        event.pop("positional_args", None)
        event.pop("color_message", None)
    return event


def _redact(_: Any, __: str, event: EventDict) -> EventDict:
    kept = {name: value for name, value in event.items() if name.startswith("_")}
    rest = {name: value for name, value in event.items() if not name.startswith("_")}
    return {**redacted(rest), **kept}


def _json(event: MutableMapping[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event).decode()


def shared() -> list[Processor]:
    """What every line goes through, ours and foreign."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _exceptions,
        _foreign,
        _redact,
    ]


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """A log of ours, under `threadline.`. It goes where Python's logging of this process goes, and
    nowhere where nobody set that up."""
    made: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"threadline.{name}"),
        processors=[
            structlog.stdlib.filter_by_level,
            *shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return made


def say(log: logging.Logger, level: int, event: str, facts: dict[str, Any]) -> None:
    """Log facts of which each is known to be harmless: numbers, and words of a closed set.

    There is a line of this sort for every request; where lines are JSON it is written without the
    detour over everything above, which costs five times as much.
    """
    if not log.isEnabledFor(level):
        return
    if _lines is None:
        logger(log.name.removeprefix("threadline.")).log(level, event, **facts)
        return
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    name = logging.getLevelName(level).lower()
    _lines(_json({"event": event, "level": name, "logger": log.name, "timestamp": now, **facts}))


def configure(*, level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Send every log of this process to standard error in one form.

    `level` is one of `LEVELS`, `form` one of `FORMATS`: `auto` is text where somebody looks on
    and JSON lines elsewhere. Raises `ConfigError` for another word.
    """
    for name, word, words in (("log_level", level, LEVELS), ("log_format", form, FORMATS)):
        if word not in words:
            raise ConfigError(f"{name} is {word!r}; it is one of {', '.join(words)}.")
    out = stream or sys.stderr
    text = form == "text" or (form == "auto" and out.isatty())
    renderer: Processor = structlog.processors.JSONRenderer(serializer=_json)
    if text:
        renderer = structlog.dev.ConsoleRenderer(colors=out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=shared(),
            keep_exc_info=False,
            keep_stack_info=False,
        )
    )
    global _lines
    _lines = None if text else lambda line: handler.stream.write(f"{line}\n")
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    # A client library names its URLs at this level, and some of them carry a token.
    for name in ("httpx", "httpcore", "httpx2", "mcp", "slack_sdk", "telegram", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "litestar"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    logging.getLogger("threadline").setLevel(getattr(logging, level.upper()))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
