"""Which memory plan a model gets on a device."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import structlog
import torch

from actors.engine.memory.estimates import Estimator
from actors.engine.memory.plans import Plan, choose

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import EngineSettings, ModelSettings

_log = structlog.get_logger(__name__)

_MB = 1_000_000


def plan_for(pipeline: Any, model: ModelSettings, engine: EngineSettings, device: Device) -> Plan:
    """The plan of the settings; ``auto`` chooses by the memory that is free now, and says so in the log.

    ``pipeline`` is still on the CPU. CUDA graphs hold the tensors of a step once more. Only CUDA has memory of its own
    to be careful with: elsewhere ``auto`` is resident.
    """
    wanted = model.memory or engine.memory
    if wanted != "auto":
        _log.info("memory plan", action="engine.memory_plan", model=model.identity, plan=wanted, why="settings")
        return wanted
    if device.kind != "cuda":
        return "resident"
    room, most = free_room(device), model.max_batch or engine.max_batch
    width, height = (int(side) for side in model.usual_size.split("x"))
    estimator = Estimator(pipeline, model, device)
    need_of = cache(lambda batch: estimator.need(width, height, batch))
    full = need_of(most)
    graphs = 0 if engine.graphs == "off" else min(engine.graphs_mb * _MB, full.activations.step)
    plan = choose(need_of, room - graphs, most)
    _log.info(
        "memory plan",
        action="engine.memory_plan",
        model=model.identity,
        plan=plan,
        why="auto",
        free_mb=room // _MB,
        graphs_mb=graphs // _MB,
        resident_mb=full.peak("resident") // _MB,
        staged_mb=full.peak("staged") // _MB,
        grouped_mb=full.peak("grouped") // _MB,
        batch=most,
        size=model.usual_size,
        traced=full.traced,
    )
    return plan


def plan_beside(model: ModelSettings, engine: EngineSettings) -> Plan:
    """The plan of what is left of a model whose denoiser lies elsewhere: the settings', else resident.

    A plan that streams the denoiser has nothing to stream: it is staged.
    """
    wanted = model.memory or engine.memory
    plan: Plan = "resident" if wanted in ("auto", "resident") else "staged"
    _log.info("memory plan", action="engine.memory_plan", model=model.identity, plan=plan, why="parallel")
    return plan


def free_room(device: Device) -> int:
    """Bytes that can be had on a CUDA device: what is free, and what torch holds without using it."""
    free, _ = torch.cuda.mem_get_info(device.place)
    return free + torch.cuda.memory_reserved(device.place) - torch.cuda.memory_allocated(device.place)
