"""Picture files: what is written into them comes out again, and nothing else is in them."""

from __future__ import annotations

import io
import struct
import zlib

import msgspec
import pytest
from PIL import Image

from jobstore.job import JobRequest, PictureFormat
from jobstore.pictures import UnreadablePictureError, decode, encode, infotext, read_infotext, transcode

TEXT = 'ō 😄 飞翔, "quotes"\nNegative prompt: fog\nSteps: 8, Seed: 1'
FORMATS = list(PictureFormat)


def picture() -> Image.Image:
    """A small picture of two colours."""
    image = Image.new("RGB", (24, 16), "red")
    image.paste("blue", (0, 0, 12, 16))
    return image


@pytest.mark.parametrize("format", FORMATS)
def test_infotext_comes_back_to_the_letter(format: PictureFormat) -> None:
    """In every format, beyond the basic plane too."""
    data = encode(picture(), format, TEXT)
    assert read_infotext(data) == TEXT
    assert decode(data).format == format.value.upper()


@pytest.mark.parametrize("format", FORMATS)
def test_metadata_off_leaves_pixels_alone(format: PictureFormat) -> None:
    """No text chunk, no EXIF, and nothing that the image brought along."""
    image = picture()
    image.info.update({"parameters": "secret", "exif": b"Exif\0\0secret", "comment": b"secret"})
    data = encode(image, format)
    assert read_infotext(data) == ""
    assert b"secret" not in data
    for mark in (b"tEXt", b"iTXt", b"zTXt", b"Exif", b"EXIF", b"eXIf"):
        assert mark not in data


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_transcoding_keeps_picture_and_infotext(source: PictureFormat, target: PictureFormat) -> None:
    """Within what a lossy format does to flat colours."""
    data = transcode(encode(picture(), source, TEXT), target)
    image = decode(data)
    assert (image.format, image.size, read_infotext(data)) == (target.value.upper(), (24, 16), TEXT)
    red = image.convert("RGB").getpixel((20, 8))
    assert isinstance(red, tuple)
    assert red[0] > 240
    assert max(red[1:]) < 16


def test_png_is_lossless_and_says_utf8() -> None:
    """The chunk is iTXt with the text in UTF-8, as it is."""
    data = encode(picture(), PictureFormat.PNG, TEXT)
    assert decode(data).tobytes() == picture().tobytes()
    assert b"iTXtparameters\0" in data
    assert TEXT.encode() in data


@pytest.mark.parametrize("format", [PictureFormat.JPEG, PictureFormat.WEBP])
def test_exif_comment_is_read_as_the_web_ui_writes_it(format: PictureFormat) -> None:
    """Its prefix names the encoding, then comes UTF-16, the high byte first."""
    assert b"UNICODE\0" + TEXT.encode("utf-16-be") in encode(picture(), format, TEXT)


def test_longest_prompt_fits_or_is_left_out() -> None:
    """A JPEG's EXIF holds 64 KiB; the picture is written all the same."""
    text = "飞" * 40_000
    assert read_infotext(encode(picture(), PictureFormat.PNG, text)) == text
    assert read_infotext(encode(picture(), PictureFormat.WEBP, text)) == text
    assert read_infotext(encode(picture(), PictureFormat.JPEG, text)) == ""


def test_infotext_in_full() -> None:
    """As the AUTOMATIC1111 web UI lays it out; a path in the revision doesn't get in."""
    request = JobRequest(
        model="scenes", prompt="a fox", negative_prompt="fog", width=128, height=96, steps=8, guidance=3.5, seed=1
    )
    text = infotext(request, seed=2, sampler="Euler", revision="d63c9ade07ec8619", version="0.1.0")
    assert text == (
        "a fox\nNegative prompt: fog\nSteps: 8, Sampler: Euler, CFG scale: 3.5, Seed: 2, Size: 128x96, "
        "Model: scenes, Model hash: d63c9ade07, Version: safelight 0.1.0"
    )
    assert "Adapters" not in text
    inked = msgspec.structs.replace(request, adapters=(("ink", 0.5), ("mist", 1.0)))
    inked_text = infotext(inked, seed=2, sampler="", revision="", version="0.1.0")
    assert "CFG scale: 3.5, Adapters: ink=0.5 mist=1, Seed: 2" in inked_text
    lossy = infotext(request, seed=2, sampler="", revision="", version="0.1.0", lossy="async-2 warm-up 2 stride 1")
    assert "Model: scenes, Lossy: async-2 warm-up 2 stride 1, Version: safelight 0.1.0" in lossy
    assert "Lossy" not in text
    assert "hash" not in infotext(request, seed=2, sampler="", revision="/srv/models/x", version="0.1.0")


def bomb(side: int) -> bytes:
    """A PNG that claims to be ``side`` x ``side`` pixels and holds a few hundred bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", bomb(30_000), bomb(9_000)])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    """And what would unpack to a gigapixel, before it is unpacked."""
    with pytest.raises(UnreadablePictureError):
        decode(data)


def test_other_formats_are_not_even_tried() -> None:
    """Decoders that nobody needs are no way in."""
    stream = io.BytesIO()
    picture().save(stream, "BMP")
    with pytest.raises(UnreadablePictureError):
        decode(stream.getvalue())
