"""LoRA adapters: they change the picture, go without a trace, and a wrong one harms nothing."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model

from actors.engine.adapters import LoraAdapters, make_adapters
from actors.engine.devices import Device
from actors.engine.errors import AdapterUnusableError, EngineError, InvalidRequestError, ModelUnavailableError
from actors.engine.loading import load_placed
from actors.engine.memory.skeletons import build_skeleton
from safelight.config import AdapterSettings, EngineSettings
from tests.engine.conftest import load_pipeline, scenes
from tests.engine.families import tiny

CPU = Device("cpu", "cpu")
LAYERS = ["to_q", "to_k", "to_v"]
TEXT_LAYERS = ["q_proj", "v_proj"]


def write(folder: Path, name: str, seed: int, *, text: bool = False, rank: int = 4, layers: Any = LAYERS) -> Path:
    """A LoRA file of random weights for the shipped model; with ``text`` also for its CLIP."""
    pipeline = load_pipeline(scenes(), CPU)
    torch.manual_seed(seed)
    config = LoraConfig(r=rank, lora_alpha=rank, target_modules=layers, init_lora_weights=False)
    pipeline.transformer.add_adapter(config)
    parts = {"transformer_lora_layers": get_peft_model_state_dict(pipeline.transformer)}
    if text:
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=TEXT_LAYERS, init_lora_weights=False)
        inject_adapter_in_model(config, pipeline.text_encoder)
        parts["text_encoder_lora_layers"] = get_peft_model_state_dict(pipeline.text_encoder)
    pipeline.save_lora_weights(folder, weight_name=f"{name}.safetensors", **parts)
    return folder / f"{name}.safetensors"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AdapterSettings]:
    """Three adapters, one of them for the text encoder too, and two that don't fit."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("loras")
    paths = {
        "ink": write(folder, "ink", 1),
        "oil": write(folder, "oil", 2, rank=8, layers=["to_q", "to_out.0"]),
        "v1.2": write(folder, "chalk", 3, text=True),
        "wide": _spoiled(folder, "wide", lambda tensor: torch.cat([tensor, tensor], dim=-1)),
        "gone": folder / "gone.safetensors",
        "broken": folder / "broken.safetensors",
    }
    paths["broken"].write_bytes(b"no safetensors at all")
    return {name: AdapterSettings(path=str(path)) for name, path in paths.items()}


def _spoiled(folder: Path, name: str, change: Any) -> Path:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "ink.safetensors")
    save_file({key: change(tensor) for key, tensor in tensors.items()}, folder / f"{name}.safetensors")
    return folder / f"{name}.safetensors"


@pytest.fixture
def pipeline() -> Any:
    """The shipped model."""
    return load_pipeline(scenes(), CPU)


def picture(pipeline: Any) -> Any:
    """A small picture."""
    return pipeline(
        "a red circle left of a blue square", width=64, height=64, num_inference_steps=2, guidance_scale=0.0,
        generator=torch.Generator().manual_seed(7), max_sequence_length=24, output_type="np",
    ).images[0]  # fmt: skip


def shape_of(pipeline: Any) -> list[str]:
    """The names of all layers of the denoiser and the text encoder."""
    return [name for part in (pipeline.transformer, pipeline.text_encoder) for name, _ in part.named_modules()]


def test_base_lora_base_gives_the_base_picture_back(pipeline: Any, files: dict[str, AdapterSettings]) -> None:
    """Bit for bit, as often as one likes."""
    adapters = LoraAdapters(pipeline, files)
    base = picture(pipeline)
    places = {weight.data_ptr() for weight in pipeline.transformer.parameters()}
    adapters.use((("ink", 1.0),))
    inked = picture(pipeline)
    assert np.abs(inked - base).max() > 0.01
    adapters.use(())
    assert np.array_equal(picture(pipeline), base)
    adapters.use((("ink", 1.0),))
    assert np.array_equal(picture(pipeline), inked)
    assert places <= {weight.data_ptr() for weight in pipeline.transformer.parameters()}, "a graph would read elsewhere"


def test_weights_and_two_at_once(pipeline: Any, files: dict[str, AdapterSettings]) -> None:
    """Each combination has its own picture, whatever was used before; a weight of 0 is the base."""
    adapters = LoraAdapters(pipeline, files)
    base = picture(pipeline)
    both = (("ink", 0.5), ("oil", 1.5))
    seen = {}
    for wanted in ((("ink", 1.0),), (("ink", 0.5),), (("oil", 1.0),), both, (("ink", 1.0), ("oil", 1.0))):
        adapters.use(wanted)
        seen[wanted] = picture(pipeline)
    pictures = [base, *seen.values()]
    assert all(not np.array_equal(one, two) for i, one in enumerate(pictures) for two in pictures[:i])
    fresh = load_pipeline(scenes(), CPU)
    LoraAdapters(fresh, files).use(both)
    assert np.allclose(picture(fresh), seen[both], atol=1e-5)
    adapters.use((("ink", 0.0),))
    assert np.allclose(picture(pipeline), base, atol=1e-6)


def test_a_part_for_the_text_encoder_counts(pipeline: Any, files: dict[str, AdapterSettings]) -> None:
    """It changes what the prompt becomes, and goes away again. Its name has a dot."""
    adapters = LoraAdapters(pipeline, files)

    def pooled() -> torch.Tensor:
        with torch.no_grad():
            embeds: torch.Tensor = pipeline.encode_prompt("a red circle", None, max_sequence_length=24)[1]
        return embeds

    base = pooled()
    adapters.use((("v1.2", 1.0),))
    assert not torch.equal(pooled(), base)
    adapters.use((("ink", 1.0),))
    assert torch.equal(pooled(), base)
    adapters.use(())
    assert torch.equal(pooled(), base)


def test_only_a_few_stay_loaded(pipeline: Any, files: dict[str, AdapterSettings]) -> None:
    """The one not used for longest goes; one that comes back is as it was; a request may want more at once."""
    adapters = LoraAdapters(pipeline, files, room=2)
    adapters.use((("ink", 1.0),))
    inked, one = picture(pipeline), adapters.bytes()
    assert 0 < one < 1_000_000
    adapters.use((("oil", 1.0),))
    adapters.use((("v1.2", 1.0),))
    assert list(adapters.loaded) == ["oil", "v1.2"]
    adapters.use((("ink", 1.0),))
    assert list(adapters.loaded) == ["v1.2", "ink"]
    assert np.array_equal(picture(pipeline), inked)
    adapters.use((("ink", 1.0), ("oil", 1.0), ("v1.2", 1.0)))
    assert len(adapters.loaded) == 3
    adapters.use(())
    assert len(adapters.loaded) == 2


def test_graphs_go_before_the_factors_that_they_read(pipeline: Any, files: dict[str, AdapterSettings]) -> None:
    """Whoever holds some is told while all is still there, and only then."""
    adapters = LoraAdapters(pipeline, files, room=1)
    seen: list[int] = []
    adapters.before_leaving = lambda: seen.append(len(pipeline.get_list_adapters()["transformer"]))
    adapters.use((("ink", 1.0),))
    adapters.use((("ink", 0.5),))
    adapters.use(())
    assert seen == []
    adapters.use((("oil", 1.0),))
    assert seen == [2]


def test_unknown_names_are_refused_with_those_there_are(pipeline: Any, files: dict[str, AdapterSettings]) -> None:
    """Before anything is loaded."""
    few = {name: files[name] for name in ("oil", "ink")}
    adapters = make_adapters(pipeline, scenes(adapters=few))
    with pytest.raises(InvalidRequestError, match="no pencil; it has ink, oil"):
        adapters.check((("pencil", 1.0),))
    with pytest.raises(InvalidRequestError, match="it has none"):
        make_adapters(pipeline, scenes()).check((("ink", 1.0),))


@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("wide", "is for another model", AdapterUnusableError),
        ("gone", "gone.safetensors", ModelUnavailableError),  # it may be there again at the next try
        ("broken", "'broken'", AdapterUnusableError),
    ],
)
@pytest.mark.parametrize("active", [(), (("ink", 1.0),)], ids=["bare", "beside"])
def test_a_file_that_does_not_fit_changes_nothing(
    pipeline: Any, files: dict[str, AdapterSettings], name: str, words: str, kind: type[EngineError], active: Any
) -> None:
    """Its error names it and no folder; the model renders as before, and takes a good one afterwards."""
    adapters = LoraAdapters(pipeline, files)
    adapters.use(active)
    before, layers = picture(pipeline), shape_of(pipeline)
    with pytest.raises(kind, match=words) as caught:
        adapters.use(((name, 1.0),))
    assert str(Path(files[name].path).parent) not in str(caught.value)
    assert shape_of(pipeline) == layers
    assert np.array_equal(picture(pipeline), before)
    adapters.use((("oil", 1.0),))
    assert not np.array_equal(picture(pipeline), before)


def test_a_file_for_another_family_is_refused(pipeline: Any, files: dict[str, AdapterSettings], tmp_path: Path) -> None:
    """All its layers have names that this model has not."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(files["ink"].path)
    renamed = {key.replace("transformer_blocks", "down_blocks"): tensor for key, tensor in tensors.items()}
    save_file(renamed, tmp_path / "other.safetensors")
    adapters = LoraAdapters(pipeline, {"other": AdapterSettings(path=str(tmp_path / "other.safetensors"))})
    layers = shape_of(pipeline)
    with pytest.raises(AdapterUnusableError, match="has no layer"):
        adapters.use((("other", 1.0),))
    assert shape_of(pipeline) == layers


@pytest.mark.parametrize(
    "how",
    [{"memory": "staged"}, {"memory": "grouped"}, {"quantize": "int8"}, {"quantize": "layerwise-float8"}],
    ids=str,
)
def test_adapters_go_with_memory_plans_and_quantisation(how: Any, files: dict[str, AdapterSettings]) -> None:
    """The base comes back bit for bit there too."""
    loaded = load_placed(scenes(**how), EngineSettings(), CPU)
    adapters = LoraAdapters(loaded.pipeline, copy.copy(files))
    base = picture(loaded.pipeline)
    adapters.use((("ink", 1.0),))
    assert np.abs(picture(loaded.pipeline) - base).max() > 0.01
    adapters.use(())
    assert np.array_equal(picture(loaded.pipeline), base)


def test_hub_adapters_are_fetched_beforehand(files: dict[str, AdapterSettings], tmp_path: Path) -> None:
    """A step has minutes, not the time of a download; what can't be had is told of when it is asked for."""
    asked: list[tuple[str, Any, Any]] = []

    class Fetching:
        def lora_state_dict(self, source: str, *, weight_name: str, revision: str, use_safetensors: bool) -> None:
            assert use_safetensors
            asked.append((source, weight_name, revision))
            if "gone" in source:
                raise OSError(f"{tmp_path}/x is not there")

    hub = {
        "gone": AdapterSettings(path="someone/gone"),
        "oil": AdapterSettings(path="someone/oil", file="oil.safetensors", revision="3f1c9e0"),
    }
    LoraAdapters(Fetching(), {"ink": files["ink"], **hub}).fetch()
    assert asked == [("someone/gone", None, None), ("someone/oil", "oil.safetensors", "3f1c9e0")]
    LoraAdapters(object(), hub).fetch()


def test_a_switch_that_failed_half_way_is_made_anew(
    pipeline: Any, files: dict[str, AdapterSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next request would get what happens to act."""
    adapters = LoraAdapters(pipeline, files)
    base = picture(pipeline)
    adapters.use((("ink", 1.0),))
    inked = picture(pipeline)
    adapters.use(())

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "set_adapters", fail)
        with pytest.raises(RuntimeError):
            adapters.use((("ink", 1.0),))
    adapters.use((("ink", 1.0),))
    assert np.array_equal(picture(pipeline), inked)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "disable_lora", fail)
        with pytest.raises(RuntimeError):
            adapters.use(())
    adapters.use(())
    assert np.array_equal(picture(pipeline), base)


def test_a_unet_takes_adapters_too(tmp_path: Path) -> None:
    """Their names come in another form; convolutions are layers like others."""
    layers = ["to_q", "to_v", "conv1"]
    torch.manual_seed(4)
    teacher = tiny.sdxl()
    teacher.unet.add_adapter(LoraConfig(r=2, target_modules=layers, init_lora_weights=False))
    teacher.save_lora_weights(tmp_path, unet_lora_layers=get_peft_model_state_dict(teacher.unet))
    path = tmp_path / "pytorch_lora_weights.safetensors"
    pipeline = tiny.sdxl()
    adapters = LoraAdapters(pipeline, {"ink": AdapterSettings(path=str(path))})

    def render() -> Any:
        generator = torch.Generator().manual_seed(7)
        return pipeline("a circle", width=64, height=64, num_inference_steps=2, generator=generator,
                        output_type="latent").images  # fmt: skip

    base = render()
    adapters.use((("ink", 1.0),))
    assert not torch.equal(render(), base)
    adapters.use(())
    assert torch.equal(render(), base)


def test_a_file_is_held_against_a_model_without_its_weights(files: dict[str, AdapterSettings], tmp_path: Path) -> None:
    """Which fit and which don't is told as loading would; nothing is made of either."""
    from safetensors.torch import save_file

    stranger = tmp_path / "stranger.safetensors"
    save_file({"lora_te9_somewhere.alpha": torch.ones(1)}, stranger)
    known = files | {"stranger": AdapterSettings(path=str(stranger)), "far": AdapterSettings(path="nobody/has-this")}
    skeleton = build_skeleton(scenes(), torch.float32)
    adapters = LoraAdapters(skeleton, known)
    names = shape_of(skeleton)
    assert [adapters.inspect(name) for name in ("ink", "oil", "v1.2")] == [True] * 3
    for name, words, kind in (
        ("wide", "is for another model", AdapterUnusableError),
        ("broken", "'broken'", AdapterUnusableError),
        ("gone", "gone.safetensors", ModelUnavailableError),
        ("far", "'far'", ModelUnavailableError),
    ):
        with pytest.raises(kind, match=words):
            adapters.inspect(name)
    assert (adapters.loaded, shape_of(skeleton)) == ((), names)
    assert {weight.device.type for weight in skeleton.transformer.parameters()} == {"meta"}
    assert not adapters.inspect("stranger")
