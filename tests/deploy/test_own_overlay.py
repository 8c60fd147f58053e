"""What docs/deploy.md says of Kubernetes: the overlay that is written there, and what is asked of the cluster."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import KUBERNETES, REPOSITORY, documents

PAGE = (REPOSITORY / "docs/deploy.md").read_text()
PART = PAGE[PAGE.index("## Kubernetes") : PAGE.index("## Upgrading")]
REGISTRY = re.compile(r"^export REGISTRY=(\S+)$", re.M)
OVERLAY = re.compile(r"^mkdir -p deploy/kubernetes/overlays/mine\n.*?^END\n", re.M | re.S)


def test_the_overlay_takes_the_place_of_what_is_an_example(tmp_path: Path) -> None:
    """Written as the page says it has images of that registry alone, and another host."""
    if shutil.which("kubectl") is None:
        pytest.skip("the overlay is NOT rendered: there is no kubectl here")
    shutil.copytree(KUBERNETES, tmp_path / "deploy" / "kubernetes")
    (registry,), (overlay,) = REGISTRY.findall(PART), OVERLAY.findall(PART)
    script = f"REGISTRY={registry}\n{overlay}"
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, timeout=60, check=True)
    (applied,) = re.findall(r"kubectl apply -k (\S+)\n", PART)
    command = ["kubectl", "kustomize", str(tmp_path / applied)]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    images = set(re.findall(r"^\s*(?:- )?image: (\S+)$", text, re.M))
    assert images == {f"{registry}/safelight-api:0.1.0", f"{registry}/safelight-worker:0.1.0-gpu"}
    (ingress,) = (one for one in documents(text) if one["kind"] == "Ingress")
    assert "example.org" not in str(ingress["spec"])


def test_every_command_names_the_namespace() -> None:
    """But those that apply files, which name it themselves."""
    asked = re.findall(r"kubectl (?!apply)\S.*", PART)
    assert len(asked) > 4
    for command in asked:
        assert command.startswith("kubectl -n safelight "), command
