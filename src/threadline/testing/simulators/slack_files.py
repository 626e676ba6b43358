"""Files of the simulated Slack: shared by people, uploaded in two steps, fetched with a token."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from threadline.testing.simulators.slack_world import BOT, TEAM, World
from threadline.testing.simulators.wire import Answer, Call, File

LOGIN = b"<!DOCTYPE html><html><title>Sign in | Slack</title></html>"
_KEPT = re.compile(r"/files-pri/[^/-]+-(?P<file>[^/]+)/(?:download/)?[^/]+")


class Files(World):
    """The bytes of files are kept as they came."""

    def kept(self, name: str, content: str) -> dict[str, Any]:
        """A new file of a person."""
        return self.share(self.reserve(name, content.encode()))

    def reserve(self, name: str, content: bytes, length: int | None = None) -> str:
        """Room for a file of so many bytes; its id."""
        ident = self._id("F")
        size = len(content) if length is None else length
        kept = {"name": name, "size": size, "title": name, "user": BOT, "shared": False}
        self.files[ident] = kept | {"content": content.decode("latin-1")}
        return ident

    def share(self, ident: str, title: str = "") -> dict[str, Any]:
        """Show it to everybody; the file object."""
        kept = self.files[ident] | {"shared": True}
        kept["title"] = title or kept["title"]
        self.files[ident] = kept
        return self.file(ident, kept)

    def shown(self, ident: str, where: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        """Write down in which message a file was shown."""
        kept = self.files[ident]
        kind = "public" if where["kind"] == "channel" else "private"
        share = {name: message[name] for name in ("ts", "thread_ts") if name in message}
        shares = kept.get("shares", {})
        places = shares.get(kind, {})
        places = places | {where["id"]: [*places.get(where["id"], []), share]}
        self.files[ident] = kept | {"shares": shares | {kind: places}}

    def file(self, ident: str, kept: Mapping[str, Any]) -> dict[str, Any]:
        """A file object as everybody sees it."""
        kind = mimetypes.guess_type(kept["name"])[0] or "application/octet-stream"
        place = f"{self.ground.settings.get('origin', '')}/files-pri/{TEAM}-{ident}"
        name = quote(kept["name"])
        return {
            "id": ident,
            "created": int(self.ground.now()),
            "name": kept["name"],
            "title": kept["title"],
            "mimetype": kind,
            "filetype": kept["name"].rpartition(".")[2],
            "user": kept["user"],
            "user_team": TEAM,
            "size": kept["size"],
            "mode": "hosted",
            "is_external": False,
            "is_public": True,
            "url_private": f"{place}/{name}",
            "url_private_download": f"{place}/download/{name}",
            "file_access": "visible",
        }

    def fetched(self, call: Call, allowed: bool) -> Answer:
        """The bytes of a file. Who may not have them gets a page to log in, with 200."""
        found = _KEPT.fullmatch(call.path)
        kept = self.files.get(found["file"]) if found else None
        if not allowed:
            return Answer(body=LOGIN, headers={"content-type": "text/html; charset=utf-8"})
        if kept is None:
            return Answer(status=404)
        kind = self.file("", kept)["mimetype"]
        return Answer(body=kept["content"].encode("latin-1"), headers={"content-type": kind})

    def uploaded(self, call: Call) -> Answer:
        """The first step's address takes the bytes, bare or as a form."""
        ident = call.path.rpartition("/")[2]
        kept = self.files.get(ident)
        if kept is None or kept["shared"]:
            return Answer(status=404)
        content = call.body
        if call.headers.get("content-type", "").startswith("multipart/form-data"):
            parts = [one for one in call.fields().values() if isinstance(one, File)]
            content = parts[0].content if parts else b""
        if len(content) != kept["size"]:
            return Answer(status=400, body=b"the length is another one")
        self.files[ident] = kept | {"content": content.decode("latin-1"), "arrived": True}
        return Answer(body=f"OK - {len(content)}".encode())
