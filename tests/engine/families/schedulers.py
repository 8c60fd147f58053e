"""The schedulers that are compared with the plain pipeline, on the families that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import diffusers

from actors.engine.latent import LatentModel
from tests.engine.families import tiny
from tests.engine.families.company import latent_model

_BETAS: dict[str, Any] = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}

SCHEDULERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "euler": ("sd15", lambda: diffusers.EulerDiscreteScheduler(**_BETAS)),
    "euler on sdxl": ("sdxl", lambda: diffusers.EulerDiscreteScheduler(timestep_spacing="trailing", **_BETAS)),
    "euler ancestral": ("sd15", lambda: diffusers.EulerAncestralDiscreteScheduler(**_BETAS)),
    "dpm++ 2m karras": ("sd15", lambda: diffusers.DPMSolverMultistepScheduler(use_karras_sigmas=True, **_BETAS)),
    "dpm++ 2m sde": (
        "sdxl",
        lambda: diffusers.DPMSolverMultistepScheduler(algorithm_type="sde-dpmsolver++", **_BETAS),
    ),
    "ddim": ("sd15", lambda: diffusers.DDIMScheduler(clip_sample=False, **_BETAS)),
    "pndm": ("sd15", lambda: diffusers.PNDMScheduler(skip_prk_steps=True, steps_offset=1, **_BETAS)),
    "unipc": ("sd15", lambda: diffusers.UniPCMultistepScheduler(solver_order=3, **_BETAS)),
    "heun": ("sd15", lambda: diffusers.HeunDiscreteScheduler(**_BETAS)),
    "dpm++ single step": ("sdxl", lambda: diffusers.DPMSolverSinglestepScheduler(**_BETAS)),
    "kdpm2": ("sd15", lambda: diffusers.KDPM2DiscreteScheduler(**_BETAS)),
    "lcm": ("sd15", lambda: diffusers.LCMScheduler(**_BETAS)),
    "flow euler": ("sd3", lambda: diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)),
    "flow heun": ("sd3", lambda: diffusers.FlowMatchHeunDiscreteScheduler(shift=3.0)),
    "flow unipc": (
        "sd3",
        lambda: diffusers.UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
    ),
}
"""By name: the family whose tiny model walks with it, and what makes it."""

RESTLESS = {"euler ancestral", "lcm"}
"""Those that add fresh noise at each step: their clean latents don't settle before the end."""


@cache
def scheduled(name: str) -> LatentModel:
    """A tiny model with that scheduler."""
    family, scheduler = SCHEDULERS[name]
    pipeline = tiny.FAMILIES[family]()
    pipeline.scheduler = scheduler()
    return latent_model(family, pipeline)
