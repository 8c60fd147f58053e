"""The split of a model: its denoiser traced and timed, then cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.engine.devices import choose_dtype
from actors.engine.parallel.denoisers import find_denoiser
from actors.engine.parallel.stages.cutting import Split, split
from actors.engine.parallel.stages.share import empty_denoiser
from actors.engine.parallel.stages.timing import time_blocks
from actors.engine.parallel.stages.tracing import Trace, blocks_of, trace
from actors.engine.parallel.stages.trials import trial

if TYPE_CHECKING:
    import torch

    from actors.engine.devices import Device
    from actors.engine.parallel.denoisers import Denoiser
    from safelight.config import ModelSettings, ParallelSettings


@dataclass(frozen=True, slots=True)
class Look:
    """A denoiser without weights, and what a pass of it for pictures of one size is made of."""

    found: Denoiser
    module: torch.nn.Module
    trace: Trace

    def seconds(self, device: Device) -> dict[str, float]:
        """How long each block takes there."""
        return time_blocks(self.module, self.trace, device.place)

    def weights(self) -> dict[str, int]:
        """Bytes of each block's weights."""
        return {name: sum(one.nbytes for one in block.parameters()) for name, block in blocks_of(self.module)}


def look_at(model: ModelSettings, device: Device, size: tuple[int, int] | None = None, rows: int = 1) -> Look:
    """Look at a model's denoiser, for so many pictures of a size; the model's own where none is given."""
    dtype = choose_dtype(model, device)
    found = find_denoiser(model)
    module = empty_denoiser(found, dtype, buffers=True)
    width, height = size or (int(side) for side in model.usual_size.split("x"))
    return Look(found, module, trace(module, module, trial(found, model, dtype, (width, height), rows)))


def plan_split(look: Look, seconds: dict[str, float], parallel: ParallelSettings) -> Split:
    """The stages, one a rank. Raises ModelUnavailableError where there are too few blocks."""
    return split(look.trace, seconds, parallel.ranks, parallel.stride)
