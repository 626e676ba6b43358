"""Where files may be fetched from, and what goes along: judged on values alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.adapters.registry import OURS, Provider, load
from threadline.core.adapters import Account, Fetching
from threadline.core.files import onwards, origin_of, pinned, safe_type
from threadline.core.forms import media_type, multipart
from threadline.core.model import Attachment
from threadline.core.outside import AddressRefused
from threadline.core.wire import ApiCall, ApiResponse, Part

HOSTS = ("https://api.example.org/v26.0", "https://*.cdn.example.org", "http://127.0.0.1:81")


@pytest.mark.acceptance("I5")
def test_hosts_are_compared_whole() -> None:
    for url in (
        "https://api.example.org/x",
        "https://API.example.org:443/x?y=1",
        "https://a.cdn.example.org/x",
        "https://a.b.cdn.example.org/x",
    ):
        assert pinned(url, HOSTS).scheme == "https"
    for url in (
        "https://cdn.example.org/x",
        "https://evilcdn.example.org/x",
        "https://api.example.org.evil.test/x",
        "https://api.example.org:8443/x",
        "http://api.example.org/x",
        "https://api.example.org@evil.test/x",
        "https://evil.test/https://api.example.org/",
        "https://api.example.org\\@evil.test/x",
        "https://127.0.0.1:8181/",
        "//api.example.org/x",
        "ftp://api.example.org/x",
        "https://[::1]/",
        "https://2130706433/",
        "",
    ):
        with pytest.raises(AddressRefused):
            pinned(url, HOSTS)
    with pytest.raises(AddressRefused):
        pinned("https://api.example.org/x", ())


@given(st.text(max_size=60))
def test_whatever_is_no_address_is_refused_and_never_an_error(url: str) -> None:
    with pytest.raises(AddressRefused):
        pinned(url, HOSTS)
    assert origin_of(url) == "" or "//" in url


@pytest.mark.acceptance("I5")
def test_credentials_stay_where_they_were_meant_for() -> None:
    headers = {"authorization": "Bearer x", "Cookie": "a=b", "accept": "*/*"}
    call = ApiCall(method="GET", url="https://api.example.org/a/b", headers=headers, secret="s")

    def sent_to(location: str, status: int = 302) -> ApiCall | None:
        return onwards(call, ApiResponse(status=status, headers={"location": location}))

    near, far = sent_to("../c"), sent_to("https://cdn.example.org/c")
    assert near is not None
    assert far is not None
    assert (near.url, near.headers, near.secret) == ("https://api.example.org/c", headers, "s")
    assert (far.headers, far.secret) == ({"accept": "*/*"}, "")
    other = sent_to("https://api.example.org:8443/c")
    assert other is not None
    assert other.headers == {"accept": "*/*"}
    assert sent_to("http://[", 302) is None
    assert sent_to("", 302) is None
    assert sent_to("/c", 200) is None


@given(st.text(max_size=80), st.text(max_size=40), st.binary(max_size=200))
def test_a_form_holds_one_file_whatever_it_is_called(name: str, kind: str, content: bytes) -> None:
    file = Attachment(id="f", name=name, type=kind)
    body = multipart([Part(name="a", value="1"), Part(name="file", file=file)], {"f": content}, "B")
    head, _, rest = body.partition(b'name="file"')

    assert head.startswith(b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--B\r\n')
    line, _, sent = rest.partition(b"\r\n\r\n")
    assert line.count(b"\r\n") == 1
    assert line.count(b'"') == 2
    assert sent == content + b"\r\n--B--\r\n"


@given(st.text(max_size=40))
def test_a_type_makes_no_header(kind: str) -> None:
    for made in (media_type(kind), safe_type(kind)):
        assert made.isascii()
        assert made.count("/") == 1
        assert not set(made) & set("\r\n;, ")


@pytest.mark.parametrize("provider", OURS, ids=lambda one: one.name)
def test_whoever_hands_out_files_says_where_they_are(provider: Provider) -> None:
    """A dialect without hosts would hand out nothing, and nobody would notice."""
    account = Account(scope_id="default", provider=provider.name, account_id="a")
    dialect = load(provider.dialect, provider)(account)

    assert isinstance(dialect, Fetching)
    assert all(origin_of(one.replace("*.", "")) for one in dialect.hosts)
    assert len(dialect.hosts) >= 1
