"""Calls to Slack's Web API: what asks goes as a query, what does goes as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode, urlsplit

from threadline.core.adapters import Account
from threadline.core.model import Attachment
from threadline.core.wire import ApiCall

API: Final = "https://slack.com/api"
MAX_FILE: Final = 100 * 1024 * 1024
# The page to log in, which comes in place of a file, may be longer than the file is.
LOGIN: Final = 1024 * 1024


class Api:
    """How one account calls Slack. A token goes to Slack, or to the platform we were told."""

    def __init__(self, account: Account) -> None:
        self._credentials = account.credentials
        self.base = str(account.settings.get("api") or API).rstrip("/")

    def do(
        self, method: str, body: Mapping[str, object], *, key: str = "", token: str = "bot_token"
    ) -> ApiCall:
        """The call that does something."""
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return ApiCall(
            method="POST",
            url=f"{self.base}/{method}",
            body=raw.encode("utf-8", "replace"),
            headers=self._bearer(token) | {"content-type": "application/json; charset=utf-8"},
            route=method,
            key=key,
        )

    def ask(
        self, method: str, asked: Mapping[str, str], *, key: str = "", most: int = 1_048_576
    ) -> ApiCall:
        """The call that only asks."""
        return ApiCall(
            method="GET",
            url=f"{self.base}/{method}?{urlencode(asked, errors='replace')}",
            headers=self._bearer("bot_token"),
            route=method,
            most=most,
            key=key,
        )

    def file(self, attachment: Attachment) -> ApiCall:
        """The call for a file's bytes, or for where they are."""
        if not attachment.url and attachment.id:
            return self.ask("files.info", {"file": attachment.id})
        headers = {"accept": "*/*"}
        if self.is_slacks(attachment.url):
            headers |= self._bearer("bot_token")
        most = MAX_FILE if attachment.size is None else max(attachment.size, LOGIN)
        return ApiCall(method="GET", url=attachment.url, headers=headers, route="file", most=most)

    def _bearer(self, token: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self._credentials.get(token, '')}"}

    def is_slacks(self, url: str) -> bool:
        """Whether a link leads to Slack, or to the platform we were told."""
        try:
            where, ours = urlsplit(url), urlsplit(self.base)
            host = where.hostname or ""
        except ValueError:
            return False
        if "@" in where.netloc or "\\" in url:
            return False
        if where.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com")):
            return True
        return (where.scheme, where.netloc) == (ours.scheme, ours.netloc)


def turned(call: ApiCall, cursor: str) -> ApiCall:
    """The same question, for the page behind a cursor."""
    asked = call.url.partition("&cursor=")[0]
    more = urlencode({"cursor": cursor}, errors="replace")
    return replace(call, url=f"{asked}&{more}")
