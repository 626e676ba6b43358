"""Twilio's Programmable Messaging: one account with a phone number and a WhatsApp sender.

Forms signed over the very URL that is called, status callbacks where a message asks for them, a
list of messages to page through, files behind one redirect. A webhook that does not answer is
tried once more only where no connection came about, so what is missed has to be read from the list.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

import aiohttp

from threadline.testing.simulators.ground import Simulator
from threadline.testing.simulators.twilio_asked import WHATSAPP, fault_in, refusal
from threadline.testing.simulators.wire import Answer, Call, Event, Push, says

SID, TOKEN = "AC5f0c1d9ab7e25f0c1d9ab7e25f0c1d9a", "9d3e02b7f1a5c84e9d3e02b7f1a5c84e"
SMS, SENDER = "+15550100999", "whatsapp:+15550100999"
NUMBER_SID = "PN5f0c1d9ab7e25f0c1d9ab7e25f0c1d9a"
ROOT = f"/2010-04-01/Accounts/{SID}"
WINDOW = 24 * 3600.0
FORM = "application/x-www-form-urlencoded; charset=UTF-8"


class Twilio(Simulator):
    """`/2010-04-01/Accounts/…` behind Basic authentication."""

    speaking: ClassVar[frozenset[str]] = frozenset({"messages"})
    patience: ClassVar[float] = 15.0

    def credentials(self) -> dict[str, str]:
        """What the console shows."""
        return {"account_sid": SID, "auth_token": TOKEN, "address": SENDER}

    def route(self, call: Call) -> tuple[str, str]:
        """`messages` says something; the place is whom it goes to."""
        if call.method == "POST" and call.path == f"{ROOT}/Messages.json":
            return "messages", dict(call.form()).get("To", "")
        return f"{call.method} {call.path.rpartition('/')[2].removesuffix('.json')}", ""

    async def answer(self, call: Call) -> Answer:
        """Do what the REST API is asked."""
        if call.path.startswith("/kept/"):
            return self._kept(call.path.removeprefix("/kept/"))
        opened = base64.b64encode(f"{SID}:{TOKEN}".encode()).decode()
        if call.headers.get("authorization") != f"Basic {opened}":
            return refusal(20003, "Authenticate", 401)
        match call.method, call.path.removeprefix(ROOT).strip("/").split("/"):
            case "GET", [".json"]:
                return says({"sid": SID, "friendly_name": "Harbour Café", "status": "active"})
            case "GET", ["IncomingPhoneNumbers.json"]:
                ours = call.query.get("PhoneNumber") == SMS
                rows = [{"sid": NUMBER_SID, "phone_number": SMS}] if ours else []
                return says({"incoming_phone_numbers": rows, "next_page_uri": None})
            case "POST", ["IncomingPhoneNumbers", number] if number == f"{NUMBER_SID}.json":
                self.ground.set_webhook(dict(call.form()).get("SmsUrl", ""), TOKEN)
                return says({"sid": NUMBER_SID})
            case "POST", ["Messages.json"]:
                return await self._message(call)
            case "GET", ["Messages.json"]:
                return self._listed(call)
            case "GET", ["Messages", name]:
                found = self.ground.book("messages").get(name.removesuffix(".json"))
                return says(_shown(found)) if found else refusal(20404, "Not found", 404)
            case "GET", ["Messages", sid, "Media.json"]:
                message = self.ground.book("messages").get(sid, {})
                rows = [_file(sid, one) for one in message.get("files", [])]
                return says({"media_list": rows, "next_page_uri": None})
            case "GET", ["Messages", _, "Media", media]:
                place = f"{call.origin}/kept/{media.removesuffix('.json')}"
                return Answer(status=307, headers={"location": place})
        return refusal(20404, "The requested resource was not found", 404)

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """Too many requests at once; a wait is not stated."""
        return refusal(20429, "Too Many Requests", 429)

    def broken(self, call: Call, status: int) -> Answer:
        """Nobody knows what happened."""
        return refusal(20500, "Internal Server Error", status)

    def push(self, event: Event, url: str, secret: str) -> Push:
        """A form, signed over the URL with the sorted fields behind it."""
        fields: dict[str, str] = event.what
        words = url + "".join(name + fields[name] for name in sorted(fields))
        mac = hmac.new((secret or TOKEN).encode(), words.encode(), hashlib.sha1)
        made = base64.b64encode(mac.digest()).decode()
        token = hashlib.sha256(str(event.number).encode()).hexdigest()[:32]
        headers = {"content-type": FORM, "x-twilio-signature": made}
        headers["i-twilio-idempotency-token"] = token
        return Push(url=url, body=urlencode(fields).encode(), headers=headers)

    def retry(self, event: Event, status: int | None, headers: Mapping[str, str]) -> float | None:
        """Once more, where nobody was there."""
        return 1.0 if status is None and event.attempts < 1 else None

    def do_say(
        self,
        text: str = "hi",
        phone: str = "+15550100123",
        to: str = SENDER,
        user_id: str = "",
        reply_to: str = "",
        more: dict[str, str] | None = None,
    ) -> dict[str, str]:
        """A person writes, by WhatsApp or as SMS; with a `user_id` its phone is not the sender."""
        prefix = WHATSAPP if to.startswith(WHATSAPP) else ""
        sender = prefix + (user_id or phone)
        fields = {"Body": text, "NumMedia": "0", "NumSegments": "1", **(more or {})}
        if prefix:
            fields |= {"ProfileName": "Ann", "WaId": phone.removeprefix("+")}
        if reply_to:
            fields |= {"OriginalRepliedMessageSid": reply_to, "OriginalRepliedMessageSender": to}
        sid = self._add(sender, to, text, "received")
        self._hear(sid, sender, to, fields)
        return {"sid": sid}

    def do_file(
        self, api: str, content: str = "bytes", kind: str = "image/jpeg", text: str = ""
    ) -> Any:
        """A person sends a file by WhatsApp; `api` is where the API is."""
        sender = f"{WHATSAPP}+15550100123"
        media = self._sid("ME")
        self.ground.book("media")[media] = {"type": kind, "content": content}
        sid = self._add(sender, SENDER, text, "received", files=[media])
        url = f"{api}{ROOT}/Messages/{sid}/Media/{media}"
        fields = {"Body": text, "NumMedia": "1", "MediaUrl0": url, "MediaContentType0": kind}
        self._hear(sid, sender, SENDER, fields)
        return {"sid": sid, "media": media}

    def do_status(self, sid: str, status: str, code: int = 0) -> dict[str, str]:
        """Twilio tells what became of a message of the account."""
        self._tell(sid, status, code)
        return {"sid": sid}

    def do_forget(self, who: str = f"{WHATSAPP}+15550100123") -> dict[str, str]:
        """More than a day passes since this person last wrote."""
        self.ground.book("heard").pop(who, None)
        return {"who": who}

    def _hear(self, sid: str, sender: str, to: str, fields: Mapping[str, str]) -> None:
        self.ground.book("heard")[sender] = self.ground.now()
        same = dict.fromkeys(("MessageSid", "SmsSid", "SmsMessageSid"), sid)
        self.ground.emit(
            sender,
            {
                **same,
                "AccountSid": SID,
                "From": sender,
                "To": to,
                "SmsStatus": "received",
                "MessageType": "image" if fields.get("NumMedia") == "1" else "text",
                "ApiVersion": "2010-04-01",
                "FromCity": "",
                **fields,
            },
        )

    async def _message(self, call: Call) -> Answer:
        fields = call.form()
        wrong = fault_in(fields, (SMS, SENDER))
        if wrong is not None:
            return refusal(*wrong)
        given = dict(fields)
        to, ours = given["To"], given["From"]
        text = given.get("Body", "")
        files = [value for name, value in fields if name == "MediaUrl"]
        callback = given.get("StatusCallback", "")
        # Addresses of tests lead nowhere; those of a server on this machine are fetched.
        near = [one for one in files if "//127.0.0.1" in one]
        fetched = [await _fetched(one) for one in near]
        sid = self._add(ours, to, text, "queued", callback=callback)
        since = self.ground.now() - self.ground.book("heard").get(to, 0)
        if to.startswith(WHATSAPP) and since > WINDOW and "ContentSid" not in given:
            self._tell(sid, "failed", 63016)
        elif None in fetched:
            self._tell(sid, "failed", 63019)
        else:
            self.ground.effect(
                "message", to, id=sid, text=text, body=given, files=files, fetched=fetched
            )
            for status in ("sent", "delivered"):
                self._tell(sid, status)
        return says(_shown({**self.ground.book("messages")[sid], "status": "queued"}), 201)

    def _add(
        self,
        sender: str,
        to: str,
        text: str,
        status: str,
        *,
        files: list[str] | None = None,
        callback: str = "",
    ) -> str:
        sid = self._sid("SM")
        self.ground.book("messages")[sid] = {
            "sid": sid,
            "from": sender,
            "to": to,
            "body": text,
            "status": status,
            "at": self.ground.now(),
            "files": files or [],
            "callback": callback,
            "code": 0,
        }
        return sid

    def _tell(self, sid: str, status: str, code: int = 0) -> None:
        message = self.ground.book("messages")[sid]
        self.ground.book("messages")[sid] = {**message, "status": status, "code": code}
        if not message["callback"]:
            return
        fields = {
            "AccountSid": SID,
            "MessageSid": sid,
            "SmsSid": sid,
            "From": message["from"],
            "To": message["to"],
            "MessageStatus": status,
            "SmsStatus": status,
            "ApiVersion": "2010-04-01",
        }
        if code:
            fields["ErrorCode"] = str(code)
        self.ground.emit(message["to"], fields, url=message["callback"])

    def _listed(self, call: Call) -> Answer:
        """Newest first, of one sender or receiver or both, in pages."""
        query = call.query
        rows = list(reversed(self.ground.book("messages").everything().values()))
        for name, field in (("From", "from"), ("To", "to")):
            rows = [one for one in rows if query.get(name, one[field]) == one[field]]
        if until := query.get("DateSent<"):
            latest = datetime.fromisoformat(until).timestamp()
            rows = [one for one in rows if int(one["at"]) <= latest]
        size = min(max(int(query.get("PageSize", 50)), 1), 1000)
        page = int(query.get("Page", 0))
        following = None
        if (page + 1) * size < len(rows):
            asked = {**query, "PageSize": str(size), "Page": str(page + 1)}
            following = f"{ROOT}/Messages.json?{urlencode(asked)}"
        chosen = rows[page * size : (page + 1) * size]
        return says({"messages": [_shown(one) for one in chosen], "next_page_uri": following})

    def _kept(self, media: str) -> Answer:
        kept = self.ground.book("media").get(media)
        if kept is None:
            return Answer(status=404)
        return Answer(body=kept["content"].encode(), headers={"content-type": kept["type"]})

    def _sid(self, kind: str) -> str:
        return f"{kind}{self.ground.number('sid'):032x}"


async def _fetched(url: str) -> list[str] | None:
    """The type and the bytes of a file, as Twilio fetches it; None where it cannot."""
    try:
        async with aiohttp.ClientSession() as client, client.get(url) as answer:
            content = await answer.read()
            return [answer.content_type, content.decode("latin-1")] if answer.ok else None
    except (aiohttp.ClientError, OSError, ValueError):
        return None


def _file(message: str, media: str) -> dict[str, Any]:
    uri = f"{ROOT}/Messages/{message}/Media/{media}.json"
    return {"sid": media, "parent_sid": message, "uri": uri}


def _shown(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the REST API writes it."""
    sent = format_datetime(datetime.fromtimestamp(int(message["at"]), UTC))
    inbound = message["status"] == "received"
    return {
        "sid": message["sid"],
        "account_sid": SID,
        "from": message["from"],
        "to": message["to"],
        "body": message["body"],
        "status": message["status"],
        "direction": "inbound" if inbound else "outbound-api",
        "date_created": sent,
        "date_sent": sent,
        "date_updated": sent,
        "num_media": str(len(message["files"])),
        "num_segments": "1",
        "error_code": message["code"] or None,
        "error_message": None,
        "messaging_service_sid": None,
        "price": None,
        "price_unit": "USD",
        "api_version": "2010-04-01",
        "uri": f"{ROOT}/Messages/{message['sid']}.json",
        "subresource_uris": {"media": f"{ROOT}/Messages/{message['sid']}/Media.json"},
    }
