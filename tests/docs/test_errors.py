"""The table of errors in docs/api.md is complete: it has every code that the API answers with, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from api.openai import failures
from api.problems import _CODES

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\d{3}) \| ([^|]+) \|", re.M)


def page_from(start: str) -> str:
    """What the page tells of errors from there on."""
    page = (ROOT / "docs/api.md").read_text()
    return page[page.index(start) : page.index("## Events")]


def written(tree: ast.AST) -> Iterator[tuple[int | None, str]]:
    """Statuses and codes that are written where a problem is made, or put together for one."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ProblemError":
            parts = node.args[:2]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            names = [name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)]
            parts = node.value.elts[:2] if names[:2] == ["status", "code"] else []
        status, code = ([part.value if isinstance(part, ast.Constant) else None for part in parts] or [None] * 2)[:2]
        if isinstance(code, str):
            yield (status if isinstance(status, int) else None), code


def test_every_code_is_in_the_table() -> None:
    """Under its status; read from the sources themselves."""
    codes = {found for file in (ROOT / "api").rglob("*.py") for found in written(ast.parse(file.read_text()))}
    codes |= set(_CODES.items())
    assert len(codes) > 40
    rows = [(int(status), re.findall(r"`([a-z_]+)`", cell)) for status, cell in ROW.findall(page_from("## Errors"))]
    assert codes == {(status, code) for status, told in rows for code in told}


def test_what_a_failed_job_is_on_openais_routes_is_told() -> None:
    """With the status of each."""
    told = page_from("On OpenAI's routes a job that failed")
    for code, status in failures._STATUS.items():
        assert f"`{failures._RENAMED.get(code, code)}`" in told
        assert str(status) in told
