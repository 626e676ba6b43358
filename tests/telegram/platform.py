"""The simulated Telegram with the orders our stories need: what people do there."""

from __future__ import annotations

from typing import Any

from threadline.testing.simulators.telegram import Telegram


class Platform(Telegram):
    """See `Simulator`; each `do_…` is an order."""

    def do_write(
        self,
        chat: int,
        text: str = "",
        user: int = 42,
        topic: int = 0,
        reply: int = 0,
        name: str = "Ada",
        **more: Any,
    ) -> dict[str, Any]:
        """A person writes, under a name; the message as the bot is told of it."""
        content = self.world.text(text) if text else {}
        content |= self.world.reply(chat, reply) if reply else {}
        self.world.make(chat, name=name)
        said = self.world.put(chat, self.world.person(user, name), topic=topic, **content, **more)
        self.world.tell(chat, "message", said)
        return said

    def do_forum(self, chat: int, topic: str) -> dict[str, Any]:
        """A forum with a topic."""
        self.world.make(chat, forum=True)
        ada = self.world.person(42, "Ada")
        self.world.put(chat, ada, supergroup_chat_created=True)  # 1 is the General topic's number.
        made = self.world.topic(chat, topic, ada)
        self.world.tell(chat, "message", made)
        return made

    def do_upgraded(self, chat: int, to: int, tell: bool = True) -> dict[str, Any]:
        """A group becomes a supergroup; both chats say so."""
        old = self.world.make(chat)
        new = self.world.make(to)
        ada = self.world.person(42, "Ada")
        left = self.world.put(chat, ada, migrate_to_chat_id=to)
        right = self.world.put(to, ada, migrate_from_chat_id=chat)
        self.world.chats[str(chat)] = self.world.chats[str(chat)] | {"moved": to}
        if tell:
            self.world.tell(chat, "message", left)
            self.world.tell(to, "message", right)
        return {"old": old["about"], "new": new["about"]}

    def do_lock(self, chat: int, why: str) -> dict[str, Any]:
        """The bot may not speak there any more."""
        self.world.close(chat, why)
        return {}

    def do_give(self, chat: int, content: str, name: str) -> dict[str, Any]:
        """A person sends a file."""
        about = self.world.keep(content.encode(), name, "text/plain")
        return self.do_write(chat, document=about, caption="here")
