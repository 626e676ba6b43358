"""How Telegram says no: a status, a sentence, sometimes parameters.

The sentences are the only way to tell a person who blocked the bot from a token that is no longer
valid, so they are matched where that matters, and shown as they are where it does not.
"""

from __future__ import annotations

from threadline.adapters.telegram_content import Json, line, number
from threadline.core.deliveries import Failure
from threadline.core.wire import ApiResponse, Bucket, Doubt, Refused

# What a sentence holds, the class, and what a person should know; the first that fits.
SENTENCES: tuple[tuple[str, Failure, str], ...] = (
    ("bot was blocked by the user", Failure.NOT_FOUND, "the person blocked the bot."),
    (
        "bot can't initiate conversation",
        Failure.NOT_FOUND,
        "the person has not started the bot yet; only they can.",
    ),
    ("user is deactivated", Failure.NOT_FOUND, "the person's account was deleted."),
    ("can't send messages to bots", Failure.UNSUPPORTED, "a bot cannot write to a bot."),
    ("bot was kicked", Failure.NOT_FOUND, "the bot was removed from this chat."),
    ("bot is not a member", Failure.NOT_FOUND, "the bot is not a member of this chat."),
    ("group chat was deactivated", Failure.NOT_FOUND, "the group was deleted."),
    ("chat not found", Failure.NOT_FOUND, "the bot knows no such chat."),
    ("message thread not found", Failure.NOT_FOUND, "the topic was deleted."),
    ("topic_deleted", Failure.NOT_FOUND, "the topic was deleted."),
    ("topic_closed", Failure.AUTH, "the topic is closed, and only administrators write in it."),
    ("business connection", Failure.AUTH, "the business account ended its connection."),
    ("business_connection", Failure.AUTH, "the business account ended its connection."),
    ("not enough rights", Failure.AUTH, "the bot may not write in this chat."),
    ("have no rights", Failure.AUTH, "the bot may not write in this chat."),
    ("need administrator rights", Failure.AUTH, "the bot may not write in this channel."),
    ("chat_write_forbidden", Failure.AUTH, "the bot may not write in this chat."),
    ("chat_restricted", Failure.AUTH, "the bot may not write in this chat."),
    ("file is too big", Failure.UNSUPPORTED, "Telegram hands bots files of up to 20 MB."),
)
BAD_TOKEN = "the bot's token is not valid (any more); @BotFather shows it."


def refused(answer: ApiResponse, said: Json, *, is_group: bool = False) -> Refused | Doubt:
    """What an answer means that is no success: every one has exactly one meaning.

    A server's error may come from behind the deed, so it proves nothing.
    """
    status = answer.status
    if status < 300:
        status = number(said, "error_code") or 0
    sentence = line(said, "description")[:300] or f"HTTP {answer.status}"
    match status:
        case 429:
            wait = number(said, "parameters", "retry_after")
            bucket = Bucket.CONVERSATION if is_group else Bucket.ACCOUNT
            return Refused(
                failure=Failure.RATE_LIMITED,
                reason=sentence,
                wait=None if wait is None else float(wait),
                bucket=bucket,
            )
        case 401 | 404:
            return Refused(failure=Failure.AUTH, reason=BAD_TOKEN)
        case 409:
            return Refused(failure=Failure.TRANSIENT, reason=sentence)
        case _ if 300 <= status < 500 and status not in (408, 425):
            folded = sentence.casefold()
            for words, failure, reason in SENTENCES:
                if words in folded:
                    return Refused(failure=failure, reason=reason)
            failure = Failure.AUTH if status in (403, 407) else Failure.PERMANENT
            return Refused(failure=failure, reason=sentence)
    return Doubt(reason=f"{sentence}: it may have been done.")
