"""The dashboard of cost: what was charged, what the devices did for it, and which budgets come to their end."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.parts import COUNT, PER_SECOND, RATIO, SECONDS, bars, board, graph, number

_MODEL = 'model=~"$model"'
_RATE = "[$__rate_interval]"
_RANGE = "[$__range]"


def cost() -> str:
    """Its JSON."""
    return board(
        "safelight-cost",
        "Safelight: cost",
        "What was charged, and what the devices did for it. These are floats of live processes, and a restart may lose "
        "some: the ledger in the database has the amounts.",
        {"model": "label_values(safelight_jobs_finished_total, model)"},
        [*_numbers(), *_models(), *_pictures(), *_owners()],
    )


def _numbers() -> list[Builder[Panel]]:
    charged = f"sum by (currency) (increase(safelight_charged_total{{{_MODEL}}}{_RANGE}))"
    pictures = f"sum(increase(safelight_pictures_total{{{_MODEL}}}{_RANGE}))"
    submitted = f"sum(increase(safelight_jobs_submitted_total{{{_MODEL}}}{_RANGE}))"
    spared = f'(sum(increase(safelight_jobs_submitted_total{{{_MODEL}, cache!="miss"}}{_RANGE})) or vector(0))'
    return [
        number("Charged", "In the time shown, by currency.", COUNT, charged, legend="{{currency}}"),
        number(
            "Device hours", "In the time shown, failed attempts too.", "h",
            f"sum(increase(safelight_device_seconds_total{{{_MODEL}}}{_RANGE})) / 3600",
        ),
        number(
            "A thousand pictures", "What they were charged, by currency.", COUNT,
            f"1000 * {charged} / ignoring (currency) group_left () ({pictures} > 0)", legend="{{currency}}",
        ),
        number(
            "Spared by the cache", "Share of jobs that cost nothing: found, or joined to another's render.", RATIO,
            f"{spared} / ({submitted} > 0)",
        ),
    ]  # fmt: skip


def _models() -> list[Builder[Panel]]:
    return [
        graph(
            "Charged an hour, by model", "In the currency of the settings.", COUNT,
            {
                "{{model}} {{currency}}":
                    f"3600 * sum by (model, currency) (rate(safelight_charged_total{{{_MODEL}}}{_RATE}))"
            },
            stacked=True,
        ),
        graph(
            "Devices at work, by model", "Seconds of device time a second.", COUNT,
            {"{{model}}": f"sum by (model) (rate(safelight_device_seconds_total{{{_MODEL}}}{_RATE}))"}, stacked=True,
        ),
    ]  # fmt: skip


def _pictures() -> list[Builder[Panel]]:
    pictures = f"sum by (model) (rate(safelight_pictures_total{{{_MODEL}}}{_RATE}))"
    return [
        graph("Pictures a second, by model", "Of jobs that succeeded.", PER_SECOND, {"{{model}}": pictures}),
        graph(
            "Device time of a picture, by model", "Failed attempts are in it.", SECONDS,
            {
                "{{model}}": f"sum by (model) (rate(safelight_device_seconds_total{{{_MODEL}}}{_RATE}))"
                f" / ({pictures} > 0)"
            },
        ),
    ]  # fmt: skip


def _owners() -> list[Builder[Panel]]:
    return [
        graph(
            "Charged an hour, by team",
            "Where the settings declare the dimension team ([telemetry.dimensions]).", COUNT,
            {
                "{{dim_team}} {{currency}}":
                    f"3600 * sum by (dim_team, currency) (rate(safelight_dim_charged_total{_RATE}))"
            },
            stacked=True,
        ),
        graph(
            "Devices at work, by team",
            "Where the settings declare the dimension team ([telemetry.dimensions]).", COUNT,
            {"{{dim_team}}": f"sum by (dim_team) (rate(safelight_dim_device_seconds_total{_RATE}))"}, stacked=True,
        ),
        bars(
            "Budgets", "Money charged or held in the present window; the twenty fullest.", RATIO,
            'topk(20, max by (owner_kind, owner, currency, window) (safelight_budget_used_ratio{kind="spend"}))',
            "{{owner_kind}} {{owner}}, {{currency}} a {{window}}", warn=0.9, bad=1,
        ),
        graph(
            "Jobs sent on to another model", "By why: at that one's price.", PER_SECOND,
            {"{{cause}}": f"sum by (cause) (rate(safelight_fallbacks_total{_RATE}))"},
        ),
    ]  # fmt: skip
