"""Why the engine gives no picture."""

from __future__ import annotations


class DeviceLostError(RuntimeError):
    """The device, or a group of them, is gone for this process. No kind of EngineError: it ends the engine's thread."""


class EngineError(Exception):
    """The root of the engine's errors; ``code`` is stable and for programs.

    ``device_seconds`` is what the device had spent on the request by then, ``checkpoint`` what it can go on from.
    """

    code = "render_failed"
    device_seconds = 0.0
    checkpoint: bytes | None = None


class CanceledError(EngineError):
    """The request was canceled; it stopped at a step boundary."""

    code = "canceled"


class DeadlineExceededError(EngineError):
    """The request's deadline passed; it stopped at a step boundary, or never began."""

    code = "deadline_exceeded"


class OutOfMemoryError(EngineError):
    """The device has not enough memory for the request alone."""

    code = "out_of_memory"


class BadOutputError(EngineError):
    """The model gave no picture: not a number, or one colour all over."""

    code = "bad_output"


class InvalidRequestError(EngineError):
    """The model can't render what was asked; another try would fail alike."""

    code = "invalid_request"


class ContentFilteredError(InvalidRequestError):
    """The model's own safety checker flagged a picture; the same request would give it again."""

    code = "content_filtered"


class ModelUnavailableError(EngineError):
    """The model is not in the settings, or could not be loaded; the message says why."""

    code = "model_unavailable"


class AdapterUnusableError(EngineError):
    """A LoRA adapter of the settings is damaged, or another model's; another try would end alike."""

    code = "adapter_unusable"


class EngineStoppedError(EngineError):
    """The engine was stopped before the request was rendered."""

    code = "engine_stopped"


class CheckpointError(EngineError):
    """A checkpoint is damaged, or another request's; never seen outside the engine, which begins anew."""

    code = "bad_checkpoint"
