"""Files over HTTP, from the command line and by the client: saved, never run, never a path."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Store
from tests.files.conftest import ADA, PICTURE, ROOM, Scene, http, scene_on
from tests.http.conftest import Served, Site, problem, running
from tests.http.conftest import served as served
from tests.http.guests import came_in, link
from threadline.client import Session
from threadline.core.errors import FileGone
from threadline.core.files import NAME_BYTES, disposition, safe_name
from threadline.core.model import Attachment, InboundMessage
from threadline.entrypoints.cli.filing import saved
from threadline.testing.simulation import Simulation

PAGE = b"<html><script>top.pwned=1;alert(document.cookie)</script><img src=x onerror=alert(1)>"
HOSTILE = (
    *("../../etc/passwd", "..\\..\\windows\\x", "/etc/cron.d/x", "C:\\x", "a\x00b", "", ".", ".."),
    *("CON", "con.txt", "LPT1.log", "\u202egnp.exe", "a\r\nSet-Cookie: x=1\r\n\r\n<html>", "-rf"),
    *('a".html', "a;b.sh", "x" * 300 + ".png", "🎉" * 200 + ".png", "~", " . . ", "a/../b", "%2e"),
    *("naïve.txt", "日本語.pdf", "\ud800.txt", "a\u200bb", "x\n", "nul", "a:b", "..", "`id`"),
)


@pytest.fixture
async def site(scene: Scene) -> AsyncIterator[Site]:
    """A server on the scene's line."""
    async with running(scene.line) as made:
        yield made


def place(site: Site, room: str, at: int, number: int = 0) -> str:
    """Where a file is."""
    return f"/v1/conversations/{room}/records/{at}/attachments/{number}"


async def room_of(scene: Scene) -> str:
    """The room's id."""
    return (await scene.line.conversations.show(ROOM)).id


@pytest.mark.acceptance("I5")
@pytest.mark.case("B182")
async def test_whatever_came_is_saved_and_never_shown_as_a_page(scene: Scene, site: Site) -> None:
    boss = await site.controller()
    for kind, name in (("text/html", "x.html"), ("image/svg+xml", "x.svg"), ("photo", "")):
        at = await scene.shares(f"/a/{name}", http(PAGE), type=kind, name=name)
        answer = await boss.get(place(site, await room_of(scene), at))

        assert answer.status_code == 200, answer.text
        assert answer.content == PAGE
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        assert answer.headers["content-length"] == str(len(PAGE))
        digest = base64.b64encode(hashlib.sha256(PAGE).digest()).decode()
        assert answer.headers["content-digest"] == f"sha-256=:{digest}:"
    at = await scene.shares("/a/png", http(PICTURE), type="image/png", name="cat.png")
    shown = await boss.get(place(site, await room_of(scene), at))
    assert shown.headers["content-type"] == "image/png"
    assert 'filename="cat.png"' in shown.headers["content-disposition"]


@pytest.mark.case("B100")
async def test_a_name_with_line_ends_makes_no_header(scene: Scene, site: Site) -> None:
    boss, room = await site.controller(), await room_of_any(scene)
    for number, name in enumerate(one for one in HOSTILE if "\x00" not in one):
        at = await scene.shares(f"/n/{number}", http(PICTURE), name=name)
        answer = await boss.get(place(site, room, at))

        assert answer.content == PICTURE, name
        assert "set-cookie" not in answer.headers
        assert answer.headers["content-disposition"].isascii()


async def room_of_any(scene: Scene) -> str:
    """The room's id, also before anything was said in it."""
    return (await scene.line.conversations.ensure(ROOM)).id


async def test_who_may_not_read_the_record_gets_a_problem(scene: Scene, site: Site) -> None:
    room, boss = await room_of_any(scene), await site.controller()
    old = await scene.shares("/a/1", http(PICTURE))
    gone = await scene.shares("/a/2", http(b"", "404 Not Found"))
    down = await scene.shares("/a/3", http(b'{"retry_after": 7.0}', "429 Slowly"))
    strange = await scene.says(Attachment(url="http://169.254.169.254/"))
    await scene.line.members.join(ROOM, "late", policy="since_join")
    new = await scene.shares("/a/4", http(PICTURE))
    late, other = await site.session("late"), await site.session("other")

    assert (await late.get(place(site, room, new))).content == PICTURE
    problem(await late.get(place(site, room, old)), 404, "not_found")
    problem(await other.get(place(site, room, new)), 404, "not_found")
    problem(await boss.get(place(site, room, old), params={"session": "late"}), 404, "not_found")
    problem(await site.client().get(place(site, room, new)), 401, "unauthenticated")
    problem(await (await site.adapter()).get(place(site, room, new)), 403, "unauthorized")
    problem(await boss.get(place(site, room, old, 1)), 404, "not_found")
    problem(await boss.get(place(site, room, gone)), 410, "file_gone")
    problem(await boss.get(place(site, room, strange)), 403, "file_forbidden")
    told = problem(await boss.get(place(site, room, down)), 502, "file_unreachable")
    assert told["facts"]["retry_after"] == 7.0
    for odd in ("9" * 5000, "-9" * 30, "x", "1e3"):
        answer = await boss.get(f"/v1/conversations/{room}/records/{odd}/attachments/0")
        assert answer.status_code in (400, 404), odd


async def test_a_guest_has_the_files_of_what_it_reads(scene: Scene, site: Site) -> None:
    room, boss = await room_of_any(scene), await site.controller()
    old = await scene.shares("/a/1", http(PICTURE))
    made = await link(boss, room)
    ann = await came_in(site, made["url_path"], "Ann")
    new = await scene.shares("/a/2", http(PICTURE))
    page = (await ann.client.get("/chat/messages")).json()

    assert page["records"][0]["attachments"][0]["url"] == ""
    answer = await ann.client.get(f"/chat/messages/{new}/attachments/0")
    assert (answer.status_code, answer.content) == (200, PICTURE)
    problem(await ann.client.get(f"/chat/messages/{old}/attachments/0"), 404, "not_found")
    await boss.delete(f"/v1/links/{made['id']}")
    problem(await ann.client.get(f"/chat/messages/{new}/attachments/0"), 401, "unauthenticated")


async def test_the_client_fetches_a_file_of_a_record(scene: Scene, site: Site) -> None:
    await room_of_any(scene)
    await scene.line.members.join(ROOM, "reader", policy="all")
    at = await scene.shares("/a/1", http(PICTURE), name="cat.png")
    gone = await scene.shares("/a/2", http(b"", "404 Not Found"))
    made = await scene.line.tokens.create("session", session="reader")

    async with Session(site.url, made.token or "", patience=5) as session:
        async for record in session.inbox(every=True, acknowledge=False):
            assert await session.file(record) == PICTURE
            break
        assert await session.file(await room_of(scene), sequence=at) == PICTURE
        with pytest.raises(FileGone):
            await session.file(await room_of(scene), sequence=gone)
        await scene.line.conversations.ensure("web/office/lobby")
        await scene.line.speakers.bind("web/office/lobby", "reader")
        lobby = (await scene.line.conversations.show("web/office/lobby")).id
        sent = await session.say(lobby, "", files=[await session.give(PICTURE, "cat.png")])
        assert await session.file(lobby, sequence=sent.sequence or 0) == PICTURE


@given(st.text(max_size=400) | st.sampled_from(HOSTILE))
@pytest.mark.case("B100")
def test_no_name_is_a_path_or_a_command_or_unseen(name: str) -> None:
    made = safe_name(name)

    assert made not in ("", ".", "..")
    assert not set(made) & set('/\\\x00:*?"<>|%;\r\n')
    assert len(made.encode()) <= NAME_BYTES + 1
    assert made.isprintable()
    assert not made.startswith(("-", ".", "~", " "))
    assert Path("/base").joinpath(made).parent == Path("/base")
    assert safe_name(made) == made
    header = disposition(made)
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2


@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=40), min_size=1, max_size=6))
def test_what_is_saved_overwrites_nothing_and_leaves_the_folder_never(names: list[str]) -> None:
    with TemporaryDirectory() as outside:
        folder = Path(outside) / "here"
        folder.mkdir()
        (Path(outside) / "victim").write_bytes(b"mine")
        paths = []
        for number, name in enumerate(names):
            safe = safe_name(name)
            if number == 0:
                # Somebody laid a link where the name will be.
                (folder / safe).symlink_to(Path(outside) / "victim")
            paths.append(saved(folder, safe, io.BytesIO(str(number).encode())))

        assert len(set(paths)) == len(names)
        assert [one.read_bytes() for one in paths] == [
            str(number).encode() for number in range(len(names))
        ]
        assert {one.parent for one in paths} == {folder}
        assert (Path(outside) / "victim").read_bytes() == b"mine"
        assert {one.name for one in Path(outside).iterdir()} == {"here", "victim"}


async def test_a_disk_that_is_full_loses_nobody_a_record(store: Store, tmp_path: Path) -> None:
    """Where nothing can be kept the bytes are refused, and the next reader asks again."""
    folder = tmp_path / "files"
    async with scene_on(store, folder) as scene:
        at = await scene.shares("/a/1", http(PICTURE))
        folder.write_text("not a folder")
        with pytest.raises(OSError, match="files"):
            await scene.line.files.open(ROOM, at)
        folder.unlink()
        assert await scene.line.files.read(ROOM, at) == PICTURE


def test_a_file_somebody_sends_is_saved_from_the_command_line(
    served: Served, telegram: Simulation
) -> None:
    served.stop()
    served.settings["THREADLINE_ADAPTERS_ALLOW_PRIVATE"] = "true"
    served.start()
    given_ = {**telegram.credentials, "api": telegram.url}
    with served.client() as boss:
        made = boss.post("/v1/accounts", json={"provider": "telegram", "given": given_})
        assert made.status_code == 200, made.text
        telegram.do("say", chat=51, text="see", file={"name": "../no te.txt", "text": "hello"})
        telegram.idle()
        [room] = boss.get("/v1/conversations").json()["conversations"]
        answer = boss.get(f"/v1/conversations/{room['id']}/records/1/attachments/0")
        assert answer.content == b"hello"
    ref = room["text"]
    listed = json.loads(served.command("files", ref, "1", "--json").stdout)
    assert [one["name"] for one in listed["files"]] == ["no te.txt"]
    assert "no te.txt" in served.command("files", ref, "1").stdout
    downloads = served.folder / "downloads"
    downloads.mkdir()
    for name in ("no te.txt", "no te (1).txt"):
        done = served.command("save", ref, "1", "--to", "downloads", "--json")
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        assert told["path"] == f"downloads/{name}"
        assert (downloads / name).read_bytes() == b"hello"
    missing = served.command("save", ref, "1", "3")
    assert missing.returncode == 3
    assert "1 files" in missing.stderr
    with served.client() as boss:
        bound = {"session_id": "coder", "policy": "all"}
        made = boss.put(f"/v1/conversations/{room['id']}/binding", json=bound)
        assert made.status_code == 200, made.text
    sent = served.command(
        *("publish", ref, "back", "--as", "coder", "--key", "k", "--file", "downloads/no te.txt")
    )
    assert sent.returncode == 0, sent.stderr
    [effect] = telegram.effects("message", place="51", at_least=1)
    assert (effect["text"], effect["file"]["file_name"]) == ("back", "no te.txt")
    # The same bytes lie on the server's disk once, whoever asked.
    kept = list((served.home / "threadline.db.files" / "blobs").iterdir())
    assert [one.read_bytes() for one in kept] == [b"hello"]


async def test_a_record_that_was_copied_to_a_thread_has_its_files_there(scene: Scene) -> None:
    at = await scene.shares("/a/1", http(PICTURE))
    other = await scene.line.inbound.append(
        InboundMessage(
            conversation=ROOM,
            actor=ADA,
            attachments=(Attachment(id="/a/1", url=scene.platform.url + "/a/1"),),
        )
    )
    assert other.record is not None
    for one in (at, other.record.sequence):
        assert await scene.line.files.read(ROOM, one) == PICTURE
    # The bytes are one, under two names.
    assert len(scene.kept()) == 1
