"""What runs beside a test for as long as it is held."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Held(ABC):
    """Something that `with` starts, and ends whatever it is doing."""

    @abstractmethod
    def start(self) -> None:
        """Start it, or start it again where it was."""

    @abstractmethod
    def close(self) -> None:
        """End it, and let go of all that belongs to it."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Nobody else ends what began to start.
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
