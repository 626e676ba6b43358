"""Which topic of a forum an entry was said in, as far as an export shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadline.archives.documents import RECENT
from threadline.core.archive import Account, Place
from threadline.core.model import ConversationRef, Kind


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as one entry meets it: `is_new` with the entry that creates it."""

    id: str
    place: Place
    is_new: bool = False


class Topics:
    """The topics of one chat, and what was said in them lately."""

    def __init__(self, account: Account, room: ConversationRef, size: int = RECENT) -> None:
        self._account, self._room, self._size = account, room, size
        self._topics: dict[str, Topic] = {}
        self._said_in: dict[str, Topic] = {}

    @property
    def refs(self) -> Iterable[ConversationRef]:
        """The addresses of all topics met so far."""
        return [topic.place.ref for topic in self._topics.values()]

    def of(self, message_id: str, reply_to: str | None, action: str, title: str) -> Topic | None:
        """The topic of this entry, or None for the room.

        A topic's id is the id of the entry that created it. What is said in a topic without
        answering anybody answers that entry.
        """
        if action == "topic_created" and message_id not in self._topics:
            ref = self._account.ref(
                message_id,
                parent_conversation_id=self._room.conversation_id,
                kind=Kind.THREAD,
            )
            topic = Topic(message_id, Place(ref, title, parent=self._room))
            self._topics[message_id] = topic
            return Topic(topic.id, topic.place, is_new=True)
        if not self._topics:
            return None
        found = self._topics.get(message_id)
        if found is None and reply_to is not None:
            found = self._topics.get(reply_to) or self._said_in.get(reply_to)
        if found is not None:
            self._said_in[message_id] = found
            if len(self._said_in) > self._size:
                del self._said_in[next(iter(self._said_in))]
        return found
