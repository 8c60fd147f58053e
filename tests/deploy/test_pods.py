"""What every pod keeps to, and how Safelight's parts find each other in a cluster."""

from __future__ import annotations

import tomllib
from typing import Any

import kubernetes_validate
import msgspec
import pytest

from safelight.config import ServerSettings
from tests.deploy.files import KUBERNETES, of_kind
from tests.deploy.running import check_command

WORKLOADS = of_kind("Deployment", "Job")
SETTINGS = tomllib.loads((KUBERNETES / "base/safelight.toml").read_text())


def pod(name: str) -> dict[str, Any]:
    """The pod of a workload."""
    found: dict[str, Any] = WORKLOADS[name]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_meets_the_restricted_standard(name: str) -> None:
    """Which the namespace enforces; and its root file system can't be written, and it holds no token of the cluster."""
    context = pod(name)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == 10001
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(name)["automountServiceAccountToken"] is False
    for container in pod(name)["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["envFrom"] == [{"secretRef": {"name": "safelight"}}]
        assert "env" not in container


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_a_pod_mounts_it_has(name: str) -> None:
    """Each mount has a volume, each volume a mount, and each empty one a bound."""
    mounted = {mount["name"] for container in pod(name)["containers"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod(name)["volumes"]}
    for volume in pod(name)["volumes"]:
        assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": ""})


def test_a_pod_is_given_the_grace_that_its_settings_take() -> None:
    """With what comes before and after it."""
    api = pod("safelight-api")
    pause = api["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert api["terminationGracePeriodSeconds"] >= pause + ServerSettings().shutdown_grace_s + 10
    worker = pod("safelight-worker")
    assert worker["terminationGracePeriodSeconds"] >= SETTINGS["worker"]["shutdown_grace_s"] + 30


def test_the_api_is_asked_whether_it_lives_and_serves() -> None:
    """By the two paths that are made for it."""
    container = pod("safelight-api")["containers"][0]
    paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


def test_selectors_select() -> None:
    """Services, budgets, policies and monitors name labels that pods and services have."""
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in WORKLOADS.values()]
    selectors = [one["spec"]["selector"] for one in of_kind("Service").values()]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind("PodDisruptionBudget").values()]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of_kind("NetworkPolicy").values()]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind("PodMonitor", "ServiceMonitor").values()]
    assert len(selectors) == 10
    for selector in selectors:
        assert any(selector.items() <= one.items() for one in labels), selector


def test_ports_are_called_the_same_everywhere() -> None:
    """By the containers, the service, the policies, the monitors and the ingress."""
    ports = {port["name"] for one in WORKLOADS for box in pod(one)["containers"] for port in box.get("ports", [])}
    assert ports == {"http", "metrics"}
    assert of_kind("Service")["safelight-api"]["spec"]["ports"][0]["targetPort"] in ports
    assert of_kind("ServiceMonitor")["safelight-api"]["spec"]["endpoints"][0]["port"] == "http"
    assert of_kind("PodMonitor")["safelight-worker"]["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"
    path = of_kind("Ingress")["safelight"]["spec"]["rules"][0]["http"]["paths"][0]
    assert path["backend"]["service"] == {"name": "safelight-api", "port": {"name": "http"}}


def test_the_ingress_passes_events_on_at_once() -> None:
    """No buffering, and an hour of silence is allowed; uploads of the size that the API takes."""
    said = of_kind("Ingress")["safelight"]["metadata"]["annotations"]
    assert said["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert said["nginx.org/proxy-buffering"] == "False"
    assert int(said["nginx.ingress.kubernetes.io/proxy-body-size"].rstrip("m")) * 10**6 >= 32_000_000


def test_the_pod_for_the_first_key_is_one() -> None:
    """It meets the standard of the namespace, and runs a command that there is."""
    spec = msgspec.json.decode((KUBERNETES / "first-key.json").read_bytes())["spec"]
    pod_of_it = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "keys"}, "spec": spec}
    kubernetes_validate.validate(pod_of_it, "1.37", strict=True)
    (container,) = spec["containers"]
    check_command(container["args"])
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
