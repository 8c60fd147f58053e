"""Cursors of pages: opaque to clients, to stores the place in an order: a sequence number, or a time and one."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND = timedelta(microseconds=1)


def encoded(seq: int) -> str:
    """The cursor after the job with that sequence number."""
    return _opaque(f"s{seq}")


def decoded(cursor: str | None) -> int | None:
    """The sequence number of a cursor. Raises ValueError on what no page gave."""
    return None if cursor is None else int(_parts(cursor, r"s([0-9]{1,18})")[0])


def encoded_end(at: datetime, seq: int) -> str:
    """The cursor after the job that ended then, in the order of ends."""
    return _opaque(f"e{(at - _EPOCH) // _MICROSECOND}.{seq}")


def decoded_end(cursor: str | None) -> tuple[datetime, int] | None:
    """The end and the sequence number of such a cursor. Raises ValueError on what no page gave."""
    if cursor is None:
        return None
    at, seq = _parts(cursor, r"e([0-9]{1,17})\.([0-9]{1,18})")
    return _EPOCH + int(at) * _MICROSECOND, int(seq)


def _opaque(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parts(cursor: str, pattern: str) -> tuple[str, ...]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        text = ""
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ValueError("the cursor is not one that a page gave")
    return found.groups()
