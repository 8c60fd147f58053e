"""Small approximate pictures of what a render has come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from actors.engine.outputs import as_picture
from actors.engine.stepping import BatchKey

if TYPE_CHECKING:
    from PIL.Image import Image

    from actors.engine.families.base import Family

_LONGEST_SIDE = 256  # pixels


def small_picture(family: Family, latents: torch.Tensor, key: BatchKey) -> Image:
    """A picture of at most about 256 pixels a side: the VAE decodes latents that were averaged down.

    The VAE stays what it is, and the cost falls with the area; a linear map from latents to RGB would be cheaper still,
    but has to be fitted for every VAE. ``latents``: [1, ...] of one row.
    """
    grid = family.grid(latents, key)
    factor = max(1, round(max(key.width, key.height) / _LONGEST_SIDE))
    if factor > 1:
        grid = torch.nn.functional.avg_pool2d(grid.float(), factor, ceil_mode=True).to(grid.dtype)
    return as_picture(family.decode_grid(grid))
