"""How many rows step together: what the settings allow, or less where it was measured that more gain nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from actors.engine.compiled.knees import KneeKey, Knees
from actors.engine.compiled.measuring import measure_knee

if TYPE_CHECKING:
    from actors.engine.compiled.knee import Knee, Timing
    from actors.engine.devices import Device
    from actors.engine.families.base import Family
    from actors.engine.latent import LatentModel
    from actors.engine.passes import Passes
    from actors.engine.request import RenderRequest
    from actors.engine.stepping import BatchKey
    from safelight.config import EngineSettings

_log = structlog.get_logger(__name__)


class BatchSizes:
    """Measured knees and the settings' bounds. Belongs to the engine's thread."""

    def __init__(self, settings: EngineSettings, device: Device, file: Path | None) -> None:
        """``file`` holds what was measured; without it nothing is kept."""
        self._measures = settings.knee == "measure"
        self._device = device
        self._knees = Knees(file) if file is not None and settings.knee != "off" else None

    def limits(self, family: Family, passes: Passes, most: int) -> Callable[[BatchKey], int]:
        """Tells how many rows of a key step together, never more than ``most``."""
        knees = self._knees
        if knees is None:
            return lambda _key: most
        return lambda key: min(knees.limit(self._name(family, passes, key)) or most, most)

    def get_ready(self, stepping: LatentModel, request: RenderRequest, most: int) -> None:
        """Measure for requests like this one, where the settings say so and it has not been done."""
        name = self._name(stepping.family, stepping.passes, stepping.key(request))
        if self._measures and self._knees is not None and self._knees.get(name) is None:
            self.measure(stepping, request, most)

    def measure(
        self,
        stepping: LatentModel,
        request: RenderRequest,
        most: int,
        on_measure: Callable[[Timing], None] = lambda _: None,
    ) -> Knee | None:
        """Measure, and keep what was found; None where not even one row fits into memory."""
        knee = measure_knee(stepping, request, most, on_measure)
        if knee is None:
            return None
        name = self._name(stepping.family, stepping.passes, stepping.key(request))
        _log.info("knee measured", action="engine.knee_measured", model=stepping.name, size=name.size, rows=knee.rows)
        if self._knees is not None:
            try:
                self._knees.keep(name, knee)
            except OSError as error:
                _log.warning("knee not kept", action="engine.knee_not_kept", error=str(error))
        return knee

    def _name(self, family: Family, passes: Passes, key: BatchKey) -> KneeKey:
        model = family.settings
        return KneeKey(
            model=model.identity,
            revision=model.revision,
            dtype=f"{family.dtype}/{model.quantize}",
            size=key.size,
            device=self._device.label,
            mode=passes.mode,
            guided=key.guided,
        )
