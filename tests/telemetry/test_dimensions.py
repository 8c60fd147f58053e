"""Dimensions as labels: those that are declared, each with so many values, and no more series than that."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

import safelight.telemetry.metrics
from jobstore.ids import uuid7
from safelight.config import ConfigError
from safelight.config.reading import parse_settings
from safelight.telemetry.dimensions import DimensionMetrics, dimension_metrics

FILE = Path("safelight.toml")
# What labels there are, and why they are bounded, is told in docs/dimensions.md.
BOUNDED = {
    "model", "cache", "limit", "by", "state", "lane", "device", "size", "event", "outcome", "change", "kind",
    "method", "route", "status", "le", "cause", "part", "version", "python",
    "owner_kind", "owner", "currency", "window",
    "canary_of",  # a model of the settings
}  # fmt: skip
SERIES_OF_A_COMBINATION = 40


def series(registry: CollectorRegistry) -> list[str]:
    """Every series that a scrape would bring."""
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def count_jobs(metrics: DimensionMetrics, jobs: list[dict[str, str]]) -> None:
    """Whole lives of jobs, with all outcomes."""
    chance = random.Random(7)
    for dimensions in jobs:
        metrics.submitted(dimensions, chance.choice(["miss", "hit", "joined"]))
        metrics.waited(dimensions, chance.uniform(0, 400))
        metrics.attempted(dimensions, 0.5, chance.uniform(0, 400))
        metrics.settled(dimensions, chance.choice(["succeeded", "failed", "dead", "canceled"]), 0.01, "USD")


def test_a_thousand_jobs_with_values_of_their_own_make_a_bounded_number_of_series() -> None:
    """The first values keep their names, the rest is one; what is not declared is nowhere."""
    registry = CollectorRegistry()
    metrics = DimensionMetrics({"team": 3, "cost-center": 2}, registry)
    chance = random.Random(11)
    jobs = [
        {"team": uuid7().hex, "cost-center": str(chance.random()), "user": f"user-{number}", "prompt": "a secret star"}
        for number in range(1_000)
    ]
    jobs += [{"team": "late"}, {}, {"team": "_other"}, {"cost-center": "_none"}]
    count_jobs(metrics, jobs)
    found = series(registry)
    teams = {team for line in found for team in re.findall(r'dim_team="([^"]*)"', line)}
    centers = {center for line in found for center in re.findall(r'dim_cost_center="([^"]*)"', line)}
    assert teams == {"_none", "_other", *(job["team"] for job in jobs[:3])}
    assert len(centers) == 4
    assert len(found) <= (3 + 2) * (2 + 2) * SERIES_OF_A_COMBINATION
    assert not re.search(r"user|secret|late", "".join(found))
    settled = [line for line in found if line.startswith("safelight_dim_jobs_settled_total{")]
    assert sum(float(line.rsplit(" ", 1)[1]) for line in settled) == len(jobs)


def test_a_combination_has_as_many_series_as_the_page_says() -> None:
    """With every outcome."""
    registry = CollectorRegistry()
    metrics = DimensionMetrics({"team": 1}, registry)
    for cache in ("miss", "hit", "joined"):
        metrics.submitted({"team": "a"}, cache)
    for outcome in ("succeeded", "failed", "dead", "canceled"):
        metrics.settled({"team": "a"}, outcome, 0.01, "USD")
    metrics.attempted({"team": "a"}, 0.5, 1.0)
    metrics.waited({"team": "a"}, 1.0)
    assert len(series(registry)) == SERIES_OF_A_COMBINATION


def test_what_is_counted() -> None:
    """Money and device time by team."""
    registry = CollectorRegistry()
    metrics = DimensionMetrics({"team": 5}, registry)
    for _ in range(2):
        metrics.attempted({"team": "a"}, 1.5, 2.0)
        metrics.settled({"team": "a"}, "succeeded", 0.25, "EUR")
    labels = {"dim_team": "a"}
    assert registry.get_sample_value("safelight_dim_device_seconds_total", labels) == 3.0
    assert registry.get_sample_value("safelight_dim_charged_total", labels | {"currency": "EUR"}) == 0.5
    assert registry.get_sample_value("safelight_dim_render_seconds_count", labels) == 2


def test_without_declared_dimensions_there_are_no_such_metrics() -> None:
    """And a process shares the ones it has."""
    registry = CollectorRegistry()
    count_jobs(DimensionMetrics({}, registry), [{"team": "a"}])
    assert series(registry) == []
    shared = dimension_metrics({"team": 5})
    try:
        assert dimension_metrics({"team": 5}) is shared
        assert dimension_metrics({"team": 6}) is not shared
    finally:
        dimension_metrics({})
    assert not [line for line in series(REGISTRY) if line.startswith("safelight_dim_")]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("team = 0", "at least|>= 1"),
        ("team = 1001", "<= 1000"),
        ("Team = 5", "regex"),
        ("a-b = 5\na_b = 5", "same label"),
        ("a = 50\nb = 50", "2704 combinations"),
    ],
)
def test_settings_that_would_make_too_many_series_are_refused(table: str, why: str) -> None:
    """At the start, by name."""
    with pytest.raises(ConfigError, match=why):
        parse_settings(f"[telemetry.dimensions]\n{table}\n".encode(), FILE)


def test_no_metric_has_a_label_that_could_grow_without_end() -> None:
    """No job, prompt, user or key: a new label wants a line in the list above, and a reason."""
    names = {
        label for metric in vars(safelight.telemetry.metrics).values() for label in getattr(metric, "_labelnames", ())
    }
    assert names <= BOUNDED
