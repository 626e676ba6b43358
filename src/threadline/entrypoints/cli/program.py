"""The commands, as `threadline --help` shows them."""

from __future__ import annotations

import sys

import typer

from threadline.entrypoints.cli import bringing, care, places, readers, speaking, tailing

START = "Start"
READ = "Read"
SPEAK = "Speak"
CARE = "Look after it"

app = typer.Typer(
    name="threadline",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_NUMBERS = {"ignore_unknown_options": True}

app.command("demo", rich_help_panel=START)(care.demo)
app.command("init", rich_help_panel=START)(places.init)
app.command("import", rich_help_panel=START)(bringing.import_)
app.command("append", rich_help_panel=START)(bringing.append)
app.command("conversations", rich_help_panel=READ)(places.conversations)
app.command("show", rich_help_panel=READ)(places.show)
app.command("history", rich_help_panel=READ)(places.history)
app.command("search", rich_help_panel=READ)(care.search)
app.command("join", rich_help_panel=READ)(readers.join)
app.command("leave", rich_help_panel=READ)(readers.leave)
app.command("members", rich_help_panel=READ)(readers.members)
app.command("sessions", rich_help_panel=READ)(readers.sessions)
app.command("tail", rich_help_panel=READ)(tailing.tail)
# A sequence may be negative, and is then no option.
app.command("ack", rich_help_panel=READ, context_settings=_NUMBERS)(readers.ack)
app.command("bind", rich_help_panel=SPEAK)(speaking.bind)
app.command("group", rich_help_panel=SPEAK)(speaking.group)
app.command("doctor", rich_help_panel=CARE)(care.doctor)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"threadline {version('threadline')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """The ledger between AI agents and the places where people talk.

    Conversations are named as provider/account/conversation, such as slack/T1/C9. Settings come
    from THREADLINE_HOME, THREADLINE_STORE, THREADLINE_KEY_FILE and THREADLINE_SCOPE.

    Exit codes: 0 done, 1 refused, 2 wrong usage or settings, 3 not found, 4 the store cannot be
    used at the moment, 5 the store is damaged, newer, or of another key.

    \b
    threadline demo
    threadline import slack-export.zip --as slack/T1
    threadline history slack/T1/C9
    """


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # Bytes that are no UTF-8 may stand in an argument and so in what is said about it.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    app()
