"""Whatever bytes come, nothing is raised, and what is heard may be recorded."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.telegram.conftest import ACCOUNT, ADA, BOT, FORUM, GROUP, JUNK, PRIVATE, message, request
from threadline.adapters.telegram_content import FILES, OTHERS, SERVICE
from threadline.adapters.telegram_updates import SKIPPED
from threadline.core.rules.admission import checked
from threadline.core.rules.limits import LIMITS
from threadline.core.telegram import WANTED

KINDS = [*WANTED, "chat_member", *SKIPPED]
CONTENTS = [*FILES, *OTHERS, *SERVICE]
PARTS: dict[str, Any] = {
    "chat": [PRIVATE, GROUP, FORUM, {"id": "x"}],
    "from": [ADA, {"id": 7001, "is_bot": True}, {"id": 9, "first_name": "\x00"}],
    "sender_chat": [GROUP, {}],
    "message_thread_id": [1, 7, -7],
    "is_topic_message": [True],
    "business_connection_id": ["bc", "a:b", "/", "\x00", " ", "é" * 600],
    "direct_messages_topic": [{"topic_id": 3}, {"topic_id": -3}],
    "text": ["hi", "🎉@a", "\x00", "\ud800", ""],
    "caption": ["c"],
    "entities": [[{"type": "mention", "offset": 2, "length": 2}], [{"type": "text_mention"}]],
    "reply_to_message": [message(), {"message_id": 2**80}],
    "forward_origin": [{"type": "hidden_user", "sender_user_name": "x"}, {"chat": 3}],
    "photo": [[{"file_id": "f", "width": 1, "height": 2}, {"file_id": 3}]],
    "new_chat_members": [[ADA], [{}]],
    "left_chat_member": [ADA],
    "migrate_to_chat_id": [-1000000000051],
    "migrate_from_chat_id": [-5],
    "new_reaction": [[{"type": "emoji", "emoji": "👍"}, {"type": "custom_emoji"}]],
    "new_chat_member": [{"status": "member", "user": ADA}],
    "message_ids": [[1, "2", None, -3]],
    "user": [ADA],
    "date": [0, 1_700_000_000, 2**62],
    "edit_date": [1_700_000_001],
    "message_id": [5, 0, -1],
}
NAMES = [*PARTS, *CONTENTS]
fitting = st.sampled_from([(name, value) for name, found in PARTS.items() for value in found])
odd = st.tuples(st.sampled_from(NAMES), JUNK)
said = st.builds(
    lambda chat, parts: {"message_id": 5, "date": 1, "from": ADA, "chat": chat} | dict(parts),
    st.sampled_from(PARTS["chat"]),
    st.lists(fitting | odd, max_size=8),
)
updates = st.builds(
    lambda number, kind, what: {"update_id": number, kind: what},
    st.just(1001) | JUNK,
    st.sampled_from(KINDS) | st.text(max_size=9),
    said | JUNK,
)


def recordable(body: bytes) -> None:
    """It is heard without a word of trouble, and each message may enter a transcript."""
    found = BOT.parse(request(body))
    assert found.messages or found.skipped
    for one in found.messages:
        clean = checked(one, LIMITS)
        assert clean.conversation.provider == ACCOUNT.provider
        assert clean.conversation.account_id == ACCOUNT.account_id
        assert clean.text or clean.attachments or clean.revises
        assert clean.message_id


@given(updates)
def test_every_update_is_heard_or_counted(update: Any) -> None:
    """Fields of every kind in every place, with anything in them."""
    recordable(json.dumps(update).encode())
