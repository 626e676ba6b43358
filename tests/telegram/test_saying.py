"""What a bot says: how it is written down for Telegram, and what each answer means."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.telegram.conftest import (
    ACCOUNT,
    BOT,
    FORUM,
    GROUP,
    SUPERGROUP,
    answer,
    body,
    heard,
    message,
    refusal,
    saying,
)
from threadline.adapters.telegram_places import Place
from threadline.adapters.telegram_text import html
from threadline.core.adapters import Unit
from threadline.core.deliveries import Failure
from threadline.core.errors import InvalidConversation
from threadline.core.model import Attachment, ConversationRef
from threadline.core.rules.splitting import length
from threadline.core.wire import ApiCall, ApiResponse, Bucket, Doubt, OutboundMessage, Refused, Sent

DM = heard(message())
ROOM = heard(message(chat=GROUP))


@pytest.mark.acceptance("H11", "G10")
@pytest.mark.parametrize(
    ("where", "asked"),
    [
        (message(), {"chat_id": 42}),
        (message(chat=GROUP), {"chat_id": -5}),
        (
            message(chat=SUPERGROUP, message_thread_id=3),
            {"chat_id": -1000000000051},
        ),
        (message(chat=FORUM), {"chat_id": -1000000000077}),
        (
            message(chat=FORUM, message_thread_id=12, is_topic_message=True),
            {"chat_id": -1000000000077, "message_thread_id": 12},
        ),
        (
            message(message_thread_id=9, is_topic_message=True),
            {"chat_id": 42, "message_thread_id": 9},
        ),
        (
            message(chat=SUPERGROUP, direct_messages_topic={"topic_id": 8}),
            {"chat_id": -1000000000051, "direct_messages_topic_id": 8},
        ),
        (
            message(business_connection_id="bc1"),
            {"chat_id": 42, "business_connection_id": "bc1"},
        ),
    ],
)
def test_an_answer_goes_exactly_where_the_question_came_from(
    where: dict[str, Any], asked: dict[str, Any]
) -> None:
    """One maker of addresses, read back by the same: chat, topic, connection."""
    call = BOT.render(saying(heard(where), "hi", reply_to="5"))
    assert (call.method, call.url) == (
        "POST",
        "https://api.telegram.org/bot7001:AAH-token/sendMessage",
    )
    assert body(call) == {
        **asked,
        "text": "hi",
        "link_preview_options": {"is_disabled": True},
        "reply_parameters": {"message_id": 5, "allow_sending_without_reply": True},
    }


numbers = st.integers(1, 2**52)
places = st.builds(
    Place,
    chat=st.integers(-(2**52), 2**52).filter(bool).map(str),
    topic=st.one_of(st.just(""), st.integers(2, 2**31).map(str)),
    business=st.one_of(st.just(""), st.from_regex(r"[\w-]{1,40}", fullmatch=True)),
) | st.builds(Place, chat=numbers.map(lambda n: str(-n)), direct=numbers.map(str))


@pytest.mark.acceptance("A1")
@given(places)
def test_every_place_survives_being_an_address(place: Place) -> None:
    """Read back from the address and from its text form."""
    ref = place.ref(ACCOUNT)
    assert Place.of(ref) == place
    assert Place.of(ConversationRef.parse(str(ref))) == place


@pytest.mark.parametrize(("name", "parent"), [("abc", None), ("12", "x"), ("٣", None), ("0", None)])
def test_an_address_that_is_none_of_telegrams_is_refused(name: str, parent: str | None) -> None:
    """By name, before any call."""
    ref = ConversationRef("telegram", "7001", name, parent)
    with pytest.raises(InvalidConversation, match="no number of Telegram's"):
        BOT.render(OutboundMessage(conversation=ref, text="x", key="k", session_id="s"))


@pytest.mark.case("B108", "B112")
@pytest.mark.parametrize(
    "text",
    [
        "Okay! Part 2 - ready.",
        'They\'re "quoted" © 50% – ok <b>&amp;</b>',
        "a * b * c, snake_case_name, 2 ** 8 ** 2, _ _, ~/x ~/y, #1 [x](y)",
        "[you](tg://user?id=42) [file](file:///etc/passwd) [j](javascript:alert)",
        "> quoted\n1. one\n- two\n| a | b |",
        "`` ` ``x` **",
    ],
)
def test_a_text_without_markup_leaves_as_it_is(text: str) -> None:
    """No parse mode, no escapes; a link to a person is no link, for it would call them."""
    asked = body(BOT.render(saying(DM, text)))
    assert asked["text"] == text if html(text) is None else "<code>" in asked["text"]
    assert html(text) is None or text.startswith("``")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("**a** and *b* ~~c~~", "<b>a</b> and <i>b</i> <s>c</s>"),
        ("## Title ##\nx < y", "<b>Title</b>\nx &lt; y"),
        ("`a<b>` __d__ _e_", "<code>a&lt;b&gt;</code> <b>d</b> <i>e</i>"),
        ("**bold *both* bold**", "<b>bold <i>both</i> bold</b>"),
        (
            'see [it "x"](https://e.org/a_(b)?c="d"&e)',
            'see [it "x"](https://e.org/a_(b)?c="d"&amp;e)',
        ),
        (
            "see [**it**](https://e.org/a_(b)?c=1&d=2)!",
            'see <a href="https://e.org/a_(b)?c=1&amp;d=2"><b>it</b></a>!',
        ),
        (
            "so:\n```py\na = '**x**'\n```\nend",
            "so:\n<pre><code class=\"language-py\">a = '**x**'</code></pre>\nend",
        ),
        ("```\nopen & never closed", "<pre>open &amp; never closed</pre>"),
    ],
)
def test_markdown_becomes_telegrams_html(text: str, made: str) -> None:
    """What agents write, as far as Telegram shows it."""
    found = html(text)
    assert found == made if found is not None else made.count("<") == 0


class Strict(HTMLParser):
    """Telegram's rules: known tags, closed in order, everything else escaped."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Only these, never one inside itself."""
        assert tag in {"b", "i", "s", "a", "code", "pre"}
        assert tag not in self.open
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """The one opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """What people read."""
        self.text += data


MARKS = ("*", "**", "_", "__", "~~", "`", "``", "```", "[", "]", "](https://e.org/", ")", "|")
BREAKS = ("```py\n", "~~~\n", "\n", "\r\n", " ", "# ", "> ")
PLAIN = ("a", "b<", "&amp;", '"', "🎉", "<b>", "</b>")
markdown = st.lists(st.sampled_from(MARKS + BREAKS + PLAIN), max_size=60).map("".join)


@pytest.mark.acceptance("G11")
@given(markdown | st.text(max_size=200))
@example("**`a**`b`")
@example("*a **b* c**")
@example("[a `b](https://e.org/) c`")
def test_rendered_html_is_always_well_formed_and_never_longer(text: str) -> None:
    """Every tag is known and closed in order, and what people read is not longer than what was
    split for Telegram's limit, counted in its unit."""
    made = html(text)
    if made is None:
        return
    reader = Strict()
    reader.feed(made)
    reader.close()
    assert reader.open == []
    assert length(reader.text, Unit.UTF16) <= length(text, Unit.UTF16)
    assert all(one in text for one in reader.text if not one.isspace())


def test_telegrams_limits_are_told() -> None:
    """Texts are measured in UTF-16; nothing settles by itself, nothing may be repeated."""
    can = BOT.capabilities
    assert (can.max_length, can.unit, can.idempotent) == (4096, Unit.UTF16, False)
    assert can.settle_within.total_seconds() == 0
    assert can.actor == ACCOUNT.actor


@pytest.mark.acceptance("G1")
def test_proof_is_the_message_id_in_the_chats_own_numbers() -> None:
    """The id equals the one a reply will name, in the id space in which it will name it."""
    sent = BOT.read(BOT.render(saying(ROOM)), answer({"message_id": 6, "chat": GROUP}))
    reply = heard(message(chat=GROUP, message_id=7, reply_to_message={"message_id": 6}))
    assert isinstance(sent, Sent)
    assert (sent.message_id, sent.id_space) == (reply.reply_to, reply.id_space)
    assert sent.conversation == ROOM.conversation


@pytest.mark.case("B108")
def test_what_telegram_cannot_parse_is_said_as_it_was_written() -> None:
    """Once: a refusal of the plain text stands."""
    call = BOT.render(saying(DM, "**Okay!** Part 2 - ready.", reply_to="5"))
    no = refusal(400, "Bad Request: can't parse entities: Unsupported start tag")
    again = BOT.read(call, no)
    assert body(call)["parse_mode"] == "HTML"
    assert isinstance(again, ApiCall)
    assert body(again) == {
        "chat_id": 42,
        "text": "**Okay!** Part 2 - ready.",
        "link_preview_options": {"is_disabled": True},
        "reply_parameters": {"message_id": 5, "allow_sending_without_reply": True},
    }
    assert isinstance(BOT.read(again, no), Refused)


@pytest.mark.acceptance("A9")
def test_a_send_to_a_group_that_moved_goes_where_it_went() -> None:
    """To the supergroup, once; what it answered has another number there, so it answers nothing."""
    call = BOT.render(saying(ROOM, "**hi**", reply_to="5"))
    no = refusal(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-1000000000051)
    again = BOT.read(call, no)
    assert isinstance(again, ApiCall)
    assert body(again)["chat_id"] == -1000000000051
    assert body(again)["text"] == "<b>hi</b>"
    assert "reply_parameters" not in body(again)
    assert isinstance(BOT.read(again, no), Refused)
    sent = BOT.read(again, answer({"message_id": 1, "chat": SUPERGROUP}))
    assert isinstance(sent, Sent)
    assert str(sent.conversation) == "telegram/7001/-1000000000051"
    assert sent.id_space == "-1000000000051"


@pytest.mark.case("B113")
@pytest.mark.acceptance("G8", "G16")
@pytest.mark.parametrize(("where", "bucket"), [(ROOM, "conversation"), (DM, "account")])
def test_a_limit_names_its_wait_and_whom_it_stops(where: Any, bucket: str) -> None:
    """A group has a limit of its own; anything else is the bot's."""
    no = refusal(429, "Too Many Requests: retry after 5", retry_after=5)
    found = BOT.read(BOT.render(saying(where)), no)
    assert isinstance(found, Refused)
    assert found.failure is Failure.RATE_LIMITED
    assert (found.wait, found.bucket) == (5.0, Bucket(bucket))


@pytest.mark.acceptance("G2")
@pytest.mark.parametrize(
    ("code", "why", "failure", "reason"),
    [
        (403, "Forbidden: bot was blocked by the user", "not_found", "the person blocked the bot."),
        (
            403,
            "Forbidden: bot can't initiate conversation with a user",
            "not_found",
            "the person has not started the bot yet; only they can.",
        ),
        (403, "Forbidden: bot was kicked from the group chat", "not_found", "the bot was removed"),
        (403, "Forbidden: something new", "auth", "Forbidden: something new"),
        (400, "Bad Request: chat not found", "not_found", "the bot knows no such chat."),
        (400, "Bad Request: message thread not found", "not_found", "the topic was deleted."),
        (400, "Bad Request: not enough rights to send text", "auth", "the bot may not write"),
        (400, "Bad Request: message is too long", "permanent", "message is too long"),
        (401, "Unauthorized", "auth", "the bot's token"),
        (404, "Not Found", "auth", "the bot's token"),
    ],
)
def test_a_refusal_says_what_a_person_should_know(
    code: int, why: str, failure: str, reason: str
) -> None:
    """Telegram's sentences are the only way to tell them apart."""
    found = BOT.read(BOT.render(saying(DM)), refusal(code, why))
    assert isinstance(found, Refused)
    assert found.failure is Failure(failure)
    assert reason in found.reason


@pytest.mark.acceptance("G12")
@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_a_servers_error_may_come_from_behind_the_deed(status: int) -> None:
    """Telegram has no key for a send, so nobody may repeat it."""
    found = BOT.read(BOT.render(saying(DM)), ApiResponse(status=status, body=b"<html>"))
    assert isinstance(found, Doubt)


def test_a_picture_that_telegram_does_not_draw_goes_as_a_document() -> None:
    file = Attachment(id="file:1", type="image/png", name="wide.png", size=10)
    call = BOT.render(saying(heard(message()), "**see**", attachments=(file,)))
    again = BOT.read(call, refusal(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))

    assert call.route == "sendPhoto"
    assert isinstance(again, ApiCall)
    assert again.route == "sendDocument"
    fields = {one.name: one.value for one in again.form}
    assert (fields["caption"], fields["parse_mode"]) == ("<b>see</b>", "HTML")
    assert [one.name for one in again.form if one.file == file] == ["document"]
    plain = BOT.read(call, refusal(400, "Bad Request: can't parse entities: x"))
    assert isinstance(plain, ApiCall)
    fields = {one.name: one.value for one in plain.form}
    assert (plain.route, fields["caption"]) == ("sendPhoto", "**see**")


def test_a_file_that_is_too_big_for_bots_is_not_said_to_be_gone() -> None:
    file = Attachment(id="F")
    answer_ = refusal(400, "Bad Request: file is too big")
    found = BOT.read_file(file, BOT.file(file), answer_)

    assert isinstance(found, Refused)
    assert found.failure is Failure.UNSUPPORTED
    assert "20 MB" in found.reason
