"""What providers send us: judged on its raw bytes, recorded, and only then answered.

The path picks the secrets; a body that none of them verifies opens nothing. Among the accounts
whose secret does, each hears only what is its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from threadline.core.adapters import Account, Adapter, Channels, Handshaking
from threadline.core.errors import ConfigError, NotFound, Unauthenticated
from threadline.core.ports import Store
from threadline.core.wire import Reply, Request
from threadline.flows.accounts import ReadInstalled
from threadline.flows.hearing import Hearing

SILENT = Reply()


class Webhooks:
    """The entrance of connected accounts. `counts` says what came of every request, by provider."""

    def __init__(self, store: Store, hearing: Hearing, channels: Channels | None) -> None:
        self._store = store
        self._hearing = hearing
        self._channels = channels
        self.counts: Counter[tuple[str, str]] = Counter()

    async def receive(self, provider: str, installation: str, request: Request) -> Reply:
        """Take one request of a provider; it is durable when this answers.

        Raises `NotFound` for a path nobody connected, `Unauthenticated` where no secret of it
        verifies the bytes, and what `Hearing.requests` raises.
        """
        now, accounts = await self._store.read(
            ReadInstalled(provider=provider, installation=installation)
        )
        if not accounts:
            # A path anybody may make up makes no figure of its own.
            self.counts[(provider if self._is_spoken(provider) else "other", "unknown")] += 1
            raise NotFound(f"no account of {provider} is installed as {installation!r}.")
        request = replace(request, received_at=now)
        verified = [
            (account, dialect)
            for account in accounts
            if (dialect := self._dialect(account)) is not None and dialect.verify(request)
        ]
        if not verified:
            self.counts[(provider, "forged")] += 1
            raise Unauthenticated(
                f"the signature of this request is not one of {provider}'s for {installation!r}."
            )
        tallies = [
            await self._hearing.requests(account, dialect, (request,))
            for account, dialect in verified
        ]
        for tally in tallies:
            self.counts[(provider, "recorded")] += tally.recorded
            self.counts[(provider, "duplicate")] += tally.duplicates
            self.counts[(provider, "receipt")] += tally.receipts
            self.counts[(provider, "skipped")] += tally.skipped.total()
            self.counts[(provider, "refused")] += tally.refused.total()
        # An entry is foreign where none of the accounts takes it.
        self.counts[(provider, "foreign")] += min(tally.foreign for tally in tallies)
        for _, dialect in verified:
            spoken: object = dialect
            reply = spoken.handshake(request) if isinstance(spoken, Handshaking) else None
            if reply is not None:
                return reply
        return SILENT

    def _is_spoken(self, provider: str) -> bool:
        try:
            return self._channels is not None and self._channels.connectable(provider) is not None
        except ConfigError:
            return True

    def _dialect(self, account: Account) -> Adapter | None:
        return None if self._channels is None else self._channels.dialect(account)
