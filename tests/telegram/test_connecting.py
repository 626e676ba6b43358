"""What is asked of a person and of Telegram while a bot is connected, and how files are fetched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.telegram.conftest import ACCOUNT, BOT, SECRET, answer, body, refusal
from threadline.adapters.registry import load, providers
from threadline.adapters.telegram import Telegram
from threadline.core.adapters import Connectable, Fetching, Identity, Listener
from threadline.core.deliveries import Failure
from threadline.core.model import Attachment
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused

ME = {
    "id": 7001,
    "is_bot": True,
    "first_name": "Sim",
    "username": "sim_bot",
    "can_read_all_group_messages": False,
}
PHOTO = Attachment(id="f1", type="image/jpeg")


def connecting(**settings: Any) -> Telegram:
    """A bot nobody has asked yet who it is."""
    return Telegram(replace(ACCOUNT, account_id="", settings=settings))


def test_telegram_is_one_of_our_providers() -> None:
    """Its line in the registry leads to a dialect and to a wire that listens."""
    line = providers()["telegram"]
    assert load(line.dialect) is Telegram
    assert isinstance(BOT, Connectable)
    assert isinstance(BOT, Fetching)
    assert isinstance(load(line.wire)(), Listener)


def test_only_the_token_has_to_be_known() -> None:
    """Everything else has a default, or is made up."""
    asks = {one.name: one for one in Telegram.asks()}
    required = [one.name for one in asks.values() if not (one.default or one.made or one.optional)]
    assert required == ["token"]
    assert asks["token"].secret
    assert asks["webhook_secret"].made
    assert asks["api"].default == "https://api.telegram.org"


def test_connecting_for_a_poll_takes_an_old_webhook_away_and_looking_again_does_not() -> None:
    """Telegram refuses a poll while there is a webhook; what waits there is not dropped."""
    bot = connecting()
    first = bot.check()
    assert (first.route, body(first)) == ("deleteWebhook", {"drop_pending_updates": False})
    then = bot.read_check(first, answer(True))
    assert isinstance(then, ApiCall)
    assert then.route == "getMe"
    assert [one.check().route for one in (connecting(mode="webhook"), BOT)] == ["getMe", "getMe"]


def test_the_account_is_the_bots_id_and_says_whether_it_reads_groups() -> None:
    """Never the token: a new token is the same account."""
    found = BOT.read_check(BOT.check(), answer(ME))
    assert isinstance(found, Identity)
    assert (found.account_id, found.actor.name, found.actor.is_self) == ("7001", "sim_bot", True)
    assert found.settings == {"username": "sim_bot", "reads_all_in_groups": False}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (refusal(401, "Unauthorized"), Refused),
        (refusal(404, "Not Found"), Refused),
        (answer({"id": "x"}), Doubt),
        (ApiResponse(status=502, body=b"<html>"), Doubt),
        (ApiResponse(status=200, body=b"nobody"), Doubt),
    ],
)
def test_whoever_does_not_say_who_we_are_is_not_believed(given: ApiResponse, kind: type) -> None:
    """A refusal names the token; anything else is strange."""
    assert isinstance(BOT.read_check(BOT.check(), given), kind)


def test_a_mode_that_there_is_not_is_refused_by_name() -> None:
    """Instead of taken for another."""
    bot = connecting(mode="pol")
    found = bot.read_check(bot.check(), answer(True))
    assert isinstance(found, Refused)
    assert "'pol'" in found.reason


def test_a_webhook_is_told_with_its_secret_and_what_is_wanted() -> None:
    """And taken away again; what waits at Telegram is never dropped."""
    call = BOT.webhook("https://example.org/v1/webhooks/telegram/7001")
    gone = BOT.webhook(None)
    assert call is not None
    assert gone is not None
    asked = body(call)
    assert call.route == "setWebhook"
    assert asked["url"] == "https://example.org/v1/webhooks/telegram/7001"
    assert (asked["secret_token"], asked["max_connections"]) == (SECRET, 40)
    assert "message_reaction" in asked["allowed_updates"]
    assert asked["drop_pending_updates"] is False
    assert (gone.route, body(gone)) == ("deleteWebhook", {"drop_pending_updates": False})
    assert BOT.listens()
    assert not connecting(mode="Webhook").listens()


def test_nothing_shows_the_token() -> None:
    """It is part of every URL, and no URL is shown."""
    calls = [BOT.check(), BOT.webhook(None), BOT.file(PHOTO)]
    assert "AAH" not in repr(calls)
    assert "AAH" not in repr(ACCOUNT)


def test_a_file_is_fetched_in_two_steps() -> None:
    """Where it lies, then its bytes."""
    where = BOT.file(PHOTO)
    assert body(where) == {"file_id": "f1"}
    then = BOT.read_file(PHOTO, where, answer({"file_id": "f1", "file_path": "photos/a b?.jpg"}))
    assert isinstance(then, ApiCall)
    assert then.url == "https://api.telegram.org/file/bot7001:AAH-token/photos/a%20b%3F.jpg"
    assert (then.method, then.most) == ("GET", 20 * 1024 * 1024)
    assert BOT.read_file(PHOTO, then, ApiResponse(status=200, body=b"\xff\xd8")) == b"\xff\xd8"


@pytest.mark.acceptance("I5")
@pytest.mark.parametrize(
    ("given", "failure"),
    [
        (refusal(400, "Bad Request: file is too big"), Failure.UNSUPPORTED),
        (
            refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable"),
            Failure.NOT_FOUND,
        ),
        (refusal(429, "Too Many Requests", retry_after=3), Failure.RATE_LIMITED),
    ],
)
def test_a_file_that_cannot_be_had_says_why(given: ApiResponse, failure: Failure) -> None:
    """Too big for bots, or gone."""
    found = BOT.read_file(PHOTO, BOT.file(PHOTO), given)
    assert isinstance(found, Refused)
    assert found.failure is failure


def test_a_file_never_lies_outside_of_telegrams_files() -> None:
    """Whatever path is named."""
    where = BOT.file(PHOTO)
    found = BOT.read_file(PHOTO, where, answer({"file_path": "../../getMe"}))
    assert isinstance(found, Doubt)
    then = BOT.read_file(PHOTO, where, answer({"file_path": "documents/x.pdf"}))
    assert isinstance(then, ApiCall)
    gone = BOT.read_file(PHOTO, then, refusal(404, "Not Found"))
    assert isinstance(gone, Refused)
    assert gone.failure is Failure.NOT_FOUND
