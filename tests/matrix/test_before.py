"""What was said before, the room with a person, and who we are: asked of a real homeserver."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mautrix.types import RoomCreatePreset, RoomID, UserID

from tests.matrix.conftest import Bot, People, Person, account_of
from threadline.adapters.matrix import Matrix
from threadline.adapters.matrix_api import Api
from threadline.adapters.matrix_opening import alias_of
from threadline.core.adapters import Account, Identity, Past
from threadline.core.deliveries import Failure
from threadline.core.model import Attachment, ConversationRef, Event, InboundMessage, Kind
from threadline.core.values import json_object
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused
from threadline.testing.homeserver import Homeserver


async def past(bot: Bot, ref: ConversationRef, before: str | None = None) -> list[Past]:
    """All pages, newest first."""
    call: ApiCall | None = bot.dialect.history(ref, before)
    pages: list[Past] = []
    while call is not None:
        page = bot.dialect.read_history(ref, call, await bot.call(call))
        assert isinstance(page, Past), page
        pages.append(page)
        call = page.older
    return pages


def in_order(pages: list[Past]) -> list[InboundMessage]:
    """Everything, oldest first."""
    return [one for page in reversed(pages) for one in page.messages]


async def opened(bot: Bot, address: str) -> Any:
    """The room with a person, and how many calls it took."""
    step: Any = bot.dialect.open_direct(address, "key")
    calls = 0
    while isinstance(step, ApiCall):
        step, calls = bot.dialect.read_direct(address, step, await bot.call(step)), calls + 1
    return step, calls


async def opened_with_a_third(
    people: People, bot: Bot, ada: Person, *, comes: bool = True
) -> ConversationRef:
    """Her room with us, into which she invited somebody, who came or did not."""
    eve = await people("eve")
    first, _ = await opened(bot, ada.user)
    assert isinstance(first, ConversationRef)
    await ada.enters(first.conversation_id)
    await ada.invites(first.conversation_id, eve.user)
    if comes:
        await eve.enters(first.conversation_id)
    return first


@pytest.mark.acceptance("F12")
async def test_a_room_and_its_threads_each_have_their_own_past(people: People, bot: Bot) -> None:
    ada = await people("ada")
    await ada.client.set_displayname("Ada")
    room = await ada.room(bot.user)
    place = ConversationRef("matrix", bot.user, room, kind=Kind.ROOM)
    said = [await ada.says(room, f"n{number}") for number in range(4)]
    edit = await ada.says(room, "n1!", edits=said[1])
    inside = [await ada.says(room, f"t{number}", thread=said[0]) for number in range(2)]
    inside_edit = await ada.says(room, "t1!", edits=inside[1])
    thumb = await ada.reacts(room, inside[0], "+1")
    root_thumb = await ada.reacts(room, said[0], "+1")
    await ada.redacts(room, said[3])
    await bot.hears(root_thumb)

    pages = await past(bot, place)
    messages = {one.message_id: one for one in in_order(pages)}
    [thread] = {child for page in pages for child in page.children}
    below = in_order(await past(bot, thread))

    assert [one for one in messages if one in {*said, edit, root_thumb}] == [
        *said[:3],
        edit,
        root_thumb,
    ]
    assert messages[f"delete:{said[3]}"].event is Event.DELETE
    assert not {*inside, inside_edit, thumb} & messages.keys()
    assert messages[said[0]].actor.name == "Ada"
    assert thread == ConversationRef("matrix", bot.user, said[0], parent_conversation_id=room)
    assert [one.message_id for one in below] == [*inside, inside_edit, thumb]
    assert {one.conversation for one in below} == {thread}


@pytest.mark.case("B117")
async def test_a_long_past_comes_page_by_page_to_its_very_beginning(
    people: People, bot: Bot
) -> None:
    """Pages of a hundred; the homeserver's own count of events is the judge."""
    ada = await people("ada")
    room = await ada.room(bot.user)
    for number in range(104):
        await ada.says(room, f"n{number}")
    await bot.hears()
    place = ConversationRef("matrix", bot.user, room)

    pages = await past(bot, place)
    messages = in_order(pages)
    older = in_order(await past(bot, place, messages[-10].message_id))

    texts = [one.text for one in messages if one.event is Event.MESSAGE]
    assert texts == ada.server.bodies(ada.token, room) == [f"n{number}" for number in range(104)]
    assert len(pages) > 1
    assert [one.message_id for one in older] == [one.message_id for one in messages[:-10]]


async def test_a_room_we_are_not_in_has_no_past_for_us(people: People, bot: Bot) -> None:
    ada = await people("ada")
    ref = ConversationRef("matrix", bot.user, await ada.room())

    call = bot.dialect.history(ref)
    read = bot.dialect.read_history(ref, call, await bot.call(call))

    assert isinstance(read, Refused)
    assert read.failure is Failure.PERMANENT


@pytest.mark.acceptance("H6")
async def test_a_direct_room_that_a_third_one_came_into_is_used_no_more(
    people: People, bot: Bot
) -> None:
    """What is said there is read by others, and one person's consent says nothing about them."""
    ada = await people("ada")
    first = await opened_with_a_third(people, bot, ada)

    again, _ = await opened(bot, ada.user)

    assert isinstance(again, ConversationRef)
    assert (again.kind, again == first) == (Kind.DM, False)


@pytest.mark.acceptance("H2")
async def test_the_same_person_has_the_same_room(people: People, bot: Bot) -> None:
    ada = await people("ada")

    first, _ = await opened(bot, ada.user)
    again, calls = await opened(bot, ada.user)
    await ada.enters(first.conversation_id)
    said = await ada.says(first.conversation_id, "Hello bot")
    heard = {one.message_id: one for one in await bot.hears(said)}

    assert first == again == heard[said].conversation
    assert (first.kind, heard[said].conversation.kind) == (Kind.DM, Kind.DM)
    assert calls == 2


async def test_an_opening_whose_answer_got_lost_makes_no_second_room(
    people: People, bot: Bot
) -> None:
    """The homeserver made the room, and we never heard which one."""
    ada = await people("ada")
    lost: Any = bot.dialect.open_direct(ada.user, "key")
    while lost.method != "POST":
        lost = bot.dialect.read_direct(ada.user, lost, await bot.call(lost))
    made = json.loads((await bot.call(lost)).body)["room_id"]

    found, _ = await opened(bot, ada.user)

    assert found.conversation_id == made


async def test_a_person_who_left_is_invited_into_the_same_room_again(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    first, _ = await opened(bot, ada.user)
    await ada.enters(first.conversation_id)
    await ada.client.leave_room(first.conversation_id)

    again, _ = await opened(bot, ada.user)

    assert again == first
    await ada.enters(first.conversation_id)


async def test_the_room_a_person_opened_with_us_is_the_one_that_is_used(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    room = await ada.room(bot.user, direct=True)
    await bot.hears(await ada.says(room, "Hi"))

    found, calls = await opened(bot, ada.user)

    assert (found.conversation_id, calls) == (room, 2)


async def test_nobody_can_be_opened_who_is_no_person(bot: Bot) -> None:
    for address in (
        "ada",
        "@ada",
        "!room:localhost",
        "@a b:hs",
        "@" + "a" * 300 + ":hs",
        "",
        "@\ud800:hs",
    ):
        step, _ = await opened(bot, address)
        assert isinstance(step, Refused)
    unknown, _ = await opened(bot, "@nobody:does-not-exist.example")
    assert not isinstance(unknown, ApiCall)


async def test_connecting_asks_the_homeserver_who_we_are(
    synapse: Homeserver, people: People, bot: Bot
) -> None:
    ada = await people("ada")
    await ada.client.set_displayname("Ada of the lab")

    async def who(api: str, token: str) -> Any:
        account = account_of(synapse, "-", token, api=api)
        step: Any = Matrix(account).check()
        while isinstance(step, ApiCall):
            step = Matrix(account).read_check(step, await bot.call(step))
        return step

    known = await who(synapse.url + "/", ada.token)
    nobody = await who(synapse.url, "syt_wrong")

    assert isinstance(known, Identity)
    assert (known.account_id, known.actor.name) == (ada.user, "Ada of the lab")
    assert known.actor.is_self
    assert (nobody.failure, nobody.reason[:15]) == (Failure.AUTH, "M_UNKNOWN_TOKEN")
    assert Matrix(account_of(synapse, "-", "")).listens()
    pushed = Account(
        scope_id="default", provider="matrix", account_id="-", credentials={"hs_token": "x"}
    )
    assert not Matrix(pushed).listens()
    assert Matrix(pushed).webhook("https://line.example/v1/webhooks/matrix/x") is None


@pytest.mark.parametrize(
    "address", ["mxc://../../etc", "https://evil.example/a", "mxc://hs/a/b", ""]
)
def test_what_is_no_media_address_reaches_nothing(address: str) -> None:
    dialect = Matrix(Account(scope_id="default", provider="matrix", account_id="@a:hs"))

    call = dialect.file(Attachment(id=address, url=address))

    assert call.url.endswith("/_matrix/client/v1/media/download/-/-")


def test_a_homeserver_older_than_authenticated_media_is_asked_in_the_old_way() -> None:
    dialect = Matrix(Account(scope_id="default", provider="matrix", account_id="@a:hs"))
    file = Attachment(id="mxc://hs.example/m1")
    unknown = ApiResponse(status=404, body=b'{"errcode":"M_UNRECOGNIZED"}')

    older = dialect.read_file(file, dialect.file(file), unknown)

    assert isinstance(older, ApiCall)
    assert older.url.endswith("/_matrix/media/v3/download/hs.example/m1")
    assert isinstance(dialect.read_file(file, older, unknown), Refused)


@pytest.mark.acceptance("H6")
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
async def test_a_room_that_somebody_else_gave_our_alias_is_not_taken_for_ours(
    people: People, bot: Bot, leaves: bool
) -> None:
    """The alias can be reckoned from both names: whoever takes it first, and asks us in, would read
    what is meant for one person; also who leaves, and comes back later as anybody may."""
    ada, eve = await people("ada"), await people("eve")
    alias = alias_of(bot.user, ada.user)
    trap = await eve.room(bot.user, alias_localpart=alias, preset=RoomCreatePreset.PUBLIC)
    await bot.hears(await eve.says(trap, "Come in"))
    if leaves:
        await eve.client.leave_room(RoomID(trap))

    found, _ = await opened(bot, ada.user)
    again, _ = await opened(bot, ada.user)

    assert isinstance(found, ConversationRef)
    assert (found.conversation_id == trap, again == found) == (False, True)
    await ada.enters(found.conversation_id)


@pytest.mark.acceptance("H2")
async def test_a_room_of_our_alias_that_we_are_not_in_yet_may_be_asked_for_again(
    people: People, bot: Bot
) -> None:
    """Another node of ours has named it and is on its way in; nothing is refused for good."""
    ada, eve = await people("ada"), await people("eve")
    await eve.room(alias_localpart=alias_of(bot.user, ada.user))

    step, _ = await opened(bot, ada.user)

    assert isinstance(step, Doubt)


@pytest.mark.acceptance("H6")
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "by its alias"])
@pytest.mark.parametrize("comes", [True, False], ids=["there", "invited"])
async def test_a_room_whose_person_left_a_third_one_in_it_is_used_no_more(
    people: People, bot: Bot, listed: bool, comes: bool
) -> None:
    """Whether the account still lists it as direct, or finds it by its alias."""
    ada = await people("ada")
    first = await opened_with_a_third(people, bot, ada, comes=comes)
    await ada.client.leave_room(RoomID(first.conversation_id))
    if not listed:
        api = Api(bot.account.settings["api"], bot.token)
        await bot.call(api.call("PUT", "user", bot.user, "account_data", "m.direct", body={}))

    again, _ = await opened(bot, ada.user)

    assert isinstance(again, ConversationRef)
    assert again != first
    await ada.enters(again.conversation_id)


@pytest.mark.acceptance("H2")
async def test_openings_at_the_same_moment_lead_to_one_room_a_person(
    people: People, bot: Bot
) -> None:
    """Two for each of three, as two nodes make them. One of two may have to ask again: the room is
    named before anybody is in it."""
    them = [await people("ada") for _ in range(3)]
    again = [*them, *them]

    steps = [step for step, _ in await asyncio.gather(*(opened(bot, one.user) for one in again))]
    assert {type(step) for step in steps} <= {ConversationRef, Doubt}
    found = [(await opened(bot, one.user))[0] for one in them]

    rooms = {(one.user, at.conversation_id) for one, at in zip(them, found, strict=True)}
    assert rooms >= {
        (one.user, at.conversation_id)
        for one, at in zip(again, steps, strict=True)
        if isinstance(at, ConversationRef)
    }


@pytest.mark.acceptance("H2")
async def test_a_room_that_another_node_drops_from_the_list_is_put_there_again(
    people: People, bot: Bot
) -> None:
    """The other one read the list before, and wrote it after us."""
    ada, eve = await people("ada"), await people("eve")
    listing = ("user", bot.user, "account_data", "m.direct")
    api = Api(bot.account.settings["api"], bot.token)
    other = {eve.user: ["!elsewhere:test"]}
    step: Any = bot.dialect.open_direct(ada.user, "key")
    dropped = False
    while isinstance(step, ApiCall):
        answer = await bot.call(step)
        if step.method == "PUT" and not dropped:
            await bot.call(api.call("PUT", *listing, body=other))
            dropped = True
        step = bot.dialect.read_direct(ada.user, step, answer)

    kept = json_object((await bot.call(api.call("GET", *listing))).body)

    assert dropped
    assert kept == {**other, ada.user: [step.conversation_id]}


@pytest.mark.acceptance("H2")
@pytest.mark.parametrize("kicked", [False, True], ids=["left", "kicked"])
async def test_a_person_whose_room_we_are_out_of_is_opened_in_another_one(
    people: People, bot: Bot, kicked: bool
) -> None:
    """The room keeps its alias, and we do not come back by ourselves: the account left it, or it
    was a stranger's, who put us out."""
    ada, eve = await people("ada"), await people("eve")
    if kicked:
        alias = alias_of(bot.user, ada.user)
        room = await eve.room(bot.user, alias_localpart=alias)
        await bot.hears(await eve.says(room, "Come in"))
        await eve.client.kick_user(RoomID(room), UserID(bot.user))
    else:
        first, _ = await opened(bot, ada.user)
        assert isinstance(first, ConversationRef)
        room = first.conversation_id
        api = Api(bot.account.settings["api"], bot.token)
        left = await bot.call(api.call("POST", "rooms", room, "leave", body={}))
        assert left.status == 200

    found, _ = await opened(bot, ada.user)
    again, _ = await opened(bot, ada.user)

    assert isinstance(found, ConversationRef)
    assert (found.conversation_id == room, again == found) == (False, True)
    await ada.enters(found.conversation_id)
