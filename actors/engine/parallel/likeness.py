"""How like two sets of pictures are: by pixels, PSNR and SSIM, and by LPIPS where what it needs is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from PIL.Image import Image

_LEVELS = 255
_BACKBONE = "alexnet-*.pth"  # torchvision's weights that LPIPS looks through; they are downloaded by hand


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Of all pairs: the largest and the mean difference of a channel (of 255), and the worst PSNR (dB), SSIM and LPIPS.

    ``psnr`` is infinite where all are the same. ``lpips`` is None where it could not be measured; ``missing`` says why.
    """

    largest: int
    mean: float
    psnr: float
    ssim: float
    lpips: float | None
    missing: str = ""


def likeness(ones: Sequence[Image], others: Sequence[Image]) -> Likeness:
    """Compare pictures pair by pair; those of a pair are of one size.

    By torchmetrics: https://lightning.ai/docs/torchmetrics/stable/image/ (PSNR, SSIM, LPIPS). Raises ImportError
    without it.
    """
    from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

    pairs = [(_tensor(one), _tensor(other)) for one, other in zip(ones, others, strict=True)]
    apart = [(one - other).abs() for one, other in pairs]
    measure = lpips_measure()
    return Likeness(
        largest=max(round(float(one.max()) * _LEVELS) for one in apart),
        mean=sum(float(one.mean()) for one in apart) / len(apart) * _LEVELS,
        psnr=min(float(peak_signal_noise_ratio(other, one, data_range=1.0)) for one, other in pairs),
        ssim=min(_ssim(structural_similarity_index_measure(other, one, data_range=1.0)) for one, other in pairs),
        lpips=None if isinstance(measure, str) else max(measure(one, other) for one, other in pairs),
        missing=measure if isinstance(measure, str) else "",
    )


def lpips_measure() -> Callable[[torch.Tensor, torch.Tensor], float] | str:
    """LPIPS (https://arxiv.org/abs/1801.03924) of two pictures [1, 3, height, width] in 0…1, or why there is none.

    Nothing is downloaded for it.
    """
    try:
        import torchvision  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError:
        return "torchvision is not installed"
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    if not any(folder.glob(_BACKBONE)):
        return f"AlexNet's weights ({_BACKBONE}, of torchvision) are not in {folder}"
    from torchmetrics.functional.image import learned_perceptual_image_patch_similarity

    def measure(one: torch.Tensor, other: torch.Tensor) -> float:
        return float(learned_perceptual_image_patch_similarity(one, other, net_type="alex", normalize=True))

    return measure


def _tensor(picture: Image) -> torch.Tensor:
    """A picture as [1, 3, height, width] in 0…1."""
    pixels = torch.from_numpy(np.asarray(picture.convert("RGB")).copy())
    return pixels.permute(2, 0, 1).unsqueeze(0).to(torch.float32) / _LEVELS


def _ssim(found: Any) -> float:
    return float(found[0] if isinstance(found, tuple) else found)
