"""``safelight verify``: pictures of a plan beside those of one device, limits, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.engine.parallel.likeness import Likeness
from safelight.cli.app import app
from safelight.cli.verify.measuring import PROMPTS, Verified, as_json
from safelight.config import VerifySettings

SAME = Likeness(largest=0, mean=0.0, psnr=float("inf"), ssim=1.0, lpips=None, missing="made up")


def verified(likeness: Likeness, limits: VerifySettings | None = None) -> Verified:
    """Something that was measured."""
    return Verified(
        name="scenes", plan="ulysses-2", device="cpu", size="64x64", steps=2, pictures=4, likeness=likeness,
        limits=limits or VerifySettings(), seconds=(4.0, 2.0),
    )  # fmt: skip


def test_two_ranks_pass_and_the_report_is_json(cli: CliRunner, settings: dict[str, str]) -> None:
    """From the command to its exit code."""
    arguments = ["verify", "--plan", "ulysses-2", "--size", "64x64", "--steps", "2", "--json"]
    ended = cli.invoke(app, arguments, env=settings)
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)
    assert told["largest"] <= 1
    assert (told["plan"], told["pictures"], told["ok"], told["failures"]) == ("ulysses-2", len(PROMPTS), True, {})
    assert told["psnr"] is None or told["psnr"] > 60
    assert told["lpips"] is not None or told["missing"]
    assert told["speed_up"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a plan"),
        (("--plan", "two"), "no plan like ulysses-2"),
        (("--plan", "pipeline-2"), "kind"),
        (("--plan", "cfg-2"), "flux has no guidance branches"),
        (("--plan", "ulysses-1"), "devices"),
        (("--plan", "ulysses-2", "--size", "65x64"), "multiples of 16"),
        (("--plan", "ulysses-2", "--model", "other"), "not in the settings"),
    ],
)
def test_what_can_t_be_verified_is_refused(
    cli: CliRunner, settings: dict[str, str], arguments: tuple[str, ...], words: str
) -> None:
    """With the reason, before anything is loaded."""
    ended = cli.invoke(app, ["verify", *arguments], env=settings)
    assert ended.exit_code == 2
    assert words in " ".join(ended.output.split())


def test_limits_decide() -> None:
    """Each by itself; what was not measured counts for nothing."""
    assert verified(SAME).failures == {}
    assert verified(SAME).speed_up == 2.0
    assert as_json(verified(SAME))["psnr"] is None
    apart = Likeness(largest=90, mean=3.0, psnr=22.0, ssim=0.7, lpips=0.3)
    assert set(verified(apart).failures) == {"psnr", "ssim", "lpips"}
    assert not as_json(verified(apart))["ok"]
    assert verified(apart, VerifySettings(psnr=20, ssim=0.5, lpips=0.4)).failures == {}
    assert set(verified(dataclasses.replace(apart, lpips=None)).failures) == {"psnr", "ssim"}


def test_a_plan_that_can_t_be_had_says_why(cli: CliRunner, settings: dict[str, str]) -> None:
    """Such as four heads for three."""
    ended = cli.invoke(app, ["verify", "--plan", "ulysses-3", "--size", "64x64", "--steps", "1"], env=settings)
    assert ended.exit_code == 1
    assert "4 attention heads can't be shared equally by 3 devices" in " ".join(ended.output.split())


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Where the shipped model is served, on a CPU."""
    from tests.cli.running import write_settings

    return write_settings(tmp_path, device="cpu")
