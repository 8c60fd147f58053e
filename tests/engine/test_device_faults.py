"""What an error of torch's says of the device: no memory, lost for good, or neither."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from actors.engine import loading
from actors.engine.adapters import LoraAdapters
from actors.engine.devices import Device, is_device_lost, is_out_of_memory
from actors.engine.errors import ModelUnavailableError
from safelight.config import AdapterSettings
from tests.engine.conftest import load_pipeline, scenes

CPU = Device("cpu", "cpu")
MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "cudaErrorMemoryAllocation: CUDA driver error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasLtCreate(&handle)`",
    "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes",
    "MPS backend out of memory (MPS allocated: 1 GB)",
)
LOST = (
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: device-side assert triggered",
    "CUDA error: unspecified launch failure",
    "CUDA error: an illegal instruction was encountered",
    "CUDA error: misaligned address",
    "CUDA error: operation not supported on global/shared address space",
    "CUDA error: invalid program counter",
    "CUDA error: hardware stack error",
    "CUDA error: the launch timed out and was terminated",
    "CUDA error: uncorrectable ECC error encountered",
    "CUDA error: uncorrectable NVLink error detected during the execution",
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    "CUDA error: unknown error",
    "CUDA error: context is destroyed",
    "CUDA driver error: invalid device context",
)
NEITHER = (
    "CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx( handle, opa, opb, m, n, k)`",
    "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`",
    "CUDA error: invalid configuration argument",
    "CUDA error: invalid argument",
    "CUDA error: too many resources requested for launch",
    "CUDA error: no kernel image is available for execution on the device",
    "CUDA error: operation not permitted when stream is capturing",
    "CUDA error: operation failed due to a previous error during capture",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED",
    "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)",
)
KINDS = (RuntimeError, torch.AcceleratorError)


def _told(error: BaseException) -> tuple[bool, bool]:
    return is_out_of_memory(error), is_device_lost(error)


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_has_its_kind(kind: type[Exception]) -> None:
    """Of torch's own error, and of the older ones that only have a text."""
    assert {text: _told(kind(text)) for text in MEMORY} == dict.fromkeys(MEMORY, (True, False))
    assert {text: _told(kind(text)) for text in LOST} == dict.fromkeys(LOST, (False, True))
    assert {text: _told(kind(text)) for text in NEITHER} == dict.fromkeys(NEITHER, (False, False))


@example(text=LOST[0], advice="out of memory", upper=False)
@given(text=st.sampled_from(LOST), advice=st.text(max_size=200), upper=st.booleans())
def test_a_lost_device_is_known_by_its_line_and_not_by_the_advice_below(text: str, advice: str, upper: bool) -> None:
    """torch adds lines on how to debug, in whatever case the driver speaks."""
    line = text.replace("an illegal", "An illegal") if upper else text
    assert is_device_lost(torch.AcceleratorError(f"{line}\n{advice}"))
    assert not is_device_lost(ValueError(f"{line}\n{advice}"))


@pytest.mark.parametrize(("code", "lost"), [(700, True), (710, True), (719, True), (46, True), (1, False), (9, False)])
def test_the_code_counts_where_there_is_one(code: int, lost: bool) -> None:
    """The words may be anybody's."""
    error = torch.AcceleratorError("CUDA error: words of another driver")
    error.error_code = code  # type: ignore[attr-defined]
    assert is_device_lost(error) == lost


def test_wrapping_does_not_hide_a_lost_device() -> None:
    """Libraries raise their own error from the device's."""
    error = OSError("can't load it")
    error.__cause__ = torch.AcceleratorError(LOST[0])
    assert is_device_lost(error)
    assert not is_device_lost(OSError("can't load it"))


def test_a_device_lost_while_a_model_loads_is_no_unavailable_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is all right: whoever started this process must hear of the device."""

    def lose(*_: object) -> None:
        raise torch.AcceleratorError(LOST[0])

    monkeypatch.setattr(loading, "_read", lose)
    with pytest.raises(torch.AcceleratorError):
        load_pipeline(scenes(), CPU)


def test_a_device_lost_while_an_adapter_loads_is_told_as_such(tmp_path: Path) -> None:
    """Nothing is undone, since nothing on the device answers; a file that is gone is still an unavailable model."""
    pipeline = load_pipeline(scenes(), CPU)
    adapters = LoraAdapters(pipeline, {"ink": AdapterSettings(path=str(tmp_path / "gone.safetensors"))})
    with pytest.raises(ModelUnavailableError):
        adapters.use((("ink", 1.0),))

    def lose(*_: object, **__: object) -> None:
        raise torch.AcceleratorError(LOST[1])

    pipeline.lora_state_dict = lose
    with pytest.raises(torch.AcceleratorError):
        adapters.use((("ink", 1.0),))
