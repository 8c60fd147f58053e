"""What one page says is on another is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors(page: Path) -> set[str]:
    """The headings as a link names them."""
    bare = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in HEADING.findall(page.read_text()))
    return {heading.replace(" ", "-") for heading in bare}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file, and to a heading of it where one is named."""
    for link in LINK.findall(page.read_text()):
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


def test_every_page_is_listed() -> None:
    """In docs/README.md, once."""
    listed = LINK.findall((ROOT / "docs/README.md").read_text())
    for page in PAGES[1:]:
        assert page.name == "README.md" or listed.count(page.name) == 1, page.name
