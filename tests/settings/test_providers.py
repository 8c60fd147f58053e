"""Remote models, fallbacks, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobstore.fingerprint import batch_key, fingerprints
from jobstore.job import JobRequest
from safelight.config import ConfigError, Settings, load_settings

REMOTE = """
[models.far]
price = "0.02"
[models.far.provider]
kind = "openai"
base_url = "https://host/v1"
model = "flux-pro"
"""
LOCAL = '[models.near]\nmodel = "a/b"\n'


def load(folder: Path, text: str) -> Settings:
    """Settings of a file with ``text``."""
    file = folder / "safelight.toml"
    file.write_text(text)
    return load_settings(file, {})


def test_a_remote_model_has_a_lane_of_its_own(tmp_path: Path) -> None:
    """It takes its traits from the provider's name for it, and no negative prompt unless that is sent."""
    settings = load(tmp_path, LOCAL + REMOTE)
    far, near = settings.models["far"], settings.models["near"]
    assert (far.lane, near.lane, settings.remote_lanes) == ("remote", "default", ("remote",))
    assert (far.traits.name, far.identity) == ("flux", "openai:flux-pro@host/v1")
    named = load(tmp_path, REMOTE.replace('price = "0.02"', 'lane = "gpu"\nfamily = "sdxl"')).models["far"]
    assert (named.lane, named.traits.name, named.traits.negative_prompt) == ("gpu", "sdxl", False)


def test_a_worker_of_remote_lanes_needs_no_device(tmp_path: Path) -> None:
    """It holds as many jobs as its providers are asked for at once."""
    both = load(tmp_path, '[worker]\nlanes = ["default", "remote"]\n' + LOCAL + REMOTE + "max_concurrency = 7\n")
    remote = load(tmp_path, '[worker]\nlanes = ["remote"]\n' + LOCAL + REMOTE + "max_concurrency = 7\n")
    local = load(tmp_path, LOCAL + REMOTE)
    assert [settings.renders for settings in (both, remote, local)] == [True, False, True]
    assert [settings.slots for settings in (both, remote, local)] == [17, 7, 10]


def test_another_place_is_another_picture(tmp_path: Path) -> None:
    """The provider's address and model are in the fingerprint."""
    request = JobRequest(model="far", prompt="a", width=64, height=64, steps=1, seed=1)
    texts = [REMOTE, REMOTE.replace("host", "other"), REMOTE.replace("flux-pro", "flux-dev")]
    models = [load(tmp_path, text).models["far"] for text in texts]
    assert (
        len({fingerprints(request, model, None) for model in models})
        == len({batch_key(request, model) for model in models})
        == 3
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[models.x]\nsteps = 8", "[models.x] the key 'model' is missing"),
        (REMOTE.replace('kind = "openai"', 'kind = "other"'), "[models.far] provider.kind: "),
        (REMOTE.replace('base_url = "https://host/v1"\n', ""), "base_url is missing"),
        (REMOTE.replace("https://host/v1", "host/v1"), "base_url 'host/v1' is not a URL"),
        (REMOTE.replace("https://host", "https://me:secret@host"), "put secrets into api_key_env"),
        (REMOTE + 'api_key = "secret"', "[models.far.provider] has no key 'api_key'; did you mean 'api_key_env'?"),
        (REMOTE + 'api_key_env = "sk-secret"', "[models.far] provider.api_key_env: "),
        (REMOTE + 'headers_env = { Host = "H" }', "headers_env: Host can't be set"),
        (REMOTE.replace('price = "0.02"', 'model = "a/b"'), "model is for models that are rendered here"),
        (
            LOCAL + 'fallbacks = ["fra"]\n' + REMOTE,
            "[models.near] fallbacks: there is no model 'fra'; did you mean 'far'?",
        ),
        (LOCAL + 'fallbacks = ["near"]', "[models.near] fallbacks: 'near' can't stand in for itself"),
        (LOCAL + 'fallbacks = ["far", "far"]\n' + REMOTE, "named twice"),
        (
            REMOTE.replace('price = "0.02"', 'pricing = { gpu_hour = "1", max_per_image = "1" }'),
            "gpu_hour is for models",
        ),
        (LOCAL + "fallback_after_s = 0", "[models.near] fallback_after_s: "),
    ],
)
def test_an_error_names_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    """And never tells a secret that stands in the wrong place."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value).replace("put secrets", "")


def test_models_may_stand_in_for_each_other(tmp_path: Path) -> None:
    """A job goes the way of its own model alone: there is no circle."""
    settings = load(
        tmp_path, LOCAL + 'fallbacks = ["far"]\n' + REMOTE.replace('price = "0.02"', 'fallbacks = ["near"]')
    )
    assert (settings.models["near"].fallbacks, settings.models["far"].fallbacks) == (("far",), ("near",))


def test_variables_that_are_not_set_are_told() -> None:
    """Of the key and of headers."""
    from safelight.config import ProviderSettings

    provider = ProviderSettings(kind="litellm", model="x/y", api_key_env="KEY", headers_env={"x-org": "ORG"})
    assert provider.unset({"KEY": "k", "ORG": ""}) == ("ORG",)
