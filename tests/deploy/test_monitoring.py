"""compose.yaml brings Prometheus and Grafana together with what dashboards/ has for them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from tests.deploy.files import REPOSITORY, read_yaml, services

PROMETHEUS = services()["prometheus"]
GRAFANA = services()["grafana"]


def inside(service: dict[str, Any]) -> dict[str, str]:
    """What is mounted, by where it is in the container."""
    parts = (mount.split(":") for mount in service["volumes"])
    return {target: source for source, target, *_ in parts}


def test_prometheus_reads_the_repositorys_settings() -> None:
    """And opens the key where the one-shot puts it."""
    option = next(word for word in PROMETHEUS["command"] if word.startswith("--config.file="))
    folder, _, name = option.removeprefix("--config.file=").rpartition("/")
    settings = read_yaml(REPOSITORY / inside(PROMETHEUS)[folder] / name)
    files = {job["authorization"]["credentials_file"] for job in settings["scrape_configs"] if "authorization" in job}
    script = services()["scrape-key"]
    kept = script["entrypoint"][-1].rpartition("/")
    place = next(target for target, source in inside(PROMETHEUS).items() if source == inside(script)[kept[0]])
    assert files == {f"{place}/{kept[2]}"}
    assert script["user"].split(":")[1] in PROMETHEUS["group_add"]


def test_prometheus_finds_what_there_is() -> None:
    """Under the names that the network knows, at the ports that they serve."""
    names = set(services())
    names |= {
        alias
        for service in services().values()
        if isinstance(service.get("networks"), dict)
        for alias in service["networks"]["data"].get("aliases", [])
    }
    settings = read_yaml(REPOSITORY / "dashboards/prometheus/compose.yml")
    found = {
        (name, one["port"])
        for job in settings["scrape_configs"]
        for one in job["dns_sd_configs"]
        for name in one["names"]
    }
    assert found == {("api", 8080), ("worker", 9091)}
    assert {name for name, _ in found} <= names


def test_prometheus_tells_the_alertmanager() -> None:
    """The service of that name, which is started only by whoever has said where messages go."""
    settings = read_yaml(REPOSITORY / "dashboards/prometheus/compose.yml")
    ((found,),) = (one["dns_sd_configs"] for one in settings["alerting"]["alertmanagers"])
    assert found["names"] == ["alertmanager"]
    service = services()["alertmanager"]
    assert service["profiles"] == ["alerts"]
    assert [port.rpartition(":")[2] for port in service["ports"]] == [str(found["port"])]


def test_the_example_for_the_alertmanager_fits_the_rules() -> None:
    """It names alerts and severities that there are, and receivers of its own; links begin where docs/ is served."""
    example = read_yaml(REPOSITORY / "deploy/compose/alertmanager.example.yml")
    groups = read_yaml(REPOSITORY / "dashboards/prometheus/alerts.rules.yml")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    named = {name for rule in example["inhibit_rules"] for name in values(rule["source_matchers"], "alertname")}
    named |= {name for rule in example["inhibit_rules"] for name in values(rule["target_matchers"], "alertname")}
    assert named <= {rule["alert"] for rule in rules}
    severities = {one for route in example["route"]["routes"] for one in values(route["matchers"], "severity")}
    assert severities < {rule["labels"]["severity"] for rule in rules}
    assert {example["route"]["receiver"]} == {receiver["name"] for receiver in example["receivers"]}
    ((receiver,),) = (one["slack_configs"] for one in example["receivers"])
    assert re.search(r"https://\S+/\{\{ \.Annotations\.runbook_url \}\}", receiver["text"])


def values(matchers: list[str], label: str) -> set[str]:
    """What matchers name of a label."""
    found = (re.fullmatch(r'(\w+)=~?"(.*)"', matcher) for matcher in matchers)
    return {value for match in found if match and match[1] == label for value in match[2].split("|")}


def test_grafana_is_provisioned() -> None:
    """With the dashboards where their provider looks, and a source that is a service."""
    folder = REPOSITORY / inside(GRAFANA)["/etc/grafana/provisioning"]
    (provider,) = read_yaml(next((folder / "dashboards").iterdir()))["providers"]
    boards = REPOSITORY / inside(GRAFANA)[provider["options"]["path"]]
    assert list(boards.glob("*.json"))
    (source,) = read_yaml(next((folder / "datasources").iterdir()))["datasources"]
    assert urlsplit(source["url"]).hostname in services()
