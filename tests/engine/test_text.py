"""Prompts that are too long, or no text at all."""

from __future__ import annotations

import pytest

from actors.engine import Engine
from actors.engine.errors import InvalidRequestError
from tests.engine.conftest import TIMEOUT_S, ask


def test_long_prompt_renders_with_a_warning(engine: Engine) -> None:
    """It says how much was read."""
    result = engine.submit(ask(prompt="a red circle " * 30)).result(TIMEOUT_S)
    assert result.images
    [warning] = result.warnings
    assert "reads 24" in warning
    assert "red circle" not in warning


def test_fitting_prompt_has_no_warning(engine: Engine) -> None:
    """Nothing to tell."""
    assert engine.submit(ask()).result(TIMEOUT_S).warnings == ()


@pytest.mark.parametrize("field", ["prompt", "negative_prompt"])
def test_lone_surrogate_is_refused_by_name(engine: Engine, field: str) -> None:
    """No tokenizer takes it, now or later."""
    with pytest.raises(InvalidRequestError, match=field):
        engine.submit(ask(**{field: "half a pair: \ud83d"})).result(TIMEOUT_S)


def test_any_other_text_renders(engine: Engine) -> None:
    """Empty, beyond the vocabulary, or beyond the basic plane."""
    for prompt in ("", "ō 😄 飞翔", "\x00"):
        assert engine.submit(ask(prompt=prompt)).result(TIMEOUT_S).images


def test_size_that_the_model_rounds_is_refused(engine: Engine) -> None:
    """A request that can never work says so, and the engine goes on."""
    with pytest.raises(InvalidRequestError, match="can't render 60x64"):
        engine.submit(ask(width=60)).result(TIMEOUT_S)
    assert engine.submit(ask()).result(TIMEOUT_S).images
