"""Attention for training on a CPU, where the fused kernel's backward pass is slow."""

from __future__ import annotations

import torch

from .untyped import FluxAttnProcessor, Untyped, apply_rotary_emb

Rotary = tuple[torch.Tensor, torch.Tensor]


class PlainAttention:
    """FLUX's joint attention in two matrix products and a softmax."""

    def __call__(
        self,
        attn: Untyped,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,  # noqa: ARG002 - part of the call, and never given here
        image_rotary_emb: Rotary | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Attend over the text's and the picture's tokens together."""
        query, key, value = _project(attn, hidden_states, encoder_hidden_states)
        query = apply_rotary_emb(query, image_rotary_emb, sequence_dim=1)
        key = apply_rotary_emb(key, image_rotary_emb, sequence_dim=1)
        mixed = _attend(query, key, value)
        if encoder_hidden_states is None:
            return mixed
        words = encoder_hidden_states.shape[1]
        return attn.to_out[0](mixed[:, words:]), attn.to_add_out(mixed[:, :words])


def use_plain_attention(transformer: Untyped) -> None:
    """Switch a transformer to the attention for training."""
    transformer.set_attn_processor(PlainAttention())


def use_fused_attention(transformer: Untyped) -> None:
    """Switch a transformer back to the attention it renders with."""
    transformer.set_attn_processor(FluxAttnProcessor())


def _project(
    attn: Untyped, pixels: torch.Tensor, words: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads = (-1, attn.head_dim)
    query = attn.norm_q(attn.to_q(pixels).unflatten(-1, heads))
    key = attn.norm_k(attn.to_k(pixels).unflatten(-1, heads))
    value = attn.to_v(pixels).unflatten(-1, heads)
    if words is None:
        return query, key, value
    word_query = attn.norm_added_q(attn.add_q_proj(words).unflatten(-1, heads))
    word_key = attn.norm_added_k(attn.add_k_proj(words).unflatten(-1, heads))
    word_value = attn.add_v_proj(words).unflatten(-1, heads)
    return (
        torch.cat([word_query, query], dim=1),
        torch.cat([word_key, key], dim=1),
        torch.cat([word_value, value], dim=1),
    )


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    query, key, value = (part.transpose(1, 2) for part in (query, key, value))
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    mixed: torch.Tensor = scores.softmax(dim=-1) @ value
    return mixed.transpose(1, 2).flatten(2)
