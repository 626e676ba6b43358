"""The simulated Telegram, as the unmodified python-telegram-bot knows the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, RetryAfter

from telegram import Bot, LinkPreviewOptions, ReplyParameters
from threadline.testing.simulation import Simulation
from threadline.testing.simulators.telegram_markup import CannotParse, parsed

ADA = 9
GROUP, FORUM = -5, -1_000_000_000_007


@pytest.fixture
def telegram(tmp_path: Path) -> Iterator[Simulation]:
    """A Telegram of one's own, where a minute passes in six milliseconds."""
    with Simulation("telegram", tmp_path, speed=10_000) as made:
        yield made


@pytest.fixture
async def bot(telegram: Simulation) -> AsyncIterator[Bot]:
    """Its bot, held by the SDK."""
    async with Bot(
        telegram.credentials["token"],
        base_url=f"{telegram.url}/bot",
        base_file_url=f"{telegram.url}/file/bot",
    ) as made:
        yield made


async def test_a_bot_knows_itself_hears_a_person_and_answers(
    telegram: Simulation, bot: Bot
) -> None:
    telegram.do("say", chat=ADA, text="@sim_bot hello")

    [update] = await bot.get_updates(timeout=5)
    assert update.message is not None
    sent = await bot.send_message(
        ADA,
        "<b>hi</b> &amp; bye",
        parse_mode="HTML",
        reply_parameters=ReplyParameters(update.message.message_id),
        link_preview_options=LinkPreviewOptions(is_disabled=True),
    )

    assert bot.bot.username == "sim_bot"
    assert (update.message.text, update.message.chat.id) == ("@sim_bot hello", ADA)
    assert update.message.entities[0].type == "mention"
    assert sent.text == "hi & bye"
    assert sent.reply_to_message is not None
    [said] = telegram.effects("message")
    assert (said["text"], said["reply_to"], said["previews"]) == ("hi & bye", 1, False)
    assert await bot.get_updates(offset=update.update_id + 1) == ()


async def test_two_pollers_conflict_and_the_later_one_goes_on(
    telegram: Simulation, bot: Bot
) -> None:
    async with Bot(bot.token, base_url=f"{telegram.url}/bot") as other:
        both = [asyncio.create_task(one.get_updates(timeout=40)) for one in (bot, other)]
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        telegram.do("say", chat=ADA, text="still there?")
        answers = await asyncio.gather(*both, return_exceptions=True)

    [ended] = done
    assert isinstance(ended.exception(), Conflict)
    [heard] = [one for one in answers if not isinstance(one, BaseException)]
    assert len(heard) == 1


async def test_a_webhook_is_called_with_its_secret_and_again_until_it_takes_it(
    telegram: Simulation, bot: Bot
) -> None:
    came: list[tuple[str, Any]] = []

    async def hook(request: web.Request) -> web.Response:
        secret = request.headers["X-Telegram-Bot-Api-Secret-Token"]
        came.append((secret, (await request.json())["message"]["text"]))
        return web.Response(status=500 if len(came) < 3 else 200)

    app = web.Application()
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    await bot.set_webhook(url, secret_token="hush")
    with pytest.raises(Conflict):
        await bot.get_updates()
    for text in ("one", "two"):
        telegram.do("say", chat=ADA, text=text)

    settled = await asyncio.to_thread(telegram.idle)
    await runner.cleanup()

    assert came == [("hush", "one")] * 3 + [("hush", "two")]
    assert [(one["state"], one["attempts"]) for one in settled] == [("done", 3), ("done", 1)]
    assert (await bot.get_webhook_info()).url == url


async def test_what_telegram_refuses_is_refused_in_its_words(
    telegram: Simulation, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")
    for chat, user in ((ADA, ADA), (GROUP, ADA)):
        telegram.do("say", chat=chat, user=user, text="hello")

    with pytest.raises(BadRequest, match="Message is too long"):
        await bot.send_message(ADA, "😀" * 2049)
    with pytest.raises(BadRequest, match="Can't parse entities: "):
        await bot.send_message(ADA, "1.5", parse_mode="MarkdownV2")
    with pytest.raises(BadRequest, match="Message to be replied not found"):
        await bot.send_message(ADA, "x", reply_parameters=ReplyParameters(77))
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(GROUP, "x", message_thread_id=77)
    with pytest.raises(Forbidden, match="can't initiate"):
        await bot.send_message(10, "x")
    with pytest.raises(BadRequest, match="Chat not found"):
        await bot.send_message(-99, "x")
    telegram.do("block", user=ADA)
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await bot.send_message(ADA, "x")
    telegram.do("migrate", chat=GROUP, to=FORUM, user=ADA)
    with pytest.raises(ChatMigrated) as moved:
        await bot.send_message(GROUP, "x")
    telegram.fault("rate_limit", wait=7)
    with pytest.raises(RetryAfter) as waits:
        await bot.send_message(FORUM, "x")
    with pytest.raises(InvalidToken):
        async with Bot("1:wrong", base_url=f"{telegram.url}/bot"):
            pass

    assert moved.value.new_chat_id == FORUM
    assert waits.value.retry_after == timedelta(seconds=7)
    assert telegram.effects("message") == []


async def test_parameters_come_as_json_as_well_and_unknown_ones_are_noticed(
    telegram: Simulation,
) -> None:
    telegram.do("chat", chat=ADA)
    url = f"{telegram.url}/bot{telegram.credentials['token']}/sendMessage"

    async with httpx.AsyncClient(trust_env=False) as client:
        good = await client.post(url, json={"chat_id": ADA, "text": "hi"})
        parts = {"chat_id": (None, str(ADA)), "text": (None, "ho")}
        also = await client.post(url, files=parts)
        slip = await client.post(url, json={"chat_id": ADA, "text": "hi", "parse_mod": "HTML"})

    assert (good.status_code, also.status_code, slip.status_code) == (200, 200, 400)
    assert "parse_mod" in slip.json()["description"]
    assert [one["text"] for one in telegram.effects("message")] == ["hi", "ho"]


async def test_topics_edits_deletions_reactions_and_files(telegram: Simulation, bot: Bot) -> None:
    telegram.do("chat", chat=FORUM, forum=True)
    topic = await bot.create_forum_topic(FORUM, "Plans")
    sent = await bot.send_message(FORUM, "draft", message_thread_id=topic.message_thread_id)
    await bot.edit_message_text("final", chat_id=FORUM, message_id=sent.message_id)
    with pytest.raises(BadRequest, match="not modified"):
        await bot.edit_message_text("final", chat_id=FORUM, message_id=sent.message_id)
    wanted = ["message", "message_reaction"]
    await bot.get_updates(allowed_updates=wanted)
    telegram.do("react", chat=FORUM, message=sent.message_id, emoji="👍", user=ADA)
    telegram.do("say", chat=ADA, text="look", file={"name": "a.txt", "text": "inside"})
    reaction, message = await bot.get_updates(timeout=5)
    assert message.message is not None
    assert message.message.document is not None
    file = await message.message.document.get_file()
    await bot.delete_message(FORUM, sent.message_id)

    assert sent.is_topic_message
    assert (await bot.get_chat(FORUM)).is_forum
    assert reaction.message_reaction is not None
    assert bytes(await file.download_as_bytearray()) == b"inside"
    assert [one["kind"] for one in telegram.effects()] == ["topic", "message", "edit", "delete"]


async def test_a_killed_telegram_goes_on_with_the_same_updates_and_numbers(
    telegram: Simulation, bot: Bot
) -> None:
    telegram.do("say", chat=ADA, text="one")
    [before] = await bot.get_updates()
    sent = await bot.send_message(ADA, "answer")

    telegram.kill()
    telegram.start()
    telegram.do("say", chat=ADA, text="two")

    again, after = await bot.get_updates()
    assert (again.update_id, after.update_id) == (before.update_id, before.update_id + 1)
    assert after.message is not None
    assert after.message.message_id == sent.message_id + 1
    assert [one["text"] for one in telegram.effects("message")] == ["answer"]


@pytest.mark.parametrize(
    ("mode", "source", "text", "kinds"),
    [
        ("HTML", "<b>a <i>b</i></b>", "a b", ["bold", "italic"]),
        ("HTML", '<a href="https://x.example/">x</a>', "x", ["text_link"]),
        ("HTML", '<pre><code class="language-py">1</code></pre>', "1", ["pre"]),
        ("MarkdownV2", r"*a _b_* \. __c__ ~d~ ||e||", "a b . c d e", None),
        ("MarkdownV2", "```py\nx = 1.5\n```", "x = 1.5\n", ["pre"]),
        ("MarkdownV2", "[x](https://x.example/)", "x", ["text_link"]),
        ("MarkdownV2", ">said\n>more\nno", "said\nmore\nno", ["blockquote"]),
        ("Markdown", "*a* 1.5 snake", "a 1.5 snake", ["bold"]),
    ],
)
def test_markup_is_read(mode: str, source: str, text: str, kinds: list[str] | None) -> None:
    got, entities = parsed(source, mode)

    assert got == text
    assert kinds is None or [one["type"] for one in entities] == kinds


@pytest.mark.parametrize(
    ("mode", "source"),
    [
        ("HTML", "<b>a"),
        ("HTML", "<b><i>a</b></i>"),
        ("HTML", "a < b"),
        ("HTML", "<h1>a</h1>"),
        ("MarkdownV2", "a!"),
        ("MarkdownV2", "*a"),
        ("Markdown", "snake_case"),
    ],
)
def test_markup_that_telegram_would_not_read_is_refused(mode: str, source: str) -> None:
    with pytest.raises(CannotParse):
        parsed(source, mode)
