"""What the bot says, changes and takes away in the simulated Slack, by its Web API."""

from __future__ import annotations

import re
from typing import Any

from threadline.testing.simulators.slack_asked import LONGEST_EDIT, Asked, Refused
from threadline.testing.simulators.slack_rooms import Rooms
from threadline.testing.simulators.slack_text import blocks, called, formatted, links
from threadline.testing.simulators.slack_world import BOT, own

LONGEST, TRUNCATED = 40_000, "message_truncated"
_EMOJI = re.compile(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?")


class Speech(Rooms):
    """`chat.*`, `reactions.*` and uploads. Nothing here is said once by any key: twice is twice."""

    def _chat_postmessage(self, asked: Asked) -> dict[str, Any]:
        if asked.given.keys() & {"username", "icon_emoji", "icon_url"}:
            self.need("chat:write.customize")
        if asked.flag("as_user"):
            raise Refused("as_user_not_supported")
        where, content = self.writable(asked.text("channel")), asked.content()
        root = self.root(where, asked)
        raw, metadata = content["text"], content.get("metadata")
        text = formatted(raw[:LONGEST])
        more: dict[str, Any] = root | {
            name: content[name] for name in ("attachments", "metadata") if name in content
        }
        if root and asked.flag("reply_broadcast"):
            more["subtype"] = "thread_broadcast"
        more["blocks"] = content.get("blocks") or blocks(text)
        made = self.write(where, self.bot, text, **own(**more))
        loud = asked.flag("link_names") or asked.text("parse") == "full"
        typed = [one for one in ("@here", "@channel", "@everyone") if loud and one in text]
        seen = asked.flag("unfurl_links") or asked.flag("unfurl_media", True)
        self.ground.effect(
            "message",
            where["id"],
            id=made["ts"],
            text=text,
            thread=root.get("thread_ts"),
            broadcast="subtype" in more,
            metadata=metadata,
            pings=[*called(text), *typed],
            cards=bool(seen and links(text)),
            blocks=content.get("blocks"),
        )
        warned = {"response_metadata": {"warnings": [TRUNCATED]}} if len(raw) > LONGEST else {}
        return {"channel": where["id"], "ts": made["ts"], "message": made} | warned

    def _chat_update(self, asked: Asked) -> dict[str, Any]:
        where, content = self.writable(asked.text("channel")), asked.content(LONGEST_EDIT)
        ts = self.mine(where, asked, "cant_update_message")
        text = formatted(content["text"])
        fresh: dict[str, Any] = {
            name: content[name] for name in ("attachments", "metadata") if name in content
        }
        fresh["blocks"] = content.get("blocks") or blocks(text)
        made = self.change(where, ts, BOT, text=text, **fresh)
        self.ground.effect("edit", where["id"], id=ts, text=text)
        return {"channel": where["id"], "ts": ts, "text": text, "message": made}

    def _chat_delete(self, asked: Asked) -> dict[str, Any]:
        where = self.seen(asked.text("channel"))
        ts = self.mine(where, asked, "cant_delete_message")
        self.remove(where, ts)
        self.ground.effect("delete", where["id"], id=ts)
        return {"channel": where["id"], "ts": ts}

    def mine(self, where: dict[str, Any], asked: Asked, error: str) -> str:
        """The timestamp of a message of the app. Raises `Refused`."""
        ts = asked.ts("ts", "message_not_found")
        found = self.messages.get(f"{where['id']}/{ts}")
        if found is None or found.get("subtype") == "tombstone":
            raise Refused("message_not_found")
        if found["user"] != BOT:
            raise Refused(error)
        return ts

    def _reactions_add(self, asked: Asked) -> dict[str, Any]:
        return self._react(asked, gone=False)

    def _reactions_remove(self, asked: Asked) -> dict[str, Any]:
        return self._react(asked, gone=True)

    def _react(self, asked: Asked, *, gone: bool) -> dict[str, Any]:
        where, name = self.writable(asked.text("channel")), asked.text("name").strip(":")
        ts = asked.ts("timestamp", "bad_timestamp")
        if not _EMOJI.fullmatch(name):
            raise Refused("invalid_name")
        if f"{where['id']}/{ts}" not in self.messages:
            raise Refused("message_not_found")
        if not self.react(where, ts, name, BOT, gone=gone):
            raise Refused("no_reaction" if gone else "already_reacted")
        self.ground.effect("unreaction" if gone else "reaction", where["id"], id=ts, text=name)
        return {}

    def _files_getuploadurlexternal(self, asked: Asked) -> dict[str, Any]:
        length = asked.number("length", 0, 1, 64 * 1024 * 1024)
        ident = self.reserve(asked.text("filename"), b"", length)
        return {"upload_url": f"{self.ground.settings['origin']}/upload/v1/{ident}"} | {
            "file_id": ident
        }

    def _files_completeuploadexternal(self, asked: Asked) -> dict[str, Any]:
        given = asked.made("files", list, "invalid_arguments")
        known: list[tuple[str, str]] = []
        for one in given:
            ident = one.get("id", "") if isinstance(one, dict) else ""
            kept = self.files.get(str(ident))
            if kept is None or kept["shared"] or not kept.get("arrived"):
                raise Refused("file_not_found")
            known.append((ident, str(one.get("title") or "")))
        places = asked.text("channel_id") or asked.text("channels")
        where = [self.writable(one) for one in places.split(",") if one]
        roots = [self.root(one, asked) for one in where]
        shared = [self.share(ident, title) for ident, title in known]
        text = formatted(asked.text("initial_comment"))
        for one, root in zip(where, roots, strict=True):
            more: dict[str, Any] = {"subtype": "file_share", "files": shared}
            made = self.write(one, self.bot, text, **own(**more, **root))
            for ident, _ in known:
                self.shown(ident, one, made)
            names = [it["name"] for it in shared]
            about = {"thread": root.get("thread_ts"), "files": names}
            self.ground.effect("file", one["id"], id=made["ts"], text=text, **about)
        # Mostly the real one answers before it has shown them anywhere.
        if self.ground.settings.get("shares"):
            shared = [it | {"shares": self.files[it["id"]].get("shares", {})} for it in shared]
        return {"files": shared}

    def _files_info(self, asked: Asked) -> dict[str, Any]:
        kept = self.files.get(asked.text("file"))
        if kept is None or not kept["shared"]:
            raise Refused("file_not_found")
        about = {"shares": kept.get("shares", {})}
        return {"file": self.file(asked.text("file"), kept) | about, "comments": []}
