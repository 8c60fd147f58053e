"""The files of a deployment, read."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
COMPOSE_FILES = sorted([*REPOSITORY.glob("compose*.yaml"), *(DEPLOY / "compose").glob("*.yaml")])
ONE_SHOTS = frozenset({"storage-folders", "bucket", "migrate", "scrape-key"})
"""Services that do one thing and end."""


def read_yaml(path: Path) -> Any:
    """The one document of a file."""
    return msgspec.yaml.decode(path.read_bytes())


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a manifest."""
    parts = (part for part in text.split("\n---\n") if part.strip())
    return [document for part in parts if (document := msgspec.yaml.decode(part))]


@functools.cache
def services() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml, by name."""
    found: dict[str, dict[str, Any]] = read_yaml(REPOSITORY / "compose.yaml")["services"]
    return found


@functools.cache
def manifests() -> list[dict[str, Any]]:
    """Every object of the base and the components, as it is written."""
    files = sorted([*(KUBERNETES / "base").glob("*.yaml"), *(KUBERNETES / "components").rglob("*.yaml")])
    return [one for file in files if file.name != "kustomization.yaml" for one in documents(file.read_text())]


def of_kind(*kinds: str) -> dict[str, dict[str, Any]]:
    """The objects of these kinds, by name."""
    return {one["metadata"]["name"]: one for one in manifests() if one["kind"] in kinds}


def tool(name: str) -> str | None:
    """A program that the tests' packages brought, or that the machine has."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)
