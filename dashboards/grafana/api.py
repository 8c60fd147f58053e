"""The dashboard of the API: requests, errors, how long answers take, webhooks, and the parts behind it."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.parts import BYTES, COUNT, PER_SECOND, RATIO, SECONDS, board, graph, number

_ROUTE = 'route=~"$route"'
_RATE = "[$__rate_interval]"
# Streams last as long as their jobs do.
_NO_STREAMS = f'{_ROUTE}, route!~".*/(events|Watch)"'


def api() -> str:
    """Its JSON."""
    return board(
        "safelight-api",
        "Safelight: API",
        "Requests, errors, how long answers take, webhooks, and whether the parts behind the API answer.",
        {"route": "label_values(safelight_http_request_seconds_count, route)"},
        [*_numbers(), *_requests(), *_behind(), *_webhooks()],
    )


def _numbers() -> list[Builder[Panel]]:
    requests = f"sum(rate(safelight_http_request_seconds_count{{{_ROUTE}}}[5m]))"
    errors = f'(sum(rate(safelight_http_request_seconds_count{{{_ROUTE}, status=~"5.."}}[5m])) or vector(0))'
    submits = 'sum by (le) (rate(safelight_http_request_seconds_bucket{route="/v1/jobs", method="POST"}[5m]))'
    return [
        number("Requests a second", "Over five minutes.", PER_SECOND, requests),
        number(
            "Errors of the server", "Share of answers that are 5xx, over five minutes.", RATIO,
            f"{errors} / ({requests} > 0)", warn=0.001, bad=0.01,
        ),
        number(
            "A submit, p99", "From request to answer, over five minutes.", SECONDS,
            f"histogram_quantile(0.99, {submits})", warn=0.25, bad=1,
        ),
        number("Open streams", "Clients that follow jobs at the moment.", COUNT, "sum(safelight_event_streams_open)"),
    ]  # fmt: skip


def _requests() -> list[Builder[Panel]]:
    slow = f"sum by (route, le) (rate(safelight_http_request_seconds_bucket{{{_NO_STREAMS}}}{_RATE}))"
    return [
        graph(
            "Requests, by status", "Answers a second.", PER_SECOND,
            {"{{status}}": f"sum by (status) (rate(safelight_http_request_seconds_count{{{_ROUTE}}}{_RATE}))"},
            stacked=True,
        ),
        graph(
            "Requests, by route", "Answers a second; none is what matches no route.", PER_SECOND,
            {
                "{{method}} {{route}}":
                    f"sum by (method, route) (rate(safelight_http_request_seconds_count{{{_ROUTE}}}{_RATE}))"
            },
            stacked=True,
        ),
        graph(
            "Answers, p90, by route", "Without streams of events, which last as long as their jobs.", SECONDS,
            {"{{route}}": f"histogram_quantile(0.9, {slow})"},
        ),
        graph(
            "Submits refused, and repeated ones",
            "Refused by which limit; repeated by what told, a second.", PER_SECOND,
            {
                "refused: {{limit}}": f"sum by (limit) (rate(safelight_submits_refused_total{_RATE}))",
                "repeated: {{by}}": f"sum by (by) (rate(safelight_submits_replayed_total{_RATE}))",
            },
        ),
    ]  # fmt: skip


def _behind() -> list[Builder[Panel]]:
    return [
        graph(
            "Parts that answer", "Store, outputs and broker: 1, or 0 where a process of the API gets no answer.", COUNT,
            {"{{part}}": "min by (part) (safelight_part_up)"}, most=1,
        ),
        graph(
            "Memory, by process", "Resident; the version in words.", BYTES,
            {
                "{{job}} {{instance}} {{version}}": 'process_resident_memory_bytes{job=~"safelight.*"}'
                " * on (job, instance) group_left (version) safelight_build_info"
            },
        ),
    ]  # fmt: skip


def _webhooks() -> list[Builder[Panel]]:
    seconds = f"sum by (le) (rate(safelight_webhook_seconds_bucket{_RATE}))"
    return [
        graph(
            "Webhooks' tries, by outcome", "A second; failed is given up for good.", PER_SECOND,
            {"{{outcome}}": f"sum by (outcome) (rate(safelight_webhook_deliveries_total{_RATE}))"},
        ),
        graph(
            "Webhooks' time", "From the start of a try to the receiver's answer, and the age of the oldest that is not "
            "over.", SECONDS,
            {
                "p90": f"histogram_quantile(0.9, {seconds})",
                "oldest pending": "max(safelight_webhook_oldest_pending_seconds)",
            },
        ),
    ]  # fmt: skip
