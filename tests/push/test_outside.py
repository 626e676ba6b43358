"""Addresses that users name: no spelling of them, and no name, leads to a door inside."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.push.receiver import Receiver, receiving
from threadline.core.outside import AddressRefused, CallFailed, Fault, may_connect, place
from threadline.transports.guarded import Guarded

BODY = b'{"type": "challenge", "challenge": "x"}'
PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808")
PRIVATE = (
    *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "::1", "fe80::1", "fe80::1%eth0"),
    *("fc00::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
)
NOWHERE = (
    *("0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "ff02::1", "ff0e::1", "::ffff:0.0.0.0", "::ffff:224.0.0.1", "64:ff9b::"),
)
NOT_GLOBAL = (
    *("192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"),
    *("168.63.129.16", "2002:7f00:1::", "2002:808:808::", "2001::1", "2001:db8::1", "3fff::1"),
    *("64:ff9b:1::7f00:1", "::127.0.0.1", "::8.8.8.8", "fec0::1", "100::1", "5f00::1", "4000::1"),
)
URLS = (
    *("", "hooks.example.com", "//hooks.example.com/", "https://", "https:///x", "https:/x"),
    *("ftp://hooks.example.com/", "file:///etc/passwd", "gopher://x.example/", "unix:/run/x.sock"),
    *("javascript:alert(1)", "data:text/plain,x", "http://hooks.example.com/"),
    *("https://user@hooks.example.com/", "https://a:b@hooks.example.com/", "https://@x.example/"),
    *("https://x.example@127.0.0.1/", "https://127.0.0.1#@x.example/", "https://x.example/#y"),
    *("https://x.example\\@127.0.0.1/", "https://x.example/ y", "https://x.example/\r\nA: b"),
    *("https://x.example/\x00", "https://x.exam\tple/", " https://x.example/"),
    *("https://x.example:0/", "https://x.example:22/", "https://x.example:25/"),
    *("https://x.example:99999/", "https://x.example:abc/", "https://x.example:-1/"),
    *("https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://017700000001/"),
    *("https://0177.0.0.1/", "https://127.1/", "https://127.0.1/", "https://127.0.0.1./"),
    *("https://127.0.0.01/", "https://0/", "https://0x/", "https://8.8.8.8.8/", "https://x.0x7f/"),
    *("https://1.2.3/", "https://256.1.1.1/", "https://[::1/", "https://::1/", "https://[x]/"),
    *("https://１２７.0.0.1/", "https://ⓛocalhost/", "https://ex\u00e4mple.com/", "https://x。y/"),
    *("https://%31%32%37.0.0.1/", "https://x..y/", "https://.x/", "https://-x.example/"),
    *(f"https://{'x' * 64}.example/", f"https://x.example/{'y' * 2_000}"),
)


def bracketed(address: str) -> str:
    """An address as a URL holds it."""
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_is_no_plain_https_url_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        place(url)
    assert refused.value.facts["field"] == "url"


@pytest.mark.parametrize("address", [*PRIVATE, *NOWHERE, *NOT_GLOBAL])
def test_an_address_inside_is_refused_as_written(address: str) -> None:
    with pytest.raises(AddressRefused):
        place(bracketed(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert may_connect(ip_address(address))
    assert place(bracketed(address)).host == address


@pytest.mark.parametrize("address", [*PRIVATE, *NOWHERE, *NOT_GLOBAL])
def test_no_connection_is_made_to_an_address_inside(address: str) -> None:
    assert not may_connect(ip_address(address))


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_may_be_allowed(address: str) -> None:
    assert may_connect(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", NOWHERE)
def test_an_address_that_is_nobodys_is_never_allowed(address: str) -> None:
    assert not may_connect(ip_address(address), allow_private=True)


def test_a_url_is_taken_apart_once() -> None:
    """What was judged is what is called: no second parser reads it."""
    found = place("https://Hooks.Example.com:8443/in/x?y=1&z=@127.0.0.1")

    assert (found.host, found.port) == ("hooks.example.com", 8443)
    assert found.target == "/in/x?y=1&z=@127.0.0.1"


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["93.184.215.14", "127.0.0.1"],
        ["127.0.0.1", "93.184.215.14"],
        ["169.254.169.254"],
        ["0.0.0.0"],
        ["fe80::1%lo"],
    ],
)
async def test_a_name_that_leads_inside_is_refused_where_it_connects(addresses: list[str]) -> None:
    """One such address is enough, and nobody is connected to."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return addresses

    async with receiving() as canary, Guarded(resolve=resolve).open() as post:
        with pytest.raises(CallFailed) as failed:
            await post(f"https://inside.example:{canary.port}/", {}, BODY)

        assert canary.connections == 0
    assert (failed.value.fault, asked) == (Fault.ADDRESS_REFUSED, ["inside.example"])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
async def test_a_real_name_of_this_machine_is_refused(host: str) -> None:
    """As the system's own look-up answers."""
    async with receiving() as canary, Guarded().open() as post:
        with pytest.raises(CallFailed) as failed:
            await post(f"https://{host}:{canary.port}/", {}, BODY)

        assert canary.connections == 0
    assert failed.value.fault is Fault.ADDRESS_REFUSED


@pytest.mark.parametrize("url", ["https://127.0.0.1:{port}/", "https://[::ffff:7f00:1]:{port}/"])
async def test_a_url_is_judged_again_when_it_is_called(url: str) -> None:
    """Whatever was allowed when it was set."""
    async with receiving() as canary, Guarded().open() as post:
        with pytest.raises(CallFailed) as failed:
            await post(url.format(port=canary.port), {}, BODY)

        assert canary.connections == 0
    assert failed.value.fault is Fault.ADDRESS_REFUSED


async def test_a_name_that_changes_between_look_ups_is_judged_each_time() -> None:
    """Public while it is set, inside when it is called: the classic rebinding."""
    answers = [["93.184.215.14"], ["127.0.0.1"]]

    async def resolve(host: str, port: int) -> list[str]:
        return answers.pop(0)

    await resolve("when it is set", 443)
    async with receiving() as canary, Guarded(resolve=resolve).open() as post:
        with pytest.raises(CallFailed) as failed:
            await post(f"https://rebind.example:{canary.port}/", {}, BODY)

        assert canary.connections == 0
    assert (failed.value.fault, answers) == (Fault.ADDRESS_REFUSED, [])


async def test_the_address_that_was_judged_is_the_one_connected_to(receiver: Receiver) -> None:
    """The name is looked up once a connection; the request still says the name."""
    looked_up: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    async with Guarded(allow_private=True, resolve=resolve).open() as post:
        answer = await post(f"http://hooks.example:{receiver.port}/in?x=1", {}, BODY)

    assert answer.status == 200
    assert looked_up == ["hooks.example"]
    [got] = receiver.challenges
    assert (got.target, got.headers["host"]) == ("/in?x=1", f"hooks.example:{receiver.port}")


async def test_no_proxy_of_the_environment_is_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with Guarded(allow_private=True).open() as post:
            await post(receiver.url, {}, BODY)

        assert proxy.connections == 0
    assert len(receiver.challenges) == 1


def certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this name: where it lies, and a server that has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / "cert.pem", folder / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return file, context


async def test_tls_is_about_the_name_although_an_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right certificate is taken, that of another name is not, and nothing is sent to it."""
    file, context = certificate(tmp_path, "hooks.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    guarded = Guarded(allow_private=True, resolve=resolve)
    async with receiving(context) as server, guarded.open() as post:
        answer = await post(f"https://hooks.example:{server.port}/", {}, BODY)
        with pytest.raises(CallFailed) as failed:
            await post(f"https://other.example:{server.port}/", {}, BODY)

    assert (answer.status, failed.value.fault) == (200, Fault.UNREACHABLE)
    assert asked == ["hooks.example", "other.example"]
    assert len(server.challenges) == 1


async def test_nobody_there_is_unreachable() -> None:
    async with receiving() as gone:
        url = gone.url
    async with Guarded(allow_private=True).open() as post:
        with pytest.raises(CallFailed) as failed:
            await post(url, {}, BODY)

    assert failed.value.fault is Fault.UNREACHABLE
