"""Write docs/reference/cli.md anew from the commands themselves: `python scripts/help.py`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

from threadline.entrypoints.cli import app

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """# Commands

This page is made from the commands' own help: `.venv/bin/python scripts/help.py` writes it anew.
Settings are on [their own page](settings.md), error codes on [theirs](errors.md).
"""


def page() -> str:
    """The whole page."""
    sections = [_section(name, command) for name, command in _walk("threadline", _root())]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([HEAD, *sections]))


def _root() -> Any:
    return typer.main.get_command(app)


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part, below in sorted(getattr(command, "commands", {}).items()):
        if not below.hidden:
            yield from _walk(f"{name} {part}", below)


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    shown = [one for one in options if not one.hidden and "--help" not in one.opts]
    below = getattr(command, "commands", {})
    usage = [name]
    usage += [word for word in ("[OPTIONS]",) if shown]
    usage += [_place(one) for one in arguments]
    usage += ["COMMAND …"] if below else []
    lines = [f"## {name}", "", f"`{' '.join(usage)}`", ""]
    lines += [_shown(part) for part in inspect.cleandoc(command.help or "").split("\n\n")]
    if arguments or shown:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{_place(one)}` | {_about(one)} |" for one in arguments]
        lines += [f"| `{_names(one)}` | {_about(one)} |" for one in shown]
        lines.append("")
    return "\n".join(lines)


def _shown(part: str) -> str:
    """A paragraph; one of commands alone is an example."""
    lines = [line.strip() for line in part.strip("\b\n ").splitlines()]
    if all(line.startswith("threadline ") or "| threadline " in line for line in lines):
        lines = ["```text", *lines, "```"]
    return "\n".join([*lines, ""])


def _place(argument: Any) -> str:
    name = str(argument.metavar or argument.name).upper()
    name += "…" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    asked = option.type_descriptor.annotation
    if option.metavar:
        value = str(option.metavar)
    elif isinstance(asked, type) and issubclass(asked, Enum):
        value = "/".join(str(one.value) for one in asked)
    else:
        value = {int: "NUMBER", float: "NUMBER"}.get(asked, "TEXT")
    return f"{names} {value}"


def _about(param: Any) -> str:
    text = " ".join((getattr(param, "help", "") or "").split()).replace("|", "\\|")
    default = getattr(param.default, "value", param.default)
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    text += "" if text.endswith(".") or not text else "."
    return f"{text} Default: `{default}`.".strip() if plain and default != "" else text


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"{PAGE.name} is written.\n")
