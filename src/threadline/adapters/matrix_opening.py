"""The direct room with a person: the one there is, else one under an alias only we would give.

A homeserver makes rooms without a key, so an opening that is repeated after an answer got lost
would make a second one. The alias is made from both names: it is taken by then, and names the room.
Anybody can reckon it, though, and give it to a room of their own; and whoever is asked into a
direct room reads what is said there. So a room is used only where one of the two made it, or the
account lists it, and where nobody else is in it or asked into it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from threadline.adapters.matrix_api import CLIENT, Api, refusal
from threadline.adapters.matrix_events import Places
from threadline.core.deliveries import Failure
from threadline.core.matrix import ident
from threadline.core.model import ConversationRef, Kind
from threadline.core.values import decoded, json_object
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused

LIST, MEMBERS, CREATE, ALIAS, STATE, INVITE, KEEP = (
    f"opening.{step}" for step in ("list", "members", "create", "alias", "state", "invite", "keep")
)
THERE = ("join", "invite")
OUT = ("leave", "ban")
PUT = 3
_PERSON = re.compile("@[^\\s:\x00\ud800-\udfff]+:[^\\s\x00\ud800-\udfff]+")


def server_of(user: str) -> str:
    """The homeserver in a person's id, which unlike a room's always names one."""
    return user.partition(":")[2]


def alias_of(me: str, address: str, instead: str = "") -> str:
    """The local part of the alias of the room of these two, or of the one they have `instead` of
    another.

    >>> alias_of("@bot:hs", "@ada:hs") == alias_of("@bot:hs", "@eve:hs")
    False
    """
    both = json.dumps([me, address, *([instead] if instead else [])]).encode()
    return f"threadline-{hashlib.sha256(both).hexdigest()[:20]}"


def is_person(address: str) -> bool:
    """Whether this can be a person's id."""
    return len(address) <= 255 and _PERSON.fullmatch(address) is not None


def list_direct(api: Api, me: str, made: str = "", put: int = 0) -> ApiCall:
    """Which rooms the account knows as direct; `made` is one that has to stand there, and was `put`
    there so often."""
    query = {"made": made, "put": str(put)} if made else None
    return api.call("GET", "user", me, "account_data", "m.direct", query=query, route=LIST)


def read_direct(
    api: Api, places: Places, address: str, call: ApiCall, answer: ApiResponse
) -> ApiCall | ConversationRef | Refused | Doubt:
    """The room, or the next step towards it. Total."""
    me, said, ok = places.account.account_id, json_object(answer.body), answer.status == 200
    if not is_person(address):
        return Refused(failure=Failure.PERMANENT, reason="a person's id is @name:server.")
    match call.route:
        case "opening.list" if ok or answer.status == 404:
            made, listed = _asked(call, "made"), _listed(said, address) if ok else []
            put = int(_asked(call, "put") or 0)
            if made and (made in listed or put >= PUT):
                return places.room(made, Kind.DM)
            if made:
                return _keep(api, me, address, made, put, said if ok else {})
            return _members(api, listed[0]) if listed else _create(api, me, address)
        case "opening.keep":
            made = _asked(call, "made")
            if not ok:
                # The room is there and ours, even where the list could not be kept.
                return places.room(made, Kind.DM)
            # The list is one for all: who kept another room at this moment may have dropped this.
            return list_direct(api, me, made, int(_asked(call, "put")) + 1)
        case "opening.members" if ok or answer.status in (403, 404):
            room, chunk = _room(call), said.get("chunk")
            there = _there(chunk if ok and isinstance(chunk, list) else [])
            if me in there and there - {me, address}:
                # With a third one it is a room like others, whatever it was opened for.
                return _create(api, me, address, room)
            return (
                places.room(room, Kind.DM) if {me, address} <= there else _create(api, me, address)
            )
        case "opening.state" if ok or answer.status in (403, 404):
            room, state = _room(call), decoded(answer.body)
            events = state if ok and isinstance(state, list) else []
            there = _there(events)
            if me in _there(events, OUT):
                # We were in it and are not any more; nobody will ask us in again.
                return _create(api, me, address, room)
            if me not in there:
                # Whoever makes it at this moment has named it and is not in it yet.
                reason = "the room with this person is being made, or is not ours."
                return Doubt(reason=reason)
            if there - {me, address} or not _makers(events) <= {me, address}:
                return _create(api, me, address, room)
            if address in there:
                return list_direct(api, me, room)
            asked = {"user_id": address}
            return api.call("POST", "rooms", room, "invite", body=asked, route=INVITE)
        case "opening.create" | "opening.alias" if ok:
            made_room = ident(said.get("room_id"))
            if made_room is None:
                return Doubt(reason="the answer names no room.")
            if call.route == CREATE:
                return list_direct(api, me, made_room)
            return api.call("GET", "rooms", made_room, "state", route=STATE)
        case "opening.create" if said.get("errcode") == "M_ROOM_IN_USE" or isinstance(
            refusal(answer), Doubt
        ):
            # Of two who make it at once, one is told in no other way that it is there.
            return _by_alias(api, me, call)
        case "opening.alias" if answer.status == 404:
            return Doubt(reason="the room with this person is not there yet.")
        case "opening.invite" if ok:
            return list_direct(api, me, _room(call))
    return refusal(answer)


def _listed(content: Mapping[str, Any], address: str) -> list[str]:
    rooms = content.get(address)
    return [one for one in rooms if ident(one)] if isinstance(rooms, list) else []


def _members(api: Api, room: str) -> ApiCall:
    return api.call(
        "GET", "rooms", room, "members", query={"not_membership": "leave"}, route=MEMBERS
    )


def _there(events: Iterable[Any], how: Collection[str] = THERE) -> set[str]:
    """Who is in the room, or asked into it; or is so in another way."""
    return {
        who
        for one in events
        if isinstance(one, dict)
        and one.get("type") == "m.room.member"
        and isinstance(who := one.get("state_key"), str)
        and isinstance(content := one.get("content"), dict)
        and content.get("membership") in how
    }


def _makers(events: Iterable[Any]) -> set[str]:
    """Who made the room."""
    return {
        str(one.get("sender"))
        for one in events
        if isinstance(one, dict) and one.get("type") == "m.room.create"
    }


def _create(api: Api, me: str, address: str, instead: str = "") -> ApiCall:
    wanted = {
        "is_direct": True,
        "invite": [address],
        "preset": "trusted_private_chat",
        "room_alias_name": alias_of(me, address, instead),
    }
    return api.call("POST", "createRoom", body=wanted, route=CREATE)


def _by_alias(api: Api, me: str, create: ApiCall) -> ApiCall:
    """Ask which room has the alias; it may be made at this moment."""
    alias = f"#{json_object(create.body)['room_alias_name']}:{server_of(me)}"
    return api.call("GET", "directory", "room", alias, route=ALIAS)


def _keep(
    api: Api, me: str, address: str, room: str, put: int, content: Mapping[str, Any]
) -> ApiCall:
    rooms = [room, *(one for one in _listed(content, address) if one != room)]
    kept, query = {**content, address: rooms}, {"made": room, "put": str(put)}
    return api.call(
        "PUT", "user", me, "account_data", "m.direct", body=kept, query=query, route=KEEP
    )


def _room(call: ApiCall) -> str:
    return unquote(call.url.partition(f"{CLIENT}/rooms/")[2].partition("/")[0])


def _asked(call: ApiCall, name: str) -> str:
    return parse_qs(urlsplit(call.url).query).get(name, [""])[0]
