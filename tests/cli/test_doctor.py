"""The likeliest mistakes, each found, named and explained; a home without one is well."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LOBBY, Done, Shell
from threadline import Threadline
from threadline.core.deliveries import Delivery, DeliveryState
from threadline.core.ids import number_of
from threadline.core.ports import DELIVERY, Changes, Loaded, Story
from threadline.entrypoints.cli.surroundings import file_system
from threadline.stores.postgres import open_postgres


def findings(done: Done) -> list[dict[str, Any]]:
    """What has to be done; the code says whether anything has."""
    assert done.code == (1 if done.json["findings"] else 0), done
    found: list[dict[str, Any]] = done.json["findings"]
    assert all(one["what"] and one["advice"] for one in found)
    return found


def only(done: Done) -> tuple[str, str]:
    """The one finding: what is wrong, and what to do."""
    [found] = findings(done)
    return found["what"], found["advice"]


def notes(done: Done) -> list[str]:
    """What may be meant so."""
    return [one["what"] for one in done.json["notes"]]


@contextmanager
def listener() -> Iterator[int]:
    """Another program on a port of this machine."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_a_good_home_is_well(ready: Shell) -> None:
    ready.joined("coder")

    done = ready("doctor", "--json")
    told = ready("doctor")

    assert findings(done) == []
    assert (done.json["well"], done.json["conversations"]) == (True, 1)
    assert told.code == 0
    assert "All is well, 1 conversation looked at." in told.out


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("THREADLINE_HSOT", "Did you mean THREADLINE_HOST?"),
        ("THREADLINE_ALLOWED_HOST", "Did you mean THREADLINE_ALLOWED_HOSTS?"),
        ("THREADLINE_KEYFILE", "Did you mean THREADLINE_KEY_FILE?"),
        ("THREADLINE_XYZZY", "Remove it."),
    ],
)
def test_a_misspelt_variable_is_named_with_the_nearest_there_is(
    ready: Shell, name: str, advice: str
) -> None:
    ready.settings[name] = "hush-value"

    done = ready("doctor", "--json")

    what, said = only(done)
    assert name in what
    assert said == advice
    assert "hush-value" not in done.out


def test_a_misspelt_setting_in_the_file_is_named_with_the_nearest_there_is(ready: Shell) -> None:
    (ready.folder / "home" / "threadline.toml").write_text("prot = 9000\n")

    done = ready("doctor", "--json")

    assert (done.code, done.error["code"]) == (2, "config_error")
    assert "prot (did you mean port?)" in done.error["message"]


def test_a_home_others_may_look_into_is_found(ready: Shell) -> None:
    home = ready.folder / "home"
    home.chmod(0o755)

    what, advice = only(ready("doctor", "--json"))

    assert str(home) in what
    assert advice == f"Run: chmod 700 {home}"


@pytest.mark.parametrize("name", ["threadline.db", "threadline.db.key"])
def test_a_file_others_may_read_is_found(ready: Shell, name: str) -> None:
    file = ready.folder / "home" / name
    file.chmod(0o640)

    _, advice = only(ready("doctor", "--json"))

    assert advice == f"Run: chmod 600 {file}"


def test_what_is_open_to_others_is_closed_to_them_where_it_is_asked_for(ready: Shell) -> None:
    home = ready.folder / "home"
    opened = {home: 0o755, ready.store: 0o640, Path(f"{ready.store}.key"): 0o604}
    for one, mode in opened.items():
        one.chmod(mode)

    done = ready.good("doctor", "--repair", "--json").json

    assert [oct(one.stat().st_mode & 0o777) for one in opened] == ["0o700", "0o600", "0o600"]
    assert sorted(done["repaired"]) == sorted(f"closed {one} to others" for one in opened)
    assert ready.good("doctor", "--repair", "--json").json["repaired"] == []


def linked(home: Path, elsewhere: Path) -> None:
    """The token is a link to a file that is not of the home."""
    (home / "admin.token").symlink_to(elsewhere)


def twice(home: Path, elsewhere: Path) -> None:
    """The token is a second name of such a file."""
    (home / "admin.token").hardlink_to(elsewhere)


def shared(home: Path, elsewhere: Path) -> None:
    """Something else lies in the home, for others to read."""
    (home / "index.html").touch()
    home.chmod(0o755)


def moved(home: Path, elsewhere: Path) -> None:
    """The home is a link to a folder elsewhere."""
    home.rename(elsewhere.parent / "moved")
    home.symlink_to(elsewhere.parent / "moved")
    home.chmod(0o755)


@pytest.mark.parametrize(
    ("laid", "why"),
    [
        (linked, "it is a link to something else"),
        (twice, "it has another name besides"),
        (shared, "it holds more than threadline's files: index.html"),
        (moved, "it is a link to something else"),
    ],
)
def test_what_may_be_anybodys_is_left_as_it_is_and_told(
    ready: Shell, tmp_path: Path, laid: Callable[[Path, Path], None], why: str
) -> None:
    home, elsewhere = ready.folder / "home", tmp_path / "elsewhere.txt"
    elsewhere.write_text("x")
    elsewhere.chmod(0o644)
    laid(home, elsewhere)
    before = [oct(one.stat().st_mode) for one in (home, elsewhere)]

    done = ready("doctor", "--repair", "--json")

    assert why in " ".join(one["advice"] for one in findings(done))
    assert [oct(one.stat().st_mode) for one in (home, elsewhere)] == before
    assert done.json["repaired"] == []


def test_a_repair_takes_from_others_and_gives_the_owner_nothing(ready: Shell) -> None:
    key = Path(f"{ready.store}.key")
    key.chmod(0o444)

    ready.good("doctor", "--repair")

    assert oct(key.stat().st_mode & 0o777) == "0o400"


def open_to_all() -> None:
    """Nothing is taken from the mode of a new file."""
    os.umask(0)


def test_what_init_makes_is_for_its_owner_only_whatever_the_umask(shell: Shell) -> None:
    done = shell("init", before=open_to_all)

    home = shell.folder / "home"
    modes = {one.name: oct(one.stat().st_mode & 0o777) for one in (home, *home.iterdir())}
    assert done.code == 0
    assert modes == {
        "home": "0o700",
        "threadline.db": "0o600",
        "threadline.db.key": "0o600",
        "threadline.db.lock": "0o600",
    }


def test_an_administrators_token_others_may_read_or_of_another_store_is_found(
    ready: Shell,
) -> None:
    token = ready.folder / "home" / "admin.token"
    token.write_text("tl_of_another_store\n")
    token.chmod(0o644)

    done = ready("doctor", "--json")

    advice = [one["advice"] for one in findings(done)]
    assert advice == [
        f"Run: chmod 600 {token}",
        "`threadline serve` writes a new one at its next start.",
    ]
    assert "tl_of_another_store" not in done.out


def test_a_server_for_everybody_that_knows_no_name_is_found(ready: Shell) -> None:
    ready.settings |= {"THREADLINE_HOST": "0.0.0.0", "THREADLINE_PORT": "0"}
    unnamed = ready("doctor", "--json")
    ready.settings["THREADLINE_ALLOWED_HOSTS"] = "ledger.example"
    named = ready("doctor", "--json")

    what, advice = only(unnamed)
    assert "0.0.0.0" in what
    assert "THREADLINE_ALLOWED_HOSTS" in advice
    assert findings(named) == []
    assert any("plain HTTP" in one for one in notes(named))


def test_a_port_that_another_program_has_is_found_where_somebody_served_before(
    ready: Shell,
) -> None:
    with listener() as port:
        ready.settings["THREADLINE_PORT"] = str(port)
        never = ready("doctor", "--json")
        (ready.folder / "home" / "admin.token").touch(0o600)
        before = ready("doctor", "--json")

    taken = f"port {port} is taken by another program."
    assert findings(never) == []
    assert taken in notes(never)
    assert taken in [one["what"] for one in findings(before)]


@contextmanager
def serving(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    """`threadline serve` on this home's store; its port becomes the setting."""
    process = shell.start("serve", "--port", "0", "--json")
    assert process.stdout is not None
    line = process.stdout.readline()
    shell.settings["THREADLINE_PORT"] = line.split('"')[3].rpartition(":")[2]
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_beside_our_own_server_all_is_well(ready: Shell) -> None:
    ready.joined("coder")
    with serving(ready):
        done = ready("doctor", "--json")

    assert findings(done) == []
    assert done.json["facts"]["server"] == "runs on this store"


def test_a_port_of_a_threadline_on_another_store_is_told_apart(
    ready: Shell, tmp_path: Path
) -> None:
    other = Shell(tmp_path / "other")
    other.folder.mkdir()
    (ready.folder / "home" / "admin.token").touch(0o600)
    with serving(other):
        ready.settings["THREADLINE_PORT"] = other.settings["THREADLINE_PORT"]
        done = ready("doctor", "--json")

    assert any("serves another store" in one["what"] for one in findings(done))


def test_a_socket_of_a_server_that_was_killed_is_told_and_removed(ready: Shell) -> None:
    with serving(ready) as process:
        process.kill()
        process.wait(60)
    del ready.settings["THREADLINE_PORT"]
    ready.joined("coder")
    hatch = ready.folder / "home" / "threadline.db.hatch"
    assert hatch.exists()

    told = ready("doctor", "--json")
    repaired = ready("doctor", "--repair", "--json")

    assert findings(told) == []
    assert any(str(hatch) in one for one in notes(told))
    assert any(str(hatch) in one for one in repaired.json["repaired"])
    assert not hatch.exists()


def few_files() -> None:
    """This process may open few files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


def test_a_low_limit_of_open_files_is_found(ready: Shell) -> None:
    what, advice = only(ready("doctor", "--json", before=few_files))

    assert "only 512 files" in what
    assert "ulimit" in advice


def test_a_store_that_is_not_there_is_found(shell: Shell) -> None:
    what, _ = only(shell("doctor", "--json"))

    assert "threadline init" in what
    assert not shell.store.parent.exists()


def test_a_session_that_is_far_behind_is_found(ready: Shell) -> None:
    ready.joined("slow")
    ready.heard(*(f"message {number}" for number in range(1_000)))

    what, advice = only(ready("doctor", "--json"))

    assert LOBBY in what
    assert "'slow' is 1,000 entries behind" in what
    assert f"threadline leave {LOBBY} slow" in advice


def test_a_conversation_without_a_reader_is_noted_and_no_fault(ready: Shell) -> None:
    done = ready("doctor", "--json")

    assert findings(done) == []
    assert f"1 conversation with messages and no reader: {LOBBY}." in notes(done)


class Doubt(Story[None]):
    """A send whose outcome nobody knows."""

    def __init__(self, conversation: int) -> None:
        self.conversation = conversation

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """One row, as a crash between the call and its answer leaves it."""
        changes = Changes()
        row = Delivery(
            conversation=self.conversation, id=1, session=1, state=DeliveryState.UNCERTAIN,
            right="group", created_at=now, text="perhaps",
        )  # fmt: skip
        changes.put(DELIVERY, (self.conversation, 1), row)
        return changes, None


def test_a_delivery_of_unknown_outcome_is_found(ready: Shell) -> None:
    ready.joined("coder")

    async def doubt(line: Threadline) -> None:
        state = await line.conversations.show(LOBBY)
        number = number_of(state.id)
        assert number is not None
        await line.store.run(Doubt(number))

    ready.inside(doubt)
    done = ready("doctor", "--json")

    what, advice = only(done)
    assert "1 message" in what
    assert "threadline deliveries" in advice
    assert "perhaps" not in done.out


def test_a_database_whose_clock_is_wrong_is_found(
    postgres_url: str, tmp_path: Path, shell: Shell
) -> None:
    """The store's clock judges leases, expiry and how old a message is."""
    from threadline.config import Settings
    from threadline.entrypoints.cli.door import Line
    from threadline.entrypoints.cli.health import _clock
    from threadline.entrypoints.cli.report import Report

    report = Report()

    async def look() -> None:
        store = await open_postgres(
            postgres_url, bytes(32), clock=lambda: datetime.now(UTC) - timedelta(seconds=90)
        )
        await _clock(report, Line(Threadline(store), Settings()))
        await store.close()

    asyncio.run(look())

    [finding] = report.findings
    assert "90 seconds behind" in finding.what
    assert "time server" in finding.advice


MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv rw shared:5 - nfs4 files:/srv rw
31 30 8:2 / /srv/fast rw - xfs /dev/sdb rw
32 22 0:41 / /home/ada/My\040Share rw - cifs //nas/share rw
33 22 0:42 / /srvother rw - fuse.sshfs ada@host: rw
""".strip()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/threadline", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/threadline", "nfs4"),
        ("/srv/fast/threadline", "xfs"),
        ("/home/ada/My Share/x", "cifs"),
        ("/srvother", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system(Path(folder), MOUNTS) == kind


def test_everything_wrong_at_once_is_one_list(ready: Shell) -> None:
    ready.settings |= {"THREADLINE_HOST": "0.0.0.0", "THREADLINE_PORT": "0", "THREADLINE_PROT": "1"}
    (ready.folder / "home").chmod(0o777)
    ready.store.chmod(0o666)
    Path(f"{ready.store}.key").write_text("ab" * 32)

    told = ready("doctor")
    done = ready("doctor", "--json")

    assert len(findings(done)) == 5
    for finding in findings(done):
        assert finding["what"] in told.out
        assert finding["advice"] in told.out
