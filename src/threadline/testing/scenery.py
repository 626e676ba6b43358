"""What every platform with people on it can do, whichever it is; `scenes.py` has the platforms."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from threadline.testing.held import Held
from threadline.testing.simulation import Simulation


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
    # Whether its own clock can be moved.
    moves: ClassVar[bool] = True
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

    @abstractmethod
    def direct(self, who: str) -> str:
        """The place where somebody and our account are alone."""

    @abstractmethod
    def address(self, who: str) -> str:
        """Who somebody is there, as a send names them behind the provider's name."""

    def move(self, **by: float) -> None:
        """Let the platform's own clock go on (`hours=`), where it `moves`."""
        return  # A real server has the time there is.

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

    def move(self, **by: float) -> None:
        """See `Scene.move`."""
        self.platform.move(**by)

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
