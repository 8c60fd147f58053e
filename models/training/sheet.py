"""A contact sheet: pictures in rows with their captions beneath."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

CELL = 200
TEXT_LINES = 3
LINE_HEIGHT = 12
COLUMNS = 8
MOST = 96
RIGHT, WRONG = (90, 90, 90), (200, 30, 30)


@dataclass(frozen=True)
class Picture:
    """A picture, its caption, and whether it was judged right."""

    image: Image.Image
    caption: str
    right: bool


def save_sheet(pictures: list[Picture], path: Path) -> None:
    """Save the sheet, of pictures evenly picked when there are many; wrong ones have red captions."""
    step = max(1, -(-len(pictures) // MOST))
    chosen = pictures[::step]
    rows = -(-len(chosen) // COLUMNS)
    height = CELL + TEXT_LINES * LINE_HEIGHT + 8
    sheet = Image.new("RGB", (COLUMNS * CELL, max(1, rows) * height), (235, 235, 235))
    draw = ImageDraw.Draw(sheet)
    for number, picture in enumerate(chosen):
        left, top = number % COLUMNS * CELL, number // COLUMNS * height
        sheet.paste(picture.image, (left + 4, top + 4))
        text = "\n".join(textwrap.wrap(picture.caption, 32)[:TEXT_LINES])
        draw.text((left + 4, top + CELL), text, fill=RIGHT if picture.right else WRONG, spacing=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
