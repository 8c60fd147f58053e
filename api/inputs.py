"""Gets an uploaded picture and its mask ready for a render: decoded within bounds, upright, of the size asked for.

Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import binascii
import io
import math
import re
from base64 import b64decode
from typing import NamedTuple

from PIL import Image, ImageOps

from api.problems import invalid
from jobstore.inputs import digest_of
from jobstore.job import PictureFormat
from jobstore.pictures import UnreadablePictureError, decode, encode
from safelight.config import ModelSettings

_MAX_PIXELS = 25_000_000  # twice what most telephones take; unpacked 100 MB
_DATA_URL = re.compile(r"data:image/(?:png|jpe?g|webp);base64,", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(r"[0-9]{1,5}x[0-9]{1,5}", re.ASCII)
_TRANSPARENT = 128  # below it a pixel of a mask is to change


class Upright(NamedTuple):
    """A decoded picture as its viewer would show it, and what of it is to change (white), if that was said."""

    image: Image.Image
    mask: Image.Image | None


class Prepared(NamedTuple):
    """PNG files of the picture and its mask, in the size of the render."""

    image: bytes
    mask: bytes | None

    @property
    def files(self) -> dict[str, bytes]:
        """By digest."""
        return {digest_of(data): data for data in self if data is not None}


def picture_file(field: str, value: object) -> bytes:
    """The file of a data URL, of base64 as it is, or of an object that holds one. Raises ProblemError."""
    if isinstance(value, dict):
        if value.get("file_id") is not None:
            raise invalid(field, f"{field}: files are not kept here; send the picture itself as a data: URL")
        value = value.get("image_url")
        value = value.get("url") if isinstance(value, dict) else value
    if not isinstance(value, str) or not value:
        raise invalid(field, f"{field} must be a data: URL with a PNG, JPEG or WebP picture in base64")
    if re.match(r"[a-z][a-z0-9+.-]*://", value, re.IGNORECASE):
        raise invalid(field, f"{field}: pictures are not fetched from elsewhere; send it as a data: URL")
    found = _DATA_URL.match(value)
    if value[:5].lower() == "data:" and not found:
        raise invalid(field, f"{field} must be a data: URL of image/png, image/jpeg or image/webp in base64")
    try:
        return b64decode(value[found.end() :] if found else value, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(field, f"{field} is not base64 that can be read") from None


def open_pictures(image: bytes, mask: bytes | None) -> Upright:
    """Decode what was uploaded. Without a mask, transparent parts of the picture are what is to change.

    Raises ProblemError naming ``image`` or ``mask``.
    """
    picture = _opened("image", image)
    if mask is None:
        return Upright(picture.convert("RGB"), _hole_of(picture))
    cover = _opened("mask", mask)
    if cover.size != picture.size:
        raise invalid("mask", f"mask must be as large as the image, {picture.width}x{picture.height} pixels")
    hole = _hole_of(cover)
    if hole is None:
        raise invalid("mask", "mask must be transparent where the picture is to change, and it is nowhere")
    return Upright(picture.convert("RGB"), hole)


def prepare(pictures: Upright, width: int, height: int) -> Prepared:
    """Bring the picture to this size: scaled until it covers it, the middle cut out. The mask goes along."""
    image = ImageOps.fit(pictures.image, (width, height), Image.Resampling.LANCZOS)
    mask = None if pictures.mask is None else ImageOps.fit(pictures.mask, (width, height), Image.Resampling.NEAREST)
    return Prepared(encode(image, PictureFormat.PNG), None if mask is None else _grey_file(mask))


def fitting_size(image: Image.Image, model: ModelSettings) -> str:
    """The size, among those that the model renders, whose shape is nearest to the picture's."""
    shape = math.log(image.width / image.height)
    usual = model.usual_size
    if model.sizes:
        return min(model.sizes, key=lambda size: (abs(_shape(size) - shape), size != usual))
    width, height = (int(side) for side in usual.split("x"))
    factor = math.sqrt(width * height / (image.width * image.height))
    return f"{_side(image.width * factor, model)}x{_side(image.height * factor, model)}"


def most_pixels(size: str | None, model: ModelSettings) -> int:
    """How many pixels a picture has at most, of this size or, without one, of any that ``model`` renders."""
    most = max((_pixels(one) for one in model.sizes), default=model.max_side**2)
    return most if size is None or not _SIZE.fullmatch(size) else min(_pixels(size), most)


def _pixels(size: str) -> int:
    width, height = (int(side) for side in size.split("x"))
    return width * height


def _side(pixels: float, model: ModelSettings) -> int:
    multiple = model.traits.size_multiple
    least, most = math.ceil(model.min_side / multiple), model.max_side // multiple
    return multiple * min(max(round(pixels / multiple), least), most)


def _shape(size: str) -> float:
    width, height = (int(side) for side in size.split("x"))
    return math.log(width / height)


def _opened(field: str, data: bytes) -> Image.Image:
    try:
        picture = decode(data, _MAX_PIXELS)
        return ImageOps.exif_transpose(picture)
    except UnreadablePictureError as error:
        raise invalid(field, f"{field}: {error}") from error
    except Exception as error:  # what Pillow raises on EXIF blocks that are damaged is of any kind
        raise invalid(field, f"{field}: the picture is damaged") from error


def _hole_of(picture: Image.Image) -> Image.Image | None:
    """White where the picture is transparent; None where it is nowhere."""
    if not picture.has_transparency_data:
        return None
    alpha = picture.convert("RGBA").getchannel("A")
    hole = alpha.point(lambda value: 255 if value < _TRANSPARENT else 0)
    return hole if hole.getbbox() else None


def _grey_file(mask: Image.Image) -> bytes:
    stream = io.BytesIO()
    mask.save(stream, "PNG")
    return stream.getvalue()
