"""Forms with files in them (RFC 7578): fields in order, each file under a safe name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from threadline.core.files import OCTETS, safe_name
from threadline.core.wire import Part


def multipart(parts: Sequence[Part], contents: Mapping[str, bytes], boundary: str) -> bytes:
    """The body of a form; `contents` are the bytes of its files by their ids.

    >>> print(multipart([Part(name="chat_id", value="9")], {}, "b").decode().replace("\\r", ""))
    --b
    Content-Disposition: form-data; name="chat_id"
    <BLANKLINE>
    9
    --b--
    <BLANKLINE>
    """
    body = bytearray()
    for part in parts:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{part.name}"'
        content = part.value.encode("utf-8", "replace")
        if part.file is not None:
            name, kind = safe_name(part.file.name, part.file.type), media_type(part.file.type)
            head += f'; filename="{name}"\r\nContent-Type: {kind}'
            content = contents[part.file.id]
        body += f"{head}\r\n\r\n".encode("utf-8", "replace") + content + b"\r\n"
    return bytes(body + f"--{boundary}--\r\n".encode())


def media_type(kind: str) -> str:
    """What somebody called a file's type, as far as it may stand in a header.

    >>> media_type("image/png"), media_type("photo"), media_type("a/b\\r\\nx: y")
    ('image/png', 'application/octet-stream', 'application/octet-stream')
    """
    plain = kind.partition(";")[0].strip().casefold()
    family, slash, form = plain.partition("/")
    allowed = "abcdefghijklmnopqrstuvwxyz0123456789.+-_"
    fine = slash and family and form and len(plain) <= 100 and not set(family + form) - set(allowed)
    return plain if fine else OCTETS
