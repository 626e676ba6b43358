"""The simulated Slack, as the unmodified slack_sdk knows the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from aiohttp import web
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from threadline.testing.simulation import Refusal, Simulation

TAG = {"event_type": "threadline", "event_payload": {"key": "k1"}}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """The simulator's process, where a minute passes in six milliseconds."""
    with Simulation("slack", tmp_path_factory.mktemp("slack"), speed=10_000) as made:
        yield made


@pytest.fixture
def slack(platform: Simulation) -> Iterator[Simulation]:
    """It without trouble, without a past that is on its way, and with nobody listening."""
    yield platform
    platform.do("away")
    platform.calm()
    platform.webhook("")
    for order in ("scopes", "subscribe", "token", "expect"):
        platform.do(order)
    platform.do("forget")
    platform.do("away", away=False)


@pytest.fixture
def room(slack: Simulation) -> str:
    """A channel of one's own, in which the bot has been for a while."""
    made = str(slack.do("channel")["id"])
    slack.do("forget")
    return made


def client(slack: Simulation, token: str = "") -> AsyncWebClient:
    """The SDK, which tries nothing again by itself."""
    return AsyncWebClient(
        token=token or slack.credentials["bot_token"],
        base_url=f"{slack.url}/api/",
        retry_handlers=[],
    )


@pytest.fixture
def web_api(slack: Simulation) -> AsyncWebClient:
    """The bot, held by the SDK."""
    return client(slack)


@dataclass
class Hook:
    """An endpoint for events: it checks every signature with the SDK's verifier."""

    url: str = ""
    secret: str = ""
    statuses: list[int] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    came: list[dict[str, Any]] = field(default_factory=list)
    retries: list[tuple[str, str]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """One request."""
        body, headers = await request.read(), request.headers
        assert SignatureVerifier(self.secret).is_valid_request(body, dict(headers))
        assert not SignatureVerifier("other").is_valid_request(body, dict(headers))
        said = json.loads(body)
        if said["type"] == "url_verification":
            return web.json_response({"challenge": said["challenge"]})
        self.came.append(said)
        num, reason = (f"X-Slack-Retry-{one}" for one in ("Num", "Reason"))
        self.retries.append((headers.get(num, ""), headers.get(reason, "")))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            assert request.transport is not None
            request.transport.close()
        return web.Response(status=status or 200, headers=self.answers)

    @property
    def texts(self) -> list[str]:
        """What was said, as it came."""
        return [one["event"]["text"] for one in self.came]


@asynccontextmanager
async def hook(slack: Simulation, *statuses: int, **answers: str) -> AsyncIterator[Hook]:
    """An endpoint that was entered as the request URL; it answers with these, then with 200."""
    made = Hook(secret=slack.credentials["signing_secret"], statuses=list(statuses))
    made.answers = {name.replace("_", "-"): value for name, value in answers.items()}
    app = web.Application()
    app.router.add_post("/events", made.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/events"
    await asyncio.to_thread(slack.do, "request_url", url=made.url)
    yield made
    await runner.cleanup()


@asynccontextmanager
async def connected(
    slack: Simulation, *, answers: bool = True
) -> AsyncIterator[asyncio.Queue[SocketModeRequest]]:
    """The SDK's client of Socket Mode, and what it hears."""
    made = SocketModeClient(slack.credentials["app_token"], web_client=client(slack))
    heard: asyncio.Queue[SocketModeRequest] = asyncio.Queue()

    async def hear(mine: Any, request: SocketModeRequest) -> None:
        if answers:
            await mine.send_socket_mode_response({"envelope_id": request.envelope_id})
        await heard.put(request)

    made.socket_mode_request_listeners.append(hear)
    await made.connect()  # type: ignore[no-untyped-call]
    await asyncio.to_thread(slack.do, "attended")
    yield heard
    await made.close()  # type: ignore[no-untyped-call]


async def link(session: aiohttp.ClientSession, slack: Simulation) -> Any:
    """A bare socket that has been greeted, which acknowledges nothing by itself."""
    opened = await client(slack).apps_connections_open(app_token=slack.credentials["app_token"])
    socket = await session.ws_connect(opened["url"])
    hello = await socket.receive_json()
    assert hello["type"] == "hello"
    return socket


# --- the Web API -----------------------------------------------------------------------------


async def test_a_bot_knows_itself_speaks_and_reads_it_again(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    me = await web_api.auth_test()
    app = await client(slack, slack.credentials["app_token"]).auth_test()
    root = await web_api.chat_postMessage(
        channel=room, text="a & b <!here> https://x.example/p.", metadata=TAG
    )
    reply = await web_api.chat_postMessage(channel=room, text="under it", thread_ts=root["ts"])
    both = await web_api.chat_postMessage(
        channel=room, text="both", thread_ts=root["ts"], reply_broadcast=True, unfurl_media=False
    )
    slack.do("say", channel=room, text="I am here")

    plain = await web_api.conversations_history(channel=room, limit=3)
    tagged = await web_api.conversations_history(
        channel=room, include_all_metadata=True, oldest=root["ts"], inclusive=True
    )
    thread = await web_api.conversations_replies(channel=room, ts=root["ts"])

    assert (me["user_id"], me["team_id"], app["app_id"]) == ("U0SIMBOT", "T0HARBOUR", "A0SIMAPP")
    assert root["message"]["text"] == "a &amp; b <!here> <https://x.example/p>."
    assert [one["text"] for one in plain["messages"]][:2] == ["I am here", "both"]
    assert all("metadata" not in one for one in plain["messages"])
    assert [one.get("metadata") for one in tagged["messages"]] == [None, None, TAG]
    [first, *replies] = thread["messages"]
    assert (first["ts"], first["reply_count"]) == (root["ts"], 2)
    assert [one["ts"] for one in replies] == [reply["ts"], both["ts"]]
    assert replies[0]["parent_user_id"] == "U0SIMBOT"
    said = slack.effects("message", place=room)
    assert [(one["thread"], one["broadcast"], one["pings"], one["cards"]) for one in said] == [
        (None, False, ["!here"], True),
        (root["ts"], False, [], False),
        (root["ts"], True, [], False),
    ]


async def test_the_past_is_paged_by_cursors(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    for number in range(5):
        slack.do("say", channel=room, text=str(number))
    slack.do("expect", page=2)

    pages = [
        [one["text"] for one in page["messages"] if "client_msg_id" in one]
        async for page in await web_api.conversations_history(channel=room, limit=15)
    ]
    with pytest.raises(SlackApiError, match="invalid_cursor"):
        await web_api.conversations_history(channel=room, cursor="bmV4dDox")

    assert pages == [["4", "3"], ["2", "1"], ["0"]]


async def test_people_and_rooms_are_found_and_opened_the_same_every_time(
    slack: Simulation, web_api: AsyncWebClient
) -> None:
    ada, bob = (slack.do("person", user=one)["id"] for one in ("ada", "bob"))
    hidden = slack.do("channel", name="hidden", kind="group", member=False)["id"]
    closed = slack.do("channel", name="closed", member=False)["id"]

    first = await web_api.conversations_open(users=ada)
    again = await web_api.conversations_open(users=[ada], return_im=True)
    group = await web_api.conversations_open(users=[ada, bob])
    posted = await web_api.chat_postMessage(channel=ada, text="by name")
    found = await web_api.users_lookupByEmail(email="ada@harbour.example")
    listed = await web_api.users_list(limit=1)
    rooms = await web_api.conversations_list(types="public_channel,private_channel,im,mpim")
    with pytest.raises(SlackApiError, match="not_in_channel"):
        await web_api.conversations_history(channel=closed)
    joined = await web_api.conversations_join(channel=closed)
    info = await web_api.conversations_info(channel=closed, include_num_members=True)

    assert again["channel"]["id"] == first["channel"]["id"] == posted["channel"]
    assert again["already_open"]
    assert again["channel"]["user"] == found["user"]["id"] == ada
    assert (await web_api.users_info(user=bob))["user"]["name"] == "bob"
    assert listed["response_metadata"]["next_cursor"]
    known = {one["id"] for one in rooms["channels"]}
    assert {first["channel"]["id"], group["channel"]["id"], closed} <= known
    assert hidden not in known
    assert joined["channel"]["is_member"]
    assert info["channel"]["num_members"] == 1


async def test_the_bot_edits_deletes_and_reacts(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    theirs = slack.do("say", channel=room, text="theirs")["ts"]
    sent = await web_api.chat_postMessage(channel=room, text="draft")

    await web_api.chat_update(channel=room, ts=sent["ts"], text="final")
    await web_api.reactions_add(channel=room, timestamp=theirs, name="eyes")
    for again, error in (
        (web_api.reactions_add(channel=room, timestamp=theirs, name="eyes"), "already_reacted"),
        (web_api.reactions_add(channel=room, timestamp=theirs, name="😀"), "invalid_name"),
        (web_api.chat_update(channel=room, ts=theirs, text="x"), "cant_update_message"),
        (web_api.chat_update(channel=room, ts=sent["ts"], text="x" * 4001), "msg_too_long"),
        (web_api.chat_delete(channel=room, ts=theirs), "cant_delete_message"),
        (web_api.chat_delete(channel=room, ts="1700000000.000001"), "message_not_found"),
    ):
        with pytest.raises(SlackApiError, match=error):
            await again
    await web_api.chat_delete(channel=room, ts=sent["ts"])

    effects = [(one["kind"], one["text"]) for one in slack.effects(place=room) if "text" in one]
    assert effects == [("message", "draft"), ("edit", "final"), ("reaction", "eyes")]
    assert [one["text"] for one in slack.do("messages", channel=room)][-1] == "theirs"


async def test_files_come_and_go_with_the_token_alone(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    await web_api.auth_test()
    shared = slack.do("file", channel=room, name="a b.txt", content="inside", text="look")
    sent = await web_api.files_upload_v2(
        channel=room, content="bytes", filename="b.txt", initial_comment="see"
    )
    [file] = shared["files"]
    bearer = {"authorization": f"Bearer {slack.credentials['bot_token']}"}
    async with httpx.AsyncClient(trust_env=False) as http:
        opened = await http.get(file["url_private"], headers=bearer)
        closed = await http.get(file["url_private"])
        back = await http.get(sent["file"]["url_private_download"], headers=bearer)

    assert (opened.content, back.content) == (b"inside", b"bytes")
    assert closed.status_code == 200
    assert closed.headers["content-type"].startswith("text/html")
    assert (await web_api.files_info(file=file["id"]))["file"]["size"] == 6
    [effect] = slack.effects("file", place=room)
    assert (effect["text"], effect["files"]) == ("see", ["b.txt"])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"text": ""}, "no_text"),
        ({"text": "x", "thread": "1"}, "invalid_arguments"),
        ({"text": "x", "channel": "C0NOBODY"}, "channel_not_found"),
        ({"text": "x", "thread_ts": "1"}, "invalid_thread_ts"),
        ({"text": "x", "thread_ts": 1700000000.0001}, "invalid_thread_ts"),
        ({"text": "x", "thread_ts": "1700000000.000001"}, "thread_not_found"),
        ({"text": "x", "metadata": {"key": "k1"}}, "invalid_metadata_format"),
        ({"text": "x", "metadata": {**TAG, "event_type": "a b"}}, "invalid_metadata_format"),
        ({"text": "x", "metadata": {**TAG, "event_payload": {"a": "b" * 8001}}}, "metadata_too_l"),
        ({"text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"blocks": [{"type": "section", "text": {"text": "x" * 3001}}]}, "invalid_blocks"),
        ({"blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ({"blocks": [{"type": "markdown", "text": "x" * 7000}] * 2}, "msg_blocks_too_long"),
        ({"text": "x", "as_user": True}, "as_user_not_supported"),
    ],
)
async def test_what_slack_would_not_take_is_refused_and_not_said(
    slack: Simulation, web_api: AsyncWebClient, room: str, given: dict[str, Any], error: str
) -> None:
    with pytest.raises(SlackApiError, match=error) as refused:
        await web_api.api_call("chat.postMessage", json={"channel": room, **given})

    assert refused.value.response.status_code == 200
    assert slack.effects("message", place=room) == []


async def test_a_text_over_forty_thousand_is_cut_with_a_warning(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    sent = await web_api.chat_postMessage(channel=room, text="x" * 40_001)

    assert sent["response_metadata"]["warnings"] == ["message_truncated"]
    assert len(slack.effects("message", place=room)[0]["text"]) == 40_000


async def test_tokens_scopes_and_rooms_that_do_not_fit_are_refused(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    async def refusal(call: Any) -> dict[str, Any]:
        with pytest.raises(SlackApiError) as refused:
            await call
        data: dict[str, Any] = refused.value.response.data
        return data

    wrong = await refusal(client(slack, "xoxb-wrong").auth_test())
    kind = await refusal(client(slack, slack.credentials["app_token"]).users_list())
    bot = await refusal(web_api.apps_connections_open(app_token=slack.credentials["bot_token"]))
    nothing = await refusal(web_api.api_call("chat.shout"))
    slack.do("refuse", channel=room)
    closed = await refusal(web_api.chat_postMessage(channel=room, text="x"))
    slack.do("refuse", channel=room, error="")
    slack.do("archive", channel=room)
    archived = await refusal(web_api.chat_postMessage(channel=room, text="x"))
    direct = slack.do("dm")["id"]
    slack.do("scopes", scopes=["chat:write", "channels:history"])
    scope = await refusal(web_api.conversations_history(channel=direct))
    slack.do("token", error="token_revoked")
    revoked = await refusal(web_api.auth_test())

    assert wrong["error"] == "invalid_auth"
    assert kind["error"] == bot["error"] == "not_allowed_token_type"
    assert (nothing["error"], nothing["req_method"]) == ("unknown_method", "chat.shout")
    assert (closed["error"], archived["error"]) == ("restricted_action", "is_archived")
    assert (scope["error"], scope["needed"]) == ("missing_scope", "im:history")
    assert scope["provided"] == "chat:write,channels:history"
    assert revoked["error"] == "token_revoked"


@pytest.mark.parametrize(
    ("kind", "body", "error", "warning"),
    [
        ("application/json; charset=utf-8", '{"channel": "C0GENERAL", "text": "x"}', "", ""),
        ("application/json", '{"channel": "C0GENERAL", "text": "x"}', "", "missing_charset"),
        ("application/x-www-form-urlencoded; charset=utf-8", "channel=C0GENERAL&text=x", "", ""),
        ("application/json; charset=utf-8", "[" * 3, "invalid_json", ""),
        ("application/json; charset=utf-8", "[]", "json_not_object", ""),
        ("application/json; charset=latin-1", "{}", "invalid_charset", ""),
        ("text/plain", "channel=C0GENERAL&text=x", "invalid_post_type", ""),
        ("", "channel=C0GENERAL&text=x", "missing_post_type", ""),
    ],
)
def test_a_body_is_read_as_what_it_says_it_is(
    slack: Simulation, kind: str, body: str, error: str, warning: str
) -> None:
    headers = {"authorization": f"Bearer {slack.credentials['bot_token']}"}
    headers |= {"content-type": kind} if kind else {}
    with httpx.Client(trust_env=False) as http:
        url = f"{slack.url}/api/chat.postMessage"
        said = http.post(url, content=body, headers=headers).json()

    assert (said.get("error", ""), said.get("warning", "")) == (error, warning)


def test_arguments_in_json_are_passed_over_where_a_method_takes_none(slack: Simulation) -> None:
    headers = {"authorization": f"Bearer {slack.credentials['bot_token']}"}
    with httpx.Client(trust_env=False) as http:
        url = f"{slack.url}/api/conversations.history"
        said = http.post(url, json={"channel": "C0GENERAL"}, headers=headers).json()
        bare = http.get(url, params={"token": slack.credentials["bot_token"]}).json()

    assert said["error"] == "invalid_arguments"
    assert bare["error"] == "not_authed"


async def test_limits_errors_and_lost_answers_come_as_slack_has_them(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    async def post(text: str) -> BaseException:
        with pytest.raises((SlackApiError, aiohttp.ClientError, ConnectionError)) as failed:
            await web_api.chat_postMessage(channel=room, text=text)
        return failed.value

    slack.fault("rate_limit", wait=7, place=room)
    limited = await post("limited")
    for fault in ("status", "late_status", "drop", "reset"):
        slack.fault(fault, place=room)
        await post(fault)

    assert isinstance(limited, SlackApiError)
    assert limited.response.status_code == 429
    assert limited.response.headers["Retry-After"] == "7"
    assert limited.response.data == {"ok": False, "error": "ratelimited"}
    said = [one["text"] for one in slack.effects("message", place=room)]
    assert said == ["late_status", "drop"]
    assert [one["text"] for one in slack.do("messages", channel=room)][-2:] == said


async def test_a_slow_answer_comes_after_the_deed(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    slack.fault("slow", place=room)

    asked = asyncio.create_task(web_api.chat_postMessage(channel=room, text="hi"))
    said = await asyncio.to_thread(slack.effects, "message", at_least=1, place=room)
    assert not asked.done()
    slack.release()

    assert (await asked)["ts"] == said[0]["id"]


# --- the Events API --------------------------------------------------------------------------


async def test_what_happens_is_told_in_slacks_own_shapes(
    slack: Simulation, web_api: AsyncWebClient
) -> None:
    direct = slack.do("dm", users=["ada"])["id"]
    async with hook(slack) as heard:
        room = slack.do("channel", kind="group")["id"]
        ada = slack.do("person", user="ada")["id"]
        asked = slack.do("say", channel=room, text="<@U0SIMBOT> a &amp; b")["ts"]
        slack.do("say", channel=room, text="both", thread=asked, broadcast=True)
        slack.do("edit", channel=room, ts=asked, text="changed")
        slack.do("unfurl", channel=room, ts=asked)
        slack.do("react", channel=room, ts=asked, user="bob")
        slack.do("join", channel=room, user="cy")
        slack.do("say", channel=direct, text="<@U0SIMBOT> psst")
        slack.do("file", channel=direct, name="a.png")
        sent = await web_api.chat_postMessage(channel=direct, text="hello", metadata=TAG)
        slack.do("delete", channel=direct, ts=sent["ts"])
        slack.do("say", channel=room, text="bleep", user="r2", bot="legacy")
        await asyncio.to_thread(slack.idle)

    by_place = [one for place in (room, direct) for one in heard.came if _place(one) == place]
    events = [one["event"] for one in by_place]
    assert [(one["type"], one.get("subtype")) for one in events] == [
        ("member_joined_channel", None),
        ("message", "group_join"),
        ("message", None),
        ("app_mention", None),
        ("message", "thread_broadcast"),
        ("message", "message_changed"),
        ("message", "message_changed"),
        ("reaction_added", None),
        ("member_joined_channel", None),
        ("message", "group_join"),
        ("message", "bot_message"),
        ("message", None),
        ("message", "file_share"),
        ("message", None),
        ("message", "message_deleted"),
    ]
    message, mention, both, edit, unfurl, reaction = events[2:8]
    assert (message["channel_type"], message["user"]) == ("group", ada)
    assert mention["ts"] == message["ts"] == asked
    assert by_place[2]["event_id"] != by_place[3]["event_id"]
    assert (both["thread_ts"], both["root"]["reply_count"]) == (asked, 1)
    assert edit["message"]["edited"]["user"] == ada
    assert edit["previous_message"]["text"] == "<@U0SIMBOT> a &amp; b"
    assert unfurl["message"]["text"] == unfurl["previous_message"]["text"] == "changed"
    assert reaction["item"] == {"type": "message", "channel": room, "ts": asked}
    echo, gone = events[-2:]
    assert (echo["bot_id"], echo["app_id"], echo["ts"]) == ("B0SIMBOT", "A0SIMAPP", sent["ts"])
    assert (echo["channel_type"], gone["deleted_ts"]) == ("im", sent["ts"])
    assert "metadata" not in echo
    outer = by_place[0]
    assert (outer["team_id"], outer["api_app_id"]) == ("T0HARBOUR", "A0SIMAPP")
    assert outer["authorizations"][0]["user_id"] == "U0SIMBOT"


def _place(outer: dict[str, Any]) -> Any:
    event = outer["event"]
    return event.get("channel") or event["item"]["channel"]


async def test_an_event_is_tried_again_at_once_after_a_minute_and_after_five(
    slack: Simulation, room: str
) -> None:
    async with hook(slack, 500, 0, 404, 500) as heard:
        slack.do("say", channel=room, text="one")
        await asyncio.to_thread(slack.idle)
        slack.do("say", channel=room, text="two")
        *_, first, second = await asyncio.to_thread(slack.idle)

    assert heard.texts == ["one"] * 4 + ["two"]
    assert len({one["event_id"] for one in heard.came}) == 2
    assert heard.retries == [
        ("", ""),
        ("1", "http_error"),
        ("2", "connection_failed"),
        ("3", "http_error"),
        ("", ""),
    ]
    assert (first["state"], first["attempts"]) == ("given_up", 4)
    assert second["state"] == "done"


async def test_an_answer_may_ask_for_no_retry(slack: Simulation, room: str) -> None:
    async with hook(slack, 500, x_slack_no_retry="1") as heard:
        slack.do("say", channel=room, text="one")
        *_, settled = await asyncio.to_thread(slack.idle)

    assert (heard.texts, settled["state"]) == (["one"], "given_up")


async def test_events_are_doubled_swapped_late_and_lost_and_stand_in_the_history(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    async with hook(slack) as heard:
        for fault, text in (
            ("duplicate", "twice"),
            ("reorder", "second"),
            ("", "first"),
            ("lose", "never"),
            ("delay", "late"),
        ):
            if fault:
                more = {"wait": 600} if fault == "delay" else {}
                slack.fault(fault, place=room, **more)
            slack.do("say", channel=room, text=text)
        await asyncio.to_thread(slack.idle)
        slack.redeliver(int(slack.settled()[-1]["number"]))
        await asyncio.to_thread(slack.idle)
    past = await web_api.conversations_history(channel=room)

    assert heard.texts == ["twice", "twice", "first", "second", "late", "late"]
    told = [one["text"] for one in reversed(past["messages"])][1:]
    assert told == ["twice", "second", "first", "never", "late"]


async def test_only_what_is_subscribed_to_is_told_and_only_to_who_echoes_the_challenge(
    slack: Simulation, room: str
) -> None:
    with pytest.raises(Refusal, match="challenge"):
        slack.do("request_url", url=f"{slack.url}/api/auth.test")
    direct = slack.do("dm")["id"]
    slack.do("subscribe", events=["message.im"])
    async with hook(slack) as heard:
        slack.do("say", channel=room, text="<@U0SIMBOT> there")
        slack.do("say", channel=direct, text="here")
        await asyncio.to_thread(slack.idle)

    assert heard.texts == ["here"]


# --- Socket Mode -----------------------------------------------------------------------------


async def test_its_client_hears_acknowledges_and_comes_again_when_it_is_asked_to(
    slack: Simulation, room: str
) -> None:
    """It is asked, and not cut off as well: then it would connect twice, and what is said while it
    leaves the first connection for the second is told to nobody."""
    async with connected(slack) as heard:
        slack.do("say", channel=room, text="one")
        first = await heard.get()
        before = slack.do("attended")["opened"]
        await asyncio.to_thread(slack.do, "refresh", close=False)
        await asyncio.to_thread(slack.do, "attended", opened=before + 1)
        slack.do("say", channel=room, text="two")
        second = await heard.get()
        settled = await asyncio.to_thread(slack.idle)

    assert first.type == "events_api"
    assert [one.payload["event"]["text"] for one in (first, second)] == ["one", "two"]
    assert (first.retry_attempt, first.envelope_id != second.envelope_id) == (0, True)
    assert [(one["state"], one["attempts"]) for one in settled[-2:]] == [("done", 1)] * 2


async def test_what_is_said_while_the_sockets_are_away_stands_in_the_history_alone(
    slack: Simulation, web_api: AsyncWebClient, room: str
) -> None:
    async with aiohttp.ClientSession() as session:
        socket = await link(session, slack)
        closing = asyncio.create_task(asyncio.to_thread(slack.do, "away"))
        end = await socket.receive()
        assert await closing == 1
        slack.do("say", channel=room, text="meanwhile")
        with pytest.raises(SlackApiError, match="internal_error"):
            await link(session, slack)
        slack.do("away", away=False)
        again = await link(session, slack)
        slack.do("say", channel=room, text="again")
        envelope = await again.receive_json()
        past = await web_api.conversations_history(channel=room, limit=2)

    assert end.type is aiohttp.WSMsgType.CLOSE
    assert envelope["payload"]["event"]["text"] == "again"
    assert [one["text"] for one in past["messages"]] == ["again", "meanwhile"]


async def test_events_are_spread_and_what_is_not_acknowledged_comes_to_another_one(
    slack: Simulation, room: str
) -> None:
    async with aiohttp.ClientSession() as session:
        first, second = await link(session, slack), await link(session, slack)
        for text in ("one", "two"):
            slack.do("say", channel=room, text=text)
        ours, theirs = await first.receive_json(), await second.receive_json()
        await second.send_json({"envelope_id": theirs["envelope_id"]})
        await first.close()
        again = await second.receive_json()
        await second.send_json({"envelope_id": again["envelope_id"]})
        settled = await asyncio.to_thread(slack.idle)

    assert {one["payload"]["event"]["text"] for one in (ours, theirs)} == {"one", "two"}
    assert (again["retry_attempt"], again["retry_reason"]) == (1, "timeout")
    assert again["payload"] == ours["payload"]
    assert again["envelope_id"] != ours["envelope_id"]
    assert [one["attempts"] for one in settled[-2:]] == [1, 2]


async def test_who_never_acknowledges_is_told_four_times(slack: Simulation, room: str) -> None:
    slack.do("expect", ack=0.02)
    async with aiohttp.ClientSession() as session:
        socket = await link(session, slack)
        slack.do("say", channel=room, text="one")
        came = [await socket.receive_json() for _ in range(4)]
        await socket.send_str("what?")
        settled = await asyncio.to_thread(slack.idle)

    assert [one["retry_attempt"] for one in came] == [0, 1, 2, 3]
    assert len({one["payload"]["event_id"] for one in came}) == 1
    assert (settled[-1]["state"], settled[-1]["attempts"]) == ("given_up", 4)
    assert slack.calls("ack")[-1]["status"] == 400


async def test_a_ticket_opens_one_connection_once(slack: Simulation) -> None:
    async with aiohttp.ClientSession() as session:
        opened = await client(slack).apps_connections_open(app_token=slack.credentials["app_token"])
        async with session.ws_connect(opened["url"]) as socket:
            assert (await socket.receive_json())["num_connections"] == 1
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(opened["url"])


async def test_a_killed_slack_goes_on_where_it_was(tmp_path: Path) -> None:
    with Simulation("slack", tmp_path, speed=10_000) as slack:
        sent = await client(slack).chat_postMessage(channel="C0GENERAL", text="before")
        async with aiohttp.ClientSession() as session:
            socket = await link(session, slack)
            slack.do("say", text="handed out")
            before = await socket.receive_json()
            slack.kill()
            slack.start()
            socket = await link(session, slack)
            again = await socket.receive_json()
        past = await client(slack).conversations_history(channel="C0GENERAL")

    assert again["payload"] == before["payload"]
    assert again["retry_attempt"] == 1
    assert [one["text"] for one in past["messages"]] == ["handed out", "before"]
    assert past["messages"][1]["ts"] == sent["ts"]
