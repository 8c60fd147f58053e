"""The inference engine: it renders images and knows no jobs. No torch is imported until an engine starts."""

import os

from actors.engine.engine import Engine, Limits
from actors.engine.errors import EngineError
from actors.engine.request import Handle, RenderRequest, RenderResult, StepProgress, Watch

# Threads of libgomp wait for each other awake for milliseconds, and on a machine that has other work that is what takes
# its cores: passes took six times as long, and as much of the processor. So many turns are some dozens of microseconds.
# It is read when torch is loaded, on CPUs; who has set it, or OMP_WAIT_POLICY, is not overruled.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__all__ = ["Engine", "EngineError", "Handle", "Limits", "RenderRequest", "RenderResult", "StepProgress", "Watch"]
