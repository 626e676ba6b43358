"""No foreign page drives or reads anything, no foreign name is answered; also on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.http.conftest import Site, problem
from tests.http.guests import came_in, link
from threadline.core.errors import ConfigError
from threadline.entrypoints.http.buckets import Buckets, GuestLimits
from threadline.entrypoints.http.origins import Origins, checked_url, parted, split
from threadline.entrypoints.http.server import ServerSettings

ROUTES = [
    ("GET", "/v1/conversations"),
    ("POST", "/v1/conversations"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/chat/me"),
    ("POST", "/chat/messages"),
    ("POST", "/chat/guess"),
    ("GET", "/chat/stream"),
    ("GET", "/openapi.json"),
    ("OPTIONS", "/v1/conversations"),
    ("GET", "/nowhere"),
]


@pytest.fixture
async def browser(site: Site, boss: httpx.AsyncClient, lobby: str) -> httpx.AsyncClient:
    """A browser with both of our cookies, as a foreign page would make it call us."""
    made = await site.line.tokens.create("controller")
    client = (await came_in(site, (await link(boss, lobby))["url_path"], "Ada")).client
    csrf = (await client.post("/login", json={"token": made.token})).json()["csrf"]
    client.headers["X-CSRF-Token"] = csrf
    return client


@pytest.mark.acceptance("L5")
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:1",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "null",
        "",
        "file://",
        "chrome-extension://abc",
        "http://127.0.0.1.evil.example",
        "http://user@127.0.0.1",
    ],
)
async def test_a_page_of_another_origin_reads_and_drives_nothing(
    browser: httpx.AsyncClient, origin: str
) -> None:
    """Another port of this machine is another origin; so is what has none."""
    for method, path in ROUTES:
        answer = await browser.request(method, path, headers={"Origin": origin}, json={})
        problem(answer, 403, "foreign_origin")
        assert not {one for one in answer.headers if one.startswith("access-control-")}


@pytest.mark.acceptance("L5")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "rebound.evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example",
        "evil.localhost:{port}",
        "0.0.0.0:{port}",
        "localhost:80@evil.example",
        "127.0.0.1@evil.example:{port}",
        "[::1]evil.example",
        "[::1",
        "localhost:x",
        "",
    ],
)
async def test_a_name_that_is_not_ours_is_answered_nothing(
    site: Site, browser: httpx.AsyncClient, host: str
) -> None:
    """Though it leads here, with a matching origin and our cookies."""
    name = host.format(port=site.url.rpartition(":")[2])
    for method, path in ROUTES:
        headers = {"Host": name, "Origin": f"http://{name}"}
        problem(await browser.request(method, path, headers=headers, json={}), 421, "foreign_host")
        answer = await browser.request(method, path, headers={"Host": name}, json={})
        problem(answer, 421, "foreign_host")


@pytest.mark.acceptance("L5")
@pytest.mark.parametrize("headers", ["", "Host: localhost\r\nHost: evil.example\r\n"])
async def test_a_request_has_one_host(site: Site, headers: str) -> None:
    """None, or two of which another program might take the other."""
    port = int(site.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /openapi.json HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert answer.split()[1] in (b"421", b"400")
    assert b"openapi" not in answer


@pytest.mark.acceptance("L5")
@pytest.mark.parametrize("site_", ["cross-site", "same-site", "whatever"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [
        ("no-cors", "script"),
        ("no-cors", "image"),
        ("cors", "empty"),
        ("navigate", "iframe"),
        ("navigate", "embed"),
        ("websocket", "websocket"),
    ],
)
async def test_what_a_browser_fetches_for_another_page_is_refused(
    browser: httpx.AsyncClient, site_: str, mode: str, dest: str
) -> None:
    """Reading as well, without an origin as well: a neighbour's port is `same-site`."""
    headers = {"Sec-Fetch-Site": site_, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    for method, path in ROUTES:
        answer = await browser.request(method, path, headers=headers, json={})
        problem(answer, 403, "foreign_origin")


@pytest.mark.acceptance("L5")
async def test_a_person_may_follow_a_link_to_us(browser: httpx.AsyncClient) -> None:
    """As to a room; a form that another page sends is no visit."""
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    visit["Sec-Fetch-Dest"] = "document"

    assert (await browser.get("/openapi.json", headers=visit)).status_code == 200
    problem(await browser.post("/login", headers=visit, json={}), 403, "foreign_origin")


@pytest.mark.acceptance("L5")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "localhost.", "[::1]"])
async def test_our_own_page_and_programs_are_let_in(
    site: Site, browser: httpx.AsyncClient, name: str
) -> None:
    """Under every name of this machine, with its own origin or none."""
    host = f"{name}:{site.url.rpartition(':')[2]}"
    own = {"Host": host, "Origin": f"http://{host}".lower(), "Sec-Fetch-Site": "same-origin"}
    for headers in ({"Host": host}, own, {"Host": host, "Sec-Fetch-Site": "none"}):
        assert (await browser.get("/v1/conversations", headers=headers)).status_code == 200


@pytest.mark.acceptance("L5")
async def test_what_a_proxy_says_of_a_request_is_nobodys_word(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """It opens no door, names no address, and no link is made for it."""
    forwarded = {
        "X-Forwarded-Host": "127.0.0.1",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Proto": "https",
        "Forwarded": "host=127.0.0.1;proto=https;for=10.0.0.1",
    }
    answer = await boss.get("/v1/conversations", headers={"Host": "evil.example", **forwarded})
    problem(answer, 421, "foreign_host")
    claimed = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    made = await boss.post(f"/v1/conversations/{lobby}/links", json={}, headers=claimed)
    assert made.json()["url"].startswith(site.url)
    site.app.state.buckets = Buckets(GuestLimits(entries=1))
    for number in range(2):
        by = {"X-Forwarded-For": f"10.0.0.{number}"}
        last = await site.client().post("/chat/guess", json={"name": "Ada"}, headers=by)
    problem(last, 429, "limited")


def refused(settings: ServerSettings, **headers: str) -> str | None:
    """What the judge says of a request with these headers, by the code."""

    async def nobody(*_: Any) -> None:
        raise AssertionError("never called")

    judge = Origins(nobody, settings.names, settings.public_url)
    named = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    found = judge._refusal({"headers": named, "scheme": "http", "method": "GET"})
    return None if found is None else found.code


@pytest.mark.acceptance("L5")
def test_a_server_behind_a_certificate_is_its_public_address_and_no_other() -> None:
    """Known by name, with exactly its scheme and port."""
    there = ServerSettings(public_url="https://chat.example", allowed_hosts=("lan.example",))

    def asked(origin: str, host: str = "chat.example") -> str | None:
        return refused(there, host=host, origin=origin)

    assert asked("https://chat.example") is None
    assert asked("https://chat.example:443") is None
    assert asked("http://chat.example") == "foreign_origin"
    assert asked("https://chat.example:8443") == "foreign_origin"
    assert asked("http://lan.example", "lan.example") is None
    assert asked("https://lan.example", "lan.example") is None
    assert asked("https://lan.example:8443", "lan.example") == "foreign_origin"
    assert asked("https://chat.example", "other.example") == "foreign_host"


@pytest.mark.acceptance("L5")
def test_a_server_that_listens_everywhere_has_no_name_everywhere() -> None:
    """Only loopback and the names it was given; with a port they are the same names."""
    there = ServerSettings(host="0.0.0.0", allowed_hosts=("LAN.example:8080", ""))

    assert refused(there, host="lan.example:8080") is None
    assert refused(there, host="lan.example") is None
    assert refused(there, host="127.0.0.1:8080") is None
    assert refused(there, host="0.0.0.0:8080") == "foreign_host"
    assert refused(there, host="192.168.1.5:8080") == "foreign_host"
    assert refused(there, host="lan.example/") == "foreign_host"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("a.example:80", ("a.example", "80")),
        ("A.Example.", ("a.example", "")),
        ("[::1]:8080", ("::1", "8080")),
        ("[::1]:", ("", "")),
        ("a.example:", ("", "")),
        ("a.example:80:80", ("a.example:80:80", "")),
        ("\u00e4.example", ("", "")),
    ],
)
def test_an_address_is_read_exactly_or_not_at_all(given: str, read: tuple[str, str]) -> None:
    assert split(given) == read


def test_a_public_url_is_an_origin() -> None:
    assert parted("https://a.example/path") is None
    assert parted("ftp://a.example") is None
    assert checked_url("") == ""
    assert checked_url("https://chat.example/") == "https://chat.example/"
    for wrong in ("chat.example", "https://chat.example/there", "https://"):
        with pytest.raises(ConfigError):
            checked_url(wrong)
