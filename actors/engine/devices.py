"""Which device the engine renders on, and in which number format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from actors.engine.errors import DeviceLostError, ModelUnavailableError

if TYPE_CHECKING:
    import torch

    from safelight.config import ModelSettings


SIMULATED = "simulated"

_MEMORY_WORDS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "ALLOC_FAILED",  # of cuBLAS, cuDNN, cuSOLVER, cuFFT
    "ALLOCATION_FAILED",
    "cudaErrorMemoryAllocation",
)
_DEVICE_WORDS = ("cuda error", "cuda driver error", "hip error")
# CUDA's errors after which "the process must be terminated and relaunched", by cudaGetErrorString's texts and by number
# (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html), and those of a device that is gone.
_STICKY_WORDS = (
    "illegal memory access",
    "illegal instruction",
    "illegal address",
    "assert",
    "launch failure",
    "launch timed out",
    "misaligned address",
    "global/shared address space",
    "invalid program counter",
    "hardware stack error",
    "uncorrectable",
    "busy or unavailable",
    "context is destroyed",
    "invalid device context",
    "external device",
    "no cuda-capable device",
    "driver shutting down",
    "unknown error",
)
_STICKY_CODES = frozenset(
    {4, 46, 100, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911, 999}
)


@dataclass(frozen=True, slots=True)
class Device:
    """``place`` is torch's name (``cuda:0``, ``mps``, ``cpu``) or ``simulated``, ``label`` what people call it."""

    place: str
    label: str

    @property
    def kind(self) -> str:
        """``cuda``, ``mps``, ``cpu`` or ``simulated``."""
        return self.place.partition(":")[0]


def find_device(wanted: str) -> Device:
    """The device of that torch name; ``auto`` takes the first of CUDA, MPS and CPU that is there.

    ``simulated`` is none of torch's: simulated.py tells what it is. Raises ModelUnavailableError when the device can't
    be used here, or torch is not installed.
    """
    if wanted.partition(":")[0] == SIMULATED:
        return Device(SIMULATED, SIMULATED)
    try:
        import torch
    except ImportError as error:
        raise ModelUnavailableError("torch is not installed: pip install 'safelight[worker]'") from error
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(wanted)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelUnavailableError(f"device {wanted!r} can't be used on this machine: {error}") from error
    if device.type != "cuda":
        return Device(device.type, device.type)
    index = torch.cuda.current_device() if device.index is None else device.index
    return Device(f"cuda:{index}", torch.cuda.get_device_name(index))


def choose_dtype(model: ModelSettings, device: Device) -> torch.dtype:
    """The number format of the settings; ``auto`` is bfloat16 on CUDA and float32 elsewhere."""
    import torch

    name = model.dtype
    if name == "auto":
        name = "bfloat16" if device.kind == "cuda" else "float32"
    dtype: torch.dtype = getattr(torch, name)
    return dtype


@contextmanager
def other_stream(device: Device, *used: torch.Tensor) -> Iterator[None]:
    """Work of the calling thread on a CUDA stream of its own, after what the engine's stream was given so far.

    ``used`` are tensors of the engine's stream that are read inside; they must not be reused before. Elsewhere it does
    nothing. Leaves once the work is done.
    """
    if device.kind != "cuda":
        yield
        return
    import torch

    stream = _side_stream(device.place)
    stream.wait_stream(torch.cuda.default_stream(device.place))
    for tensor in used:
        tensor.record_stream(stream)
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


@cache
def _side_stream(place: str) -> torch.cuda.Stream:
    import torch

    stream: torch.cuda.Stream = torch.cuda.Stream(place)  # type: ignore[no-untyped-call]
    return stream


def is_out_of_memory(error: BaseException) -> bool:
    """True when a device, or the machine itself, had no memory left; CUDA alone has an error of its own for it.

    The first call of cuBLAS asks for memory: where that fails, it says that it is not initialised.
    """
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    if not isinstance(error, RuntimeError) or _says_lost(text):
        return False
    return any(word in text for word in _MEMORY_WORDS) or ("_STATUS_NOT_INITIALIZED" in text and "Create" in text)


def is_device_lost(error: BaseException) -> bool:
    """True after an error that leaves no way to use the device in this process (an assert, an illegal address).

    Such errors stick: every later call fails alike. A refused call (a shape that no kernel takes) does not. One that
    is wrapped in a library's own error counts, too.
    """
    return any(_is_sticky(cause) for cause in causes(error))


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, the newest first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _is_sticky(error: BaseException) -> bool:
    if isinstance(error, DeviceLostError):
        return True
    if not isinstance(error, RuntimeError) or is_out_of_memory(error):
        return False
    code = getattr(error, "error_code", None)  # torch.AcceleratorError has one where CUDA gave it
    if isinstance(code, int):
        return code in _STICKY_CODES
    return _says_lost(str(error))


def _says_lost(text: str) -> bool:
    line = text.partition("\n")[0].lower()  # advice on how to debug comes below, and may name anything
    return any(kind in line for kind in _DEVICE_WORDS) and any(words in line for words in _STICKY_WORDS)


def free_memory(device: Device) -> None:
    """Give back what torch keeps cached on the device."""
    import gc

    import torch

    gc.collect()
    if device.kind == "cuda":
        torch.cuda.empty_cache()
    elif device.kind == "mps":
        torch.mps.empty_cache()
