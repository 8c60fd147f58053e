"""What decides the pixels changes the fingerprint, and nothing else does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jobstore.fingerprint import batch_key, cache_scope
from jobstore.fingerprint import fingerprints as scoped_fingerprints
from jobstore.ids import uuid7
from jobstore.job import CacheMode, JobRequest, PictureFormat
from safelight.config import ModelSettings, ParallelSettings
from safelight.config.settings import AdapterSettings

MODEL = ModelSettings(model="a/b", family="flux", revision="r1")
STYLED = msgspec.structs.replace(MODEL, adapters={"ink": AdapterSettings(path="c/d", revision="a1")})
REQUEST = JobRequest(model="x", prompt="a cat", width=512, height=512, steps=8, guidance=3.5, seed=1)


def fingerprints(request: JobRequest, model: ModelSettings) -> tuple[str, str]:
    """Those that everybody shares."""
    return scoped_fingerprints(request, model, None)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a cat "},
        {"negative_prompt": "dog"},
        {"width": 528},
        {"height": 528},
        {"steps": 9},
        {"guidance": 3.6},
        {"guidance": None},
        {"n": 2},
        {"adapters": (("ink", 1.0),)},
    ],
)
def test_a_parameter_of_the_picture_changes_both(change: dict[str, Any]) -> None:
    """Exactly as written: a blank more is another prompt."""
    changed = fingerprints(msgspec.structs.replace(REQUEST, **change), MODEL)
    assert all(one != other for one, other in zip(changed, fingerprints(REQUEST, MODEL), strict=True))


def test_a_lossy_plan_changes_both_and_an_exact_one_neither() -> None:
    """By the number of devices, the exact steps and the stride: pictures of such are never taken for one another."""
    plans = [
        ParallelSettings(kind="async", devices=2),
        ParallelSettings(kind="async", devices=3),
        ParallelSettings(kind="async", devices=2, warmup=3),
        ParallelSettings(kind="async", devices=2, stride=2),
    ]
    found = [fingerprints(REQUEST, msgspec.structs.replace(MODEL, parallel=plan)) for plan in plans]
    assert len({one for pair in [*found, fingerprints(REQUEST, MODEL)] for one in pair}) == 2 * (len(plans) + 1)
    exact = msgspec.structs.replace(MODEL, parallel=ParallelSettings(kind="ulysses", devices=2))
    assert fingerprints(REQUEST, exact) == fingerprints(REQUEST, MODEL)


def test_the_seed_changes_the_first_alone() -> None:
    """The second is for whoever takes any seed."""
    exact, seedless = fingerprints(msgspec.structs.replace(REQUEST, seed=2), MODEL)
    assert exact != fingerprints(REQUEST, MODEL)[0]
    assert seedless == fingerprints(REQUEST, MODEL)[1]


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "r2"},
        {"dtype": "float16"},
        {"family": "sd3"},
        {"variant": "fp16"},
        {"model": "a/c"},
        {"quantize": "int8"},
    ],
)
def test_a_trait_of_the_model_changes_both(change: dict[str, Any]) -> None:
    """Other weights, other numbers, other code: another picture."""
    changed = fingerprints(REQUEST, msgspec.structs.replace(MODEL, **change))
    assert all(one != other for one, other in zip(changed, fingerprints(REQUEST, MODEL), strict=True))


@pytest.mark.parametrize(
    "change",
    [
        {"format": PictureFormat.JPEG},
        {"priority": 9},
        {"cache": CacheMode.ANY},
        {"deadline_s": 5.0},
        {"model": "y"},
        {"previews": 3},
    ],
)
def test_what_decides_no_pixel_changes_nothing(change: dict[str, Any]) -> None:
    """File format, priority, cache mode, deadline, and the name a model goes by."""
    assert fingerprints(msgspec.structs.replace(REQUEST, **change), MODEL) == fingerprints(REQUEST, MODEL)


def test_the_place_of_a_folder_changes_nothing() -> None:
    """Two hosts may keep the same folder in different places."""
    here, there = (msgspec.structs.replace(MODEL, model=f"/{place}/scenes") for place in ("here", "there"))
    assert fingerprints(REQUEST, here) == fingerprints(REQUEST, there)


def test_the_batch_key_leaves_steps_and_seed_out() -> None:
    """Rows of one batch may differ in them."""
    assert batch_key(msgspec.structs.replace(REQUEST, steps=50, seed=9, guidance=1.0), MODEL) == batch_key(
        REQUEST, MODEL
    )
    assert batch_key(msgspec.structs.replace(REQUEST, width=256), MODEL) != batch_key(REQUEST, MODEL)


def test_a_request_of_old_is_what_it_was() -> None:
    """Pictures that were cached before adapters and quantization came are found, and jobs that waited are rendered."""
    exact = "732297aab327483e4b26f033256560f2942bd762dfac353a99e67aa28a163d52"
    seedless = "236da9f039530b835863ab5f72c815e147814451751123b6f7f25875622e8b66"
    assert fingerprints(REQUEST, MODEL) == (exact, seedless)
    assert batch_key(REQUEST, MODEL) == "a/b@r1:auto:512x512:tNone"
    row = msgspec.to_builtins(REQUEST)
    for name in ("adapters", "previews"):
        del row[name]
    assert msgspec.convert(row, JobRequest) == REQUEST


@pytest.mark.parametrize(
    "change", [{"path": "c/e"}, {"revision": "a2"}, {"file": "x.safetensors"}], ids=["path", "revision", "file"]
)
def test_an_adapter_is_more_than_its_name(change: dict[str, Any]) -> None:
    """A name that comes to mean another adapter makes another picture, and shares no batch."""
    inked = msgspec.structs.replace(REQUEST, adapters=(("ink", 0.5),))
    other = msgspec.structs.replace(STYLED, adapters={"ink": msgspec.structs.replace(STYLED.adapters["ink"], **change)})
    assert fingerprints(inked, STYLED) != fingerprints(inked, other)
    assert batch_key(inked, STYLED) != batch_key(inked, other)


def test_an_adapters_weight_counts_and_its_default_does_not() -> None:
    """The weight that was resolved is the request's own; that of the settings may change later."""
    inked = msgspec.structs.replace(REQUEST, adapters=(("ink", 0.5),))
    heavier = msgspec.structs.replace(REQUEST, adapters=(("ink", 0.6),))
    assert fingerprints(inked, STYLED) != fingerprints(heavier, STYLED)
    assert batch_key(inked, STYLED) != batch_key(heavier, STYLED)
    other = msgspec.structs.replace(STYLED.adapters["ink"], weight=2.0)
    assert fingerprints(inked, STYLED) == fingerprints(inked, msgspec.structs.replace(STYLED, adapters={"ink": other}))


def test_the_place_of_an_adapters_folder_changes_nothing() -> None:
    """As with a model's."""
    inked = msgspec.structs.replace(REQUEST, adapters=(("ink", 0.5),))
    here, there = (
        msgspec.structs.replace(MODEL, adapters={"ink": AdapterSettings(path=f"/{place}/ink", revision="a1")})
        for place in ("here", "there")
    )
    assert fingerprints(inked, here) == fingerprints(inked, there)


@pytest.mark.parametrize(
    ("family", "guidance", "apart"),
    [("sdxl", 1.0, True), ("sdxl", 0.0, True), ("sdxl", None, False), ("flux", 0.0, False), ("sd3", 1.5, False)],
)
def test_only_classifier_free_guidance_asks_twice(family: str, guidance: float | None, apart: bool) -> None:
    """A row that is not guided has half the passes: it shares no batch with one that is."""
    model = msgspec.structs.replace(MODEL, family=family)
    changed = batch_key(msgspec.structs.replace(REQUEST, guidance=guidance), model)
    assert (changed != batch_key(REQUEST, model)) == apart


def test_quantized_weights_share_no_batch_with_others() -> None:
    """They are another model."""
    assert batch_key(REQUEST, msgspec.structs.replace(MODEL, quantize="float8")) != batch_key(REQUEST, MODEL)


def test_seeds_count_up_and_wrap() -> None:
    """Image k alone with its seed is image k."""
    assert msgspec.structs.replace(REQUEST, seed=2**53 - 1, n=3).seeds == (2**53 - 1, 0, 1)


def test_scopes_keep_equal_requests_apart() -> None:
    """Each has fingerprints of its own, the seedless ones too; everybody's are those from before there were scopes."""
    key_id, other = uuid7(), uuid7()
    scopes = [
        cache_scope("team", key_id, "ads"),
        cache_scope("team", key_id, "ops"),
        cache_scope("team", key_id, None),
        cache_scope("team", other, None),
        cache_scope("all", key_id, "ads"),
    ]
    found = [digest for scope in scopes for digest in scoped_fingerprints(REQUEST, MODEL, scope)]
    assert len(set(found)) == 10
    assert tuple(found[-2:]) == fingerprints(REQUEST, MODEL)


def test_who_shares_with_whom() -> None:
    """Those of a team, unless each key is to be alone; and all who come without a key."""
    one, other = uuid7(), uuid7()
    assert cache_scope("team", one, "ads") == cache_scope("team", other, "ads") != cache_scope("team", one, "ops")
    assert cache_scope("key", one, "ads") != cache_scope("key", other, "ads")
    assert cache_scope("key", one, "ads") == cache_scope("key", one, None) == cache_scope("team", one, None)
    assert {cache_scope(setting, None, None) for setting in ("team", "key", "all")} == {None}
    # A team can't be named so that it is taken for a key.
    assert cache_scope("team", one, f"key:{other}") != cache_scope("team", other, None)
