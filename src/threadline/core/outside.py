"""Addresses that users name and we call: which may be called, and the port that calls them.

Whoever may name an address could otherwise make this server knock at doors that only it can reach:
the cloud's metadata, a database on loopback, a printer. So a URL is judged when it is named, and
the address it leads to is judged again at each connect, because a name may change in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol
from urllib.parse import urlsplit

from threadline.core.errors import ThreadlineError
from threadline.core.model import Word

MAX_URL = 2_000
LOWEST_PORT = 1_024
PORTS = {"https": 443, "http": 80}

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\.?\Z)(?:{_LABEL}\.)*{_LABEL}\.?\Z", re.I)
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)\Z", re.I)
_PLAIN = re.compile(r"[!-~]+\Z")

_GLOBAL = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Not the internet, whatever a version of the standard library says: protocol assignments with
# Teredo, 6to4, documentation, the relay of 6to4, and the address a large cloud answers itself on.
_NOT_GLOBAL_6 = tuple(
    IPv6Network(one) for one in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NOT_GLOBAL_4 = tuple(
    IPv4Network(one)
    for one in ("0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "240.0.0.0/4")
)
_SHARED = IPv4Network("100.64.0.0/10")
_NOBODY = IPv4Network("0.0.0.0/8")
_RESERVED = IPv4Network("240.0.0.0/4")

Address = IPv4Address | IPv6Address


class AddressRefused(ThreadlineError):
    """The address may not be called from here."""

    status = 400


class Fault(Word):
    """What went wrong when an address was called; all that is kept of it."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    ADDRESS_REFUSED = "address_refused"
    REDIRECT = "redirect"
    RATE_LIMITED = "rate_limited"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    GONE = "gone"
    ANSWER_TOO_LARGE = "answer_too_large"
    WRONG_CHALLENGE = "wrong_challenge"
    NOT_ACKNOWLEDGED = "not_acknowledged"
    WRONG_ACKNOWLEDGEMENT = "wrong_acknowledgement"


class CallFailed(Exception):
    """There is no answer; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Place:
    """A URL taken apart once, so that what was judged is what is called."""

    scheme: str
    host: str
    port: int
    target: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address answered: header names in lower case, a body of bounded size."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Post(Protocol):
    """Calls an address once. Follows no redirect and no proxy, sends no cookie, repeats nothing."""

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer. Raises `CallFailed` where there is none, also for a refused address."""


class Outside(Protocol):
    """Where calls come from: opened for a while, and which addresses it allows."""

    allow_private: bool

    def open(self) -> AbstractAsyncContextManager[Post]:
        """Connections of one's own for as long as it is held."""


Chance = Callable[[], float]


def place(url: str, *, allow_private: bool = False) -> Place:
    """The parts of a URL that may be called. Raises `AddressRefused`, naming what is wrong.

    `https` only, and `http` where private addresses are allowed; no user, no fragment; a name, or
    an address as it is usually written, since other spellings are there to get past such checks.

    >>> place("https://hooks.example.com/in?x=1")
    Place(scheme='https', host='hooks.example.com', port=443, target='/in?x=1')
    """
    if not url or len(url) > MAX_URL or not _PLAIN.match(url) or "\\" in url:
        raise AddressRefused(
            f"a URL has 1 to {MAX_URL} printable ASCII characters; write other letters encoded.",
            field="url",
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise AddressRefused("this is no URL.", field="url") from None
    scheme = parts.scheme
    if scheme not in PORTS or (scheme == "http" and not allow_private):
        raise AddressRefused("the URL has to begin with https://.", field="url")
    if "@" in parts.netloc or "#" in url:
        raise AddressRefused("the URL holds neither a user nor a fragment.", field="url")
    port = PORTS[scheme] if port is None else port
    if port not in PORTS.values() and not LOWEST_PORT <= port <= 65_535:
        raise AddressRefused(f"the port is 443, 80 or {LOWEST_PORT} and above.", field="url")
    _judge_host(host, parts.netloc.startswith("["), allow_private)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(scheme, host, port, target)


def _judge_host(host: str, bracketed: bool, allow_private: bool) -> None:
    if not bracketed and not _NAME.match(host):
        raise AddressRefused("the host is neither a name nor an address.", field="url")
    numeric = _NUMBER.match(host.rstrip(".").rpartition(".")[2]) is not None
    if not bracketed and not numeric:
        return
    try:
        address = ip_address(host)
    except ValueError:
        raise AddressRefused("the host is no address as it is usually written.", field="url") from (
            None
        )
    if not may_connect(address, allow_private=allow_private):
        raise AddressRefused("the address is private, local or reserved.", field="url")


def may_connect(address: Address, *, allow_private: bool = False) -> bool:
    """Whether a connection to this address may be made.

    >>> [may_connect(ip_address(one)) for one in ("8.8.8.8", "10.0.0.1", "::ffff:127.0.0.1")]
    [True, False, False]
    >>> may_connect(ip_address("127.0.0.1"), allow_private=True)
    True
    """
    address = _inner(address)
    if address.is_multicast or address.is_unspecified:
        return False
    if _is_global(address):
        return True
    if not allow_private:
        return False
    if isinstance(address, IPv4Address):
        nowhere = address in _NOBODY or address in _RESERVED
        return not nowhere and (address.is_private or address in _SHARED)
    return address.is_loopback or address.is_link_local or address in IPv6Network("fc00::/7")


def _inner(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that leads to it."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address


def _is_global(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in net for net in _NOT_GLOBAL_4)
    within = address in _GLOBAL and address.scope_id is None
    return within and not any(address in net for net in _NOT_GLOBAL_6)
