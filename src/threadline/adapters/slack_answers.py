"""What Slack's answers mean: a word for what went wrong, nearly always under HTTP 200.

The word speaks before the status. Two words say that something may have been done before it went
wrong, and so may every other server error: then the history tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from threadline.adapters.answers import failure_of as plain_failure
from threadline.adapters.answers import retry_after
from threadline.core.deliveries import Failure
from threadline.core.values import json_object, one_line, said
from threadline.core.wire import ApiResponse, Doubt, Refused

LIMITS = frozenset({"ratelimited", "rate_limited"})
# "It's possible some aspect of the operation succeeded before the error was raised."
DOUBTS = frozenset({"internal_error", "fatal_error"})
ERRORS: Mapping[str, Failure] = {
    # "Temporarily unavailable"; the body came incompletely; the workspace is being moved.
    **dict.fromkeys(
        ("service_unavailable", "request_timeout", "team_added_to_org"), Failure.TRANSIENT
    ),
    **dict.fromkeys(
        (
            *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
            *("no_permission", "missing_scope", "not_allowed_token_type", "org_login_required"),
            *("ekm_access_denied", "access_denied", "not_in_channel", "team_access_not_granted"),
            *("restricted_action", "restricted_action_read_only_channel", "two_factor_setup"),
            *("restricted_action_thread_only_channel", "restricted_action_thread_locked"),
            *("restricted_action_non_threadable_channel", "enterprise_is_restricted"),
            *("invalid_app_token", "accesslimited", "cannot_dm_bot", "user_disabled"),
        ),
        Failure.AUTH,
    ),
    **dict.fromkeys(
        (
            *("channel_not_found", "is_archived", "message_not_found", "thread_not_found"),
            *("user_not_found", "users_not_found", "file_not_found", "file_deleted"),
            *("team_not_found", "is_inactive"),
        ),
        Failure.NOT_FOUND,
    ),
    **dict.fromkeys(
        (
            *("method_not_supported_for_channel_type", "unknown_method", "method_deprecated"),
            *("cannot_reply_to_message", "messages_tab_disabled", "channel_type_not_supported"),
            *("deprecated_endpoint", "slack_connect_canvas_sharing_blocked"),
        ),
        Failure.UNSUPPORTED,
    ),
}
# What Slack could not read in a message; without its markup it may.
UNREADABLE = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
# A workspace may forbid what a message carries beside its words.
NO_METADATA = frozenset(
    {
        *("metadata_too_large", "metadata_must_be_sent_from_app", "invalid_metadata_format"),
        *("invalid_metadata_schema", "invalid_metadata_filter_keys"),
    }
)
ADVICE: Mapping[str, str] = {
    "not_in_channel": "invite the app to the channel: /invite @its-name",
    "missing_scope": "add the scope to the app and install it again",
    "invalid_auth": "the token does not hold; connect again",
    "not_authed": "the token does not hold; connect again",
    "token_revoked": "the token was revoked; install the app and connect again",
    "token_expired": "the token has expired; install the app without token rotation",
    "account_inactive": "the app was removed from the workspace",
    "not_allowed_token_type": "that is the wrong kind of token for this",
}


def is_ok(answer: ApiResponse) -> bool:
    """Whether Slack did what it was asked."""
    return answer.status == 200 and json_object(answer.body).get("ok") is True


def error_of(answer: ApiResponse) -> str:
    """Slack's word for what went wrong; empty where it gives none."""
    body = json_object(answer.body)
    return "" if body.get("ok") is True else one_line(said(body.get("error")), 80)


def failure_of(answer: ApiResponse) -> Refused | Doubt:
    """What an answer that is no proof means: every status and every body has one meaning."""
    error, status = error_of(answer), answer.status
    reason = _reason(answer, error)
    if status == 429 or (status < 500 and error in LIMITS):
        return Refused(
            failure=Failure.RATE_LIMITED, reason=reason, wait=retry_after(answer), bucket=None
        )
    if error in DOUBTS:
        return Doubt(reason=f"{reason}: it may have been said.")
    if error in ERRORS:
        failure = ERRORS[error]
        wait = retry_after(answer) if failure is Failure.TRANSIENT else None
        return Refused(failure=failure, reason=reason, wait=wait)
    if error and status < 500:
        return Refused(failure=Failure.PERMANENT, reason=reason)
    if status < 300:
        return Doubt(reason="Slack took it and gave no usable answer.")
    failing = None if status >= 500 else plain_failure(status)
    if failing is None:
        return Doubt(reason=f"{reason}: it may have been said.")
    return Refused(failure=failing, reason=reason)


def _reason(answer: ApiResponse, error: str) -> str:
    if not error:
        return f"HTTP {answer.status}"
    body = json_object(answer.body)
    needed = one_line(said(body.get("needed")), 120)
    advice = ADVICE.get(error, "")
    more = "; ".join(part for part in (f"needed: {needed}" if needed else "", advice) if part)
    return f"{error} ({more})" if more else error
