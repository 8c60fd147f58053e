"""The inference engine: it renders images and knows no jobs. No torch is imported until an engine starts."""

from actors.engine.engine import Engine, Limits
from actors.engine.errors import EngineError
from actors.engine.request import Handle, RenderRequest, RenderResult, StepProgress, Watch

__all__ = ["Engine", "EngineError", "Handle", "Limits", "RenderRequest", "RenderResult", "StepProgress", "Watch"]
