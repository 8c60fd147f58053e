"""Picture files that are sent: what would take minutes to decode is refused by its field, before it is decoded."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from api.inputs import open_pictures
from api.problems import ProblemError

SOS = b"\xff\xda"
END = b"\xff\xd9"


def progressive(side: int = 16, **options: object) -> bytes:
    """A small JPEG of several scans."""
    stream = io.BytesIO()
    Image.new("L", (side, side), 128).save(stream, "JPEG", progressive=True, **options)
    return stream.getvalue()


def scans(count: int, side: int = 16) -> bytes:
    """The same with its last scan so many times more."""
    data = progressive(side)
    last = data[data.rindex(SOS) : -2]
    return data[:-2] + last * count + END


def comment(payload: bytes) -> bytes:
    """A segment that nobody decodes."""
    return b"\xff\xfe" + (len(payload) + 2).to_bytes(2, "big") + payload


@pytest.mark.parametrize("field", ["image", "mask"])
@pytest.mark.parametrize(
    "data",
    [
        scans(101),
        scans(90, 3000),
        progressive()[:-2] + comment(END) + scans(101)[len(progressive()) - 2 :],
        b"\xff\xd8" + b"\xff" * 9 + scans(101)[2:],
        progressive()[:2] + comment(b"") * 6_000 + progressive()[2:],
    ],
    ids=["scans", "large", "an end that is none", "filled up", "segments"],
)
def test_a_jpeg_of_many_scans_is_refused(field: str, data: bytes) -> None:
    """Each scan goes over all pixels anew, so a small file would hold a thread for minutes."""
    with pytest.raises(ProblemError) as refused:
        open_pictures(*{"image": (data, None), "mask": (progressive(), data)}[field])
    assert (refused.value.status_code, refused.value.field) == (400, field)
    assert "scans" in refused.value.detail


def test_what_looks_like_scans_and_is_none_counts_for_nothing() -> None:
    """In a comment, or behind the end, where telephones put a film."""
    data = progressive()
    harmless = data[:2] + comment(SOS * 200) + data[2:] + SOS * 200
    assert open_pictures(harmless, None).image.size == (16, 16)
    assert open_pictures(scans(50), None).image.size == (16, 16)
