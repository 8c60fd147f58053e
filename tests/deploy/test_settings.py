"""What containers are told: real settings, real commands, files that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from safelight.config import load_settings
from tests.deploy.files import DEPLOY, KUBERNETES, REPOSITORY, manifests, services
from tests.deploy.running import check_command

DOCUMENTED = (REPOSITORY / "docs/settings.md").read_text()
OURS = sorted(name for name, service in services().items() if service["image"].startswith("safelight-"))
FOREIGN = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"}
"""Variables that libraries read: obstore, huggingface_hub."""


def containers() -> list[dict[str, Any]]:
    """Of all workloads of Kubernetes."""
    workloads = [one for one in manifests() if one["kind"] in ("Deployment", "Job")]
    return [container for one in workloads for container in one["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("name", OURS)
def test_variables_are_settings(name: str) -> None:
    """Every one that Safelight is given stands on the page of settings."""
    for variable in services()[name].get("environment", {}):
        assert variable in FOREIGN or f"`{variable}`" in DOCUMENTED, variable


def test_variables_of_the_images_are_settings() -> None:
    """Those that begin with SAFELIGHT_."""
    for file in (DEPLOY / "docker").glob("*.Dockerfile"):
        for variable in re.findall(r"\b(SAFELIGHT_\w+)=", file.read_text()):
            assert f"`{variable}`" in DOCUMENTED


@pytest.mark.parametrize("name", OURS)
def test_commands_of_compose_are_commands(name: str) -> None:
    """With options that they have."""
    service = services()[name]
    if "entrypoint" not in service:
        check_command(service["command"])


def test_commands_of_kubernetes_are_commands() -> None:
    """With options that they have."""
    assert [container["args"][0] for container in containers()].count("api") == 1
    for container in containers():
        assert "command" not in container
        check_command(container["args"])


def test_a_wrong_command_would_be_seen() -> None:
    """An option that is none, and a command that is none."""
    with pytest.raises(Exception, match="No such option"):
        check_command(["api", "--hots", "0.0.0.0"])
    with pytest.raises(KeyError):
        check_command(["serve"])


@pytest.mark.parametrize("file", [DEPLOY / "compose/safelight.toml", KUBERNETES / "base/safelight.toml"], ids=str)
def test_settings_load_where_they_are_mounted(file: Path, tmp_path: Path) -> None:
    """Over the repository's own in the image, beside the model; metrics can be reached from other containers."""
    (tmp_path / "safelight.toml").write_bytes(file.read_bytes())
    (tmp_path / "models").symlink_to(REPOSITORY / "models")
    settings = load_settings(tmp_path / "safelight.toml", {})
    assert settings.worker.metrics_host == "0.0.0.0"
    assert settings.worker.metrics_port == 9091
    assert settings.default_model == "scenes"


def test_what_compose_mounts_is_there() -> None:
    """Files and folders of the repository."""
    for service in services().values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert not source.startswith(".") or (REPOSITORY / source).exists(), source
