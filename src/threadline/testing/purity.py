"""What touches the world, found in a file's own text: the test of every room that is pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

IMPURE_MODULES = {
    *("asyncio", "fcntl", "glob", "io.open", "logging", "mmap", "multiprocessing", "os"),
    *("pathlib", "random", "requests", "secrets", "select", "selectors", "shutil", "signal"),
    *("socket", "sqlite3", "ssl", "structlog", "subprocess", "tempfile", "threading", "time"),
    *("urllib.request", "http.client", "apsw", "asyncpg", "httpx", "aiohttp", "uuid"),
}
CLOCKS = frozenset({"now", "utcnow", "today"})


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module a file imports, at its top or inside a function, by its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What is called, as written, and in which line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def io_of(tree: ast.AST) -> list[str]:
    """Everything in a file that touches the world: a module, `open`, `input`, a clock."""
    found = []
    for module in imports(tree):
        parts = module.split(".")
        names = {".".join(parts[: n + 1]) for n in range(len(parts))}
        found += sorted(names & IMPURE_MODULES)
    for name, line in calls(tree):
        if name in {"open", "input", "print", "breakpoint"}:
            found.append(f"{name}() in line {line}")
        last = name.rpartition(".")[2]
        if "." in name and last in CLOCKS and name.split(".")[-2] in {"datetime", "date"}:
            found.append(f"{name}() in line {line}")
    found += [f"await in line {n.lineno}" for n in ast.walk(tree) if isinstance(n, ast.Await)]
    return found
