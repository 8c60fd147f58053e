"""From what a pipeline returns to pictures, or to an error where there is none in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.engine.errors import BadOutputError, InvalidRequestError

if TYPE_CHECKING:
    from PIL.Image import Image


def to_pictures(output: Any, width: int, height: int) -> list[Image]:
    """RGB pictures of a pipeline's output with ``output_type="np"``: float arrays [N, height, width, 3] in 0…1.

    Raises BadOutputError where a value is not a number, or where a picture is one colour all over: half precision
    that overflowed leaves one or the other. Raises InvalidRequestError where the model rounded the size.
    """
    import numpy as np
    from PIL import Image

    arrays = np.asarray(output.images)
    if arrays.ndim != 4 or arrays.shape[-1] != 3:
        raise BadOutputError(f"the model gave an array of shape {arrays.shape} instead of RGB pictures")
    if arrays.shape[1:3] != (height, width):
        raise InvalidRequestError(
            f"the model can't render {width}x{height}: it made it {arrays.shape[2]}x{arrays.shape[1]}"
        )
    pictures = []
    for array in arrays:
        if not np.isfinite(array).all():
            raise BadOutputError("the model gave values that are not numbers")
        if (array == array[0, 0]).all():
            raise BadOutputError("the model gave one colour all over instead of a picture")
        pictures.append(Image.fromarray((array * 255).round().astype("uint8")))
    return pictures
