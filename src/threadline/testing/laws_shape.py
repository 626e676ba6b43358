"""The laws of the shape: what is declared is there, what is asked for is used, nothing is shown."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadline.core.adapters import (
    Account,
    Capabilities,
    Challenged,
    Children,
    Connectable,
    Fetching,
    Handshaking,
    Identity,
    Lookup,
    Opening,
    Remembering,
    Unit,
)
from threadline.core.model import Actor
from threadline.core.rules.splitting import SHORTEST
from threadline.core.wire import ApiCall, OutboundMessage
from threadline.testing.laws import (
    KEY,
    OTHER_KEY,
    STEPS,
    Law,
    broken,
    calls,
    connecting,
    rendered,
    rooms,
    saying,
    short,
    tried,
)
from threadline.testing.purity import imports, io_of
from threadline.testing.specimen import Specimen

ABILITIES: tuple[Any, ...] = (Challenged, Children, Fetching, Handshaking, Lookup, Opening)
ABILITIES += (Remembering, Connectable)
NEEDED = ("verify", "parse", "render", "read")
# What the house keeps among the settings by itself.
OWN_SETTINGS = frozenset({"events"})


def _abilities(specimen: Specimen) -> None:
    dialect = specimen.made()
    for name in NEEDED:
        if not callable(getattr(dialect, name, None)):
            broken(f"it has no method {name}.")
    for ability in ABILITIES:
        methods = [name for name in vars(ability) if not name.startswith("_")]
        there = [name for name in methods if hasattr(dialect, name)]
        if there and len(there) < len(methods):
            missing = ", ".join(sorted({*methods} - {*there}))
            broken(f"it has {', '.join(there)} of {ability.__name__}, and lacks {missing}.")
    can = dialect.capabilities
    if not isinstance(can, Capabilities):
        broken(f"capabilities is {short(can)}.")
    for declared, ability in (("history", Remembering), ("child_conversations", Children)):
        if getattr(can, declared) != isinstance(dialect, ability):
            is_it = "has" if isinstance(dialect, ability) else "lacks"
            broken(f"it declares {declared}={getattr(can, declared)} and {is_it} the methods.")
    if not isinstance(can.unit, Unit) or can.max_length < SHORTEST:
        broken(f"max_length is {can.max_length!r} {can.unit!r}; {SHORTEST} are the least.")
    if can.idempotent_for is not None and not can.idempotent:
        broken("it declares idempotent_for and is not idempotent.")
    if can.actor != specimen.account.actor:
        broken(f"its actor is {can.actor}, and the account's is {specimen.account.actor}.")
    if can.idempotent:
        ref = rooms(specimen)[0]
        one, other = (_leaves(rendered(dialect, saying(ref, "x", key))) for key in (KEY, OTHER_KEY))
        if one == other:
            broken("it declares idempotent, and what leaves is the same under another key.")


def _leaves(call: ApiCall) -> tuple[Any, ...]:
    """What of a call reaches the platform."""
    return call.method, call.url, call.body, sorted(call.headers.items())


# --- connecting ----------------------------------------------------------------------------------


class Noted(dict[str, Any]):
    """A mapping that remembers what it was asked for."""

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """See `dict.get`."""
        self.asked.add(name)
        return super().get(name, default)


def _behaviour(specimen: Specimen, account: Account) -> list[Any]:
    """All that a dialect answers: what two accounts have to differ in, to be two."""
    dialect = specimen.made(account)
    early = specimen.made(replace(account, account_id="", capabilities=Capabilities()))
    told: list[Any] = [dialect.capabilities]
    for one in (dialect, early):
        if isinstance(one, Connectable):
            told += [one.listens(), one.check(), one.webhook("https://line.example/hook")]
            told += _connecting(one, specimen)
    ref = rooms(specimen)[0]
    told.append(dialect.render(saying(ref, "hello")))
    told += [call for _, call in calls(specimen, dialect)]
    for request in specimen.webhooks.values():
        signed = specimen.signed(request)
        told += [dialect.verify(signed), dialect.parse(signed)]
        if isinstance(dialect, Handshaking):
            told.append(dialect.handshake(signed))
    return [(_leaves(one), one.secret) if isinstance(one, ApiCall) else one for one in told]


def _connecting(dialect: Any, specimen: Specimen) -> list[Any]:
    """What it makes of each of the platform's answers about who it is."""
    steps: list[Any] = [dialect.check()]
    for answer in specimen.checks:
        if isinstance(steps[-1], ApiCall):
            steps.append(dialect.read_check(steps[-1], answer))
    return steps


def _asks(specimen: Specimen) -> None:
    asks = specimen.kind().asks()
    names = [one.name for one in asks]
    if len(set(names)) < len(names):
        broken(f"it asks twice: {names}.")
    account = specimen.account
    before = _behaviour(specimen, account)
    for one in asks:
        if not one.where.strip():
            broken(f"it does not say where {one.name} is found.")
        if one.secret and one.default:
            broken(f"{one.name} is a secret, and has a default that everybody knows.")
        place = account.credentials if one.secret else account.settings
        if one.name not in place and not one.optional and not one.default:
            kind = "credentials" if one.secret else "settings"
            broken(f"the specimen's account has no {one.name} among its {kind}.")
        if one.name in specimen.on_the_wire:
            continue
        others = [
            f"{place.get(one.name) or one.default}x",
            "https://other.example",
            "webhook",
            "yes",
            "",
        ]
        if not any(_other(specimen, one.name, one.secret, v) != before for v in others):
            broken(f"{one.name} is asked for, and nothing depends on it.")
    _only_what_was_asked(specimen)


def _other(specimen: Specimen, name: str, secret: bool, value: str) -> list[Any]:
    account = specimen.account
    place = "credentials" if secret else "settings"
    changed: Any = {place: {**getattr(account, place), name: value}}
    made: list[Any] = tried(
        f"with another {name} something",
        lambda: _behaviour(specimen, replace(account, **changed)),
    )
    return made


def _only_what_was_asked(specimen: Specimen) -> None:
    asks = specimen.kind().asks()
    account = specimen.account
    noted: Any = {"credentials": Noted(account.credentials), "settings": Noted(account.settings)}
    _behaviour(specimen, replace(account, **noted))
    known = {one.name for one in asks if one.secret}
    if unasked := noted["credentials"].asked - known:
        broken(f"it needs the credentials {sorted(unasked)}, and asks nobody for them.")
    known = {one.name for one in asks if not one.secret} | set(_identity_of(specimen).settings)
    known |= specimen.learned
    if unasked := noted["settings"].asked - known - OWN_SETTINGS:
        broken(f"it reads the settings {sorted(unasked)}, which nobody is asked for or answers.")


def _identity_of(specimen: Specimen) -> Identity:
    if not specimen.checks:
        broken("it can be connected, so the specimen needs `checks`.")
    dialect = specimen.made(connecting(specimen))
    step = tried("read_check", lambda: _connecting(dialect, specimen))[-1]
    if not isinstance(step, Identity):
        broken(f"after {len(specimen.checks)} answers read_check says {short(step)}.")
    return step


def _identity(specimen: Specimen) -> None:
    account = specimen.account
    found = _identity_of(specimen)
    if found.account_id != account.account_id:
        broken(f"the platform says that we are {found.account_id!r}, not {account.account_id!r}.")
    if not isinstance(found.actor, Actor) or not found.actor.id:
        broken(f"it connects as {short(found.actor)}, which is nobody.")
    if account.actor is None or found.actor.id != account.actor.id:
        broken(f"it connects as {found.actor.id!r}, and the specimen's actor is {account.actor}.")
    if not found.actor.is_bot:
        broken("its actor is not a bot, so it might be answered as a person is.")
    if len(specimen.checks) > STEPS:
        broken(f"connecting takes more than {STEPS} calls.")


# --- secrets -------------------------------------------------------------------------------------


def _secrets(specimen: Specimen) -> None:
    account = specimen.account
    dialect = specimen.made()
    secrets = {name: value for name, value in account.credentials.items() if len(value) >= 4}
    if account.secret:
        secrets["secret"] = account.secret
    shown: list[tuple[str, str]] = [("repr(account)", repr(account)), ("repr", repr(dialect))]
    for name, call in calls(specimen, dialect):
        shown.append((f"repr of the call {name}", repr(call)))
        loggable = f"{call.method} {call.route} {call.key} {call.most}"
        shown.append((f"method, route or key of the call {name}", loggable))
        hidden = call.headers.get("authorization", "").partition(" ")[2]
        secrets.update({"authorization": hidden} if hidden else {})
    for title, request in specimen.webhooks.items():
        shown.append((f"what is heard in {title!r}", repr(dialect.parse(specimen.signed(request)))))
    for where, text in shown:
        for name, value in secrets.items():
            if value in text:
                broken(f"{where} shows the {name}.")


# --- purity --------------------------------------------------------------------------------------


def _same_answers(specimen: Specimen) -> None:
    account = copy.deepcopy(specimen.account)
    before = copy.deepcopy(account)
    one, other = specimen.made(account), specimen.made(copy.deepcopy(account))
    for title, request in specimen.webhooks.items():
        signed = specimen.signed(request)
        kept = copy.deepcopy(signed)
        heard = [one.parse(signed), other.parse(signed), one.parse(signed)]
        if not heard[0] == heard[1] == heard[2]:
            broken(f"webhook {title!r} is heard in two ways.")
        if one.verify(signed) != other.verify(signed):
            broken(f"webhook {title!r} is believed once, and once not.")
        if signed != kept:
            broken(f"parse or verify changed the request {title!r}.")
    for ref in rooms(specimen):
        facts: dict[str, Any] = {"note": {"a": [1]}}
        message = saying(ref, "**hello** @here", reply_to="5001", metadata=facts)
        kept_message: OutboundMessage = copy.deepcopy(message)
        first, again, others = one.render(message), one.render(message), other.render(message)
        if not first == again == others:
            broken(f"the same message is rendered in two ways: {_leaves(first)} {_leaves(again)}")
        answer = specimen.takes(first)
        if one.read(first, answer) != other.read(first, answer):
            broken("the same answer is read in two ways.")
        if message != kept_message:
            broken("render changed the message it was given.")
    if account != before:
        broken("it changed its account.")


def _no_world(specimen: Specimen) -> None:
    found = {name: touches for name, tree in _modules(specimen.kind()) if (touches := io_of(tree))}
    for name, touches in found.items():
        broken(f"{name} touches the world: {', '.join(touches)}.")


def _modules(kind: type) -> Iterator[tuple[str, ast.Module]]:
    """The module of a dialect and those it imports from beside it, parsed."""
    home = kind.__module__
    beside = home.rpartition(".")[0] or home
    waiting, seen = [home], {home}
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None) or ""
        if not file.endswith(".py"):
            continue
        tree = ast.parse(Path(file).read_text("utf-8"))
        yield name, tree
        for wanted in imports(tree):
            for one in (wanted, wanted.rpartition(".")[0]):
                if one in sys.modules and one not in seen and f"{one}.".startswith(f"{beside}."):
                    seen.add(one)
                    waiting.append(one)


def _is_connectable(specimen: Specimen) -> bool:
    return isinstance(specimen.made(), Connectable)


SHAPE = (
    Law(
        "abilities",
        "what the capabilities declare has its methods, and what has methods is declared.",
        "set the flag in Capabilities and write both methods of the protocol, or neither; see "
        "threadline.core.adapters.",
        _abilities,
    ),
    Law(
        "asks",
        "all that a person is asked for is used, and nothing else is needed.",
        "declare every credential and setting in asks(), and take away those that nothing reads; "
        "name those that only the transport reads in the specimen's `on_the_wire`.",
        _asks,
        _is_connectable,
    ),
    Law(
        "identity",
        "read_check says who the account is, by the id that webhooks have for it.",
        "answer Identity with the account_id that parse compares with, and an actor that is a bot.",
        _identity,
        _is_connectable,
    ),
    Law(
        "secrets",
        "no credential is shown: not in a repr, not in what of a call is logged, not in a record.",
        "put credentials into url, headers and body only, and let route and key hold none.",
        _secrets,
    ),
    Law(
        "pure",
        "the same input has the same answer, and no input is changed.",
        "keep no state in the dialect, take no clock and no chance, and copy before you change.",
        _same_answers,
    ),
    Law(
        "no-world",
        "a dialect touches nothing: no socket, no file, no clock, no chance, no log.",
        "move it into the transport, and bring what it needs in as a value.",
        _no_world,
    ),
)
