"""``[models.NAME.parallel]``: what it takes, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from jobstore.fingerprint import fingerprints
from jobstore.job import JobRequest
from safelight.config import ConfigError, ModelSettings, load_settings

CASES = {
    'kind = "ulysses"\ndevices = 1': "devices",
    'kind = "ulysses"': "devices",
    'kind = "pipeline"\ndevices = 2': "kind",
    'kind = "ulysses"\ndevices = ["cuda:0"]': "devices",
    'kind = "ulysses"\ndevices = ["cuda:0", "cuda:0"]': "each is one rank's own",
    'kind = "ulysses"\ndevices = ["cuda:0", "cpu"]': "of one kind",
    'kind = "ulysses"\ndevices = ["gpu0", "gpu1"]': "devices",
    'kind = "cfg"\ndevices = 3': "guidance branches",
    'kind = "cfg"\ndevices = 2': "'cfg' is for sd15, sdxl, sd3, qwen-image; flux has no guidance branches",
    'kind = "ulysses"\ndevices = 2\ntimeout_s = 0': "timeout_s",
    'kind = "ulysses"\ndevices = 2\nstride = 2': "stride are those of async",
    'kind = "async"\ndevices = 2\nstride = 3': "stride",
    'kind = "async"\ndevices = 2\nwarmup = 0': "warmup",
    'kind = "ulysses"\ndevices = 2\n[models.m.parallel.verify]\npsnr = -1': "psnr",
}


def model_of(folder: Path, parallel: str, model: str = 'model = "a/flux"') -> ModelSettings:
    """A model's settings, out of a file."""
    file = folder / "safelight.toml"
    file.write_text(f"[models.m]\n{model}\n[models.m.parallel]\n{parallel}\n")
    return load_settings(file, {}).models["m"]


def test_devices_are_a_number_or_names(tmp_path: Path) -> None:
    """And all else has defaults."""
    counted = model_of(tmp_path, 'kind = "ulysses"\ndevices = 4').parallel
    named = model_of(tmp_path, 'kind = "cfg"\ndevices = ["cuda:2", "cuda:0"]', 'model = "a/sdxl"').parallel
    assert counted is not None
    assert named is not None
    assert (counted.ranks, counted.label, named.ranks, named.devices) == (4, "ulysses-4", 2, ("cuda:2", "cuda:0"))
    assert (counted.verify.psnr, counted.timeout_s) == (30.0, 60.0)


@pytest.mark.parametrize(("parallel", "words"), CASES.items())
def test_what_can_t_be_is_refused_by_name(tmp_path: Path, parallel: str, words: str) -> None:
    """When the settings are read, not when the model is."""
    with pytest.raises(ConfigError, match=r"models\.m") as caught:
        model_of(tmp_path, parallel)
    assert words in str(caught.value)


def test_a_lossy_kind_is_held_to_other_limits(tmp_path: Path) -> None:
    """Unless the settings name their own."""
    plain = model_of(tmp_path, 'kind = "async"\ndevices = 2').parallel
    own = model_of(tmp_path, 'kind = "async"\ndevices = 3\nstride = 2\nverify = { psnr = 30.0 }').parallel
    assert plain is not None
    assert own is not None
    assert (plain.lossy, plain.verify.psnr, plain.look) == (True, 20.0, "async-2 warm-up 2 stride 1")
    assert (own.verify.psnr, own.verify.ssim, own.look) == (30.0, 0.9, "async-3 warm-up 2 stride 2")
    exact = model_of(tmp_path, 'kind = "ulysses"\ndevices = 2').parallel
    assert exact is not None
    assert (exact.lossy, exact.look) == (False, "")


def test_what_does_not_go_with_it_is_refused(tmp_path: Path) -> None:
    """Adapters, a streamed denoiser, a provider."""
    plan = 'kind = "ulysses"\ndevices = 2'
    for more, words in (
        ('model = "a/flux"\nadapters = { ink = { path = "a/b" } }', "adapters"),
        ('model = "a/flux"\nmemory = "grouped"', "grouped"),
        ('provider = { kind = "openai", base_url = "https://host/v1", model = "flux" }', "rendered here"),
        ('model = "a/sdxl"', "'ulysses' is for flux, qwen-image, auto; sdxl can't be split so; cfg"),
    ):
        with pytest.raises(ConfigError) as caught:
            model_of(tmp_path, plan, more)
        assert words in str(caught.value)


def test_exact_kinds_are_no_other_pictures(tmp_path: Path) -> None:
    """What was rendered on one device is found for several."""
    request = JobRequest(model="m", prompt="a", width=64, height=64, steps=1, seed=1)
    spread = model_of(tmp_path, 'kind = "ulysses"\ndevices = 2')
    alone = msgspec.structs.replace(spread, parallel=None)
    assert fingerprints(request, spread, None) == fingerprints(request, alone, None)
