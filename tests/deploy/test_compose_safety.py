"""What every service of compose.yaml keeps to, so that one that is broken into is not the machine."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from safelight.config import load_settings
from tests.deploy.files import ONE_SHOTS, REPOSITORY, read_yaml, services

SERVICES = sorted(services())
LASTING = sorted(set(services()) - ONE_SHOTS)


def mounts(service: dict[str, Any]) -> list[str]:
    """Its volumes in the short form, which is the only one used."""
    found: list[str] = service.get("volumes", [])
    assert all(isinstance(one, str) for one in found)
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_can_do_little(name: str) -> None:
    """A numbered user that isn't root, no capabilities, no new privileges, nothing to write to but what is mounted."""
    service = services()[name]
    assert re.fullmatch(r"[1-9]\d*:\d+", service["user"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "cap_add", "pid", "ipc", "devices", "userns_mode"} & service.keys()
    assert service.get("network_mode", "none") == "none"
    assert not any("docker.sock" in mount for mount in mounts(service))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_can_take_only_so_much(name: str) -> None:
    """Of memory, cores and processes; its log is rotated, its files in memory are bounded or few."""
    service = services()[name]
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory", "pids"}
    assert service["logging"]["options"] == {"max-size": "20m", "max-file": "5"}
    for mount in service.get("tmpfs", []):
        assert not mount.startswith("/tmp") or "size=" in mount


@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_service_tells_how_it_is(name: str) -> None:
    """By a health check with a limit; it comes up again after a fall."""
    service = services()[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= service["healthcheck"].keys()
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_what_it_needs(name: str) -> None:
    """Until that is healthy, or has done what it does once."""
    service = services()[name]
    for other, how in service.get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in ONE_SHOTS else "service_healthy"
        assert how == {"condition": wanted}, other
    if name in ONE_SHOTS:
        assert service["restart"] == "no"
        assert any(name in other.get("depends_on", {}) for other in services().values())


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_on_loopback(name: str) -> None:
    """What clients and people look at; databases have none, nor have workers."""
    ports = services()[name].get("ports", [])
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert bool(ports) == (name in {"api", "prometheus", "alertmanager", "grafana"})


def test_the_network_of_the_databases_leads_nowhere() -> None:
    """Only what needs the way out has it."""
    assert read_yaml(REPOSITORY / "compose.yaml")["networks"]["data"] == {"internal": True}
    out = {name for name, service in services().items() if "edge" in service.get("networks", [])}
    assert out == {"api", "worker-cpu", "worker-gpu", "prometheus", "alertmanager", "grafana"}


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    """To a release, or built from this repository under a name of its own."""
    image = services()[name]["image"]
    assert re.fullmatch(r"safelight-(api|worker):(local|cpu|gpu)|[\w./-]+:v?\d+\.\d+(\.\d+)?(-\w+)?", image), image


def test_no_secret_is_in_the_files() -> None:
    """Each comes from the environment, and has no default."""
    for name, service in services().items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASS|SECRET|PEPPER|ACCESS_KEY|STORE|BROKER", variable):
                assert re.search(r"\$\{\w+:\?", value), f"{name}: {variable}"


def test_the_stop_gives_jobs_their_grace() -> None:
    """The container's limit is above the worker's own, and the API's."""
    settings = load_settings(REPOSITORY / "safelight.toml", {})
    ours = read_toml()
    for name in ("worker-cpu", "worker-gpu"):
        assert int(services()[name]["stop_grace_period"].rstrip("s")) >= ours["worker"]["shutdown_grace_s"] + 15
    assert int(services()["api"]["stop_grace_period"].rstrip("s")) >= settings.server.shutdown_grace_s + 10


def read_toml() -> dict[str, Any]:
    """The settings that the containers get."""
    return tomllib.loads((REPOSITORY / "deploy/compose/safelight.toml").read_text())
