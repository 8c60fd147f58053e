"""Every family gives what its plain diffusers pipeline gives: alone to the bit, in company up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.engine.latent import LatentModel
from actors.engine.stepping import BatchKey
from tests.engine.families import tiny
from tests.engine.families.company import (
    LATENTS,
    PICTURE,
    ask,
    crowd,
    far,
    latent_model,
    picture_gap,
    plain,
    rows_of,
    state_of,
    walk,
)
from tests.engine.families.equality import compare

VARIANTS: dict[str, tuple[str, Any]] = {
    "flux without guidance embeds": ("flux", lambda: tiny.flux(guidance_embeds=False)),
    "flux without dynamic shifting": ("flux", lambda: tiny.flux(dynamic=False)),
    "sd15 with the scale as an input": ("sd15", lambda: tiny.sd15(time_cond_proj_dim=8)),
    "sdxl that encodes empty prompts": ("sdxl", lambda: tiny.sdxl(force_zeros=False)),
    "sd3 with dynamic shifting": ("sd3", lambda: tiny.sd3(dynamic=True)),
}


def test_alone_is_the_pipeline_to_the_bit(model: LatentModel) -> None:
    """Latents and picture, of prompts, guidances, negative prompts and steps of all kinds."""
    for request in crowd():
        [row] = walk(model, rows_of(model, request))
        assert torch.equal(row.latents, plain(model, request))
        assert picture_gap(model, row, plain(model, request, "np")[0]) == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_the_pipeline_to_the_bit(variant: str) -> None:
    """A family's models differ in their settings; each is followed."""
    name, build = VARIANTS[variant]
    model = latent_model(name, build())
    for request in (ask(), ask(negative_prompt=""), ask(guidance=1.0), ask(guidance=None)):
        assert torch.equal(walk(model, rows_of(model, request))[0].latents, plain(model, request))


def test_bfloat16_is_the_pipeline_to_the_bit(model: LatentModel) -> None:
    """Guidance and steps round where the pipeline's own do."""
    name = model.family.settings.family
    half = latent_model(name, tiny.FAMILIES[name]().to(torch.bfloat16), torch.bfloat16)
    for request in (ask(), ask(guidance=7.7, negative_prompt="fog")):
        assert torch.equal(walk(half, rows_of(half, request))[0].latents, plain(half, request))


def test_one_batch_of_all_kinds(model: LatentModel) -> None:
    """Rows that differ in prompt, length of text, steps, guidance and seed share every pass."""
    requests = crowd()
    assert len({model.key(request) for request in requests}) == 1
    for row, request in zip(walk(model, rows_of(model, *requests)), requests, strict=True):
        assert far(row.latents, plain(model, request)) < LATENTS
        assert picture_gap(model, row, plain(model, request, "np")[0]) <= PICTURE


def test_joining_late(model: LatentModel) -> None:
    """A row that comes in between finds its place, and the one before it stays what it was."""
    first, second = ask(steps=6), ask(steps=5, seeds=(8,), prompt="fog", guidance=2.1)
    early = walk(model, rows_of(model, first), steps=2)
    rows = walk(model, early + rows_of(model, second))
    assert far(rows[0].latents, plain(model, first)) < LATENTS
    assert far(rows[1].latents, plain(model, second)) < LATENTS


def test_leaving_early(model: LatentModel) -> None:
    """A row that is dropped half way takes nothing with it."""
    stays, leaves = ask(steps=5), ask(steps=6, seeds=(8,))
    rows = walk(model, rows_of(model, stays, leaves), steps=2)
    model.drop(rows.pop())
    assert far(walk(model, rows)[0].latents, plain(model, stays)) < LATENTS


def test_seeds_of_one_request(model: LatentModel) -> None:
    """Three pictures of one request are the pipeline's ``num_images_per_prompt``, each with its own generator."""
    request = ask(seeds=(1, 2, 2**33 + 5))
    rows, expected = walk(model, rows_of(model, request)), plain(model, request)
    for index, row in enumerate(rows):
        assert far(row.latents, expected[index : index + 1]) < LATENTS
    assert not np.allclose(rows[0].latents, rows[1].latents)


def test_a_seed_means_its_low_32_bits(model: LatentModel) -> None:
    """torch's CPU generator reads no more of it."""
    low, high = rows_of(model, ask(seeds=(5, 2**33 + 5)))
    assert torch.equal(low.latents, high.latents)


def test_same_company_is_the_same_to_the_bit(model: LatentModel) -> None:
    """Twice the same batch gives twice the same latents."""
    once, again = (walk(model, rows_of(model, *crowd())) for _ in range(2))
    assert all(torch.equal(one.latents, other.latents) for one, other in zip(once, again, strict=True))


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_no_order_of_coming_and_going_changes_a_row(data: st.DataObject) -> None:
    """Whoever steps with whom, for how long, and goes on from a checkpoint: each row ends where it ends alone."""
    model = _models[data.draw(st.sampled_from(sorted(_models)), label="family")]
    rows = rows_of(model, *crowd())
    while left := [index for index, row in enumerate(rows) if not row.done]:
        chosen = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True), label="rows of the next step")
        model.step([rows[index] for index in chosen])
        moved = data.draw(st.none() | st.sampled_from(range(len(rows))), label="row that goes on elsewhere")
        if moved is not None:
            [fresh] = rows_of(model, crowd()[moved])
            model.restore(fresh, state_of(rows[moved]))
            rows[moved] = fresh
    for index, row in enumerate(rows):
        assert far(row.latents, _alone(model, index)) < LATENTS


def test_the_command_that_measures(flux: LatentModel) -> None:
    """``python -m tests.engine.families.equality`` prints such gaps."""
    alone, company = compare(flux, crowd()[:2])
    assert alone.latents == [0.0, 0.0]
    assert alone.levels == [0, 0]
    assert max(company.latents) < LATENTS
    assert max(company.levels) <= 1


def test_keys_tell_apart_what_can_not_share_a_pass(model: LatentModel) -> None:
    """Another size; and, where guidance doubles the rows, none of it."""
    assert model.key(ask()) != model.key(ask(width=48))
    keys: set[BatchKey] = {model.key(ask()), model.key(ask(guidance=1.0))}
    assert len(keys) == (1 if model.family.settings.family == "flux" else 2)


_models = {name: latent_model(name) for name in tiny.FAMILIES}
_expected: dict[tuple[str, int], torch.Tensor] = {}


def _alone(model: LatentModel, index: int) -> torch.Tensor:
    name = (model.family.settings.family, index)
    if name not in _expected:
        _expected[name] = walk(model, rows_of(model, crowd()[index]))[0].latents
    return _expected[name]
