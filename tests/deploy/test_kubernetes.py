"""Kubernetes' manifests are what Kubernetes, KEDA and the Prometheus operator take."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.files import KUBERNETES, documents, manifests, of_kind, read_yaml

VERSIONS = ("1.31", "1.37")
OVERLAYS = ("gpu", "cpu")
INSTEAD = documents((KUBERNETES / "components/keda-wanted/scaled-object.yaml").read_text())
"""What stands in the place of another component, in no overlay."""


@cache
def models() -> dict[str, Any]:
    """Kinds that are not Kubernetes' own. They are imported here: it takes seconds, in every process that collects."""
    from cloudcoil.models.keda.v1alpha1 import ScaledObject, TriggerAuthentication
    from cloudcoil.models.prometheus_operator.v1 import PodMonitor, ServiceMonitor

    return {model.__name__: model for model in (ScaledObject, TriggerAuthentication, PodMonitor, ServiceMonitor)}


def check(document: dict[str, Any]) -> None:
    """Return if the API server would take it; an unknown field is refused too."""
    model = models().get(document["kind"])
    if model is None:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
    else:
        taken = model.model_validate(document).model_dump(by_alias=True, exclude_unset=True, mode="json")
        assert taken == document


def rendered(overlay: str) -> list[dict[str, Any]]:
    """What ``kubectl apply -k`` would send; skips where there is no kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("the overlays are NOT rendered: there is no kubectl here")
    command = ["kubectl", "kustomize", str(KUBERNETES / "overlays" / overlay)]
    return documents(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


@pytest.mark.parametrize("document", manifests(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_an_object_is_taken(document: dict[str, Any]) -> None:
    """As it is written, by the oldest and the newest release that are looked at."""
    check(document)


def test_an_object_with_a_slip_would_not_be() -> None:
    """Neither one of Kubernetes' own nor one of KEDA's."""
    api = of_kind("Deployment")["safelight-api"]
    with pytest.raises(kubernetes_validate.ValidationError):
        check({**api, "spec": {**api["spec"], "replica": 2}})
    scaled = of_kind("ScaledObject")["safelight-worker"]
    with pytest.raises(AssertionError):
        check({**scaled, "spec": {**scaled["spec"], "maxReplicas": 2}})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_taken(overlay: str) -> None:
    """All objects in one namespace, images with a tag, and settings whose name changes with their content."""
    objects = rendered(overlay)
    assert len(objects) == len(manifests()) - len(INSTEAD) + 1  # and the ConfigMap
    for one in objects:
        check(one)
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "safelight"
        for container in containers(one):
            assert container["image"].rpartition(":")[2].startswith("0.")
    settings = [one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"]
    named = {volume["configMap"]["name"] for one in objects for volume in volumes(one) if "configMap" in volume}
    assert named == set(settings)


def test_what_stands_in_the_place_of_another_is_taken() -> None:
    """By the same schemas."""
    for one in INSTEAD:
        check(one)


@pytest.mark.parametrize(("overlay", "gpus"), [("gpu", "1"), ("cpu", None)])
def test_a_worker_has_one_gpu_or_none(overlay: str, gpus: str | None) -> None:
    """As the overlay says."""
    workers = [one for one in rendered(overlay) if one["metadata"]["name"] == "safelight-worker"]
    worker = next(one for one in workers if one["kind"] == "Deployment")
    assert containers(worker)[0]["resources"]["limits"].get("nvidia.com/gpu") == gpus


def test_every_file_is_named() -> None:
    """By the kustomization beside it, and every file that one names is there."""
    for file in KUBERNETES.rglob("kustomization.yaml"):
        kustomization = read_yaml(file)
        named = [*kustomization.get("resources", []), *kustomization.get("components", [])]
        named += [patch["path"] for patch in kustomization.get("patches", [])]
        named += [name for one in kustomization.get("configMapGenerator", []) for name in one["files"]]
        for name in named:
            assert (file.parent / name).exists(), f"{file}: {name}"
        beside = {one.name for one in file.parent.iterdir() if one.is_file()} - {"kustomization.yaml"}
        assert beside == {name for name in named if "/" not in name}


def containers(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a workload; none of anything else."""
    return list(pod(one).get("containers", []))


def volumes(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a workload; none of anything else."""
    return list(pod(one).get("volumes", []))


def pod(one: dict[str, Any]) -> dict[str, Any]:
    """The pod that a workload makes."""
    found: dict[str, Any] = one.get("spec", {}).get("template", {}).get("spec", {})
    return found
