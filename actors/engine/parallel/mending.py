"""What diffusers 0.42's parallelism needs on CPUs: four small patches, made in rank processes alone (docs/parallel.md).

Each replaces one name of one module, and does on a GPU what was done before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch


@contextmanager
def counting_cpus() -> Iterator[None]:
    """``enable_parallelism`` divides by the number of accelerators, 0 on a machine that has none."""
    count = torch.accelerator.device_count
    if count() == 0:
        torch.accelerator.device_count = lambda: 1
    try:
        yield
    finally:
        torch.accelerator.device_count = count


def mend(kind: str) -> None:
    """Make the patches that a kind of device needs; those of CPUs, or none."""
    if kind != "cpu":
        return
    hooks, models = "diffusers.hooks", "diffusers.models"
    context, tensor = import_module(f"{hooks}.context_parallel"), import_module(f"{hooks}.tensor_parallel")
    attention = import_module(f"{models}.attention_dispatch")
    vars(context)["_all_gather_anything"] = gather_padded
    if kind not in tensor._SUPPORTED_TP_DEVICES:
        vars(tensor)["_SUPPORTED_TP_DEVICES"] = (*tensor._SUPPORTED_TP_DEVICES, kind)
    if attention._native_attention_forward_op is not _with_weights:
        _plain["forward"] = attention._native_attention_forward_op
        vars(attention)["_native_attention_forward_op"] = _with_weights


def gather_padded(tensor: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """All ranks' tensors side by side along ``dim``, where lengths differ: gloo gathers only what is of one shape."""
    size = torch.distributed.get_world_size(group)
    own = torch.tensor([tensor.shape[dim]])
    told = [torch.empty_like(own) for _ in range(size)]
    torch.distributed.all_gather(told, own, group=group)
    lengths = [int(one) for one in told]
    padded = tensor.new_zeros([max(lengths) if axis == dim else side for axis, side in enumerate(tensor.shape)])
    padded.narrow(dim, 0, tensor.shape[dim]).copy_(tensor)
    gathered = [torch.empty_like(padded) for _ in range(size)]
    torch.distributed.all_gather(gathered, padded, group=group)
    return torch.cat([one.narrow(dim, 0, length) for one, length in zip(gathered, lengths, strict=True)], dim=dim)


_plain: dict[str, Any] = {}


def _with_weights(
    ctx: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    **others: Any,
) -> Any:
    """Attention [B, tokens, heads, width] that also gives the log of its weights' sum [B, tokens, heads].

    A ring needs it to add up the parts; torch's own kernel for CPUs has it, diffusers' wrapper refuses.
    """
    if not return_lse:
        arguments = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, return_lse)
        return _plain["forward"](ctx, *arguments, **others)
    parts = (tensor.permute(0, 2, 1, 3) for tensor in (query, key, value))
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *parts, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )
    return out.permute(0, 2, 1, 3), lse.permute(0, 2, 1)
