"""What a capture would break on is seen without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers import UNet2DConditionModel

from actors.engine.compiled.rehearsal import NotCapturableError, rehearse
from actors.engine.families.base import Inputs
from actors.engine.passes import Eager
from tests.engine.compiled.tiny import KEY, flux_inputs, tiny_flux

ONES = torch.ones(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ONES.sum().item(),
        lambda: float(ONES[0]),
        lambda: ONES.nonzero(),
        lambda: ONES[ONES > 0],
        lambda: ONES.clone().masked_fill_(ONES > 0, 2)[ONES.bool()],
        lambda: torch.masked_select(ONES, ONES > 0),
        lambda: torch.unique(ONES),
        lambda: torch.equal(ONES, ONES + 1),
        lambda: bool((ONES > 0).all()),
        lambda: ONES.repeat_interleave(torch.tensor([1, 2, 3])),
        lambda: ONES.to("meta"),
        lambda: torch.empty(3, device="meta").copy_(ONES),
    ],
)
def test_waits_and_moves_are_refused(call: Callable[[], object]) -> None:
    """Values read by the host, shapes that hang on values, data that changes its device."""
    with pytest.raises(NotCapturableError):
        rehearse(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ONES * 2 + torch.tensor(0.5),
        lambda: ONES[torch.tensor([0, 2])],
        lambda: torch.where(ONES > 0, ONES, 0),
        lambda: torch.empty(3, device="meta") * 2.0,
        lambda: torch.empty(3, device="meta") * torch.tensor(2.0),
        lambda: ONES.repeat_interleave(2),
    ],
)
def test_plain_work_is_let_through(call: Callable[[], object]) -> None:
    """Arithmetic, gathers, numbers that travel with a launch."""
    rehearse(call)


def test_a_flux_pass_can_be_captured() -> None:
    """Nothing in it reads from the device or moves anything there: seen on meta tensors, where the CPU is elsewhere."""
    eager, inputs = Eager(tiny_flux().to("meta")), flux_inputs(2, device="meta")
    rehearse(lambda: eager.run(inputs, KEY))


def test_a_pass_of_an_sdxl_unet_can_be_captured() -> None:
    """The same of the other large kind of denoiser."""
    unet: Any = UNet2DConditionModel(
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(32, 64),
        attention_head_dim=(4, 8),
        layers_per_block=1,
        transformer_layers_per_block=(1, 2),
        cross_attention_dim=8,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 16,
    )
    unet.to("meta")
    shapes = {"sample": (2, 4, 8, 8), "timestep": (2,), "encoder_hidden_states": (2, 7, 8)}
    batched = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    added = {"text_embeds": torch.empty(2, 16, device="meta"), "time_ids": torch.empty(2, 6, device="meta")}
    inputs = Inputs(batched, {"added_cond_kwargs": added})
    rehearse(lambda: Eager(unet).run(inputs, KEY))
