"""Each family's tiny model, built once: no test changes one."""

from __future__ import annotations

from functools import cache

import pytest

from actors.engine.latent import LatentModel
from tests.engine.families.company import latent_model
from tests.engine.families.tiny import FAMILIES

_model = cache(latent_model)


@pytest.fixture(params=sorted(FAMILIES))
def model(request: pytest.FixtureRequest) -> LatentModel:
    """A model of every family in turn."""
    return _model(request.param)


@pytest.fixture
def flux() -> LatentModel:
    """The tiny FLUX."""
    return _model("flux")


@pytest.fixture
def sd15() -> LatentModel:
    """The tiny Stable Diffusion 1.5."""
    return _model("sd15")
