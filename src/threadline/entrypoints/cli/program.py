"""The commands, as `threadline --help` shows them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable

import typer

from threadline.entrypoints.cli import (
    appending,
    attaching,
    auditing,
    bridging,
    care,
    connecting,
    filing,
    granting,
    importing,
    knowing,
    linking,
    places,
    readers,
    saying,
    sending,
    serving,
    simulating,
    speaking,
    tailing,
    telling,
)
from threadline.entrypoints.cli.door import Exit, complain

app = typer.Typer(
    name="threadline",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def described(function: Callable[..., object]) -> str:
    """A docstring as help: a paragraph is one line, so that it fills any window; examples stay."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(one if one.startswith("  ") else " ".join(one.split()) for one in paragraphs)


NEGATIVE = (readers.ack, filing.files, filing.save)


def _add(panel: str, **commands: Callable[..., None]) -> None:
    for name, function in commands.items():
        # A sequence may be negative, and is then no option.
        settings = {"ignore_unknown_options": True} if function in NEGATIVE else None
        app.command(
            name.strip("_"),
            cls=care.NamedProvider if function is care.demo else None,
            help=described(function),
            rich_help_panel=panel,
            context_settings=settings,
        )(function)


_add("Start", demo=care.demo, init=places.init, import_=importing.import_, append=appending.append)
_add(
    "Read",
    conversations=places.conversations,
    show=places.show,
    history=places.history,
    search=care.search,
    members=readers.members,
    sessions=readers.sessions,
    join=readers.join,
    leave=readers.leave,
    tail=tailing.tail,
    context=telling.context,
    files=filing.files,
    save=filing.save,
    ack=readers.ack,
)
_add(
    "Speak",
    bind=speaking.bind,
    unbind=speaking.unbind,
    group=speaking.group,
    publish=saying.publish,
    tell=saying.tell,
    deliveries=saying.deliveries,
    attach=attaching.attach,
    mcp=bridging.mcp,
    why=saying.why,
)
_add("Write first", send=sending.send)
app.add_typer(sending.sends, name="sends", rich_help_panel="Write first")
_add("Write first", grant=granting.grant, grants=granting.grants)
app.add_typer(granting.consent, name="consent", rich_help_panel="Write first")
app.add_typer(knowing.person, name="person", rich_help_panel="Write first")
_add("Write first", limits=granting.limits)
app.add_typer(auditing.audit, name="audit", rich_help_panel="Write first")
_add(
    "Serve",
    serve=serving.serve,
    link=linking.link,
    connect=connecting.connect,
    accounts=connecting.accounts,
    hydrate=connecting.hydrate,
    simulate=simulating.simulate,
)
app.add_typer(serving.token, name="token", rich_help_panel="Serve")
_add("Look after it", doctor=care.doctor, config=care.config)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"threadline {version('threadline')}\n")
        raise typer.Exit


def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """The ledger between AI agents and the places where people talk.

    Conversations are named as provider/account/conversation, such as slack/T1/C9. Settings come
    from THREADLINE_HOME, THREADLINE_STORE, THREADLINE_KEY_FILE and THREADLINE_SCOPE.

    Exit codes: 0 done, 1 refused, 2 wrong usage, values or settings, 3 not found, 4 the store
    cannot be used: held by another process, unreachable, full, damaged, newer, or of another key.

      threadline demo
      threadline import slack-export.zip --as slack/T1
      threadline history slack/T1/C9
    """


app.callback(help=described(root))(root)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # Bytes that are no UTF-8 may stand in an argument and so in what is said about it.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        code = app(args=sys.argv[1:] or ["--help"], prog_name="threadline", standalone_mode=False)
    except typer.Abort:
        code = Exit.INTERRUPTED
    except Exception as error:
        # Wrong usage. Which click it comes from depends on the release of typer.
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        path = getattr(getattr(error, "ctx", None), "command_path", "threadline")
        # A name for several commands shows its help by itself, and then has nothing to say.
        complain(
            "usage",
            said() or "Missing command.",
            f"How it is used: {path} --help",
            {},
            "--json" in sys.argv,
        )
        code = Exit.USAGE
    sys.exit(int(code or Exit.OK))
