"""WhatsApp as the Cloud API shows it: one business number, people with phones and user ids.

Signed webhooks with their statuses, the handshake when a webhook is set, the 24 hours in which a
business may answer freely, files that are fetched in two steps. There is no history, and a message
that was taken is not repeated by any key: whoever sends twice has said it twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import aiohttp

from threadline.testing.simulators.ground import Simulator
from threadline.testing.simulators.whatsapp_asked import MEDIA, fault_in, refusal
from threadline.testing.simulators.wire import Answer, Call, Event, File, Push, says

NUMBER, SHOWN, WABA = "100200300400500", "+1 555-010-0999", "900800700600500"
TOKEN, APP_SECRET, VERIFY = "EAAGsimulated5f0c1d", "b7f1simulated9d3e02", "harbour-walnut-71"
OTHER = "999888777666555"
WINDOW = 24 * 3600.0
RETRIED = 7 * 86_400.0
CHALLENGE = "1158201444"


class WhatsApp(Simulator):
    """Tries a webhook again for seven days, at ever longer intervals."""

    speaking: ClassVar[frozenset[str]] = frozenset({"messages"})
    api: ClassVar[str] = "/v26.0"

    def credentials(self) -> dict[str, str]:
        """What Meta's pages show of the app and its number."""
        return {
            "phone_number_id": NUMBER,
            "token": TOKEN,
            "app_secret": APP_SECRET,
            "verify_token": VERIFY,
        }

    def route(self, call: Call) -> tuple[str, str]:
        """The last part of the path; the place of a message is whom it goes to."""
        parts = [one for one in call.path.split("/") if one]
        if parts[2:] != ["messages"] or call.method != "POST":
            return (parts[2] if len(parts) > 2 else f"{call.method} node"), ""
        try:
            body = call.json()
        except ValueError:
            return "messages", ""
        return "messages", _receiver(body) if isinstance(body, dict) else ""

    async def answer(self, call: Call) -> Answer:
        """Do what the Graph API is asked."""
        parts = [one for one in call.path.split("/") if one]
        if call.headers.get("authorization") != f"Bearer {TOKEN}":
            return refusal(190, "Invalid OAuth access token.", 401, kind="OAuthException")
        if parts[:1] == ["media"] and len(parts) == 2:
            return self._bytes(parts[1])
        match call.method, parts[1:]:
            case "GET", [number] if number == NUMBER:
                return says(
                    {"id": NUMBER, "display_phone_number": SHOWN, "verified_name": "Harbour Café"}
                )
            case "POST", [number] if number == NUMBER:
                return await self._set_webhook(call)
            case "POST", [number, "messages"] if number == NUMBER:
                return self._message(call)
            case "POST", [number, "media"] if number == NUMBER:
                return self._upload(call)
            case "GET", [media] if media in self.ground.book("media"):
                return says(self._about(media, call.origin))
        return refusal(100, "Unsupported get request.", 400, subcode=33)

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """The throughput of the number is reached; Meta gives minutes, if anything."""
        usage = {"type": "whatsapp", "estimated_time_to_regain_access": max(1, round(wait / 60))}
        answer = refusal(130429, "Rate limit hit", 400)
        stated = {"x-business-use-case-usage": json.dumps({WABA: [usage]})} if wait >= 60 else {}
        return Answer(status=400, body=answer.body, headers={**answer.headers, **stated})

    def broken(self, call: Call, status: int) -> Answer:
        """Nobody knows what happened."""
        return refusal(131000, "Something went wrong", status)

    def push(self, event: Event, url: str, secret: str) -> Push:
        """JSON in ASCII with its slashes escaped, signed with the app's secret."""
        body = json.dumps(event.what, separators=(",", ":")).replace("/", "\\/").encode()
        made = hmac.new((secret or APP_SECRET).encode(), body, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "x-hub-signature-256": f"sha256={made}"}
        return Push(url=url, body=body, headers=headers)

    def retry(self, event: Event, status: int | None, headers: Mapping[str, str]) -> float | None:
        """Twice as long each time, never over six hours, for seven days."""
        waits = [min(5.0 * 2**n, 21_600.0) for n in range(event.attempts + 1)]
        return waits[-1] if sum(waits) < RETRIED else None

    def do_say(
        self,
        text: str = "hi",
        phone: str = "15550100123",
        user_id: str = "US.1349",
        name: str = "Ann",
        reply_to: str = "",
        beside_others: bool = False,
    ) -> dict[str, str]:
        """A person writes; empty `phone` or `user_id` are hidden. `beside_others` puts a message
        of another number into the same request."""
        said: dict[str, Any] = {"type": "text", "text": {"body": text}}
        if reply_to:
            said["context"] = {"from": _digits(SHOWN), "id": reply_to}
        return self._hear(said, phone, user_id, name, beside_others)

    def do_send(
        self,
        message: dict[str, Any],
        phone: str = "15550100123",
        user_id: str = "US.1349",
        name: str = "Ann",
    ) -> dict[str, str]:
        """A person sends any kind of message: its `type` and what belongs to it."""
        return self._hear(message, phone, user_id, name)

    def do_file(self, kind: str = "image", content: str = "bytes", caption: str = "") -> Any:
        """A person sends a file."""
        media = self._keep("image/jpeg" if kind == "image" else "text/plain", content.encode())
        body = {"id": media, "mime_type": self.ground.book("media")[media]["type"]}
        if caption:
            body["caption"] = caption
        return {**self.do_send({"type": kind, kind: body}), "media": media}

    def do_move(self, phone: str, user_id: str, to_phone: str, to_user_id: str) -> dict[str, str]:
        """A person takes a new number, and with it gets a new user id."""
        said = {
            "type": "user_changed_number",
            "body": f"User changed from {phone} to {to_phone}",
            "wa_id": to_phone,
            "user_id": to_user_id,
            "previous_user_id": user_id,
        }
        self.ground.book("heard")[to_user_id] = self.ground.now()
        return self._hear({"type": "system", "system": said}, phone, "", "")

    def do_type(self, text: str, phone: str = "15550100123", id: str = "") -> dict[str, str]:
        """The owner answers by hand, in the business app on the same number; with an `id` it is
        that message which is told again."""
        ident = id or self._id()
        echo = {"from": _digits(SHOWN), "to": phone, "id": ident, "type": "text"}
        echo |= {"timestamp": self._stamp(), "text": {"body": text}}  # type: ignore[dict-item]
        self._emit(phone, {"message_echoes": [echo]}, "smb_message_echoes")
        return {"id": ident}

    def do_status(self, id: str, status: str, code: int = 0) -> dict[str, str]:
        """Meta tells what became of a message: `read`, or `failed` with a code."""
        self._tell(id, status, code)
        return {"id": id}

    def do_forget(self, user: str = "US.1349") -> dict[str, str]:
        """More than a day passes since this person last wrote."""
        for name in (user, *self.ground.book("people").get(user, [])):
            self.ground.book("heard").pop(name, None)
        return {"user": user}

    def do_expect(self, window: str = "at_once") -> dict[str, str]:
        """Whether a closed window is said `at_once` or `late`, in a status."""
        self.ground.settings["window"] = window
        return {"window": window}

    def _hear(
        self, said: dict[str, Any], phone: str, user_id: str, name: str, beside: bool = False
    ) -> dict[str, str]:
        names = [one for one in (user_id, phone) if one]
        for one in names:
            self.ground.book("heard")[one] = self.ground.now()
            known = self.ground.book("people").get(one, [])
            self.ground.book("people")[one] = sorted({*known, *names} - {one})
        ident = self._id()
        sender = {"from": phone, "from_user_id": user_id}
        message = {key: value for key, value in sender.items() if value}
        message |= {"id": ident, "timestamp": self._stamp(), **said}
        value: dict[str, Any] = {"messages": [message]}
        if name:
            contact = {"wa_id": phone, "user_id": user_id}
            given = {key: it for key, it in contact.items() if it}
            value["contacts"] = [{"profile": {"name": name}, **given}]
        self._emit(names[0], value, "messages", beside=beside)
        return {"id": ident}

    def _message(self, call: Call) -> Answer:
        body = call.json()
        if isinstance(body, dict) and body.get("status") == "read":
            return says({"success": True})
        wrong = fault_in(body)
        if wrong is not None:
            return refusal(*wrong)
        file = None
        if media := str(body[body["type"]].get("id", "")) if body["type"] in MEDIA else "":
            file = self.ground.book("media").get(media)
            if file is None:
                return refusal(131053, "Media upload error: there is no media of this id.", 400)
        receiver = _receiver(body)
        ident = self._id()
        text = str(body.get(body["type"], {}).get("body", body[body["type"]].get("caption", "")))
        self.ground.book("ours")[ident] = {
            "to": receiver,
            "token": body.get("biz_opaque_callback_data", ""),
        }
        since = self.ground.now() - self.ground.book("heard").get(receiver, 0)
        closed = since > WINDOW and body["type"] != "template"
        if closed and self.ground.settings.get("window", "at_once") == "at_once":
            return refusal(131047, "Re-engagement message", 400)
        contact = {"input": receiver}
        contact |= {"user_id": receiver} if "recipient" in body else {"wa_id": receiver}
        if closed:
            self._tell(ident, "failed", 131047)
        else:
            self.ground.effect("message", receiver, id=ident, text=text, body=body, file=file)
            for status in ("sent", "delivered"):
                self._tell(ident, status)
        return says(
            {
                "messaging_product": "whatsapp",
                "contacts": [contact],
                "messages": [{"id": ident, "message_status": "accepted"}],
            }
        )

    def _tell(self, ident: str, status: str, code: int = 0) -> None:
        ours = self.ground.book("ours")[ident]
        told: dict[str, Any] = {"id": ident, "status": status, "timestamp": self._stamp()}
        told["recipient_id"] = ours["to"]
        if ours["token"]:
            told["biz_opaque_callback_data"] = ours["token"]
        if code:
            told["errors"] = [{"code": code, "title": "It could not be handed on"}]
        self._emit(ours["to"], {"statuses": [told]}, "messages")

    def _emit(self, place: str, value: dict[str, Any], field: str, *, beside: bool = False) -> None:
        changes = [self._change(value, field)]
        if beside:
            theirs = {"messages": [{"from": "1", "id": self._id(), "type": "text"}]}
            changes.append(self._change(theirs, field, OTHER))
        entry = {"id": WABA, "changes": changes}
        self.ground.emit(place, {"object": "whatsapp_business_account", "entry": [entry]})

    def _change(self, value: dict[str, Any], field: str, number: str = NUMBER) -> dict[str, Any]:
        meta = {"display_phone_number": _digits(SHOWN), "phone_number_id": number}
        return {
            "field": field,
            "value": {"messaging_product": "whatsapp", "metadata": meta, **value},
        }

    async def _set_webhook(self, call: Call) -> Answer:
        """Ask the address for its words, as Meta does before it sends anything there."""
        wanted = call.json().get("webhook_configuration", {})
        url = wanted.get("override_callback_uri", "")
        if url:
            asked = {"hub.mode": "subscribe", "hub.challenge": CHALLENGE}
            asked["hub.verify_token"] = wanted.get("verify_token", "")
            try:
                async with (
                    aiohttp.ClientSession() as client,
                    client.get(url, params=asked) as answer,
                ):
                    said = await answer.text()
            except (aiohttp.ClientError, OSError, ValueError):
                said = ""
            if said != CHALLENGE:
                return refusal(2200, "Callback verification failed", 400)
        self.ground.set_webhook(url, APP_SECRET)
        return says({"success": True})

    def _upload(self, call: Call) -> Answer:
        fields = call.fields()
        file = fields.get("file")
        if fields.get("messaging_product") != "whatsapp":
            return refusal(100, "The parameter messaging_product is required.", 400)
        if not isinstance(file, File) or not file.content:
            return refusal(100, "The parameter file is required.", 400)
        if fields.get("type") != file.content_type:
            return refusal(100, "The parameter type is another than that of the file.", 400)
        return says({"id": self._keep(file.content_type, file.content)})

    def _keep(self, kind: str, content: bytes) -> str:
        media = str(self.ground.number("media", 700_001))
        self.ground.book("media")[media] = {"type": kind, "content": content.decode("latin-1")}
        return media

    def _about(self, media: str, origin: str) -> dict[str, Any]:
        kept = self.ground.book("media")[media]
        content = kept["content"].encode("latin-1")
        return {
            "id": media,
            "messaging_product": "whatsapp",
            "mime_type": kept["type"],
            "sha256": hashlib.sha256(content).hexdigest(),
            "file_size": len(content),
            "url": f"{origin}/media/{media}",
        }

    def _bytes(self, media: str) -> Answer:
        kept = self.ground.book("media").get(media)
        if kept is None:
            return Answer(status=404)
        body = kept["content"].encode("latin-1")
        return Answer(body=body, headers={"content-type": kept["type"]})

    def _id(self) -> str:
        return f"wamid.SIM{self.ground.number('wamid'):010d}=="

    def _stamp(self) -> str:
        return str(int(self.ground.now()))


def _receiver(body: Mapping[str, Any]) -> str:
    return str(body.get("recipient") or body.get("to") or "").removeprefix("+")


def _digits(number: str) -> str:
    return "".join(one for one in number if one.isdecimal())
