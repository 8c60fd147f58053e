"""Prometheus' files: promtool takes them, and each alert is tested to fire and to stay quiet."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.dashboards.boards import PROMETHEUS, ROOT, RULES, rules
from tests.dashboards.prometheus import program

TESTS = sorted((PROMETHEUS / "tests").glob("*.test.yml"))
CONFIGS = [path for path in sorted(PROMETHEUS.glob("*.yml")) if path not in RULES]
ALERTS = [rule for rule in rules() if "alert" in rule]
NAMES = [alert["alert"] for alert in ALERTS]


def promtool(*arguments: object) -> None:
    """Run it; it must be content."""
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_taken() -> None:
    """By promtool."""
    promtool("check", "rules", *RULES)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_alerts_fire_and_stay_quiet(path: Path) -> None:
    """As the files of tests say."""
    promtool("test", "rules", path)


def test_each_alert_has_a_test() -> None:
    """For when it fires, and for when it does not."""
    asked: list[tuple[str, bool]] = []
    for path in TESTS:
        for case in yaml.safe_load(path.read_text())["tests"]:
            for test in case["promql_expr_test"]:
                [pattern] = re.findall(r'alertname=~?"([^"]+)"', test["expr"])
                fired = [re.findall(r'alertname="(\w+)"', sample["labels"]) for sample in test["exp_samples"]]
                asked += [(name, True) for [name] in fired]
                asked += [
                    (alert["alert"], False) for alert in ALERTS if not fired and re.fullmatch(pattern, alert["alert"])
                ]
    assert set(asked) == {(name, fires) for name in NAMES for fires in (True, False)}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    """How urgent it is, what happened, and the part of docs/alerts.md that tells the rest."""
    assert alert["labels"]["severity"] in ("info", "warning", "critical")
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert notes["runbook_url"] == f"docs/alerts.md#{alert['alert'].lower()}"
    page = (ROOT / "docs/alerts.md").read_text()
    [part] = re.findall(rf"^### {alert['alert']}\n(.*?)(?=^##|\Z)", page, re.M | re.S)
    for words in ("**Means**", "**Look**", "**Do**"):
        assert words in part, words
    assert part.startswith(f"Severity: {alert['labels']['severity']}. ")


def test_the_page_tells_of_no_other_alert() -> None:
    """What is gone from the rules is gone from there."""
    told = re.findall(r"^### (\w+)$", (ROOT / "docs/alerts.md").read_text(), re.M)
    assert sorted(told) == sorted(NAMES)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_examples_are_taken(path: Path, tmp_path: Path) -> None:
    """By promtool. Debian's knows no Kubernetes, so that pods are looked for is left to Kubernetes' own Prometheus."""
    config = yaml.safe_load(path.read_text())
    for scrape in config["scrape_configs"]:
        if scrape.pop("kubernetes_sd_configs", None):
            scrape["static_configs"] = [{"targets": ["pod:8080"]}]
    config["rule_files"] = [str(PROMETHEUS / pattern) for pattern in config["rule_files"]]
    (tmp_path / path.name).write_text(yaml.safe_dump(config))
    promtool("check", "config", "--syntax-only", tmp_path / path.name)
    assert all(scrape["job_name"].startswith("safelight") for scrape in config["scrape_configs"])
