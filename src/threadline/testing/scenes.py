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

import itertools
import time
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from threadline.testing.held import Held
from threadline.testing.homeserver import PYTHON, Homeserver
from threadline.testing.simulation import PATIENCE, Refusal, Simulation


@dataclass(frozen=True, slots=True)
class Effect:
    """A message of ours that everybody there sees."""

    id: str
    text: str


class Scene(Held):
    """One platform with people on it. A place is the id of a conversation, as a ref names it."""

    title: ClassVar[str]
    # How its events reach us.
    way: ClassVar[str]
    # What a place is, and whether several people talk in one.
    kind: ClassVar[str] = "room"
    # Whether its answer to something we said can be kept back (`hold`).
    holds: ClassVar[bool] = True
    # Whether people have to write to us before we may write to them.
    asked_first: ClassVar[bool] = False

    def __init__(self) -> None:
        self._numbers = itertools.count(101)
        self._people: dict[str, int] = {}

    @property
    def together(self) -> bool:
        """Whether several people talk in one place."""
        return self.kind != "dm"

    @property
    @abstractmethod
    def pid(self) -> int:
        """The platform's process."""

    @abstractmethod
    def given(self, url: str) -> dict[str, str]:
        """What connecting is told, where our server is reached at `url`."""

    def hook(self, address: str) -> None:
        """Enter the address of our webhook on the platform's pages, where a call cannot."""
        return  # Most are told by a call.

    def attended(self) -> None:
        """Wait until somebody listens, where nobody is told later of what happened before."""
        return  # Most keep everything for whoever comes.

    @abstractmethod
    def place(self) -> str:
        """A new place where people and our account talk."""

    @abstractmethod
    def says(self, place: str, who: str, text: str) -> None:
        """Somebody writes."""

    @abstractmethod
    def said(self, place: str, at_least: int = 0) -> list[Effect]:
        """What is seen of us in a place, once there is so much of it."""

    def idle(self) -> None:
        """Wait until no event is on its way."""
        return  # Where that cannot be asked.

    def again(self) -> int:
        """Let every event there was arrive once more; how many."""
        return 0

    def hold(self, place: str) -> None:
        """Say the next message of ours, and keep its answer back."""
        return  # See `holds`.

    def release(self) -> None:
        """Let the answers go that are kept back."""
        return  # See `holds`.

    def person(self, who: str) -> int:
        """Somebody's number."""
        return self._people.setdefault(who, len(self._people) + 42)


class Simulated(Scene):
    """A platform that is simulated. `named` is what the simulator is called."""

    named: ClassVar[str]
    # How many times quicker its clocks run.
    speed: ClassVar[float] = 1.0

    def __init__(self, folder: Path, speed: float | None = None) -> None:
        super().__init__()
        self.platform = Simulation(self.named, folder, speed=speed or self.speed)

    @property
    def pid(self) -> int:
        """See `Scene.pid`."""
        return self.platform.pid

    def start(self) -> None:
        """See `Held.start`."""
        self.platform.start()

    def close(self) -> None:
        """See `Held.close`."""
        self.platform.close()

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        return {**self.platform.credentials, "api": self.platform.url}

    def said(self, place: str, at_least: int = 0) -> list[Effect]:
        """See `Scene.said`."""
        found = self.platform.effects("message", place=place, at_least=at_least)
        return [Effect(str(one.get("id") or one.get("message_id")), one["text"]) for one in found]

    def idle(self) -> None:
        """See `Scene.idle`."""
        self.platform.idle()

    def again(self) -> int:
        """See `Scene.again`."""
        return self.platform.redeliver()

    def hold(self, place: str) -> None:
        """See `Scene.hold`."""
        self.platform.fault("slow", place=place)

    def release(self) -> None:
        """See `Scene.release`."""
        self.platform.release()


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


class Slack(Simulated):
    """A channel, and an app in Socket Mode."""

    named = "slack"
    title = "Slack"
    way = "Socket Mode, a WebSocket"

    def given(self, url: str) -> dict[str, str]:
        """See `Scene.given`."""
        known = self.platform.credentials
        api = f"{self.platform.url}/api"
        return {"bot_token": known["token"], "app_token": known["app_token"], "api": api}

    def attended(self) -> None:
        """See `Scene.attended`."""
        self.platform.do("attended")

    def place(self) -> str:
        """A channel with the app in it."""
        return str(self.platform.do("channel", name="launch", users=["Ada", "Ben"])["id"])

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        self.platform.do("say", channel=place, user=who, text=text)


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


class Matrix(Scene):
    """A room on a real Synapse. What is seen in it is what the homeserver shows a person there."""

    title = "Matrix"
    way = "a long poll of a real Synapse"
    holds = False

    def __init__(self, folder: Path, speed: float | None = None) -> None:
        super().__init__()
        if not PYTHON.exists():
            raise Refusal(
                "Matrix is not simulated, it wants a real Synapse: run `make setup` in a checkout, "
                "which puts one into .synapse."
            )
        self._server = Homeserver(folder)
        self._tokens: dict[str, tuple[str, str]] = {}
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
        made = {"preset": "public_chat", "name": "Launch", "invite": [self._bot[0]]}
        room = str(self._ask("Ada", "POST", "createRoom", made)["room_id"])
        deadline = time.monotonic() + PATIENCE
        while self._bot[0] not in self._joined(room):
            if time.monotonic() > deadline:
                raise Refusal(f"the bot does not come into {room}.")
            time.sleep(0.05)
        return room

    def says(self, place: str, who: str, text: str) -> None:
        """See `Scene.says`."""
        room = quote(place)
        if self._token(who)[0] not in self._joined(place):
            self._ask(who, "POST", f"rooms/{room}/join", {})
        path = f"rooms/{room}/send/m.room.message/{next(self._numbers)}"
        self._ask(who, "PUT", path, {"msgtype": "m.text", "body": text})

    def said(self, place: str, at_least: int = 0) -> list[Effect]:
        """See `Scene.said`."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [
                Effect(one["event_id"], one["content"].get("body", ""))
                for one in self._server.events(self._token("Ada")[1], place)
                if one["type"] == "m.room.message" and one["sender"] == self._bot[0]
            ]
            if len(found) >= at_least:
                return found
            if time.monotonic() > deadline:
                raise Refusal(f"there were not {at_least} of them within {PATIENCE:g} seconds")
            time.sleep(0.05)

    def _joined(self, room: str) -> Any:
        return self._ask("Ada", "GET", f"rooms/{quote(room)}/joined_members")["joined"]

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
