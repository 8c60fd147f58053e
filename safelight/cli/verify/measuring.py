"""Renders a fixed set of pictures on one device and on a plan, and holds them against each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from safelight.cli.doctor.check import first_line
from safelight.cli.doctor.plan import chosen_model, parse_size
from safelight.cli.exits import CommandError, RefusedError
from safelight.config import ModelSettings, ParallelSettings, Settings, VerifySettings, load_settings

if TYPE_CHECKING:
    from PIL.Image import Image

    from actors.engine import Engine, RenderRequest
    from actors.engine.parallel.likeness import Likeness

PROMPTS = (
    "a red circle left of a blue square on a white background",
    "a portrait of an old fisherman, soft light from a window",
    "a mountain lake at dawn, mist above the water",
    "a shop sign that says OPEN, at night in the rain",
)
"""What is rendered: one picture each, with seeds 0, 1, 2 …"""

_LIMIT_S = 3600.0  # for one picture; the first loads the model
_STOP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: None takes the settings' own."""

    model: str | None = None
    plan: str | None = None
    size: str | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What came out. ``seconds`` are of all pictures but the first: on one device, and on the plan."""

    name: str
    plan: str
    device: str
    size: str
    steps: int
    pictures: int
    likeness: Likeness
    limits: VerifySettings
    seconds: tuple[float, float]

    @property
    def failures(self) -> dict[str, str]:
        """What is beyond the limits, and by how much."""
        found, limits = self.likeness, self.limits
        failed = {}
        if found.psnr < limits.psnr:
            failed["psnr"] = f"{found.psnr:.1f} dB, under {limits.psnr:g}"
        if found.ssim < limits.ssim:
            failed["ssim"] = f"{found.ssim:.4f}, under {limits.ssim:g}"
        if found.lpips is not None and found.lpips > limits.lpips:
            failed["lpips"] = f"{found.lpips:.4f}, over {limits.lpips:g}"
        return failed

    @property
    def speed_up(self) -> float:
        """How many times as fast the plan was."""
        return self.seconds[0] / self.seconds[1]


def verify(config: Path | None, question: Question, tell: Callable[[str], None]) -> Verified:
    """Render and compare. Raises ConfigError, CommandError, RefusedError."""
    settings = load_settings(config)
    name, model = chosen_model(settings, question.model)
    parallel = _plan_of(name, model, question.plan)
    width, height = parse_size(question.size or model.usual_size, model.traits.size_multiple)
    steps = question.steps or model.default_steps
    try:
        import torchmetrics  # noqa: F401

        from actors.engine.parallel.likeness import likeness
    except ImportError as error:
        raise CommandError(f"a package is missing: {error}", "pip install 'safelight[worker,verify]'") from error
    ways = {"one device": None, parallel.label: parallel}
    rendered = []
    for label, way in ways.items():
        spread = msgspec.structs.replace(model, parallel=way)
        with _engine(settings, name, spread) as (engine, device):
            heard = partial(_told, tell, label)
            rendered.append(_pictures(engine, name, spread, (width, height, steps), heard))
    (ones, alone_s), (others, spread_s) = rendered
    return Verified(
        name=name,
        plan=parallel.label,
        device=device,
        size=f"{width}x{height}",
        steps=steps,
        pictures=len(ones),
        likeness=likeness(ones, others),
        limits=parallel.verify,
        seconds=(alone_s, spread_s),
    )


def as_json(found: Verified) -> dict[str, Any]:
    """The same for programs; ``psnr`` is null where no pixel differs."""
    import dataclasses
    import math

    told = dataclasses.asdict(found.likeness)
    return {
        "model": found.name,
        "plan": found.plan,
        "device": found.device,
        "size": found.size,
        "steps": found.steps,
        "pictures": found.pictures,
        **told,
        "psnr": None if math.isinf(found.likeness.psnr) else found.likeness.psnr,
        "limits": msgspec.to_builtins(found.limits),
        "seconds": {"one": found.seconds[0], "plan": found.seconds[1]},
        "speed_up": found.speed_up,
        "ok": not found.failures,
        "failures": found.failures,
    }


def _plan_of(name: str, model: ModelSettings, wanted: str | None) -> ParallelSettings:
    """The model's own plan, or the one that is named, such as ``ulysses-2``. Raises RefusedError."""
    if wanted is None:
        if model.parallel is None:
            raise RefusedError(f"model {name!r} has no [models.{name}.parallel]: name a plan, such as --plan ulysses-2")
        return model.parallel
    match = re.fullmatch(r"([a-z]+)-([1-9][0-9]?)", wanted)
    if match is None:
        raise RefusedError(f"--plan {wanted!r} is no plan like ulysses-2: a kind, and a number of devices")
    own = {} if model.parallel is None else {"verify": msgspec.to_builtins(model.parallel.verify)}
    try:
        plan = msgspec.convert({"kind": match[1], "devices": int(match[2]), **own}, ParallelSettings)
        msgspec.structs.replace(model, parallel=plan).__post_init__()
    except (msgspec.ValidationError, ValueError) as error:
        raise RefusedError(f"--plan {wanted}: {error}") from error
    return plan


@contextmanager
def _engine(settings: Settings, name: str, model: ModelSettings) -> Iterator[tuple[Engine, str]]:
    """An engine for the one model, and its device. Raises CommandError."""
    from actors.engine import Engine, EngineError

    engine = Engine({name: model}, settings.worker.device, settings=settings.engine)
    engine.start()
    try:
        device = engine.wait_ready(_LIMIT_S)
        if device == "simulated":
            raise CommandError("a simulated device draws placeholders: there is nothing to compare")
        yield engine, device
    except EngineError as error:
        raise CommandError(first_line(error)) from error
    finally:
        engine.stop(_STOP_S)


def _pictures(
    engine: Engine, name: str, model: ModelSettings, look: tuple[int, int, int], tell: Callable[[str], None]
) -> tuple[list[Image], float]:
    """A picture a prompt, each alone, and the device's seconds of all but the first, which loads and warms."""
    pictures: list[Image] = []
    seconds = 0.0
    for seed in range(len(PROMPTS)):
        tell(f"picture {seed + 1} of {len(PROMPTS)}")
        result = engine.submit(_request(name, model, look, seed)).result(_LIMIT_S)
        if not result.images:
            raise CommandError(f"model {name} gives videos: pictures are compared here")
        pictures += result.images
        seconds += result.device_seconds if seed else 0.0
    return pictures, seconds


def _told(tell: Callable[[str], None], label: str, text: str) -> None:
    tell(f"{label}: {text}")


def _request(name: str, model: ModelSettings, look: tuple[int, int, int], seed: int) -> RenderRequest:
    from actors.engine import RenderRequest

    width, height, steps = look
    return RenderRequest(
        model=name,
        prompt=PROMPTS[seed],
        width=width,
        height=height,
        steps=steps,
        guidance=model.default_guidance,
        seeds=(seed,),
    )
