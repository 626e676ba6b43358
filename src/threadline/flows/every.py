"""Every flow on one store: what an entrance opens onto."""

from __future__ import annotations

from typing import Any

from threadline.core.adapters import Channels
from threadline.core.files import Bounds, Cabinet
from threadline.core.outside import Outside
from threadline.core.ports import Store
from threadline.core.rules.limits import Limits
from threadline.core.rules.pacing import PACE, Pace
from threadline.flows.accounts import Accounts
from threadline.flows.adapters import Adapters
from threadline.flows.attaching import Attaching
from threadline.flows.audits import Audits
from threadline.flows.census import Census
from threadline.flows.consents import Consents
from threadline.flows.context import Context
from threadline.flows.conversations import Conversations
from threadline.flows.deliveries import Deliveries
from threadline.flows.files import Files
from threadline.flows.guests import Guests
from threadline.flows.hearing import Hearing
from threadline.flows.histories import Histories
from threadline.flows.hydration import Hydration
from threadline.flows.importing import Importing
from threadline.flows.inbound import Inbound
from threadline.flows.initiative import Initiative
from threadline.flows.links import Links
from threadline.flows.listening import Listeners
from threadline.flows.logins import Logins
from threadline.flows.members import Members
from threadline.flows.outbound import Outbound
from threadline.flows.outbox import Outbox
from threadline.flows.people import People
from threadline.flows.push import Push
from threadline.flows.replay import Replay
from threadline.flows.search import Search
from threadline.flows.sessions import Sessions
from threadline.flows.speakers import Speakers
from threadline.flows.tokens import Tokens
from threadline.flows.upkeep import Upkeep
from threadline.flows.uploads import Uploads
from threadline.flows.watching import Watching
from threadline.flows.webhooks import Webhooks


class Flows:
    """The flows as attributes, on one store and within the same limits.

    `node` names this process among those on the store; a SQLite file has only one.
    """

    def __init__(
        self,
        store: Store,
        limits: Limits,
        outside: Outside,
        *,
        channels: Channels | None = None,
        cabinet: Cabinet | None = None,
        given: Cabinet | None = None,
        bounds: Bounds | None = None,
        pace: Pace = PACE,
        node: str = "",
    ) -> None:
        self.store = store
        self._made: dict[str, Any] = {
            "limits": limits,
            "outside": outside,
            "channels": channels,
            "cabinet": cabinet,
            "given": given,
            "bounds": bounds,
            "pace": pace,
            "node": node,
        }
        self.accounts = Accounts(store, channels)
        self.adapters = Adapters(store, channels, limits)
        self.attaching = Attaching(store)
        self.audits = Audits(store, limits)
        self.census = Census(store)
        self.consents = Consents(store)
        self.people = People(store, limits)
        self.context = Context(store, limits)
        self.conversations = Conversations(store, limits)
        self.deliveries = Deliveries(store, limits, pace, channels)
        self.files = Files(store, channels, cabinet, bounds, given=given)
        self.uploads = Uploads(store, self.files, given)
        self.hydration = Hydration(store, limits)
        self.guests = Guests(store, self.hydration, limits)
        self.importing = Importing(self.hydration, limits)
        self.inbound = Inbound(store, self.hydration, limits)
        self.links = Links(store, limits)
        self.logins = Logins(store)
        self.members = Members(store, limits)
        self.outbound = Outbound(store, self.deliveries, limits, pace, uploads=self.uploads)
        self.outbox = Outbox(
            store, limits, channels=channels, owner=node, pace=pace, uploads=self.uploads
        )
        self.initiative = Initiative(
            store, self.deliveries, channels, limits, pace, uploads=self.uploads
        )
        self.push = Push(store, outside)
        self.replay = Replay(store, limits)
        self.search = Search(store, limits)
        self.sessions = Sessions(store, limits)
        self.speakers = Speakers(store, limits)
        self.tokens = Tokens(store, limits)
        self.watching = Watching(store, limits)
        self.hearing = Hearing(store, self.inbound, limits)
        self.histories = Histories(store, self.hydration, self.hearing, channels, limits)
        self.listeners = Listeners(store, self.hearing, self.histories, channels, owner=node)
        self.webhooks = Webhooks(store, self.hearing, channels)
        self.upkeep = Upkeep(
            store,
            self.hydration,
            self.outbound,
            limits,
            files=self.files,
            uploads=self.uploads,
            people=self.people,
            initiative=self.initiative,
        )

    @property
    def limits(self) -> Limits:
        """Within what limits they work."""
        limits: Limits = self._made["limits"]
        return limits

    def over(self, store: Store) -> Flows:
        """The same flows over another store, such as this one seen through a request's key."""
        return Flows(store, **self._made)
