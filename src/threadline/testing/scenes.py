"""People who talk to our account on a platform, told the same way for every platform.

with scene("telegram", folder) as there:
    # connect with there.given(url); then
    room = there.place()
    there.says(room, "Ada", "Hello")
    assert [one.text for one in there.said(room)] == []

What a person does there, and what really came of our own words, is asked of the platform: of its
simulator, or of a real Synapse. A further simulated platform is a class of a few lines and a line
in `SCENES`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from threadline.testing.homeserver import PYTHON, Homeserver
from threadline.testing.scenery import Effect, Scene, Simulated
from threadline.testing.simulation import PATIENCE, Refusal

__all__ = ["SCENES", "Effect", "Scene", "Simulated", "scene"]


class Telegram(Simulated):
    """A group, and a bot that polls."""

    named = "telegram"
    title = "Telegram"
    way = "a long poll"

    def place(self) -> str:
        """A group."""
        chat = -next(self._numbers)
        self.platform.do("chat", chat=chat, title="Launch")
        return str(chat)

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        self.platform.do("say", chat=int(place), user=self.person(who), name=who, text=text)

    def direct(self, who: str) -> str:
        """Their private chat."""
        return self.address(who)

    def address(self, who: str) -> str:
        """See `Scene.address`."""
        return str(self.person(who))


class Discord(Simulated):
    """A channel, and a bot at the gateway."""

    named = "discord"
    title = "Discord"
    way = "its gateway, a WebSocket"

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        api = f"{self.platform.url}/api/v10"
        return {"token": self.platform.credentials["token"], "api": api}

    def attended(self) -> None:
        """See `Scene.attended`."""
        self.platform.do("attended")

    def place(self) -> str:
        """A channel."""
        return str(self.platform.do("channel", name="launch")["id"])

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        self.platform.do("say", channel=place, user=who, text=text)

    def direct(self, who: str) -> str:
        """Their direct message channel."""
        return str(self.platform.do("dm", user=who)["id"])

    def address(self, who: str) -> str:
        """See `Scene.address`."""
        users = self.platform.do("dm", user=who)["recipients"]
        return next(str(one["id"]) for one in users if one["username"] == who)


class Slack(Simulated):
    """A channel, and an app in Socket Mode."""

    named = "slack"
    title = "Slack"
    way = "Socket Mode, a WebSocket"

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        known = self.platform.credentials
        api = f"{self.platform.url}/api"
        return {"bot_token": known["bot_token"], "app_token": known["app_token"], "api": api}

    def attended(self) -> None:
        """See `Scene.attended`."""
        self.platform.do("attended")

    def place(self) -> str:
        """A channel with the app in it."""
        return str(self.platform.do("channel", name="launch", users=["Ada", "Ben"])["id"])

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        self.platform.do("say", channel=place, user=who, text=text)

    def direct(self, who: str) -> str:
        """Their direct message."""
        return str(self.platform.do("dm", users=who)["id"])

    def address(self, who: str) -> str:
        """See `Scene.address`."""
        return str(self.platform.do("person", user=who)["id"])


class WhatsApp(Simulated):
    """People who write to a business number, each by themselves."""

    named = "whatsapp"
    title = "WhatsApp"
    asked_first = True
    way = "signed webhooks"
    kind = "dm"
    speed = 50.0

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        return {**self.platform.credentials, "api": f"{self.platform.url}/v26.0"}

    def place(self) -> str:
        """A person by their user id."""
        return f"US.{next(self._numbers)}"

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        phone = f"15550{place.removeprefix('US.'):0>6}"
        self.platform.do("say", phone=phone, user_id=place, name=who, text=text)

    def direct(self, who: str) -> str:
        """See `Scene.direct`."""
        return self.address(who)

    def address(self, who: str) -> str:
        """Their user id."""
        return f"US.{9000 + self.person(who)}"


class Twilio(Simulated):
    """People who write to a WhatsApp sender at Twilio, each by themselves.

    Its clock runs slower: it tries a webhook once more, after a second of its own, which is time
    for a killed server to come back.
    """

    named = "twilio"
    title = "Twilio"
    asked_first = True
    way = "signed webhooks"
    kind = "dm"
    speed = 0.15

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        return {**super().given(url), "public_url": url}

    def hook(self, address: str) -> None:
        """See `Scene.hook`."""
        self.platform.webhook(address)

    def place(self) -> str:
        """A person by their WhatsApp address."""
        return f"whatsapp:+15550{next(self._numbers):0>6}"

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        phone = place.removeprefix("whatsapp:")
        self.platform.do("say", phone=phone, text=text, name=who)

    def direct(self, who: str) -> str:
        """See `Scene.direct`."""
        return self.address(who)

    def address(self, who: str) -> str:
        """Their WhatsApp address."""
        return f"whatsapp:+15559{self.person(who):0>6}"


class Matrix(Scene):
    """A room on a real Synapse. What is seen in it is what the homeserver shows a person there."""

    title = "Matrix"
    way = "a long poll of a real Synapse"
    holds = False
    moves = False

    def __init__(self, folder: Path, speed: float | None = None) -> None:
        super().__init__()
        if not PYTHON.exists():
            raise Refusal(
                "Matrix is not simulated, it wants a real Synapse: run `make setup` in a checkout, "
                "which puts one into .synapse."
            )
        self._server = Homeserver(folder)
        self._tokens: dict[str, tuple[str, str]] = {}
        # Who sees what is said in a room, and who came in.
        self._eyes: dict[str, str] = {}
        self._inside: set[tuple[str, str]] = set()
        self._bot: tuple[str, str] = ("", "")

    @property
    def pid(self) -> int:
        """See `Scene.pid`."""
        return self._server.pid

    def start(self) -> None:
        """See `Held.start`."""
        self._server.start()
        self._bot = self._server.register("helper")

    def close(self) -> None:
        """See `Held.close`."""
        self._server.close()

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        return {"api": self._server.url, "access_token": self._bot[1]}

    def place(self) -> str:
        """A room that the bot was invited to, once it has come in."""
        return self._made("Ada", {"preset": "public_chat", "name": "Launch"})

    def direct(self, who: str) -> str:
        """A direct room that the bot was invited to, once it has come in."""
        return self._made(who, {"preset": "trusted_private_chat", "is_direct": True})

    def address(self, who: str) -> str:
        """Their Matrix id."""
        return self._token(who)[0]

    def _made(self, who: str, about: dict[str, Any]) -> str:
        room = str(
            self._ask(who, "POST", "createRoom", about | {"invite": [self._bot[0]]})["room_id"]
        )
        self._eyes[room] = who
        deadline = time.monotonic() + PATIENCE
        while self._bot[0] not in self._joined(room):
            if time.monotonic() > deadline:
                raise Refusal(f"the bot does not come into {room}.")
            time.sleep(0.05)
        return room

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        room = quote(place)
        if (place, who) not in self._inside:
            # Who is in already, or was invited, may do that as well.
            self._ask(who, "POST", f"rooms/{room}/join", {})
            self._inside.add((place, who))
            self._eyes.setdefault(place, who)
        path = f"rooms/{room}/send/m.room.message/{next(self._numbers)}"
        self._ask(who, "PUT", path, {"msgtype": "m.text", "body": text})

    def said(self, place: str, at_least: int = 0) -> list[Effect]:
        """See `Scene.said`."""
        deadline = time.monotonic() + PATIENCE
        eyes = self._token(self._eyes[place])[1]
        while True:
            found = [
                Effect(one["event_id"], one["content"].get("body", ""))
                for one in self._server.events(eyes, place)
                if one["type"] == "m.room.message" and one["sender"] == self._bot[0]
            ]
            if len(found) >= at_least:
                return found
            if time.monotonic() > deadline:
                raise Refusal(f"there were not {at_least} of them within {PATIENCE:g} seconds")
            time.sleep(0.05)

    def _joined(self, room: str) -> Any:
        path = f"rooms/{quote(room)}/joined_members"
        return self._ask(self._eyes[room], "GET", path)["joined"]

    def _token(self, who: str) -> tuple[str, str]:
        if who not in self._tokens:
            self._tokens[who] = self._server.register(who.lower())
        return self._tokens[who]

    def _ask(self, who: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self._token(who)[1]}"}
        url = f"/_matrix/client/v3/{path}"
        answer = self._server.web.request(method, url, json=body, headers=headers)
        answer.raise_for_status()
        return answer.json()


SCENES: dict[str, type[Any]] = {
    "telegram": Telegram,
    "discord": Discord,
    "slack": Slack,
    "whatsapp": WhatsApp,
    "twilio": Twilio,
    "matrix": Matrix,
}


def scene(name: str, folder: Path, *, speed: float | None = None) -> Scene:
    """A platform with its files in `folder`; entering it starts it.

    `speed` is how many times quicker a simulated one's clocks run, instead of as is its own.
    Raises `KeyError` where there is none of that name, and `Refusal` where it cannot run here.
    """
    made: Scene = SCENES[name](folder, speed)
    return made
