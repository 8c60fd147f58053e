"""Cursors of pages: opaque to clients, a sequence number to stores."""

from __future__ import annotations

import base64
import binascii
import re


def encoded(seq: int) -> str:
    """The cursor after the job with that sequence number."""
    return base64.urlsafe_b64encode(f"s{seq}".encode()).decode().rstrip("=")


def decoded(cursor: str | None) -> int | None:
    """The sequence number of a cursor. Raises ValueError on what no page gave."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        text = ""
    if not re.fullmatch(r"s[0-9]{1,18}", text):
        raise ValueError("the cursor is not one that a page gave")
    return int(text[1:])
