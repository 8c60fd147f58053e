"""How often a JPEG file goes over its pixels: each of its scans does, however few bytes it has."""

from __future__ import annotations

import re

_MOST_SCANS = 100  # encoders write about ten
_MOST_SEGMENTS = 5_000  # of a photograph's file with a large colour profile: 300
_START = b"\xff\xd8"
_END, _SCAN = 0xD9, 0xDA
# ITU T.81, B.1.1.3: 00 is a byte of data, FF fills up, and 01 and D0 to D7 stand alone, D8 too.
_SEGMENT = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])")


def count_scans(data: bytes) -> int | None:
    """How many scans a JPEG has, None where there are more of them, or of segments, than any encoder writes.

    1 of other files. It goes from segment to segment by their lengths, as decoders do (ITU T.81, annex B), up to the
    end of the picture: what is in a segment, or behind the picture, is none.
    """
    if not data.startswith(_START):
        return 1
    at = scans = segments = 0
    while scans <= _MOST_SCANS and segments <= _MOST_SEGMENTS:
        found = _SEGMENT.search(data, at)
        if found is None or found[1][0] == _END:
            return scans
        scans += found[1][0] == _SCAN
        segments += 1
        at = found.end() + max(2, int.from_bytes(data[found.end() : found.end() + 2], "big"))
    return None
