"""Tables that leave out columns where there is no room, and never cut what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_ENDLESS = 100_000  # columns
_GAP = 2  # columns


class Column:
    """A column of text. ``rank`` says when it goes: the highest first, 0 never. ``right`` is for numbers."""

    def __init__(
        self, title: str, cells: Sequence[RenderableType], *, rank: int = 0, right: bool = False, loose: int = 0
    ) -> None:
        """Words stay whole; where ``loose`` is given, they may be folded to so many columns."""
        self.title = title
        self.cells = cells
        self.rank = rank
        self.right = right
        self.loose = loose

    def bounds(self, console: Console) -> tuple[int, int]:
        """The fewest columns that it takes, and the most."""
        from rich.measure import Measurement

        options = console.options.update(width=_ENDLESS)
        measured = [Measurement.get(console, options, cell) for cell in (self.title, *self.cells)]
        least, most = max(one.minimum for one in measured), max(one.maximum for one in measured)
        return (min(least, self.loose) if self.loose else least), most


def show(columns: Sequence[Column], console: Console) -> bool:
    """Print the columns that there is room for, those of rank 0 in any case; True where some were left out."""
    kept = list(columns)
    while True:
        bounds = [column.bounds(console) for column in kept]
        rank = max(column.rank for column in kept)
        if rank == 0 or sum(most for _, most in bounds) + _gaps(kept) <= console.width:
            break
        kept = [column for column in kept if column.rank < rank]
    console.print(_table(kept, _widths(bounds, console.width - _gaps(kept))), crop=False)
    return len(kept) < len(columns)


def _gaps(columns: Sequence[Column]) -> int:
    return _GAP * (len(columns) - 1)


def _widths(bounds: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Widths that fit into the room where they can: the widest of those that can be narrower give way."""
    widths = [most for _, most in bounds]
    while sum(widths) > room:
        able = [index for index, (least, _) in enumerate(bounds) if widths[index] > least]
        if not able:
            break
        widths[max(able, key=lambda index: widths[index])] -= 1
    return widths


def _table(columns: Sequence[Column], widths: Sequence[int]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1), width=sum(widths) + _gaps(columns))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table
