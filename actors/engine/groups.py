"""Groups of rows that step together, and whose turn it is. Pure Python: no torch, no clock of its own.

The policy, in three rules:

- At most ``open_groups`` batch keys are open at a time, and each steps as many rows as are worth it. What fits into an
  open group joins it at the next step, whoever waits before it with another key: that fills batches.
- Open groups take turns so that their pictures get on equally: a step is charged by its seconds a row, and the group
  that was charged least goes next. A group of one row gets as much time as one row of a full batch.
- Nobody starves: once a request has waited ``patience_s`` while its key has no group, the group that has been open
  longest takes in no more, and nobody who waits behind that request opens a group or has a model loaded before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from actors.engine.stepping import BatchKey, Row


@dataclass(slots=True, eq=False)
class Group:
    """Rows of one batch key: ``rows`` step, ``waiting`` ones step once there is room. It was charged ``used_s``."""

    key: BatchKey
    opened_at: float
    used_s: float
    closing: bool = False
    rows: list[Row] = field(default_factory=list)
    waiting: deque[Row] = field(default_factory=deque)

    @property
    def size(self) -> int:
        """All rows."""
        return len(self.rows) + len(self.waiting)

    def fill(self, limit: int) -> list[Row]:
        """The rows to step now, at most ``limit``: where the limit fell, those that came last wait."""
        while len(self.rows) > limit:
            self.waiting.appendleft(self.rows.pop())
        while self.waiting and len(self.rows) < limit:
            self.rows.append(self.waiting.popleft())
        return list(self.rows)

    def remove(self, row: Row) -> None:
        """Let a row go; nothing happens where it isn't here."""
        if row in self.rows:
            self.rows.remove(row)
        elif row in self.waiting:
            self.waiting.remove(row)


Charge = Callable[[float, int], float]
"""What a group is charged for a step of so many seconds and rows."""


def by_row(seconds: float, rows: int) -> float:
    """The seconds of one row."""
    return seconds / max(rows, 1)


class Groups:
    """The open groups."""

    def __init__(self, open_groups: int, charge: Charge = by_row) -> None:
        self._most = open_groups
        self._charge = charge
        self._open: dict[BatchKey, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        """All open groups."""
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def full(self) -> bool:
        """True while no other key can be opened."""
        return len(self._open) >= self._most

    def get(self, key: BatchKey) -> Group | None:
        """The open group of a key."""
        return self._open.get(key)

    def add(self, key: BatchKey, rows: Iterable[Row], now: float) -> Group:
        """Let rows wait in their key's group, which opens if need be.

        A group that opens begins with the least that another was charged: it neither lags behind nor makes up for a
        time when it was not there.
        """
        group = self._open.get(key)
        if group is None:
            used = min((other.used_s for other in self._open.values()), default=0.0)
            group = self._open[key] = Group(key, now, used)
        group.waiting.extend(rows)
        return group

    def remove(self, row: Row) -> None:
        """Let a row go, and its group where it was the last."""
        group = self._open.get(row.key)
        if group is not None:
            group.remove(row)
            if not group.size:
                del self._open[row.key]

    def charge(self, group: Group, seconds: float, rows: int) -> None:
        """A group took a step."""
        group.used_s += self._charge(max(seconds, 0.0), rows)

    def next(self) -> Group | None:
        """The group whose turn it is: the one that was charged least."""
        return min(self._open.values(), key=lambda group: group.used_s, default=None)

    def reopen(self) -> None:
        """Let all groups take in again."""
        for group in self._open.values():
            group.closing = False

    def close_oldest(self) -> None:
        """Let the group that has been open longest take in no more, unless one is closing already."""
        if not any(group.closing for group in self._open.values()):
            oldest = min(self._open.values(), key=lambda group: group.opened_at, default=None)
            if oldest is not None:
                oldest.closing = True
