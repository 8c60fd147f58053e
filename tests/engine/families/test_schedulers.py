"""Every scheduler walks as in the plain pipeline: history, noise of its own, evaluations beyond the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffusers
import pytest
import torch

from actors.engine.errors import InvalidRequestError
from actors.engine.latent import LatentModel
from actors.engine.sampling import advance_rows
from tests.engine.families import tiny
from tests.engine.families.company import LATENTS, ask, far, latent_model, plain, rows_of, walk
from tests.engine.families.schedulers import RESTLESS, SCHEDULERS, scheduled


@pytest.mark.parametrize("name", SCHEDULERS)
def test_alone_is_the_pipeline_to_the_bit(name: str) -> None:
    """Also where the scheduler draws noise or needs twice the evaluations."""
    model = scheduled(name)
    for request in (ask(steps=5), ask(steps=1), ask(steps=8, seeds=(3,))):
        assert torch.equal(walk(model, rows_of(model, request))[0].latents, plain(model, request))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_in_company_up_to_rounding(name: str) -> None:
    """Rows at other steps of other walks leave each other's history and noise alone."""
    model = scheduled(name)
    requests = [ask(steps=5), ask(steps=7, seeds=(3,), guidance=2.1), ask(steps=3, seeds=(4,), prompt="fog")]
    early = walk(model, rows_of(model, *requests[:2]), steps=2)
    rows = walk(model, early + rows_of(model, requests[2]))
    for row, request in zip(rows, requests, strict=True):
        assert far(row.latents, plain(model, request)) < LATENTS


def test_second_order_takes_more_evaluations_than_steps() -> None:
    """Heun's asks the denoiser twice a step, but for the last."""
    for name in ("heun", "flow heun"):
        model = scheduled(name)
        assert [row.steps for row in rows_of(model, ask(steps=5))] == [9]


@pytest.mark.parametrize("name", sorted(SCHEDULERS.keys() - RESTLESS))
def test_clean_latents_come_near_the_end(name: str) -> None:
    """What previews show is nearer to the end than the noisy latents."""
    model = scheduled(name)
    [row] = rows_of(model, ask(steps=12))
    walk(model, [row], steps=row.steps - 3)
    noisy, clean = row.latents, row.clean
    walk(model, [row])
    assert clean is not None
    assert clean.shape == noisy.shape
    assert far(clean, row.latents) < far(noisy, row.latents)


def test_clean_latents_of_rectified_flow(flux: LatentModel) -> None:
    """x0 = x - sigma * v: the end of the straight line through where the row stands."""
    [row] = walk(flux, rows_of(flux, ask(steps=6)), steps=3)
    before, sigmas = row.latents, row.sampler.scheduler.sigmas
    walk(flux, [row], steps=1)
    velocity = (row.latents - before) / (sigmas[4] - sigmas[3])
    assert row.clean is not None
    assert far(row.clean, before - sigmas[3] * velocity) < 1e-5


@pytest.mark.parametrize("name", SCHEDULERS)
def test_bfloat16_is_the_pipeline_to_the_bit(name: str) -> None:
    """Whatever a scheduler computes in, the latents keep their number format."""
    family, scheduler = SCHEDULERS[name]
    pipeline = tiny.FAMILIES[family]().to(torch.bfloat16)
    pipeline.scheduler = scheduler()
    model = latent_model(family, pipeline, torch.bfloat16)
    [row] = walk(model, rows_of(model, ask(steps=5)))
    assert row.latents.dtype == torch.bfloat16
    assert torch.equal(row.latents, plain(model, ask(steps=5)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_all_rows_at_once_are_each_row_alone(dtype: torch.dtype) -> None:
    """One operation for the batch gives the very bits of the scheduler's own step, at every step."""
    name = "flux"
    model = latent_model(name, tiny.FAMILIES[name](), dtype)
    rows = rows_of(model, *[ask(steps=steps, seeds=(steps,)) for steps in (3, 7, 8)])
    walked = rows_of(model, *[ask(steps=steps, seeds=(steps,)) for steps in (3, 7, 8)])
    for _ in range(3):
        predictions = torch.randn(3, *rows[0].latents.shape[1:]).to(dtype)
        together = advance_rows(rows, predictions)
        for index, row in enumerate(walked):
            latents, clean = row.sampler.advance(predictions[index : index + 1], row.latents, row.step)
            assert torch.equal(together[index][0], latents)
            assert torch.equal(together[index][1], clean)
            assert rows[index].sampler.scheduler.step_index == row.sampler.scheduler.step_index
            row.latents, rows[index].latents = latents, together[index][0]
            row.step, rows[index].step = row.step + 1, rows[index].step + 1


def test_stochastic_flow_draws_from_the_row() -> None:
    """The pipeline leaves that noise to torch's global generator; here the seed decides it."""
    pipeline = tiny.flux()
    pipeline.scheduler = diffusers.FlowMatchEulerDiscreteScheduler(stochastic_sampling=True)
    model = latent_model("flux", pipeline)
    once, again = (walk(model, rows_of(model, ask(), ask(seeds=(8,)))) for _ in range(2))
    alone = walk(model, rows_of(model, ask()))
    assert torch.equal(once[0].latents, again[0].latents)
    assert far(alone[0].latents, once[0].latents) < LATENTS


@pytest.mark.parametrize("name", sorted(SCHEDULERS.keys() - {"flow euler"}))
def test_no_row_has_changed_when_a_step_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows' schedulers go back to where they were when a later row's has no memory left."""
    model = scheduled(name)
    requests = [ask(steps=5), ask(steps=5, seeds=(3,))]
    expected = walk(model, rows_of(model, *requests))
    rows = walk(model, rows_of(model, *requests), steps=2)
    _fail_once(monkeypatch, rows[1].sampler.scheduler)
    with pytest.raises(MemoryError):
        walk(model, rows, steps=1)
    assert [row.step for row in rows] == [2, 2]
    for row, end in zip(walk(model, rows), expected, strict=True):
        assert torch.equal(row.latents, end.latents)


def test_no_row_has_changed_when_all_fail_at_once(flux: LatentModel) -> None:
    """The one operation for the batch comes before anything is noted."""
    rows = walk(flux, rows_of(flux, ask(), ask(seeds=(8,))), steps=2)
    with pytest.raises(RuntimeError):
        advance_rows(rows, torch.zeros(2, 5, 7))
    assert [row.sampler.scheduler.step_index for row in rows] == [2, 2]


def test_impossible_steps_are_an_invalid_request(sd15: LatentModel) -> None:
    """DDIM has no more steps than it was trained on; the pipeline says so, and so does the model."""
    model = scheduled("ddim")
    with pytest.raises(InvalidRequestError, match="cannot be larger"):
        model.admit(ask(steps=2000))


def _fail_once(monkeypatch: pytest.MonkeyPatch, scheduler: Any) -> None:
    """Let the next step of this scheduler have no memory: after it has changed itself."""
    kind = type(scheduler)
    step: Callable[..., Any] = kind.step
    failed: list[bool] = []

    def failing(self: Any, *arguments: Any, **options: Any) -> Any:
        result = step(self, *arguments, **options)
        if self is scheduler and not failed:
            failed.append(True)
            raise MemoryError
        return result

    monkeypatch.setattr(kind, "step", failing)
