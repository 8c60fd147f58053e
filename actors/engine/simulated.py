"""A simulated device: it keeps a real device's time and draws placeholders, no model is asked.

For capacity planning and tests alone. Everything around it is the engine itself: its thread, its waiting line, its
cancels, deadlines and health. A step of B pictures takes ``step_s + row_s * B`` seconds, loading a model takes
``load_s``, and at most ``batch`` pictures step together. Pillow draws the
picture from the request: the same request gives the same pixels. Neither torch nor a model's files are needed.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec
import structlog

from actors.engine.devices import SIMULATED, Device
from actors.engine.errors import CheckpointError, ModelUnavailableError
from actors.engine.prompts import check_request
from actors.engine.request import RenderRequest
from actors.engine.stepping import Admitted, BatchKey, Finished, Row, RowState

if TYPE_CHECKING:
    from PIL.Image import Image

    from safelight.config import EngineSettings, ModelSettings

_log = structlog.get_logger(__name__)

Draw = Callable[[RenderRequest, int], "Image"]
"""Makes the placeholder of a request's seed."""

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


class SimulatedModels:
    """Models that are said to be loaded, as a Shelf keeps real ones (``loop.Models``)."""

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        device: Device,
        pace: Pace,
        settings: EngineSettings,
        sleep: Callable[[float], None] = time.sleep,
        draw: Draw | None = None,
    ) -> None:
        """``sleep`` is told how long each thing takes: with a clock of one's own, hours are simulated in seconds.

        ``draw`` makes the placeholders; None makes none.
        """
        self._models = models
        self._device = device
        self._pace = pace
        self._settings = settings
        self._sleep = sleep
        self._draw = draw
        self._loaded: OrderedDict[str, SimulatedModel] = OrderedDict()
        _log.warning("the device is simulated: pictures are placeholders", action="simulated.device", pace=str(pace))

    @property
    def loaded(self) -> tuple[str, ...]:
        """The models that are loaded, the one used last at the end. From any thread."""
        return tuple(self._loaded.copy())

    def peek(self, request: RenderRequest) -> SimulatedModel | None:
        """The model if it is loaded. Raises ModelUnavailableError."""
        if request.model not in self._models:
            known = ", ".join(self._models)
            raise ModelUnavailableError(f"model {request.model!r} is not served here; known are {known}")
        if request.model in self._loaded:
            self._loaded.move_to_end(request.model)
        return self._loaded.get(request.model)

    def can_load(self, name: str, in_use: set[str]) -> bool:
        """Whether there is room for one more."""
        return len(in_use - {name}) < self._settings.loaded_models

    def load(self, name: str, in_use: set[str]) -> None:
        """Load the model: it takes the time that loading takes."""
        while len(self._loaded) >= self._settings.loaded_models:
            del self._loaded[next(loaded for loaded in self._loaded if loaded not in in_use)]
        self._sleep(self._pace.load_s)
        batch = self._models[name].max_batch or self._pace.batch
        self._loaded[name] = SimulatedModel(name, self._pace, batch, self._sleep, self._draw)

    def relieve(self, in_use: set[str]) -> bool:  # noqa: ARG002
        """There is no memory to give up."""
        return False

    def idle(self) -> bool:
        """Nothing is left for idle times."""
        return False

    def clear(self) -> None:
        """Let go of all models."""
        self._loaded.clear()


@dataclass(slots=True, eq=False, kw_only=True)
class SimulatedRow(Row):
    """A picture that will be a placeholder."""

    request: RenderRequest
    seed: int


class SimulatedModel:
    """A model that is said to be loaded, as the loop sees it (``stepping.Stepper``)."""

    def __init__(self, name: str, pace: Pace, batch: int, sleep: Callable[[float], None], draw: Draw | None) -> None:
        self.name = name
        self._pace = pace
        self._batch = batch
        self._sleep = sleep
        self._draw = draw

    def key(self, request: RenderRequest) -> BatchKey:
        """As a real model's. Raises InvalidRequestError on text that no tokenizer takes."""
        check_request(request)
        return BatchKey(model=request.model, width=request.width, height=request.height, adapters=request.adapters)

    def limit(self, key: BatchKey) -> int:  # noqa: ARG002
        """What the device's name says."""
        return self._batch

    def admit(self, request: RenderRequest) -> Admitted:
        """One row a seed."""
        key = self.key(request)
        rows = [SimulatedRow(key=key, steps=request.steps, request=request, seed=seed) for seed in request.seeds]
        return Admitted(rows=rows, warnings=(WARNING,), sampler=SIMULATED)

    def step(self, rows: Sequence[Row]) -> int:
        """Take the time that a step of these rows takes."""
        self._sleep(self._pace.step(len(rows)))
        for row in rows:
            row.step += 1
        return 0

    def finish(self, row: Row) -> Finished:
        """The placeholder."""
        simulated = cast("SimulatedRow", row)
        return [] if self._draw is None else [self._draw(simulated.request, simulated.seed)]

    def preview(self, row: Row) -> Callable[[], Image] | None:
        """The placeholder, small and pale at first."""
        simulated, draw = cast("SimulatedRow", row), self._draw
        if draw is None:
            return None
        from PIL import ImageEnhance

        share = row.step / row.steps

        def make() -> Image:
            small = draw(simulated.request, simulated.seed)
            small.thumbnail((128, 128))
            return ImageEnhance.Color(small).enhance(share)

        return make

    def snapshot(self, row: Row) -> Callable[[], RowState]:
        """How far the row is."""
        state = RowState(step=row.step)
        return lambda: state

    def restore(self, row: Row, state: RowState) -> None:
        """Let a fresh row go on from a state. Raises CheckpointError."""
        if not 0 <= state.step <= row.steps:
            raise CheckpointError(f"step {state.step} is none of this render's {row.steps}")
        row.step = state.step

    def drop(self, row: Row) -> None:
        """Nothing is held."""


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
