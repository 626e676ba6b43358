"""Telegram exports, damaged, odd or huge: nothing half is whole, nothing odd ends the rest."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.archives.conftest import ACCOUNT, Held, said
from tests.archives.test_telegram import FILES, account, chat, entry, read, read_chat, tell
from threadline.archives.telegram import TelegramDesktop
from threadline.core.archive import Options, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import InboundMessage


@pytest.mark.parametrize(
    "bad",
    [
        7,
        None,
        {},
        entry(type="odd"),
        entry(date=None, date_unixtime=None),
        entry(date="soon", date_unixtime="9" * 14),
    ],
)
def test_a_malformed_entry_is_noted_and_the_others_are_read(bad: Any) -> None:
    items, tally = read_chat(bad, entry(2))

    assert [message.message_id for message in said(items)] == ["2"]
    assert "message 1" in tally.problems[0]


@pytest.mark.parametrize("bad", [7, {"name": "x", "messages": []}, {"name": "x", "id": 3}])
def test_a_malformed_chat_is_noted_and_the_others_are_read(bad: Any) -> None:
    items, tally = read(account(bad, chat(entry(2))))

    assert [message.message_id for message in said(items)] == ["2"]
    assert len(tally.problems) == 1


@pytest.mark.case("B158")
def test_no_text_holds_what_no_store_holds() -> None:
    (message,) = tell(entry(**{"text": ["a\x00", {"text": "\ud83d"}], "from": "\x00"}))

    assert (message.text, message.actor.name) == ("a\ufffd\ufffd", "\ufffd")


@pytest.mark.case("B012")
def test_an_id_above_what_a_float_holds_stays_itself() -> None:
    (message,) = tell(entry(9007199254740993), type="personal_chat", id=9007199254740995)

    assert message.message_id == "9007199254740993"
    assert message.conversation.conversation_id == "9007199254740995"


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_never_read_as_whole(exports: Path, name: str) -> None:
    whole = (exports / name).read_bytes().rstrip()

    for size in {*range(0, len(whole), max(1, len(whole) // 20)), len(whole) - 1}:
        source = Held({"cut.json": whole[:size]}, "cut.json")
        with pytest.raises(ArchiveError, match=r"cut\.json"):
            list(TelegramDesktop().read(source, ACCOUNT, Options(), Tally()))


class _Endless(Held):
    """A chat of many messages, made while it is read."""

    def open(self, name: str) -> Any:
        return _Stream(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        yield b'{"name": "Ops", "type": "private_group", "id": 1, "messages": ['
        for number in range(8_000):
            yield json.dumps(entry(number, text="x" * 500)).encode() + b","
        yield json.dumps(entry(8_000)).encode() + b"]}"


class _Stream:
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        return next(self._pieces, b"")


def test_a_large_chat_is_read_in_little_memory() -> None:
    tracemalloc.start()
    told = TelegramDesktop().read(_Endless({"result.json": b""}), ACCOUNT, Options(), Tally())

    number = sum(isinstance(item, InboundMessage) for item in told)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert number == 8_001
    assert peak < 6 * 1024 * 1024
