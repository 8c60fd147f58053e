"""What was measured, a line a case: a case that fails is a line too, and one that was measured is not run again."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from actors.engine.devices import is_out_of_memory

Case = Mapping[str, str | int]
"""What is measured: ``part`` and whatever tells its cases apart."""


@dataclass(slots=True)
class Results:
    """Found values by case, in a file of JSON lines where there is one.

    ``place`` says on what, and in which number format: what was found elsewhere in the same file counts for nothing.
    """

    path: Path | None = None
    place: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read what an earlier run left behind; half a line at the end is left out."""
        if self.path is None or not self.path.exists():
            return
        text = self.path.read_text()
        if text and not text.endswith("\n"):
            self.path.write_text(text + "\n")
        for line in text.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if found["place"] == self.place:
                self.lines.append(found)

    def find(self, case: Case) -> dict[str, Any] | None:
        """The values of that case; None where it has not been measured, or failed."""
        for line in self.lines:
            if line["case"] == dict(case) and "error" not in line:
                return dict(line["found"])
        return None

    def run(self, case: Case, measure: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The values of a case, measured unless they are known; ``{"error": …}`` where that fails."""
        known = self.find(case)
        if known is not None:
            return known
        try:
            found = dict(measure())
        except Exception as error:
            words = "out of memory" if is_out_of_memory(error) else f"{type(error).__name__}: {_first_line(error)}"
            found = {"error": words}
        if "error" in found:
            free()
        self._add({"place": self.place, "case": dict(case), **({"found": found} if "error" not in found else found)})
        return found

    def _add(self, line: dict[str, Any]) -> None:
        self.lines = [old for old in self.lines if old["case"] != line["case"]] + [line]
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def free() -> None:
    """Give back what nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:120]
