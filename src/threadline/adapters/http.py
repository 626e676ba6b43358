"""The dialect of adapters that run elsewhere and speak our own HTTP (DESIGN section 6).

We call `POST {callback}/publish`, signed as Standard Webhooks, with the part's key as
`Idempotency-Key` and as the id of the message. Proof is `{"message_id": "…"}`; a refusal names its
class, `{"refused": "rate_limited", "wait": 30, "bucket": "account"}`. What is heard comes in
through `/v1/inbound` under the adapter's token, so there is no webhook to verify or to parse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

from threadline.adapters.answers import by_status, retry_after, seconds
from threadline.core.adapters import Account, Capabilities
from threadline.core.deliveries import Failure
from threadline.core.errors import InvalidConversation
from threadline.core.model import Attachment, ConversationRef, Kind
from threadline.core.values import json_object, one_line
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Bucket,
    Doubt,
    Heard,
    OutboundMessage,
    Refused,
    Request,
    Sent,
)

MAX_ID = 1024
MAX_ANSWER = 64 * 1024
MAX_FILE = 1 << 30


class Http:
    """One account of an out-of-process adapter."""

    def __init__(self, account: Account) -> None:
        self._account = account

    @property
    def capabilities(self) -> Capabilities:
        """As it registered them."""
        return self._account.capabilities

    def verify(self, request: Request) -> bool:
        """Nothing comes in this way: such an adapter has a token."""
        return False

    def parse(self, request: Request) -> Heard:
        """Nothing comes in this way."""
        return Heard()

    def render(self, message: OutboundMessage) -> ApiCall:
        """The signed call that asks it to say one part."""
        body = {
            "type": "publish",
            "key": message.key,
            "delivery": message.delivery,
            "attempt": message.attempt,
            "conversation": self._place(message.conversation),
            "session_id": message.session_id,
            "text": message.text,
            "part": message.part,
            "parts": message.parts,
            "reply_to": message.reply_to,
            "attachments": [asdict(one) for one in message.attachments],
            "metadata": dict(message.metadata),
        }
        return self.call("publish", body, message.key)

    def call(self, name: str, body: Mapping[str, Any], key: str) -> ApiCall:
        """A signed call of one of its routes."""
        return ApiCall(
            method="POST",
            url=f"{self._account.callback}/{name}",
            body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "replace"
            ),
            headers={"content-type": "application/json", "idempotency-key": key},
            route=name,
            most=MAX_ANSWER,
            key=key,
            secret=self._account.secret,
        )

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """Proof, a typed refusal, else what the status says: total over all answers."""
        said = json_object(answer.body)
        refusal = _refusal(said, answer)
        if refusal is not None:
            return refusal
        if 200 <= answer.status < 300:
            return _proof(said.get("message_id"))
        return by_status(answer)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where its callback is."""
        return (self._account.callback,)

    def file(self, attachment: Attachment) -> ApiCall:
        """The signed call that asks for a file's bytes."""
        made = sha256(f"{attachment.id} {attachment.url}".encode("utf-8", "replace"))
        body = {"type": "file", "attachment": asdict(attachment)}
        call = self.call("file", body, f"file.{made.hexdigest()[:32]}")
        return replace(call, most=attachment.size or MAX_FILE)

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The bytes, whatever they are; any other status than 200 says why there are none."""
        return answer.body if answer.status == 200 else by_status(answer, careful=True)

    def challenge(self, words: str) -> ApiCall:
        """The signed call that asks for these words back."""
        return self.call(
            "challenge", {"type": "challenge", "challenge": words}, f"challenge.{words}"
        )

    def is_proven(self, words: str, answer: ApiResponse) -> bool:
        """Only an answer that says them, not any server that says OK."""
        said = json_object(answer.body).get("challenge")
        return 200 <= answer.status < 300 and said == words

    def open_child(
        self, parent: ConversationRef, root: str | None, title: str, key: str
    ) -> ApiCall:
        """The signed call that asks it to open a conversation below another one."""
        body = {
            "type": "child_conversation",
            "key": key,
            "conversation": self._place(parent),
            "reply_to": root,
            "title": title,
        }
        return self.call("child-conversation", body, key)

    def read_child(
        self, parent: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> ConversationRef | Refused | Doubt:
        """The child's address: `{"conversation_id", "parent_conversation_id"?}`."""
        said = json_object(answer.body)
        refusal = _refusal(said, answer)
        if refusal is not None:
            return refusal
        if not 200 <= answer.status < 300:
            return by_status(answer)
        try:
            return ConversationRef(
                parent.provider,
                parent.account_id,
                said.get("conversation_id", ""),
                said.get("parent_conversation_id"),
                parent.scope_id,
                Kind.THREAD,
            )
        except InvalidConversation as error:
            return Doubt(reason=f"the answer names no conversation: {error}")

    def _place(self, ref: ConversationRef) -> dict[str, Any]:
        return {
            "scope_id": ref.scope_id,
            "provider": ref.provider,
            "account_id": ref.account_id,
            "conversation_id": ref.conversation_id,
            "parent_conversation_id": ref.parent_conversation_id,
            "kind": None if ref.kind is None else ref.kind.value,
        }


def _proof(message_id: Any) -> Sent | Doubt:
    if isinstance(message_id, str) and 0 < len(message_id) <= MAX_ID and message_id.isprintable():
        return Sent(message_id=message_id)
    return Doubt(reason="the adapter took it and gave no message_id.")


def _refusal(said: Mapping[str, Any], answer: ApiResponse) -> Refused | None:
    """A refusal the adapter names; a class it made up says at least that it was not said."""
    if "refused" not in said:
        return None
    word = said["refused"]
    try:
        failure = Failure(word) if isinstance(word, str) else Failure.PERMANENT
    except ValueError:
        failure = Failure.PERMANENT
    bucket = said.get("bucket")
    try:
        chosen = Bucket(bucket) if isinstance(bucket, str) else None
    except ValueError:
        chosen = None
    wait = seconds(said.get("wait"))
    reason = said.get("reason")
    return Refused(
        failure=failure,
        reason=one_line(reason) if isinstance(reason, str) and reason else one_line(str(word)),
        wait=retry_after(answer) if wait is None else wait,
        bucket=chosen,
    )
