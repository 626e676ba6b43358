"""Write docs/reference/cli.md anew from the commands themselves: `python scripts/help.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "cli.md"
HEAD = """# Commands

This page is made from the commands' own help by `scripts/help.py`. Settings are on
[their own page](settings.md), error codes on [theirs](errors.md).
"""
WIDTH = 96


def page() -> str:
    """The whole page."""
    import click
    import typer.main

    from threadline.entrypoints.cli import app

    command = typer.main.get_command(app)
    parts = [HEAD]
    for names, one in _walk(("threadline",), command):
        context = click.Context(
            one, info_name=" ".join(names), max_content_width=WIDTH, terminal_width=WIDTH
        )
        text = click.Command.get_help(one, context) if False else _plain(one, context)
        parts.append(f"## {' '.join(names)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written.\n")
