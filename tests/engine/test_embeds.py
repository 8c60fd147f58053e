"""The cache of embeds: what decides them is in the key, and it holds no more than it may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from actors.engine.embeds import EmbedCache
from actors.engine.latent import LatentModel
from safelight.config import AdapterSettings
from tests.engine.families.company import ask, latent_model

INK = AdapterSettings(path="/adapters/ink.safetensors", revision="1")


class Inked:
    """Adapters that act on nothing here."""

    def check(self, _wanted: Any) -> None:
        """All are known."""

    def use(self, _wanted: Any) -> None:
        """Nothing switches."""


def model(cache: EmbedCache, told: list[bool], **changes: Any) -> LatentModel:
    """A tiny FLUX with an adapter, whose hits and misses are told."""

    class Listener:
        def embedded(self, _model: str, *, hit: bool) -> None:
            told.append(hit)

    observer: Any = Listener()
    settings = {"adapters": {"ink": INK}, **changes}
    latent = latent_model("flux", **settings)
    latent.embeds, latent.observer, latent.adapters = cache, observer, Inked()
    return latent


OTHERS: Mapping[str, Any] = {
    "another file": {"adapters": {"ink": AdapterSettings(path="/adapters/oil.safetensors", revision="1")}},
    "another folder": {"adapters": {"ink": AdapterSettings(path="/others/ink.safetensors", revision="1")}},
    "another file of a repository": {"adapters": {"ink": AdapterSettings(path=INK.path, file="x", revision="1")}},
    "another revision": {"adapters": {"ink": AdapterSettings(path=INK.path, revision="2")}},
    "another revision of the model": {"revision": "2"},
    "another variant of the model": {"variant": "ema"},
    "another length": {"max_sequence_length": 16},
}


@pytest.mark.parametrize("change", OTHERS)
def test_models_that_differ_share_no_embeds(change: str) -> None:
    """Neither by the adapters' name nor by the model's."""
    torch.set_num_threads(1)
    cache, told, request = EmbedCache(2**24), list[bool](), ask(adapters=(("ink", 1.0),))
    model(cache, told).admit(request)
    model(cache, told).admit(request)
    model(cache, told, **OTHERS[change]).admit(request)
    assert told == [False, True, False]


def test_an_adapter_s_name_and_default_weight_decide_nothing() -> None:
    """The request's own weight counts."""
    cache, told = EmbedCache(2**24), list[bool]()
    model(cache, told).admit(ask(adapters=(("ink", 1.0),)))
    renamed = {"pen": AdapterSettings(path=INK.path, revision="1", weight=0.3)}
    model(cache, told, adapters=renamed).admit(ask(adapters=(("pen", 1.0),)))
    model(cache, told).admit(ask(adapters=(("ink", 0.5),)))
    assert told == [False, True, False]
