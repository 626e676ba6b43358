"""Slack, simulated: its Web API, the Events API with its signatures, Socket Mode; for one app.

Errors are HTTP 200 with `"ok": false`. An event reaches the app by HTTP where a request URL is set,
else by Socket Mode. A later event overtakes one that is tried again, as it does there.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import aiohttp

from threadline.testing.simulators.slack_asked import METHODS, Asked, Method, Refused, read
from threadline.testing.simulators.slack_socket import RETRIES, Sockets
from threadline.testing.simulators.slack_world import APP, KINDS, TEAM, VERIFICATION
from threadline.testing.simulators.wire import Answer, Call, Event, Push, says

BOT_TOKEN, APP_TOKEN = "xoxb-7001-7002-simulated5f0c1d", "xapp-1-A0SIMAPP-7003-simulated9ab7e2"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
CHALLENGE = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"


class Slack(Sockets):
    """The platform: one workspace, one app."""

    speaking: ClassVar[frozenset[str]] = frozenset(
        {"chat.postMessage", "files.completeUploadExternal"}
    )
    ordered: ClassVar[bool] = False
    api: ClassVar[str] = "/api"

    def credentials(self) -> dict[str, str]:
        """What the app's pages show."""
        return {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "signing_secret": SECRET}

    # --- the Web API -------------------------------------------------------------------------

    def route(self, call: Call) -> tuple[str, str]:
        """The method, such as `chat.postMessage`; the place is the channel."""
        name = call.path.removeprefix("/api/")
        if call.path.startswith("/upload/v1/"):
            return "upload", ""
        if name not in METHODS:
            return f"{call.method} {call.path}", ""
        try:
            given, _ = read(call, METHODS[name])
        except Refused:
            return name, ""
        return name, str(given.get("channel") or given.get("channel_id") or "")

    async def answer(self, call: Call) -> Answer:
        """One method, or the bytes of a file."""
        self.ground.settings["origin"] = call.origin
        if call.path.startswith("/files-pri/"):
            known = call.headers.get("authorization") == f"Bearer {BOT_TOKEN}"
            return self.fetched(call, known and "files:read" in self.scopes())
        if call.path.startswith("/upload/v1/") and call.method == "POST":
            return self.uploaded(call)
        if not call.path.startswith("/api/") or call.method not in ("GET", "POST"):
            return Answer(status=404, body=b"<html>", headers={"content-type": "text/html"})
        try:
            return self._method(call.path.removeprefix("/api/"), call)
        except Refused as refused:
            return refused.answer()

    def _method(self, name: str, call: Call) -> Answer:
        method = METHODS.get(name)
        if method is None:
            raise Refused("unknown_method", req_method=name)
        given, warnings = read(call, method)
        token = self._token(call, given)
        if name == "auth.test" and token == APP_TOKEN:
            return says({"ok": True, "app_name": "Simbot", "app_id": APP})
        if (token == APP_TOKEN) != method.app:
            raise Refused("not_allowed_token_type")
        if not method.app:
            self.need(self._scope(method, given))
        handler = getattr(self, "_" + name.lower().replace(".", "_"))
        said: dict[str, Any] = {"ok": True, **handler(Asked(method, given))}
        if warnings:
            about = said.setdefault("response_metadata", {})
            about["warnings"] = [*about.get("warnings", []), *warnings]
            said["warning"] = ",".join(about["warnings"])
        granted = ",".join(self.scopes())
        return says(
            said, x_oauth_scopes=granted, x_slack_req_id=f"{self.ground.number('req'):032x}"
        )

    def _token(self, call: Call, given: Mapping[str, Any]) -> str:
        """Who calls: from the header or a form, never from JSON or the address."""
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        form = "json" not in call.headers.get("content-type", "")
        if not token and form:
            token = str(given.get("token", ""))
        elif scheme.lower() != "bearer":
            token = ""
        if not token:
            raise Refused("not_authed")
        if token not in (BOT_TOKEN, APP_TOKEN):
            raise Refused("invalid_auth")
        if revoked := self.ground.settings.get("revoked"):
            raise Refused(str(revoked))
        return token

    def _scope(self, method: Method, given: Mapping[str, Any]) -> str:
        where = self.channels.get(str(given.get("channel", "")), {"kind": "channel"})
        return method.scope.replace("*", KINDS[where["kind"]])

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """429, with whole seconds in a header."""
        seconds = str(max(1, round(wait)))
        return says({"ok": False, "error": "ratelimited"}, 429, retry_after=seconds)

    def broken(self, call: Call, status: int) -> Answer:
        """A page of what stands in front."""
        return Answer(status=status, body=b"<html>", headers={"content-type": "text/html"})

    # --- the Events API ----------------------------------------------------------------------

    def push(self, event: Event, url: str, secret: str) -> Push:
        """Signed over the time and the raw body; a retry says which it is and why."""
        headers = {}
        if event.attempts:
            headers["x-slack-retry-num"] = str(event.attempts)
            headers["x-slack-retry-reason"] = _reason(event.error)
        return self._signed(event.what, url, secret, headers)

    def _signed(self, what: Any, url: str, secret: str, more: Mapping[str, str]) -> Push:
        body = json.dumps(what, ensure_ascii=False, separators=(",", ":")).encode()
        stamp = str(int(self.ground.now()))
        words = f"v0:{stamp}:".encode() + body
        made = hmac.new((secret or SECRET).encode(), words, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/json",
            "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "x-slack-request-timestamp": stamp,
            "x-slack-signature": f"v0={made}",
        }
        return Push(url=url, body=body, headers={**headers, **more})

    def retry(self, event: Event, status: int | None, headers: Mapping[str, str]) -> float | None:
        """At once, after a minute and after five; not at all where the answer asks for that."""
        if status is not None and headers.get("x-slack-no-retry") == "1":
            return None
        return RETRIES[event.attempts] if event.attempts < len(RETRIES) else None

    async def do_request_url(self, url: str) -> dict[str, str]:
        """Somebody enters the request URL, which has to answer with the challenge."""
        asked = {"token": VERIFICATION, "challenge": CHALLENGE, "type": "url_verification"}
        push = self._signed(asked, url, SECRET, {})
        try:
            async with (
                aiohttp.ClientSession() as client,
                client.post(url, data=push.body, headers=push.headers) as answer,
            ):
                said = (await answer.text()).strip()
                took = answer.status == 200
        except (aiohttp.ClientError, OSError, ValueError):
            said, took = "", False
        if not took or CHALLENGE not in (said, _challenge(said)):
            raise ValueError("the URL did not respond with the value of the challenge parameter")
        self.ground.set_webhook(url, SECRET)
        return {"url": url}

    def do_limited(self) -> None:
        """Slack tells that the app was sent too many events within an hour."""
        what = {"token": VERIFICATION, "type": "app_rate_limited", "team_id": TEAM}
        minute = int(self.ground.now()) // 60 * 60
        self.ground.emit("", what | {"minute_rate_limited": minute, "api_app_id": APP})


def _challenge(said: str) -> str:
    try:
        found = json.loads(said)
    except ValueError:
        return ""
    return str(found.get("challenge", "")) if isinstance(found, dict) else ""


def _reason(error: str) -> str:
    """Why an event is sent again, from how the last attempt ended."""
    if error.startswith("HTTP"):
        return "http_error"
    if "Timeout" in error:
        return "http_timeout"
    return "connection_failed" if "Connect" in error or "Disconnect" in error else "unknown_error"
