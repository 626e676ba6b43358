"""Which providers there are: ours by name, others' through the entry points `threadline.providers`.

A provider is named here and nowhere else. Its dialect and its wire are imported at their first use,
so an SDK that is not installed is missed only by those who connect that provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from threadline.core.errors import ConfigError

GROUP = "threadline.providers"
HTTP = "threadline.transports.http:HttpTransport"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider: what people call it, its dialect and its wire as `module:Class`.

    `extra` is what has to be installed for it (`pip install threadline[extra]`).
    """

    name: str
    title: str
    dialect: str
    wire: str = HTTP
    extra: str = ""


OURS: tuple[Provider, ...] = (
    Provider(
        name="slack",
        title="Slack",
        dialect="threadline.adapters.slack:Slack",
        wire="threadline.transports.slack:SlackTransport",
        extra="slack",
    ),
    Provider(
        name="whatsapp",
        title="WhatsApp (Cloud API)",
        dialect="threadline.adapters.whatsapp:WhatsApp",
    ),
    Provider(
        name="twilio",
        title="Twilio (WhatsApp and SMS)",
        dialect="threadline.adapters.twilio:Twilio",
    ),
    Provider(
        name="discord",
        title="Discord",
        dialect="threadline.adapters.discord:Discord",
        wire="threadline.transports.discord:DiscordTransport",
        extra="discord",
    ),
    Provider(
        name="matrix",
        title="Matrix",
        dialect="threadline.adapters.matrix:Matrix",
        wire="threadline.transports.matrix:MatrixTransport",
    ),
    Provider(
        name="telegram",
        title="Telegram",
        dialect="threadline.adapters.telegram:Telegram",
        wire="threadline.transports.telegram:TelegramTransport",
    ),
)


@cache
def providers() -> dict[str, Provider]:
    """All of them by name. Ours come first: nobody else's takes their name."""
    found = {one.name: one for one in OURS}
    for point in entry_points(group=GROUP):
        if point.name not in found:
            found[point.name] = point.load()
    return found


def load(path: str, provider: Provider | None = None) -> Any:
    """What `module:Class` names. Raises `ConfigError` where the provider's extra is missing."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        if provider is None or not provider.extra:
            raise
        raise ConfigError(
            f"{provider.title} needs more: pip install 'threadline[{provider.extra}]'."
        ) from error
