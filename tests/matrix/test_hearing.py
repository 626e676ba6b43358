"""What the account hears of people on a real client, through a real homeserver."""

from __future__ import annotations

import asyncio

import pytest
from mautrix.types import RoomCreatePreset, RoomID, UserID

from tests.matrix.conftest import Bot, People, account_of
from threadline.core.errors import InvalidInput, Unauthenticated
from threadline.core.model import ConversationRef, Direction, Event, Kind
from threadline.testing.homeserver import Homeserver


@pytest.mark.acceptance("B1")
async def test_everything_people_do_in_a_room_is_heard_as_what_it_is(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    room = await ada.room(bot.user, name="The lab")
    await bot.hears()
    asked = await ada.says(room, "Is it on?", mentions=[bot.user])
    notice = await ada.sends(room, "m.room.message", {"msgtype": "m.notice", "body": "beep"})
    answer = await ada.says(room, "Nobody?", reply_to=asked)
    edit = await ada.says(room, "Is it still on?", edits=asked)
    thumb = await ada.reacts(room, asked, "👍")
    inside = await ada.says(room, "in a thread", thread=asked)
    inside_edit = await ada.says(room, "in the thread", edits=inside)
    gone = await ada.says(room, "oops")
    await ada.redacts(room, gone, "typing")
    last = await ada.says(room, "done")

    heard = {one.message_id: one for one in await bot.hears(last)}

    place = ConversationRef("matrix", bot.user, room)
    thread = ConversationRef("matrix", bot.user, asked, parent_conversation_id=room)
    assert heard[asked].text == "Is it on?"
    assert heard[asked].conversation == place
    assert heard[asked].conversation.kind is Kind.ROOM
    assert (heard[asked].actor.id, heard[asked].actor.is_bot) == (ada.user, False)
    assert heard[asked].mentions == ()
    assert heard[asked].sent_at is not None
    assert heard[notice].actor.is_bot
    assert (heard[answer].reply_to, heard[answer].text) == (asked, "Nobody?")
    assert (heard[edit].event, heard[edit].revises) == (Event.EDIT, asked)
    assert heard[edit].text == "Is it still on?"
    assert (heard[thumb].event, heard[thumb].text) == (Event.REACTION, "👍")
    assert (heard[inside].conversation, heard[inside].thread_root) == (thread, asked)
    assert (heard[inside].reply_to, heard[inside].parent) == (None, place)
    assert heard[inside_edit].conversation == thread
    deleted = heard[f"delete:{gone}"]
    assert (deleted.event, deleted.revises, deleted.signed) == (Event.DELETE, gone, True)
    assert deleted.metadata == {"reason": "typing"}
    ours = [one for one in heard.values() if one.direction is Direction.OUTBOUND]
    assert [(one.event, one.actor.id) for one in ours] == [(Event.MEMBER, bot.user)]


@pytest.mark.acceptance("I5")
async def test_a_file_is_heard_as_data_and_fetched_with_the_accounts_token(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    room = await ada.room(bot.user)
    url = await ada.client.upload_media(b"\x89PNG....", mime_type="image/png", filename="a.png")
    picture = {
        "msgtype": "m.image",
        "body": "What I saw",
        "filename": "../up/a.png",
        "url": str(url),
        "info": {"mimetype": "image/png", "size": 8},
    }
    said = await ada.sends(room, "m.room.message", picture)

    heard = {one.message_id: one for one in await bot.hears(said)}[said]
    [file] = heard.attachments
    fetched = bot.dialect.file(file)
    content = bot.dialect.read_file(file, fetched, await bot.call(fetched))

    assert (file.type, file.name, file.size, file.id) == ("image/png", "a.png", 8, str(url))
    assert (heard.text, heard.metadata) == ("What I saw", {"msgtype": "m.image"})
    assert content == b"\x89PNG...."


async def test_a_room_opened_to_be_direct_is_a_dm_until_a_third_comes(
    people: People, bot: Bot
) -> None:
    ada, eve = await people("ada"), await people("eve")
    room = await ada.room(bot.user, direct=True, preset=RoomCreatePreset.TRUSTED_PRIVATE)
    first = await ada.says(room, "Just us")
    heard = {one.message_id: one for one in await bot.hears(first)}
    again = await ada.says(room, "Still")
    # Another life of the listener knows no more than the homeserver does.
    [later] = [one for one in await bot.hears(again) if one.message_id == again]
    await ada.invites(room, eve.user)
    await eve.enters(room)
    third = await ada.says(room, "Hello Eve")
    crowd = {one.message_id: one for one in await bot.hears(third)}

    assert heard[first].conversation.kind is Kind.DM
    assert later.conversation.kind is Kind.DM
    assert crowd[third].conversation.kind is Kind.ROOM
    joined = [one for one in crowd.values() if one.event is Event.MEMBER]
    assert {one.metadata["membership"] for one in joined} == {"invite", "join"}
    assert heard[first].conversation == crowd[third].conversation


@pytest.mark.case("B088")
async def test_coming_and_going_is_membership_and_never_somebodys_words(
    people: People, bot: Bot
) -> None:
    ada, eve = await people("ada"), await people("eve")
    room = await ada.room(bot.user, eve.user)
    await eve.enters(room)
    await eve.client.set_displayname("Eve the Great")
    await ada.client.kick_user(RoomID(room), UserID(eve.user), reason="enough")
    last = await ada.says(room, "Well")

    heard = await bot.hears(last)

    words = [(one.event, one.text) for one in heard if one.metadata.get("user") == eve.user]
    assert words[-1][0] is Event.MEMBER
    assert words[-1][1].endswith("was removed")
    assert {one.event for one in heard} <= {Event.MEMBER, Event.NOTICE, Event.MESSAGE}


async def test_what_is_encrypted_is_counted_and_the_room_says_from_when(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    state = [{"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}]
    room = await ada.room(bot.user, initial_state=state)
    sealed = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgAEnAC", "session_id": "s"}
    await ada.sends(room, "m.room.encrypted", sealed)
    last = await ada.says(room, "in the clear")

    heard = await bot.hears(last)

    skipped = [
        word
        for batch in bot.batches
        for request in batch.requests
        for word in bot.dialect.parse(request).skipped
    ]
    assert skipped.count("encrypted") == 1
    assert "end-to-end encryption was switched on" in " ".join(one.text for one in heard)


@pytest.mark.acceptance("B13")
async def test_an_edit_of_somebody_elses_message_is_none(people: People, bot: Bot) -> None:
    ada, eve = await people("ada"), await people("eve")
    room = await ada.room(bot.user, eve.user)
    await eve.enters(room)
    mine = await ada.says(room, "I owe you 5")
    forged = await eve.says(room, "I owe you 5000", edits=mine)
    await bot.hears(forged_or_last := await ada.says(room, "ok"))
    # The listener that starts anew has to ask who wrote the target.
    again = await eve.says(room, "I owe you 50000", edits=mine)
    last = await ada.says(room, "hm")
    heard = await bot.hears(last)

    every = [
        one.message_id
        for batch in bot.batches
        for request in batch.requests
        for one in bot.dialect.parse(request).messages
    ]
    assert {mine, forged_or_last} <= {*every}
    assert forged not in every
    assert again not in {one.message_id for one in heard}


async def test_a_listener_that_starts_anew_still_knows_the_thread_of_what_is_edited(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    room = await ada.room(bot.user)
    root = await ada.says(room, "root")
    inside = await ada.says(room, "inside", thread=root)
    await bot.hears(inside)
    edit = await ada.says(room, "inside!", edits=inside)
    thumb = await ada.reacts(room, inside, "+1")

    heard = {one.message_id: one for one in await bot.hears(edit, thumb)}

    assert heard[edit].thread_root == heard[thumb].thread_root == root


@pytest.mark.case("B120")
async def test_what_a_homeserver_cut_off_is_read_up_to_where_we_were(
    people: People, bot: Bot
) -> None:
    """An answer holds five events of a room; between two answers 18 things were said."""
    bot.wire.timeline = 5
    ada = await people("ada")
    room = await ada.room(bot.user)
    first = await ada.says(room, "first")
    await bot.hears(first)
    said = [await ada.says(room, f"n{number}") for number in range(18)]

    heard = await bot.hears(said[-1])

    assert [one.message_id for one in heard] == said
    assert not bot.batches[-1].gap


async def test_more_than_can_be_read_is_a_gap_in_that_room(people: People, bot: Bot) -> None:
    bot.wire.timeline, bot.wire.pages = 3, 2
    ada = await people("ada")
    room = await ada.room(bot.user)
    await bot.hears(await ada.says(room, "first"))
    for number in range(14):
        last = await ada.says(room, f"n{number}")

    await bot.hears(last)

    assert bot.batches[-1].gap
    assert bot.batches[-1].rooms == (ConversationRef("matrix", bot.user, room),)


async def test_what_was_said_before_we_came_is_history_and_no_gap(people: People, bot: Bot) -> None:
    bot.wire.timeline = 5
    ada = await people("ada")
    room = await ada.room()
    for number in range(12):
        await ada.says(room, f"old {number}")
    await ada.invites(room, bot.user)
    await bot.hears()
    last = await ada.says(room, "welcome")

    await bot.hears(last)

    assert not any(batch.gap for batch in bot.batches)


async def test_nobody_is_followed_into_a_room_where_that_is_not_wanted(
    people: People, synapse: Homeserver, bot: Bot
) -> None:
    ada = await people("ada")
    user, token = synapse.register("shy")
    shy = Bot(account_of(synapse, user, token, join="nothing"), token, bot.wire)
    await shy.hears()
    room = await ada.room(shy.user, bot.user)
    await bot.hears(await ada.says(room, "anybody?"))

    async with asyncio.timeout(60):
        batch = await anext(shy.listen())

    [request] = batch.requests
    assert shy.dialect.parse(request).skipped == ("invitation",)
    assert set(await ada.client.get_joined_members(RoomID(room))) == {ada.user, bot.user}


@pytest.mark.acceptance("A9")
async def test_a_room_that_goes_on_in_another_takes_its_address_along(
    people: People, bot: Bot
) -> None:
    ada = await people("ada")
    old = await ada.room(bot.user)
    await bot.hears(await ada.says(old, "here"))
    url = f"/_matrix/client/v3/rooms/{old}/upgrade"
    head = {"authorization": f"Bearer {ada.token}"}
    answer = ada.server.web.post(url, json={"new_version": "10"}, headers=head)
    new = answer.json()["replacement_room"]
    await ada.invites(new, bot.user)
    await bot.hears()
    last = await ada.says(new, "there")

    heard = await bot.hears(last)

    every = [
        one
        for batch in bot.batches
        for request in batch.requests
        for one in bot.dialect.parse(request).messages
    ]
    [moved] = {one.message_id: one for one in every if one.same_as}.values()
    assert moved.conversation == ConversationRef("matrix", bot.user, new)
    assert moved.same_as == (ConversationRef("matrix", bot.user, old),)
    assert heard[-1].conversation == moved.conversation


async def test_a_room_that_only_claims_to_replace_another_takes_nothing(
    people: People, bot: Bot
) -> None:
    ada, eve = await people("ada"), await people("eve")
    room = await ada.room(bot.user)
    await bot.hears(await ada.says(room, "ours"))
    claims = {"predecessor": {"room_id": room, "event_id": "$any"}}
    trap = await eve.room(bot.user, creation_content=claims, room_version="10")
    await bot.hears()
    last = await eve.says(trap, "yours")

    await bot.hears(last)

    every = [
        one
        for batch in bot.batches
        for request in batch.requests
        for one in bot.dialect.parse(request).messages
    ]
    assert last in {one.message_id for one in every}
    assert not any(one.same_as for one in every)


async def test_a_token_that_does_not_hold_is_a_matter_for_a_person(
    synapse: Homeserver, bot: Bot
) -> None:
    stranger = Bot(account_of(synapse, bot.user, "syt_wrong"), "syt_wrong", bot.wire)
    with pytest.raises(Unauthenticated, match="M_UNKNOWN_TOKEN"):
        await stranger.hears()

    lost = Bot(account_of(synapse, bot.user, bot.token, api=f"{synapse.url}/blog"), "", bot.wire)
    with pytest.raises(InvalidInput, match="no Matrix homeserver"):
        await lost.hears()


async def test_a_place_the_homeserver_does_not_know_is_a_gap_everywhere(bot: Bot) -> None:
    bot.cursor = "nonsense"

    await bot.hears()

    assert bot.batches[-1].gap
    assert bot.batches[-1].rooms is None
    assert bot.batches[-1].cursor != "nonsense"
