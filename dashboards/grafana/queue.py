"""The dashboard of the queue: what waits, for how long, and what comes out."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.parts import COUNT, PER_SECOND, RATIO, SECONDS, board, graph, number

_LANE = 'lane=~"$lane"'
_MODEL = 'model=~"$model"'


def queue() -> str:
    """Its JSON."""
    return board(
        "safelight-queue",
        "Safelight: queue",
        "What waits, for how long, and what comes out. docs/alerts.md tells what to do about it.",
        {
            "lane": "label_values(safelight_jobs_unfinished, lane)",
            "model": "label_values(safelight_jobs_finished_total, model)",
        },
        [*_numbers(), *_waiting(), *_times(), *_failures()],
    )


def _numbers() -> list[Builder[Panel]]:
    unfinished = f"max by (lane, state) (safelight_jobs_unfinished{{{_LANE}, "
    return [
        number(
            "Waiting", "Jobs that no worker has taken yet, scheduled ones too.", COUNT,
            f'sum({unfinished}state!="running"}}))',
        ),
        number("Running", "Jobs that workers hold.", COUNT, f'sum({unfinished}state="running"}}))'),
        number(
            "Oldest wait", "Age of the queued job that waits longest.", SECONDS,
            f"max(safelight_queue_oldest_wait_seconds{{{_LANE}}})", warn=300, bad=1800,
        ),
        number(
            "Live workers", "Workers whose last beat is under a minute old.", COUNT,
            "count(time() - safelight_worker_last_beat_timestamp_seconds < 60) or vector(0)",
        ),
    ]  # fmt: skip


def _waiting() -> list[Builder[Panel]]:
    return [
        graph(
            "Waiting, by lane", "Queued and scheduled jobs.", COUNT,
            {"{{lane}} {{state}}": f'max by (lane, state) (safelight_jobs_unfinished{{{_LANE}, state!="running"}})'},
            stacked=True,
        ),
        graph(
            "Oldest wait, by lane",
            "Age of the queued job that waits longest; a paused lane's goes on growing.", SECONDS,
            {"{{lane}}": f"max by (lane) (safelight_queue_oldest_wait_seconds{{{_LANE}}})"},
        ),
        graph(
            "Until what waits has started, by lane",
            "Device time that the queued jobs are expected to take, over the workers that serve the lane.", SECONDS,
            {
                "{{lane}}": f"max by (lane) (safelight_queue_expected_seconds{{{_LANE}}})"
                f" / (max by (lane) (safelight_lane_workers{{{_LANE}}}) > 0)"
            },
        ),
        graph(
            "In and out",
            "Jobs accepted, by how the cache answered, and jobs that workers settled, a second.", PER_SECOND,
            {
                "accepted, cache {{cache}}":
                    f"sum by (cache) (rate(safelight_jobs_submitted_total{{{_MODEL}}}[$__rate_interval]))",
                "{{state}}": f"sum by (state) (rate(safelight_jobs_finished_total{{{_MODEL}}}[$__rate_interval]))",
            },
        ),
    ]  # fmt: skip


def _times() -> list[Builder[Panel]]:
    return [
        graph(
            "Wait in the queue", "From accepted to claimed.", SECONDS,
            {f"p{percent}": _quantile("safelight_queue_wait_seconds", percent) for percent in (50, 90, 99)},
        ),
        graph(
            "Completion", "From accepted to succeeded, of jobs that a worker rendered.", SECONDS,
            {f"p{percent}": _quantile("safelight_job_completion_seconds", percent) for percent in (50, 90, 99)},
        ),
    ]  # fmt: skip


def _failures() -> list[Builder[Panel]]:
    failed = (
        'sum(increase(safelight_claims_total{outcome="failed"}[15m]))'
        ' + sum(increase(safelight_swept_total{change=~"rescued|dead|expired"}[15m]))'
    )
    tried = (
        'sum(increase(safelight_claims_total{outcome=~"claimed|failed"}[15m]))'
        ' + sum(increase(safelight_swept_total{change="expired"}[15m]))'
    )
    return [
        graph(
            "Scheduling failures",
            "Share of jobs that failed to start or to go on: claims that the store refused, workers that died, jobs "
            "that were late. Half a percent is borne.", RATIO,
            {"failures": f"({failed}) / ({tried} > 0)"},
        ),
        graph(
            "Sweeps and dead letters",
            "What sweeps changed, and jobs that used up their attempts, in five minutes.", COUNT,
            {
                "swept: {{change}}": "sum by (change) (increase(safelight_swept_total[5m]))",
                "attempts used up": 'sum(increase(safelight_jobs_finished_total{state="dead"}[5m]))',
            },
        ),
    ]  # fmt: skip


def _quantile(metric: str, percent: int) -> str:
    rates = f"sum by (le) (rate({metric}_bucket{{{_MODEL}}}[$__rate_interval]))"
    return f"histogram_quantile({percent / 100}, {rates})"
