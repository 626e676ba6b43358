"""Whether Twilio signed a request: over the URL it was told to call, not the one that reached us.

Behind a proxy the two differ, and a forwarded header is anybody's word, so the URL is configured.
There is no time in the signature: what comes twice is known by its id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit

from threadline.core.wire import Request

FORM = "application/x-www-form-urlencoded"
HASHES = {"HMAC_SHA1": hashlib.sha1, "HMAC_SHA256": hashlib.sha256}
BODY_HASH = "bodySHA256"
MAX_FIELDS = 500

Fields = Sequence[tuple[str, str]]


def is_signed(request: Request, url: str, token: str, shared_key: str) -> bool:
    """Whether the account's token, or the shared key where the request names one, made it.

    `url` is the public one without a query. Total: anything odd is False.
    """
    settings = request.headers.get("x-twilio-webhooks-signature-settings", "").strip()
    secret, algorithm = (shared_key, _algorithm(settings)) if settings else (token, "HMAC_SHA1")
    given = request.headers.get("x-twilio-signature", "")
    if not (url and secret and given) or algorithm not in HASHES:
        return False
    body = ""
    if is_form(request):
        fields = form(request.body)
        if fields is None:
            return False
        body = signed_fields(fields)
    elif not _is_body(request):
        return False
    found = False
    for one in _spellings(url, request.query):
        made = signature(one + body, secret, algorithm)
        found = hmac.compare_digest(_bytes(made), _bytes(given)) or found
    return found


def signature(words: str, secret: str, algorithm: str = "HMAC_SHA1") -> str:
    """The signature of a URL with its fields behind it."""
    mac = hmac.new(_bytes(secret), _bytes(words), HASHES[algorithm])
    return base64.b64encode(mac.digest()).decode()


def signed_fields(fields: Fields) -> str:
    """The fields as Twilio signs them: sorted, each value once, nothing trimmed, blanks kept."""
    return "".join(name + value for name, value in sorted(set(fields)))


def is_form(request: Request) -> bool:
    """Whether the body is a form, as it says."""
    given = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
    return given == FORM


def form(body: bytes) -> list[tuple[str, str]] | None:
    """The fields of a form, blank ones too; None where it is none."""
    try:
        text = body.decode("utf-8", "surrogateescape")
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        return None


def _is_body(request: Request) -> bool:
    """A body that is no form is signed through its hash in the query."""
    given = request.query.get(BODY_HASH, "")
    made = hashlib.sha256(request.body).hexdigest()
    return hmac.compare_digest(_bytes(given), _bytes(made))


def _spellings(url: str, query: Mapping[str, str]) -> Iterator[str]:
    """The URL as Twilio may have written it: with and without its port, its query both ways."""
    tails = {""}
    if query:
        pairs = list(query.items())
        tails = {
            "?" + urlencode(pairs, quote_via=way, errors="surrogatepass")
            for way in (quote, quote_plus)
        }
    for address in _ports(url):
        for tail in tails:
            yield address + tail


def _ports(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return {url}
    host = parts.netloc
    bare = host.removesuffix(f":{port}") if port else host
    full = host if port else f"{host}:{443 if parts.scheme == 'https' else 80}"
    return {parts._replace(netloc=one).geturl() for one in (bare, full)}


def _algorithm(settings: str) -> str:
    for part in settings.split(","):
        name, mark, value = part.partition("=")
        if mark and name.strip() == "algorithm":
            return value.strip().upper()
    return "HMAC_SHA1"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
