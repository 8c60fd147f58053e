"""``Prefer: respond-async`` and ``Prefer: wait=N`` (RFC 7240): how long a client wants its answer held back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from litestar.datastructures import Headers

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_MAX_CHARS = 1000  # more is no preference


class Preference(NamedTuple):
    """What a client prefers. ``wait_s``: None where it doesn't say, 0 where it doesn't want to wait."""

    respond_async: bool = False
    wait_s: int | None = None

    def seconds(self, usual: float, most: float) -> float:
        """How long to hold the answer back: ``usual`` where nothing was preferred, ``most`` in any case."""
        if self.wait_s is not None:
            return min(self.wait_s, most)
        return 0.0 if self.respond_async else min(usual, most)

    def applied(self, *, waited_s: float, pending: bool) -> dict[str, str]:
        """The header that tells which preferences counted; none where the client had none."""
        told = ["respond-async"] if self.respond_async and pending else []
        if self.wait_s is not None:
            told.append(f"wait={waited_s:g}")
        return {"Preference-Applied": ", ".join(told)} if told else {}


_NONE = Preference()


def preference_of(headers: Headers) -> Preference:
    """What the request's ``Prefer`` headers say; what can't be read is ignored, as the RFC wants."""
    given = headers.getall("prefer", [])
    if not given:
        return _NONE
    found = _preferences(given)
    wait = found.get("wait", "")
    return Preference("respond-async" in found, int(wait) if _SECONDS.fullmatch(wait) else None)


def _preferences(lines: Sequence[str]) -> dict[str, str]:
    """By name; of one that comes twice the first counts (RFC 7240, 2)."""
    found: dict[str, str] = {}
    text = ",".join(lines)
    for part in _split(text, ",") if len(text) <= _MAX_CHARS else ():
        name, _, value = (piece.strip() for piece in next(_split(part, ";")).partition("="))
        if _TOKEN.fullmatch(name):
            quoted = len(value) > 1 and value[0] == value[-1] == '"'
            found.setdefault(name.lower(), value[1:-1] if quoted else value)
    return found


def _split(text: str, mark: str) -> Iterator[str]:
    """The parts between marks that stand outside of quotes; each character is looked at once, whatever is sent."""
    start, quoted, escaped = 0, False, False
    for index, char in enumerate(text):
        if escaped:
            escaped = False
        elif quoted and char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char == mark and not quoted:
            yield text[start:index]
            start = index + 1
    yield text[start:]
