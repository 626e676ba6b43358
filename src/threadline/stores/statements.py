"""The SQL texts, one for both engines, and the few words in which the engines differ.

A statement is named in its file: `-- name: members.load (conversation bigint, session bigint)`.
With a list of columns it is about a set of rows, and `{{rows}}` stands for that set: SQLite runs
the statement once a row inside one call, PostgreSQL runs it once over arrays. Without a list its
arguments are `$1`, `$2` and so on.

| word | SQLite | PostgreSQL |
|---|---|---|
| `{{rows}} k` | none: `k.a` is `?1`; or `(select ?1 as a) k` | `unnest($1::bigint[])`, named |
| `{{lock t}}` | nothing: there is one writer | `for update of t`, when the row is held |
| `{{order x}}` | nothing: rows come one by one | `order by x`: one order of locks |
| `{{clustered}}` | `without rowid` | nothing |

The type `bytea` is `blob` on SQLite.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"-- name: ([a-z_.]+)(?: \(([^)]*)\))?\n(.*?);\s*(?=-- name:|\Z)", re.S)
_WORD = re.compile(r"\{\{(\w+)(?: ([^}]*))?\}\}")

# One row at a time needs no table of rows, and SQLite runs the plain form in a third of the time.
_PLAIN = (
    (
        r"(insert .*?\))\s+select (.*?)\s+from {{rows}} k(?:\s+where true)?(\s+(?:on |{{).*)?",
        r"\1 values (\2)\3",
    ),
    (r"(update .*?)\s+from {{rows}} k (where .*)", r"\1 \2"),
    (
        r"(select .*?)\s+from {{rows}} k join (\w+ \w+) on ((?!.*\b(?:join|where)\b).*)",
        r"\1 from \2 where \3",
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One SQL text for one engine. `columns` is empty where it takes plain arguments."""

    name: str
    sql: str
    columns: tuple[str, ...]
    reads: bool


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine's way of saying the same thing."""

    name: str

    def word(self, word: str, argument: str, columns: list[tuple[str, str]], held: bool) -> str:
        """What one `{{word argument}}` becomes."""
        sqlite = self.name == "sqlite"
        match word:
            case "rows" if sqlite:
                names = ", ".join(f"?{n} as {name}" for n, (name, _) in enumerate(columns, 1))
                return f"(select {names})"
            case "rows":
                arrays = ", ".join(f"${n}::{kind}[]" for n, (_, kind) in enumerate(columns, 1))
                names = ", ".join(name for name, _ in columns)
                return f"(select * from unnest({arrays}) as k({names}))"
            case "lock":
                return "" if sqlite or not held else f"for update of {argument}"
            case "order":
                return "" if sqlite else f"order by {argument}"
            case "clustered":
                return "without rowid" if sqlite else ""
        raise ValueError(f"the SQL texts use an unknown word {word!r}")

    def text(self, sql: str, columns: list[tuple[str, str]], *, held: bool = False) -> str:
        """A statement's text for this engine."""
        if self.name == "sqlite":
            sql = _plain(sql.strip(), [name for name, _ in columns])
        done = _WORD.sub(lambda m: self.word(m[1], m[2] or "", columns, held), sql)
        if self.name == "sqlite":
            done = re.sub(r"\$(\d+)", r"?\1", done).replace(" bytea", " blob")
        return done.strip()


def _plain(sql: str, columns: list[str]) -> str:
    """A keyed statement for one row, its columns as arguments; as it is where that cannot be."""
    for shape, plain in _PLAIN:
        found = re.fullmatch(shape, sql, re.S)
        if found and all(re.search(rf"\bk\.{name}\b", sql) for name in columns):
            sql = found.expand(plain)
            for number, name in enumerate(columns, 1):
                sql = re.sub(rf"\bk\.{name}\b", f"?{number}", sql)
    return sql


@cache
def together(*texts: str) -> str:
    """Statements that change different tables, as one of PostgreSQL; their arguments in a row.

    >>> together("insert into a values ($1)", "update b set x = $1 where y = $2")
    'with w0 as (insert into a values ($1)) update b set x = $2 where y = $3'
    """
    done: list[str] = []
    before = highest = 0

    def behind(found: re.Match[str]) -> str:
        nonlocal highest
        highest = max(highest, before + int(found[1]))
        return f"${before + int(found[1])}"

    for text in texts:
        done.append(re.sub(r"\$(\d+)", behind, text))
        before = highest
    *first, last = done
    parts = ", ".join(f"w{n} as ({text})" for n, text in enumerate(first))
    return f"with {parts} {last}" if first else last


@cache
def statements(dialect: str) -> dict[str, Statement]:
    """All statements of an engine by name; a name with `!` behind it locks what it reads."""
    found: dict[str, Statement] = {}
    speak = Dialect(dialect)
    folder = files("threadline.stores") / "sql"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        for name, params, sql in _NAME.findall(file.read_text("utf-8")):
            if name.endswith("_" + _other(dialect)):
                continue
            name = name.removesuffix("_" + dialect)
            columns = [(a, b) for a, b in (p.split() for p in params.split(",") if p.strip())]
            names = tuple(column for column, _ in columns)
            reads = sql.lstrip().lower().startswith(("select", "with"))
            for held, mark in ((False, ""), (True, "!")):
                text = speak.text(sql, columns, held=held)
                found[name + mark] = Statement(name + mark, text, names, reads)
    return found


def _other(dialect: str) -> str:
    return "postgres" if dialect == "sqlite" else "sqlite"


@cache
def migrations(dialect: str) -> Sequence[tuple[int, str, Sequence[str]]]:
    """The numbered migrations in order: number, name, statements of this engine."""
    found: list[tuple[int, str, list[str]]] = []
    speak = Dialect(dialect)
    folder = files("threadline.stores") / "migrations"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        number, _, name = file.name.removesuffix(".sql").partition("_")
        kept, wanted = [], True
        for line in file.read_text("utf-8").splitlines():
            if line in ("-- sqlite:", "-- postgres:", "-- both:"):
                wanted = line[3:-1] in (dialect, "both")
            elif wanted and not line.startswith("--"):
                kept.append(line)
        parts = [part.strip() for part in "\n".join(kept).split(";") if part.strip()]
        found.append((int(number), name, [speak.text(part, []) for part in parts]))
    return found
