"""Picture files: encoding, decoding within bounds, and the parameters that travel inside the file.

The parameters ("infotext") are written where the AUTOMATIC1111 web UI writes and looks for them, so that the many
tools which read its files read ours: in PNG an iTXt chunk ``parameters``, in JPEG and WebP the EXIF tag UserComment.
"""

from __future__ import annotations

import io
import re
from typing import Any

from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from jobstore.errors import JobStoreError
from jobstore.job import JobRequest, PictureFormat
from jobstore.scans import count_scans

MAX_PIXELS = 8192 * 8192
_MAX_SCANNED = 800_000_000  # pixels of all scans: 32 of 25 megapixels, which take seconds
_SCANS = "the picture is a JPEG of too many scans: save it anew"
_PNG_KEY = "parameters"
_EXIF_IFD = 0x8769  # EXIF 2.32, 4.6.3: pointer to the Exif IFD
_USER_COMMENT = 0x9286  # EXIF 2.32, 4.6.5: eight bytes name the encoding, then comes the text
_UNICODE = b"UNICODE\0"
_MAX_EXIF_BYTES = 65_000  # a JPEG segment holds 65,533 bytes, the EXIF header included
_SAVE_OPTIONS: dict[PictureFormat, dict[str, Any]] = {
    PictureFormat.PNG: {"compress_level": 6},
    PictureFormat.JPEG: {"quality": 95, "subsampling": 0},
    PictureFormat.WEBP: {"quality": 95},
}


class UnreadablePictureError(JobStoreError):
    """The bytes are no PNG, JPEG or WebP picture, or one of too many pixels or scans."""


def encode(image: Image.Image, format: PictureFormat, infotext: str | None = None, quality: int | None = None) -> bytes:
    """The file of a picture; without ``infotext`` it holds pixels and nothing else.

    ``quality`` is that of JPEG and WebP, 0 to 100; None is 95.
    An infotext too long for the EXIF block of a JPEG (over 65,000 bytes in UTF-16) is left out there.
    """
    bare = image.convert("RGB")
    bare.info.clear()
    stream = io.BytesIO()
    options = dict(_SAVE_OPTIONS[format])
    if quality is not None and "quality" in options:
        options["quality"] = max(1, quality)
    bare.save(stream, format=format.value, **options, **_metadata(format, infotext))
    return stream.getvalue()


def decode(data: bytes, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The decoded picture. What it costs is checked before a pixel is unpacked. Raises UnreadablePictureError."""
    scans = count_scans(data)
    if scans is None:
        raise UnreadablePictureError(_SCANS)
    try:
        image = Image.open(io.BytesIO(data), formats=[format.value for format in PictureFormat])
        if image.width * image.height > max_pixels:
            raise UnreadablePictureError(f"a picture of {image.width}x{image.height} has over {max_pixels} pixels")
        if scans > 1 and scans * image.width * image.height > _MAX_SCANNED:
            raise UnreadablePictureError(_SCANS)
        image.load()
    except Image.DecompressionBombError as error:
        raise UnreadablePictureError(f"the picture has over {max_pixels} pixels") from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise UnreadablePictureError("the data is not a PNG, JPEG or WebP picture, or a broken one") from error
    return image


def transcode(data: bytes, format: PictureFormat, quality: int | None = None) -> bytes:
    """The same picture in another file format, or quality, its infotext kept. Raises UnreadablePictureError."""
    image = decode(data)
    if quality is None and image.format == format.value.upper():
        return data
    return encode(image, format, _infotext_of(image) or None, quality)


def read_infotext(data: bytes) -> str:
    """The infotext inside a picture file; empty where it has none. Raises UnreadablePictureError."""
    return _infotext_of(decode(data))


def infotext(request: JobRequest, *, seed: int, sampler: str, revision: str, version: str, lossy: str = "") -> str:
    """The parameters of one picture in the form that the AUTOMATIC1111 web UI writes.

    The prompt comes first, then a line for the negative prompt if there is one, then the rest in one line. It holds
    no path, key or tenant: ``revision`` goes in as "Model hash" only where it is a digest. ``lossy`` is how the picture
    comes to differ from what one device makes of the same.
    """
    rest: dict[str, object] = {"Steps": request.steps}
    if sampler:
        rest["Sampler"] = sampler
    if request.guidance is not None:
        rest["CFG scale"] = f"{request.guidance:g}"
    if request.strength is not None:
        rest["Denoising strength"] = f"{request.strength:g}"
    if request.adapters:
        rest["Adapters"] = " ".join(f"{name}={weight:g}" for name, weight in request.adapters)
    rest |= {"Seed": seed, "Size": f"{request.width}x{request.height}", "Model": request.model}
    if re.fullmatch(r"[0-9a-f]{7,64}", revision):
        rest["Model hash"] = revision[:10]
    if lossy:
        rest["Lossy"] = lossy
    rest["Version"] = f"safelight {version}"
    lines = [request.prompt]
    if request.negative_prompt:
        lines.append(f"Negative prompt: {request.negative_prompt}")
    lines.append(", ".join(f"{name}: {value}" for name, value in rest.items()))
    return "\n".join(lines)


def _metadata(format: PictureFormat, infotext: str | None) -> dict[str, Any]:
    if not infotext:
        return {}
    if format is PictureFormat.PNG:
        chunks = PngInfo()
        chunks.add_itxt(_PNG_KEY, infotext)
        return {"pnginfo": chunks}
    comment = _UNICODE + infotext.encode("utf-16-be")  # big-endian, as piexif writes it for that web UI
    if format is PictureFormat.JPEG and len(comment) > _MAX_EXIF_BYTES:
        return {}
    exif = Image.Exif()
    exif.get_ifd(_EXIF_IFD)[_USER_COMMENT] = comment
    return {"exif": exif}


def _infotext_of(image: Image.Image) -> str:
    text = image.info.get(_PNG_KEY)
    if isinstance(text, str):
        return str(text)
    comment = image.getexif().get_ifd(_EXIF_IFD).get(_USER_COMMENT)
    if isinstance(comment, bytes) and comment.startswith(_UNICODE):
        return comment.removeprefix(_UNICODE).decode("utf-16-be", errors="replace")
    return ""
