"""``[models.NAME.parallel]``: one model on several devices, a process for each."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safelight.config.base import Base

ParallelKind = Literal["ulysses", "ring", "tensor", "cfg", "async"]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
DeviceName = Annotated[str, Meta(pattern=r"^(cpu|cuda:[0-9]{1,2})\Z")]

# Families that a kind fits: what diffusers can split of them, or whose guidance asks the denoiser twice a step. Of
# "auto" only the model's files can tell.
_FAMILIES: dict[str, tuple[str, ...]] = {
    "ulysses": ("flux", "qwen-image", "auto"),
    "ring": ("flux", "auto"),
    "tensor": ("flux", "auto"),
    "cfg": ("sd15", "sdxl", "sd3", "qwen-image"),
    "async": ("sdxl", "sd15", "sd3", "flux"),
}
_BRANCHES = 2
_WARMUP = 2


class VerifySettings(Base, frozen=True, kw_only=True):
    """What ``safelight verify`` lets pass: PSNR (dB) and SSIM at least, LPIPS at most, over all of its pictures."""

    psnr: Annotated[float, Meta(ge=0, le=200)] = 30.0
    ssim: Annotated[float, Meta(ge=0, le=1)] = 0.9
    lpips: Annotated[float, Meta(ge=0, le=10)] = 0.1


_EXACT = VerifySettings()
_LOSSY = VerifySettings(psnr=20.0, ssim=0.85, lpips=0.35)  # measured: docs/parallel.md


class ParallelSettings(Base, frozen=True, kw_only=True):
    """How a model is spread: ``kind``, and ``devices``, which are a number of them or their torch names.

    ``timeout_s`` bounds one step, and within it each exchange between ranks; a rank that shows no sign of life for
    ``silence_s`` is given up.

    Of ``async`` alone: ``warmup`` exact steps come first, a ``stride`` of 2 has a round of all stages serve two steps,
    and ``link_gb_s`` is what is reckoned to go from one device to another, when a split is looked at.
    """

    kind: ParallelKind
    devices: Annotated[int, Meta(ge=2, le=64)] | Annotated[tuple[DeviceName, ...], Meta(min_length=2, max_length=64)]
    timeout_s: Seconds = 60.0
    silence_s: Seconds = 15.0
    warmup: Annotated[int, Meta(ge=1, le=1000)] = _WARMUP
    stride: Literal[1, 2] = 1
    link_gb_s: Annotated[float, Meta(gt=0, le=100_000)] = 16.0
    verify: VerifySettings = _EXACT

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        named = () if isinstance(self.devices, int) else self.devices
        if len({name.partition(":")[0] for name in named}) > 1:
            raise ValueError(f"devices are of one kind, all cpu or all cuda; here are {', '.join(named)}")
        cards = [name for name in named if name != "cpu"]
        if len(set(cards)) < len(cards):
            raise ValueError(f"devices: each is one rank's own; {', '.join(named)} names one twice")
        if self.kind == "cfg" and self.ranks != _BRANCHES:
            raise ValueError(f"devices: cfg has one for each of the two guidance branches, not {self.ranks}")
        if self.lossy and self.verify is _EXACT:
            msgspec.structs.force_setattr(self, "verify", _LOSSY)
        if not self.lossy and (self.warmup, self.stride) != (_WARMUP, 1):
            raise ValueError(f"warmup and stride are those of async; {self.kind} is exact at each step")

    @property
    def ranks(self) -> int:
        """How many devices, and processes, there are."""
        return self.devices if isinstance(self.devices, int) else len(self.devices)

    @property
    def lossy(self) -> bool:
        """Whether its pictures differ from those of one device by more than rounding."""
        return self.kind == "async"

    @property
    def look(self) -> str:
        """What decides how the pictures of a lossy kind differ: ``async-2 warm-up 2 stride 1``. Else empty."""
        return f"{self.label} warm-up {self.warmup} stride {self.stride}" if self.lossy else ""

    @property
    def label(self) -> str:
        """``ulysses-2``: the kind and the number of ranks."""
        return f"{self.kind}-{self.ranks}"

    def check_family(self, family: str) -> None:
        """Raise ValueError where the kind does not fit models of that family."""
        fit = _FAMILIES[self.kind]
        if family in fit:
            return
        fitting = [kind for kind, families in _FAMILIES.items() if family in families]
        why = "has no guidance branches" if self.kind == "cfg" else "can't be split so"
        instead = f"; {' or '.join(fitting)} fits it" if fitting else ""
        raise ValueError(f"parallel.kind {self.kind!r} is for {', '.join(fit)}; {family} {why}{instead}")
