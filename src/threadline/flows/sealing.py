"""Secrets at rest: sealed under a key derived from the store's own, which is never written down."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping

from threadline.core.errors import WrongKey
from threadline.core.ports import Loaded

NONCE = 12
PURPOSE = b"threadline secret"


def nonce() -> bytes:
    """Fresh chance for one sealing."""
    return secrets.token_bytes(NONCE)


def seal(loaded: Loaded, secret: str, fresh: bytes) -> str:
    """The secret as it may lie in the database; `fresh` is a `nonce()` used once."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    sealed = ChaCha20Poly1305(_key(loaded)).encrypt(fresh, secret.encode(), PURPOSE)
    return base64.b64encode(fresh + sealed).decode()


def unseal(loaded: Loaded, sealed: str) -> str:
    """The secret. Raises `WrongKey` where it was sealed under another key, or bent."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    data = base64.b64decode(sealed)
    try:
        opened = ChaCha20Poly1305(_key(loaded)).decrypt(data[:NONCE], data[NONCE:], PURPOSE)
    except InvalidTag:
        raise WrongKey("a secret in it cannot be opened.") from None
    return opened.decode()


def sealable(credentials: Mapping[str, str]) -> str:
    """Several secrets as the one that is sealed."""
    return json.dumps(dict(credentials), ensure_ascii=False)


def opened(secret: str) -> dict[str, str]:
    """The secrets behind `sealable`; none where there was nothing to open."""
    return dict(json.loads(secret)) if secret else {}


def _key(loaded: Loaded) -> bytes:
    return loaded.id_key("sealing", "1") + loaded.id_key("sealing", "2")
