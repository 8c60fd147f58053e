"""How like pictures are, beside numbers that can be told by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from actors.engine.parallel.likeness import likeness, lpips_measure

GREY = Image.new("RGB", (32, 32), (100, 100, 100))


def test_the_same_pictures_are_the_same() -> None:
    """To the bit."""
    found = likeness([GREY, GREY], [GREY, GREY])
    assert (found.largest, found.mean, found.psnr, found.ssim) == (0, 0.0, math.inf, 1.0)


def test_differences_are_those_of_the_definitions() -> None:
    """One channel of three is 30 levels off: PSNR is 10 log10(255² / (30² / 3)). The worst of all pairs counts."""
    found = likeness([GREY, GREY], [GREY, Image.new("RGB", (32, 32), (130, 100, 100))])
    assert found.largest == 30
    assert found.mean == pytest.approx(5.0, abs=1e-4)
    assert found.psnr == pytest.approx(10 * math.log10(255**2 / (30**2 / 3)), abs=1e-3)
    assert found.ssim < 1


def test_lpips_is_measured_where_its_weights_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And where not it is told what is missing: nothing is downloaded."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "torchvision", None)
    assert lpips_measure() == "torchvision is not installed"
    monkeypatch.setitem(__import__("sys").modules, "torchvision", torch)
    assert "alexnet" in str(lpips_measure())
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/alexnet-owt-7be5be79.pth").touch()
    import torchmetrics.functional.image as metrics

    def measured(one: torch.Tensor, other: torch.Tensor, **options: Any) -> torch.Tensor:
        assert options == {"net_type": "alex", "normalize": True}
        return (one - other).abs().max()

    monkeypatch.setattr(metrics, "learned_perceptual_image_patch_similarity", measured, raising=False)
    found = likeness([GREY], [Image.new("RGB", (32, 32), (151, 100, 100))])
    assert found.lpips == pytest.approx(0.2)
    assert found.missing == ""
