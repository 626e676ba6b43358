"""The people of the day, on each simulated platform: where they talk, what they say and see."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from threadline.testing.scenes import Scene, Simulated, scene

PLATFORMS = ("discord", "slack", "telegram", "twilio", "whatsapp")


@dataclass(slots=True)
class Person:
    """Somebody on a platform: where they talk with us, and how a send names them."""

    platform: str
    name: str
    place: str
    to: str
    stopped: bool = False
    # What they had seen of us when their stop was recorded.
    seen: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)


class Places:
    """The platforms, and the people on each."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.scenes: dict[str, Simulated] = {}
        for name in PLATFORMS:
            (folder / name).mkdir()
            made: Scene = scene(name, folder / name, speed=1.0)
            assert isinstance(made, Simulated)
            self.scenes[name] = stack.enter_context(made)

    def person(self, platform: str, number: int) -> Person:
        """Somebody new."""
        do, name = self.scenes[platform].platform.do, f"person {number}"
        match platform:
            case "telegram":
                return Person(platform, name, str(number), f"telegram:{number}")
            case "slack":
                user, place = do("person", user=name)["id"], do("dm", users=name)["id"]
                return Person(platform, name, place, f"slack:{user}")
            case "discord":
                dm = do("dm", user=name)
                return Person(platform, name, dm["id"], f"discord:{dm['recipients'][0]['id']}")
            case _:
                place = self.scenes[platform].place()
                return Person(platform, name, place, f"{platform}:{place}")

    def says(self, who: Person, text: str) -> None:
        """Somebody writes to us."""
        there = self.scenes[who.platform]
        if who.platform == "telegram":
            chat = int(who.place)
            there.platform.do("say", chat=chat, user=chat, name=who.name, text=text)
        else:
            there.says(who.place, who.name, text)

    def seen(self, who: Person) -> list[tuple[str, str]]:
        """What somebody saw of us: id and text."""
        return [(one.id, one.text) for one in self.scenes[who.platform].said(who.place)]

    def all_said(self) -> Counter[str]:
        """How often each text was really said, on all platforms."""
        found: Counter[str] = Counter()
        for there in self.scenes.values():
            found.update(one["text"] for one in there.platform.effects("message"))
        return found

    def quiet(self) -> bool:
        """Whether no event is on its way."""
        return not any(there.platform.waiting() for there in self.scenes.values())
