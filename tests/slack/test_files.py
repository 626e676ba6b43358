"""Files through a simulated Slack: brought there and shown once, and fetched with the token."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from tests.slack.conftest import ref
from tests.slack.frames import KEY, NOW, SLACK, THREAD, TS, answer, error, message, outbound, said
from tests.slack.test_story import at_work, numbered, records
from tests.talk import furnished, seen
from threadline import Threadline
from threadline.adapters.slack_files import MAX_FILES, marked
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import FileForbidden, FileNotCarried
from threadline.core.model import Attachment, ConversationRef, Direction
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused, Sent
from threadline.flows.outbox import STEPS
from threadline.testing.simulation import Simulation

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
FILE = Attachment(id="file:1", name="a.txt", type="text/plain", size=5)
PLACE = "https://files.slack.com/upload/v1/abc"


async def gives(line: Threadline, name: str = "naïve cat.png", content: bytes = PICTURE) -> Any:
    """A file of the agent's."""
    made = await line.uploads.give(content, name=name, type="image/png", session="agent")
    return made.attachment


async def brought(slack: Simulation, channel: str, thread: str = "") -> list[tuple[str, bytes]]:
    """The title and the bytes of every file that is shown in a place."""
    bearer = {"authorization": f"Bearer {slack.credentials['bot_token']}"}
    shown = slack.do("messages", channel=channel, thread=thread)
    files = [file for one in shown for file in one.get("files", ())]
    async with httpx.AsyncClient(trust_env=False, headers=bearer) as http:
        return [(it["title"], (await http.get(it["url_private"])).content) for it in files]


@pytest.fixture
async def place(line: Threadline, slack: Simulation, room: str) -> ConversationRef:
    """The channel, where `agent` speaks."""
    return await furnished(line, ref(room))


@pytest.mark.acceptance("I5", "G6")
@pytest.mark.parametrize("shares", [True, False])
async def test_a_file_is_shown_once_and_its_echo_is_the_same_record(
    line: Threadline, slack: Simulation, room: str, place: ConversationRef, shares: bool
) -> None:
    """Also where Slack's answer does not say yet in which message it is shown."""
    slack.do("expect", shares=shares)
    async with at_work(line, slack):
        file = await gives(line)
        sent = await line.outbound.publish(place, "agent", "**look** <!here>", attachments=[file])
        await seen(line, place, numbered(1))
        slack.do("say", text="Nice!", channel=room)
        heard = await seen(line, place, numbered(2))
        done = await line.deliveries.show(sent.id)

    [effect] = slack.effects("file", place=room)
    assert effect["text"] == "*look* &lt;!here&gt;"
    assert [it.text for it in heard] == ["**look** <!here>", "Nice!"]
    assert (heard[0].message_id, heard[0].source_session_id) == (effect["id"], "agent")
    assert heard[0].direction is Direction.OUTBOUND
    assert heard[0].attachments[0].name == "naïve cat.png"
    assert (done.state, done.message_ids) == (DeliveryState.DELIVERED, (effect["id"],))
    assert await brought(slack, room) == [("naïve cat.png", PICTURE)]


async def test_several_files_go_to_a_thread_with_the_words_that_fit_and_the_rest_follows(
    line: Threadline, slack: Simulation, room: str
) -> None:
    root = slack.do("say", text="root", channel=room)["ts"]
    thread = await furnished(line, ref(room, root))
    words = "word " * 1_000
    async with at_work(line, slack):
        files = [await gives(line, f"{number}.png", bytes([number])) for number in (1, 2, 3)]
        more = [*files, await gives(line)]
        with pytest.raises(FileNotCarried):
            await line.outbound.publish(thread, "agent", "", attachments=more)
        sent = await line.outbound.publish(thread, "agent", words, attachments=files)
        done = await line.outbound.settled(sent, patience=60)

    assert done.state is DeliveryState.DELIVERED
    [first], [rest] = slack.effects("file", place=room), slack.effects("message", place=room)
    assert (first["thread"], rest["thread"]) == (root, root)
    assert f"{first['text']} {rest['text']}".split() == ["word"] * 1_000
    assert done.message_ids == (first["id"], rest["id"])
    assert await brought(slack, room, root) == [
        ("1.png", b"\x01"),
        ("2.png", b"\x02"),
        ("3.png", b"\x03"),
    ]


@pytest.mark.acceptance("G5", "G6")
@pytest.mark.parametrize("fault", ["drop", "late_status"])
async def test_files_that_were_shown_without_an_answer_are_looked_for_and_not_shown_again(
    line: Threadline, slack: Simulation, room: str, place: ConversationRef, fault: str
) -> None:
    """No echo comes, and what stands there under the same name and words proves nothing."""
    async with at_work(line, slack):
        first = await line.outbound.publish(place, "agent", "once", attachments=[await gives(line)])
        await line.outbound.settled(first, patience=60)
        slack.fault("lose", place=room)
        slack.fault(fault, place=room)
        second = await line.outbound.publish(
            place, "agent", "once", attachments=[await gives(line)]
        )
        await line.outbound.settled(second, patience=60)
        found = await records(line, place)
        done = [await line.deliveries.show(one.id) for one in (first, second)]

    effects = slack.effects("file", place=room)
    assert [one.state for one in done] == [DeliveryState.DELIVERED] * 2
    assert [one.message_ids for one in done] == [(it["id"],) for it in effects]
    assert [it.message_id for it in found] == [it["id"] for it in effects]
    assert done[1].attempts == 1


@pytest.mark.acceptance("G5")
@pytest.mark.parametrize("lost", ["files.getUploadURLExternal", "upload"])
async def test_an_upload_that_is_lost_on_its_way_is_done_again(
    line: Threadline, slack: Simulation, room: str, place: ConversationRef, lost: str
) -> None:
    """Nobody saw anything, so there is nothing to doubt."""
    slack.fault("drop", on=lost)
    async with at_work(line, slack):
        sent = await line.outbound.publish(place, "agent", "x", attachments=[await gives(line)])
        done = await line.outbound.settled(sent, patience=60)

    assert done.state is DeliveryState.DELIVERED
    assert len(slack.effects("file", place=room)) == 1
    assert (await line.deliveries.show(sent.id)).attempts == 2


async def test_a_limit_while_showing_files_is_waited_for(
    line: Threadline, slack: Simulation, room: str, place: ConversationRef
) -> None:
    slack.fault("rate_limit", wait=1, place=room)
    async with at_work(line, slack):
        sent = await line.outbound.publish(place, "agent", "x", attachments=[await gives(line)])
        done = await line.outbound.settled(sent, patience=60)

    assert done.state is DeliveryState.DELIVERED
    assert len(slack.effects("file", place=room)) == 1


async def test_a_refused_upload_says_why(
    line: Threadline, slack: Simulation, room: str, place: ConversationRef
) -> None:
    slack.do("scopes", scopes=["chat:write", "channels:history"])
    async with at_work(line, slack):
        sent = await line.outbound.publish(place, "agent", "x", attachments=[await gives(line)])
        done = await line.outbound.settled(sent, patience=60)

    assert (done.state, done.failure) == (DeliveryState.FAILED, Failure.AUTH)
    assert "files:write" in done.reason
    assert not slack.effects("file", place=room)


@pytest.mark.acceptance("I5")
async def test_a_file_that_a_person_shares_is_fetched_with_the_token(
    line: Threadline, slack: Simulation, room: str, place: ConversationRef
) -> None:
    async with at_work(line, slack):
        slack.do("file", channel=room, name="a b.txt", content="inside", text="see")
        slack.do("file", channel=room, name="closed.txt", content="secret")
        first, second = await seen(line, place, numbered(2))

    assert (first.text, first.attachments[0].name, first.attachments[0].size) == (
        "see",
        "a b.txt",
        6,
    )
    assert await line.files.read(place, first.sequence) == b"inside"
    slack.do("scopes", scopes=["chat:write", "channels:history"])
    with pytest.raises(FileForbidden):
        await line.files.read(place, second.sequence)


# --- the dialect ---------------------------------------------------------------------------------


def steps(*files: Attachment, **more: Any) -> list[ApiCall]:
    """The calls that say a message with files, where Slack takes every one."""
    calls = [SLACK.render(outbound(attachments=files, **more))]
    for number in range(len(files)):
        room = answer({"ok": True, "upload_url": PLACE, "file_id": f"F{number}"})
        for back in (room, answer(b"OK - 5")):
            step = SLACK.read(calls[-1], back)
            assert isinstance(step, ApiCall)
            calls.append(step)
    return calls


def test_only_the_last_call_is_seen_and_the_bytes_take_no_token_along() -> None:
    calls = steps(FILE, FILE, conversation=THREAD, text="**see**")
    asked = [dict(parse_qsl(urlsplit(one.url).query)) for one in (calls[0], calls[2])]

    assert [one.unseen for one in calls] == [True, True, True, True, False]
    assert [one["length"] for one in asked] == ["5", "5"]
    assert [one["filename"] for one in asked] == [marked("a.txt", KEY), "a.txt"]
    assert (calls[1].url, calls[1].file) == (PLACE, FILE)
    assert "authorization" not in calls[1].headers
    assert json.loads(calls[4].body) == {
        "files": [{"id": "F0", "title": "a.txt"}, {"id": "F1", "title": "a.txt"}],
        "channel_id": "C1",
        "thread_ts": THREAD.conversation_id,
        "initial_comment": "*see*",
    }
    assert len(steps(*[FILE] * MAX_FILES)) <= STEPS


@pytest.mark.parametrize(
    "url", ["https://evil.example/a", "http://files.slack.com/a", "https://slack.com@evil.example"]
)
def test_bytes_go_to_slack_and_nowhere_else(url: str) -> None:
    step = SLACK.read(
        SLACK.render(outbound(attachments=(FILE,))),
        answer({"ok": True, "upload_url": url, "file_id": "F1"}),
    )

    assert isinstance(step, Doubt)


def test_a_yes_without_a_stamp_is_no_proof() -> None:
    show = steps(FILE)[-1]
    shares = {"public": {"C2": [{"ts": "1.1"}], "C1": [{"ts": TS}]}}

    assert SLACK.read(
        show, answer({"ok": True, "files": [{"id": "F0", "shares": shares}]})
    ) == Sent(message_id=TS)
    for bare in ([{"id": "F0"}], [{"id": "F0", "shares": {"public": {"C2": [{"ts": TS}]}}}], []):
        assert isinstance(SLACK.read(show, answer({"ok": True, "files": bare})), Doubt)
    assert isinstance(SLACK.read(show, error("channel_not_found")), Refused)


def test_a_file_of_ours_is_known_by_its_name_and_shown_under_the_one_it_was_given() -> None:
    name = marked("naïve.tar.gz", KEY)
    mine = message(user="UBOT", bot_id="B1", text="", files=[{"id": "F0", "name": name}])
    own, strange = said(**mine), said(files=[{"id": "F0", "name": name}])
    call = SLACK.look_up(outbound(attachments=(FILE,), called_at=NOW))
    other = mine | {"files": [{"id": "F1", "name": marked("naïve.tar.gz", KEY[:-1] + "2")}]}

    assert (own.token, strange.token) == (KEY, None)
    assert [own.attachments[0].name, strange.attachments[0].name] == ["naïve.tar.gz"] * 2
    assert SLACK.found(call, answer({"ok": True, "messages": [mine]})) == Sent(message_id=TS)
    for wrong in (other, mine | {"user": "U2", "bot_id": None}):
        assert isinstance(SLACK.found(call, answer({"ok": True, "messages": [wrong]})), Doubt)


def test_a_key_in_a_name_that_we_were_given_names_no_other_delivery() -> None:
    """Slack says in no order which files a message has."""
    given = replace(FILE, name=marked("b.txt", KEY[:-1] + "2"))
    calls = steps(given, given)
    names = [dict(parse_qsl(urlsplit(calls[at].url).query))["filename"] for at in (0, 2)]
    shown = [{"id": f"F{at}", "name": name} for at, name in enumerate(names)]

    assert names == [marked("b.txt", KEY), "b.txt"]
    mine = message(user="UBOT", bot_id="B1", text="", files=shown[::-1])
    assert said(**mine).token == KEY


@drawn(
    st.sampled_from(steps(FILE)),
    st.integers(100, 599),
    st.binary(max_size=40)
    | st.sampled_from(
        [
            b'{"ok": true, "files": [1, {"shares": {"public": [], "private": {"C1": [{}]}}}]}',
            b'{"ok": true, "upload_url": "https://[/", "file_id": "F1"}',
            b'{"ok": true, "upload_url": 1, "file_id": "F1"}',
        ]
    ),
)
def test_every_answer_on_the_way_has_one_meaning(call: ApiCall, status: int, raw: bytes) -> None:
    step = SLACK.read(call, ApiResponse(status=status, body=raw))

    assert isinstance(step, ApiCall | Refused | Doubt)
    assert call.unseen or not isinstance(step, ApiCall)
