"""A simulated device: it keeps a real device's time and draws placeholders, no model is asked.

For capacity planning and tests alone. Everything around it is the engine itself: its thread, its waiting line, its
cancels, deadlines and health. A step of B pictures takes ``step_s + row_s * B`` seconds, loading a model takes
``load_s``, and more than ``batch`` pictures of a request are rendered one batch after the other. Pillow draws the
picture from the request: the same request gives the same pixels. Neither torch nor a model's files are needed.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import structlog

from actors.engine.devices import SIMULATED, Device
from actors.engine.errors import EngineError, ModelUnavailableError
from actors.engine.progress import ImageProgress
from actors.engine.prompts import check_text
from actors.engine.request import RenderRequest, RenderResult

if TYPE_CHECKING:
    from PIL.Image import Image

    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)

WARNING = "the picture is a placeholder: the device is simulated, no model was asked"


class Pace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long things take on the simulated device, in seconds, and how many pictures it steps together."""

    step_s: float = 0.01
    row_s: float = 0.0
    load_s: float = 0.0
    batch: int = 8

    def __post_init__(self) -> None:
        """Raise ValueError on a time below 0 or a batch without a picture."""
        times = (self.step_s, self.row_s, self.load_s)
        if not all(math.isfinite(seconds) and seconds >= 0 for seconds in times) or self.batch < 1:
            raise ValueError("times are 0 or more, and a batch has at least 1 picture")

    def step(self, rows: int) -> float:
        """Seconds that one denoising step of ``rows`` pictures takes."""
        return self.step_s + self.row_s * rows


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """A model that is said to be loaded."""

    name: str
    device: Device
    pace: Pace


def parse_pace(wanted: str) -> Pace:
    """The pace of a device's name, ``simulated`` or ``simulated:step_s=0.01,load_s=2,batch=4``.

    Raises ModelUnavailableError on what isn't one.
    """
    _, _, listed = wanted.partition(":")
    pairs = dict(pair.partition("=")[::2] for pair in listed.split(",") if pair)
    try:
        return msgspec.convert(pairs, Pace, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(Pace.__struct_fields__)
        raise ModelUnavailableError(
            f"device {wanted!r}: {error}; write {SIMULATED}:NAME=NUMBER,… with {names}"
        ) from None


class SimulatedShelf:
    """Models that are said to be loaded, at most ``room`` of them, as a Shelf keeps real ones."""

    def __init__(self, models: Mapping[str, ModelSettings], device: Device, pace: Pace, room: int = 2) -> None:
        self._models = models
        self._device = device
        self._pace = pace
        self._room = room
        self._loaded: OrderedDict[str, SimulatedModel] = OrderedDict()
        _log.warning("the device is simulated: pictures are placeholders", action="simulated.device", pace=str(pace))

    def get(self, name: str) -> SimulatedModel:
        """The model, after the time that loading takes if need be. Raises ModelUnavailableError."""
        if name not in self._loaded:
            if name not in self._models:
                raise ModelUnavailableError(f"model {name!r} is not served here; known are {', '.join(self._models)}")
            while len(self._loaded) >= self._room:
                self._loaded.popitem(last=False)
            time.sleep(self._pace.load_s)
            self._loaded[name] = SimulatedModel(name, self._device, self._pace)
        self._loaded.move_to_end(name)
        return self._loaded[name]

    def others(self, name: str) -> bool:
        """True when models besides ``name`` are loaded."""
        return any(loaded != name for loaded in self._loaded)

    def keep_only(self, name: str) -> None:
        """Let go of all models but ``name``."""
        self._loaded = OrderedDict((loaded, model) for loaded, model in self._loaded.items() if loaded == name)

    def clear(self) -> None:
        """Let go of all models."""
        self._loaded.clear()


def render(
    request: RenderRequest,
    model: SimulatedModel,
    checkpoint: Callable[[], EngineError | None],
    progress: ImageProgress,
) -> RenderResult:
    """Placeholders for the request's pictures, after the time that a real device would take.

    Raises whatever ``checkpoint``, which is called at every step boundary, returns.
    """
    check_text(request)
    started = time.perf_counter()
    images: list[Image] = []
    try:
        _stop_if_asked(checkpoint)
        while len(images) < len(request.seeds):
            seeds = request.seeds[len(images) : len(images) + model.pace.batch]
            for step in range(1, request.steps + 1):
                time.sleep(model.pace.step(len(seeds)))
                progress.step(step, request.steps, len(seeds))
                _stop_if_asked(checkpoint)
            images += [draw(request, seed) for seed in seeds]
            progress.finish(len(seeds))
        _stop_if_asked(checkpoint)
    except EngineError as error:
        error.device_seconds = time.perf_counter() - started
        raise
    return RenderResult(
        images=tuple(images),
        device=model.device.label,
        device_seconds=time.perf_counter() - started,
        warnings=(WARNING,),
        sampler=SIMULATED,
    )


def draw(request: RenderRequest, seed: int) -> Image:
    """The placeholder of one seed: a run of colours and two shapes, all taken from a hash of the request."""
    from PIL import Image, ImageDraw, ImageOps

    look = (request.model, request.prompt, request.negative_prompt, request.guidance, request.steps, seed)
    parts = hashlib.sha512(repr(look).encode()).digest()
    dark, light, one, other = ((parts[at], parts[at + 1], parts[at + 2]) for at in range(0, 12, 3))
    size = (request.width, request.height)
    picture = ImageOps.colorize(Image.linear_gradient("L").rotate(parts[12]).resize(size), dark, light)
    pen = ImageDraw.Draw(picture)
    for shape, colour, place in ((pen.ellipse, one, parts[13:16]), (pen.rectangle, other, parts[16:19])):
        left, top, side = (share * max(size) // 400 for share in place)
        shape((left, top, left + side + 8, top + side + 8), fill=colour)
    return picture


def _stop_if_asked(checkpoint: Callable[[], EngineError | None]) -> None:
    reason = checkpoint()
    if reason is not None:
        raise reason
