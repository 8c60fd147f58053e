"""The dashboard of canaries: a new revision's success, times and cost beside the old one's."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.parts import COUNT, PER_SECOND, RATIO, SECONDS, board, graph

_RATE = "[$__rate_interval]"
_SIDES = {"canary {{model}}": 'model=~"$canary"', "stable {{model}}": 'model=~"$stable"'}


def canary() -> str:
    """Its JSON."""
    return board(
        "safelight-canary",
        "Safelight: canaries",
        "A canary beside the model whose jobs it takes. `safelight canary status` has the ledger's numbers.",
        {
            "canary": "label_values(safelight_canary_share, model)",
            "stable": "label_values(safelight_canary_share, canary_of)",
        },
        [*_jobs(), *_times(), *_cost()],
    )


def _beside(form: str) -> dict[str, str]:
    """A query for each side; ``form`` has ``MODEL`` for the labels that choose it."""
    return {legend: form.replace("MODEL", labels) for legend, labels in _SIDES.items()}


def _jobs() -> list[Builder[Panel]]:
    finished = f"sum by (model) (rate(safelight_jobs_finished_total{{MODEL}}{_RATE}))"
    succeeded = f'sum by (model) (rate(safelight_jobs_finished_total{{MODEL, state="succeeded"}}{_RATE}))'
    return [
        graph(
            "Share of the jobs", "What the canary takes: 1 is promoted, 0 is rolled back.", RATIO,
            {"{{model}} of {{canary_of}}": 'max by (model, canary_of) (safelight_canary_share{model=~"$canary"})'},
            most=1,
        ),
        graph(
            "Success", "Share of the jobs that workers settled. What a canary fails, its model renders.", RATIO,
            _beside(f"{succeeded} / ({finished} > 0)"), most=1,
        ),
        graph("Jobs settled", "A second.", PER_SECOND, _beside(finished)),
    ]  # fmt: skip


def _times() -> list[Builder[Panel]]:
    completion = f"sum by (model, le) (rate(safelight_job_completion_seconds_bucket{{MODEL}}{_RATE}))"
    render = f"sum by (model, le) (rate(safelight_render_seconds_bucket{{MODEL}}{_RATE}))"
    return [
        graph(
            "Completion, p50", "From accepted to succeeded.", SECONDS,
            _beside(f"histogram_quantile(0.5, {completion})"),
        ),
        graph(
            "Completion, p90", "From accepted to succeeded.", SECONDS,
            _beside(f"histogram_quantile(0.9, {completion})"),
        ),
        graph(
            "Render, p90", "From claim to settled: without the wait.", SECONDS,
            _beside(f"histogram_quantile(0.9, {render})"),
        ),
    ]  # fmt: skip


def _cost() -> list[Builder[Panel]]:
    pictures = f"(sum by (model) (rate(safelight_pictures_total{{MODEL}}{_RATE})) > 0)"
    device = f"sum by (model) (rate(safelight_device_seconds_total{{MODEL}}{_RATE}))"
    charged = f"sum by (model) (rate(safelight_charged_total{{MODEL}}{_RATE}))"
    return [
        graph(
            "Device time of a picture", "Failed attempts are in it.", SECONDS, _beside(f"{device} / {pictures}"),
        ),
        graph(
            "Charged for a picture", "In the currency of the settings: a canary's jobs have its model's price.", COUNT,
            _beside(f"{charged} / {pictures}"),
        ),
    ]  # fmt: skip
