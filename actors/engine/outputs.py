"""From what a pipeline returns to pictures, or to an error where there is none in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.engine.errors import BadOutputError, InvalidRequestError

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


def to_picture(decoded: torch.Tensor, width: int, height: int) -> Image:
    """The RGB picture of what a VAE decoded: [1, 3, height, width], about -1…1. Raises as ``to_pictures``."""
    return to_pictures(_in_unit_range(decoded), width, height)[0]


def as_picture(decoded: torch.Tensor) -> Image:
    """An RGB picture of what a VAE decoded, whatever it is: [1, 3, height, width]."""
    import numpy as np

    return _image(np.nan_to_num(_in_unit_range(decoded)[0]))


def to_pictures(arrays: Any, width: int, height: int) -> list[Image]:
    """RGB pictures of float arrays [N, height, width, 3] in 0…1.

    Raises BadOutputError where a value is not a number, or where a picture is one colour all over: half precision
    that overflowed leaves one or the other. Raises InvalidRequestError where the model rounded the size.
    """
    import numpy as np

    arrays = np.asarray(arrays)
    if arrays.ndim != 4 or arrays.shape[-1] != 3:
        raise BadOutputError(f"the model gave an array of shape {arrays.shape} instead of RGB pictures")
    if arrays.shape[1:3] != (height, width):
        raise InvalidRequestError(
            f"the model can't render {width}x{height}: it made it {arrays.shape[2]}x{arrays.shape[1]}"
        )
    for array in arrays:
        if not np.isfinite(array).all():
            raise BadOutputError("the model gave values that are not numbers")
        if (array == array[0, 0]).all():
            raise BadOutputError("the model gave one colour all over instead of a picture")
    return [_image(array) for array in arrays]


def _in_unit_range(decoded: torch.Tensor) -> Any:
    """[B, 3, H, W] of about -1…1 to an array [B, H, W, 3] of 0…1, as diffusers' VaeImageProcessor does."""
    return (decoded * 0.5 + 0.5).clamp(0, 1).cpu().permute(0, 2, 3, 1).float().numpy()


def _image(array: Any) -> Image:
    from PIL import Image

    return Image.fromarray((array * 255).round().astype("uint8"))
