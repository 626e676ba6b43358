"""The SQL texts: every one works on both engines, and none of them looks at a whole table."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

import threadline
from tests.conftest import Databases
from threadline.stores.postgres_server import SETTINGS
from threadline.stores.statements import Statement, migrations, statements

SQLITE = statements("sqlite")
POSTGRES = statements("postgres")
UNKEYED = {"meta.load"}
KEYED = sorted(set(POSTGRES) - UNKEYED - {f"{name}!" for name in UNKEYED})

FILL = """
insert into conversations select n, 'default', 'a' || n, 'room', 1, 1, 1, n, n, n % 2, ''
    from generate_series(1, 5000) n;
insert into addresses select 'a' || n, n from generate_series(1, 5000) n;
insert into members select n % 50, n, 0, null, null, n, '' from generate_series(1, 5000) n;
insert into records select n % 50, n, 0, null, n, '', '' from generate_series(1, 5000) n;
insert into ids select n % 50, n::text::bytea, n, 0 from generate_series(1, 5000) n;
insert into sessions select n, 'default', 'n' || n, '' from generate_series(1, 5000) n;
insert into names select 'default', 'n' || n, n from generate_series(1, 5000) n
"""


def arguments(statement: Statement, mark: str) -> int:
    """How many arguments a statement takes."""
    return len(set(re.findall(rf"\{mark}\d+", statement.sql)))


@pytest.fixture(scope="module")
def file() -> Iterator[apsw.Connection]:
    """A SQLite database with the tables."""
    connection = apsw.Connection(":memory:")
    for _, _, parts in migrations("sqlite"):
        for sql in parts:
            connection.execute(sql)
    yield connection
    connection.close()


@pytest.fixture(scope="module", params=["empty", "filled but never analysed"])
def server(request: pytest.FixtureRequest, databases: Databases) -> Iterator[asyncpg.Connection]:
    """A connection as the store makes it, to a database with the tables."""
    name = databases.make()
    connection = databases.wait(
        asyncpg.connect(databases.server.url(name), server_settings=SETTINGS)
    )
    if request.param != "empty":
        databases.wait(connection.execute(FILL))
    yield connection
    databases.wait(connection.close())
    databases.drop(name)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def test_both_engines_have_the_same_statements() -> None:
    assert SQLITE.keys() == POSTGRES.keys()
    for name, statement in SQLITE.items():
        assert statement.columns == POSTGRES[name].columns


@pytest.mark.parametrize("name", sorted(SQLITE))
def test_every_statement_can_be_prepared_on_sqlite(file: apsw.Connection, name: str) -> None:
    statement = SQLITE[name]

    steps = file.execute(f"explain {statement.sql}", (1,) * arguments(statement, "?")).fetchall()

    assert steps


@pytest.mark.parametrize("name", sorted(POSTGRES))
def test_every_statement_can_be_prepared_on_postgres(
    server: asyncpg.Connection, databases: Databases, name: str
) -> None:
    statement = POSTGRES[name]

    prepared = databases.wait(server.prepare(statement.sql))

    assert len(prepared.get_parameters()) == arguments(statement, "$")
    assert bool(prepared.get_attributes()) == statement.reads


@pytest.mark.parametrize("name", [name for name in KEYED if not name.endswith("!")])
def test_no_keyed_statement_scans_a_table_on_sqlite(file: apsw.Connection, name: str) -> None:
    statement = SQLITE[name]
    tables = {table for (table,) in file.execute("select name from sqlite_schema")}

    explained = file.execute(
        f"explain query plan {statement.sql}", (1,) * arguments(statement, "?")
    )
    steps = [step for *_, step in explained]

    for step in steps:
        match = re.match(r"SCAN (\w+)(?! VIRTUAL TABLE INDEX)", step)
        if match and "VIRTUAL TABLE INDEX" not in step:
            assert aliased(statement.sql, match[1]) not in tables, steps


def aliased(sql: str, name: str) -> str:
    """The table behind an alias."""
    found = re.search(rf"(?:from|join) (\w+) {name}\b", sql)
    return found[1] if found else name


@pytest.mark.parametrize("name", KEYED)
def test_no_keyed_statement_scans_a_table_on_postgres_however_small_it_seems(
    server: asyncpg.Connection, databases: Databases, name: str
) -> None:
    statement = POSTGRES[name]
    nulls = ", ".join(["null"] * arguments(statement, "$"))

    async def explain() -> str:
        await server.execute(f"prepare probe as {statement.sql}")
        execute = f"execute probe({nulls})" if nulls else "execute probe"
        found = await server.fetchval(f"explain (format json) {execute}")
        await server.execute("deallocate probe")
        return str(found)

    plan = json.loads(databases.wait(explain()))[0]["Plan"]

    for node in nodes(plan):
        assert node["Node Type"] != "Seq Scan", node
        if node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Index Scan"):
            ordered_page = "limit" in statement.sql and node["Node Type"] != "Bitmap Index Scan"
            assert "Index Cond" in node or ordered_page, node


def test_every_column_is_written_and_read(file: apsw.Connection) -> None:
    texts = [statement.sql for name, statement in SQLITE.items() if not name.endswith("!")]
    unused = []

    for table in sorted(tables_of(file)):
        columns = columns_of(file, table)
        unused += [f"{table}.{name} is never written" for name in columns - written(texts, table)]
        unused += [f"{table}.{name} is never read" for name in columns - read(texts, table)]

    assert unused == []


def tables_of(file: apsw.Connection) -> set[str]:
    """The tables that are ours: no search index and none of its shadows."""
    rows = file.execute("select name from sqlite_schema where type = 'table'").fetchall()
    names = {str(name) for (name,) in rows if not str(name).startswith("sqlite_")}
    return {name for name in names if name != "search" and not re.match("search_(?!rows)", name)}


def columns_of(file: apsw.Connection, table: str) -> set[str]:
    """A table's columns, less a number that SQLite gives its rows itself."""
    found = file.execute(f"pragma table_info({table})").fetchall()
    return {str(name) for _, name, kind, *_ in found if kind != "INTEGER"}


def written(texts: list[str], table: str) -> set[str]:
    """The columns some statement fills."""
    found: set[str] = set()
    for sql in texts:
        for columns in re.findall(rf"insert into {table}\s*\(([^)]*)\)", sql):
            found |= {name.strip() for name in columns.split(",")}
        if re.match(rf"update {table}\b", sql):
            found |= set(re.findall(r"(\w+) =", sql.partition("where")[0]))
    return found


def read(texts: list[str], table: str) -> set[str]:
    """The columns some statement answers with or asks for."""
    found: set[str] = set()
    for sql in texts:
        for alias in re.findall(rf"(?:from|join) {table}(?: (?!where|order)(\w+))?\b", sql):
            found |= set(re.findall(rf"\b{alias}\.(\w+)" if alias else r"\b(\w+)\b", sql))
        if re.match(rf"(update|insert into) {table}\b", sql):
            found |= set(re.findall(rf"\b{table}\.(\w+)", sql))
    return found


def test_reading_the_texts_imports_nothing_and_replaces_nothing() -> None:
    before = dict(sys.modules)

    statements.cache_clear()
    statements("sqlite")
    statements("postgres")

    assert {name: id(module) for name, module in before.items()} == {
        name: id(sys.modules[name]) for name in before
    }


@pytest.mark.parametrize("folder", [Path(threadline.__file__).parent, Path(__file__).parent.parent])
def test_nobody_touches_the_imported_modules(folder: Path) -> None:
    touched = [
        f"{path.name}: {ast.unparse(node)}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if changes_modules(node)
    ]

    assert touched == []


def changes_modules(node: ast.AST) -> bool:
    """Whether code puts something into `sys.modules` or takes it out."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            return is_modules(value)
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            changing = {"pop", "clear", "update", "setdefault", "setitem", "delitem"}
            return name in changing and is_modules(value)
    return False


def is_modules(node: ast.AST) -> bool:
    """Whether code names `sys.modules`."""
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules"
