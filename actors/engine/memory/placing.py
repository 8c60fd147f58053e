"""Puts the parts of a loaded pipeline where its memory plan wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from actors.engine.latent import Places, Resident
from actors.engine.memory.parts import decoders, denoisers, text_encoders
from actors.engine.memory.places import Staged
from actors.engine.memory.plans import Plan

if TYPE_CHECKING:
    from actors.engine.devices import Device


def place(pipeline: Any, plan: Plan, device: Device, *, stepped: bool) -> Places:
    """Put everything in its place, and tell how the parts that come and go are brought.

    ``stepped``: a family steps the pipeline, and enters the places. One that runs whole enters none: there diffusers'
    own hooks move its parts. Raises what the device raises.
    """
    target = torch.device(device.place)
    if plan == "resident":
        pipeline.to(target)
        return Resident()
    if not stepped:
        _hook_whole(pipeline, plan, target)
        return Resident()
    moving = {**text_encoders(pipeline), **decoders(pipeline)}
    streamed = denoisers(pipeline) if plan == "grouped" else {}
    for name, component in pipeline.components.items():
        if isinstance(component, torch.nn.Module) and name not in moving and name not in streamed:
            component.to(target)
    for module in streamed.values():
        stream_blocks(module, target)
    return Staged(text_encoders(pipeline).values(), decoders(pipeline).values(), target)


def stream_blocks(module: torch.nn.Module, target: torch.device) -> None:
    """Let a denoiser's blocks come to the device one by one; on CUDA the next one comes while one computes."""
    from diffusers.hooks.group_offloading import apply_group_offloading

    apply_group_offloading(
        module,
        onload_device=target,
        offload_device=torch.device("cpu"),
        offload_type="block_level",
        num_blocks_per_group=1,
        use_stream=target.type == "cuda",
    )


def remove_hooks(pipeline: Any) -> None:
    """Take off what moves parts, so that the pinned copies go with the pipeline."""
    from diffusers.hooks.hooks import HookRegistry

    pipeline.remove_all_hooks()
    for module in denoisers(pipeline).values():
        HookRegistry.check_if_exists_or_initialize(module).remove_hook("group_offloading", recurse=True)
        HookRegistry.check_if_exists_or_initialize(module).remove_hook("lazy_prefetch_group_offloading", recurse=True)


def _hook_whole(pipeline: Any, plan: Plan, target: torch.device) -> None:
    if target.type == "cpu":  # diffusers has nothing to move there
        return
    if plan == "staged":
        pipeline.enable_model_cpu_offload(device=target)
        return
    for module in denoisers(pipeline).values():
        stream_blocks(module, target)
    for name, component in pipeline.components.items():
        if isinstance(component, torch.nn.Module) and name not in denoisers(pipeline):
            component.to(target)
