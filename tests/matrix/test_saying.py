"""What we say, as a real homeserver takes it and a real client shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.matrix.conftest import Bot, People, Person
from tests.matrix.test_parsing import DIALECT, ROOM
from threadline.core.adapters import Unit
from threadline.core.deliveries import Failure
from threadline.core.model import ConversationRef, Direction
from threadline.core.rules.splitting import length
from threadline.core.wire import ApiCall, ApiResponse, Bucket, Doubt, OutboundMessage, Refused, Sent


def message(where: ConversationRef, text: str, key: str, **more: Any) -> OutboundMessage:
    """One part that is to be said."""
    return OutboundMessage(conversation=where, text=text, key=key, session_id="agent", **more)


async def said(bot: Bot, words: OutboundMessage) -> Any:
    """What became of it, further calls included."""
    step: Any = bot.dialect.render(words)
    while isinstance(step, ApiCall):
        step = bot.dialect.read(step, await bot.call(step))
    return step


@pytest.fixture
async def room(people: People, bot: Bot) -> tuple[Person, str, ConversationRef]:
    """A person, their room with the bot in it, and its address."""
    ada = await people("ada")
    made = await ada.room(bot.user)
    await bot.hears(await ada.says(made, "hello"))
    return ada, made, ConversationRef("matrix", bot.user, made)


Room = tuple[Person, str, ConversationRef]


@pytest.mark.acceptance("G5", "G3")
async def test_the_same_key_is_the_same_event_and_its_echo_names_the_key(
    bot: Bot, room: Room
) -> None:
    ada, made, where = room
    words = message(where, "once", "k3y.0.1")

    first, second = await said(bot, words), await said(bot, words)
    heard = {one.message_id: one for one in await bot.hears(first.message_id)}

    assert first == second
    assert ada.server.bodies(ada.token, made) == ["hello", "once"]
    echo = heard[first.message_id]
    assert (echo.token, echo.actor.is_self) == ("k3y.0.1", True)
    assert (echo.direction, echo.text) == (Direction.OUTBOUND, "once")


async def test_the_same_key_is_the_same_event_after_the_homeserver_was_killed(
    bot: Bot, room: Room
) -> None:
    ada, made, where = room
    first = await said(bot, message(where, "once", "kill.1"))
    ada.server.kill()
    ada.server.start()

    second = await said(bot, message(where, "once", "kill.1"))

    assert first == second
    assert ada.server.bodies(ada.token, made) == ["hello", "once"]


@pytest.mark.case("B110")
async def test_nobody_is_pinged_whatever_the_words(bot: Bot, room: Room) -> None:
    """Even where the bot may ping the whole room: the homeserver's own count of highlights."""
    ada, made, where = room
    name = ada.user.partition(":")[0].removeprefix("@")
    head = {"authorization": f"Bearer {ada.token}"}
    path = f"/_matrix/client/v3/rooms/{made}/state/m.room.power_levels"
    levels = ada.server.web.get(path, headers=head).json()
    levels["users"][bot.user] = 100
    ada.server.web.put(path, json=levels, headers=head).raise_for_status()

    sent = await said(bot, message(where, f"@room {name} {ada.user} **@room**", "ping.1"))
    answer = ada.server.web.get("/_matrix/client/v3/sync", headers=head)

    unread = answer.json()["rooms"]["join"][made]["unread_notifications"]
    assert isinstance(sent, Sent)
    assert (unread["notification_count"], unread["highlight_count"]) == (1, 0)


@pytest.mark.case("B112")
async def test_readers_see_the_same_characters(bot: Bot, room: Room) -> None:
    ada, made, where = room
    plain = 'They\'re "quoted" © 50% – <b>ok</b> & co.'

    await said(bot, message(where, plain, "plain.1"))
    await said(bot, message(where, f"**{plain}**", "bold.1"))

    first, second = (one["content"] for one in ada.server.events(ada.token, made)[-2:])
    assert first["body"] == plain
    assert "formatted_body" not in first
    shown = 'They\'re "quoted" © 50% – &lt;b&gt;ok&lt;/b&gt; &amp; co.'
    assert second["formatted_body"] == f"<strong>{shown}</strong>"
    assert second["body"] == f"**{plain}**"


async def test_an_answer_hangs_where_the_question_did(bot: Bot, room: Room) -> None:
    ada, made, where = room
    asked = await ada.says(made, "why?")
    thread = ConversationRef("matrix", bot.user, asked, parent_conversation_id=made)

    reply = await said(bot, message(where, "because", "r.1", reply_to=asked))
    inside = await said(bot, message(thread, "in the thread", "t.1"))
    exact = await said(bot, message(thread, "to that", "t.2", reply_to=inside.message_id))
    heard = {one.message_id: one for one in await bot.hears(exact.message_id)}

    assert heard[reply.message_id].reply_to == asked
    assert heard[inside.message_id].conversation == thread
    assert heard[inside.message_id].reply_to is None
    assert heard[exact.message_id].conversation == thread
    assert heard[exact.message_id].reply_to == inside.message_id


@pytest.mark.parametrize("sign", ['"', "\\", "é", "𝄞", "&", "\x07", "`"])
async def test_the_longest_message_is_taken_whatever_it_is_made_of(
    bot: Bot, room: Room, sign: str
) -> None:
    ada, made, _ = room
    most = bot.dialect.capabilities.max_length
    root = await ada.says(made, "root")
    thread = ConversationRef("matrix", bot.user, root, parent_conversation_id=made)
    text = "**b** " + sign * ((most - 6) // length(sign, Unit.BYTES))

    sent = await said(bot, message(thread, text, "long.1"))

    assert isinstance(sent, Sent)
    assert ada.server.events(ada.token, made)[-1]["event_id"] == sent.message_id


@pytest.mark.case("B108")
async def test_html_that_is_refused_is_said_plainly_under_the_same_key(
    bot: Bot, room: Room
) -> None:
    call = bot.dialect.render(message(room[2], "**bold**", "html.1"))
    refused = ApiResponse(status=413, body=b'{"errcode":"M_TOO_LARGE","error":"event too large"}')

    plain = bot.dialect.read(call, refused)

    assert isinstance(plain, ApiCall)
    content = json.loads(plain.body)
    assert (content["body"], plain.url) == ("**bold**", call.url)
    assert not {"format", "formatted_body"} & content.keys()
    assert isinstance(bot.dialect.read(plain, refused), Refused)
    assert isinstance(bot.dialect.read(plain, await bot.call(plain)), Sent)


@pytest.mark.acceptance("G2")
async def test_a_limit_names_its_wait_and_holds_for_the_account(
    people: People, bot: Bot, room: Room
) -> None:
    ada, _, where = room
    boss = await people("boss", admin=True)
    ada.server.limit(boss.token, bot.user, 1, 1)

    said_all = [await said(bot, message(where, f"n{one}", f"limit.{one}")) for one in range(12)]

    [first, *_] = [one for one in said_all if isinstance(one, Refused)]
    assert (first.failure, first.bucket) == (Failure.RATE_LIMITED, Bucket.ACCOUNT)
    assert first.wait is not None
    assert 0 < first.wait < 60


@pytest.mark.acceptance("G2")
async def test_what_a_homeserver_refuses_has_a_class_and_its_own_words(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    closed = await ada.room()
    there = ConversationRef("matrix", bot.user, closed)
    outside = await said(bot, message(there, "let me in", "no.1"))
    revoked = await bot.call(bot.dialect.render(message(there, "x", "no.2")))
    ada.server.web.post(
        "/_matrix/client/v3/logout", headers={"authorization": f"Bearer {bot.token}"}
    ).raise_for_status()
    unknown = await said(bot, message(there, "anybody", "no.3"))

    assert revoked.status == 403
    assert (outside.failure, outside.reason[:11]) == (Failure.PERMANENT, "M_FORBIDDEN")
    assert (unknown.failure, unknown.reason[:15]) == (Failure.AUTH, "M_UNKNOWN_TOKEN")


@pytest.mark.acceptance("G2")
@pytest.mark.parametrize(
    ("status", "body", "meant"),
    [
        (200, b"{}", Doubt),
        (200, b"<html>", Doubt),
        (204, b"", Doubt),
        (302, b"", Failure.PERMANENT),
        (400, b'{"errcode":"M_BAD_JSON"}', Failure.PERMANENT),
        (401, b"", Failure.AUTH),
        (403, b'{"errcode":"M_FORBIDDEN"}', Failure.PERMANENT),
        (403, b'{"errcode":"M_USER_SUSPENDED"}', Failure.AUTH),
        (404, b'{"errcode":"M_UNRECOGNIZED"}', Failure.UNSUPPORTED),
        (404, b"not found", Failure.NOT_FOUND),
        (429, b"", Failure.RATE_LIMITED),
        (429, b'{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1500}', Failure.RATE_LIMITED),
        (500, b'{"errcode":"M_UNKNOWN"}', Doubt),
        (502, b"", Doubt),
        (504, b'{"errcode":"M_FORBIDDEN"}', Doubt),
    ],
)
def test_every_answer_has_one_meaning(status: int, body: bytes, meant: object) -> None:
    call = DIALECT.render(message(ROOM, "x", "k"))

    read = DIALECT.read(call, ApiResponse(status=status, body=body))

    if meant is Doubt:
        assert isinstance(read, Doubt)
    else:
        assert isinstance(read, Refused)
        assert read.failure is meant
