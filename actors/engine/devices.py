"""Which device the engine renders on, and in which number format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from actors.engine.errors import ModelUnavailableError

if TYPE_CHECKING:
    import torch

    from safelight.config import ModelSettings


SIMULATED = "simulated"


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


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A small tensor of the CPU on the device, without waiting for what the device has to do before."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


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
    """True when a device, or the machine itself, had no memory left; CUDA alone has an error of its own for it."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory", "CUDNN_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def is_device_lost(error: BaseException) -> bool:
    """True after a CUDA error that leaves no way to use the device in this process (an assert, an illegal address)."""
    import torch

    kind = getattr(torch, "AcceleratorError", None)
    return (kind is not None and isinstance(error, kind)) or (
        isinstance(error, RuntimeError) and "CUDA error" in str(error)
    )


def share_cores(device: Device, on_other_thread: Callable[[Callable[[], None]], None]) -> None:
    """On a CPU, let another thread compute alone, and leave the other cores to the calling one.

    OpenMP keeps threads for each thread that computes. Once they are more than the cores, they no longer wait awake for
    their next piece of work, and a step of many small pieces takes half as long again. ``on_other_thread`` runs a call
    there and waits for it.
    """
    if device.kind != "cpu":
        return
    import torch

    def compute_alone() -> None:
        torch.get_num_threads()  # the first question makes a thread take the common number; it must not come after
        torch.set_num_threads(1)

    threads = torch.get_num_threads()
    on_other_thread(compute_alone)
    torch.set_num_threads(threads)  # the other's number has become the common one


def free_memory(device: Device) -> None:
    """Give back what torch keeps cached on the device."""
    import gc

    import torch

    gc.collect()
    if device.kind == "cuda":
        torch.cuda.empty_cache()
    elif device.kind == "mps":
        torch.mps.empty_cache()
