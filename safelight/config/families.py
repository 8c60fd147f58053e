"""What a model family means to those who never load a model: defaults, size rules, and a version for the cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Family:
    """Traits of a model family that decide how a request is resolved.

    ``version`` goes into every fingerprint: raise it whenever a change of code changes the pixels.
    ``size_multiple`` is in pixels: VAE scale factor times patch size. ``takes_images`` tells whether its pipelines
    begin from a picture too (image to image, inpainting); of a pipeline that nobody knows it can't be told beforehand.
    """

    name: str
    version: int
    steps: int
    guidance: float | None
    size_multiple: int
    negative_prompt: bool
    takes_images: bool = True


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("flux", version=1, steps=28, guidance=3.5, size_multiple=16, negative_prompt=False),
        Family("sd15", version=1, steps=30, guidance=7.5, size_multiple=8, negative_prompt=True),
        Family("sdxl", version=1, steps=30, guidance=5.0, size_multiple=8, negative_prompt=True),
        Family("sd3", version=1, steps=28, guidance=7.0, size_multiple=16, negative_prompt=True),
        Family("qwen-image", version=1, steps=50, guidance=4.0, size_multiple=16, negative_prompt=True),
        Family("auto", version=1, steps=30, guidance=None, size_multiple=16, negative_prompt=True, takes_images=False),
    )
}

# Substrings of hub names, first match wins. A name that matches nothing is served by whatever pipeline
# class its model_index.json declares ("auto").
_NAME_HINTS = (
    ("flux", "flux"),
    ("stable-diffusion-xl", "sdxl"),
    ("sdxl", "sdxl"),
    ("stable-diffusion-3", "sd3"),
    ("qwen-image", "qwen-image"),
    ("stable-diffusion-v1", "sd15"),
    ("sd-v1", "sd15"),
)


@lru_cache(maxsize=256)
def guess_family(model: str) -> str:
    """The family that a hub id or path suggests by its name. Kept: every submit asks."""
    name = model.lower()
    return next((family for hint, family in _NAME_HINTS if hint in name), "auto")
