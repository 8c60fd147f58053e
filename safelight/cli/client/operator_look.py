"""How attempts, workers and the overview look on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from safelight.cli.client.look import COLOURS, span
from safelight.cli.money import money

_BARS = "▁▂▃▄▅▆▇█"
_STATES = {"serving": "green", "draining": "yellow", "drained": "cyan", "silent": "red"}
_SEVERITIES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def attempts_table(attempts: Sequence[dict[str, Any]]) -> Table:
    """One line an attempt."""
    table = _table("#", "OUTCOME", "STARTED", "TOOK", "DEVICE", "HOST", "GPU S", "COST", "BATCH", "ERROR")
    for attempt in attempts:
        outcome = attempt["outcome"]
        table.add_row(
            str(attempt["number"]),
            f"[{COLOURS.get(outcome, 'default')}]{outcome}[/]",
            (attempt["started_at"] or "")[:19],
            "" if attempt["duration_s"] is None else f"{attempt['duration_s']} s",
            escape(attempt["device"]),
            escape(attempt["host"] or ""),
            attempt["gpu_seconds"],
            money(attempt["charged"], attempt["currency"]),
            _batch(attempt),
            attempt["error_code"] or "",
        )
    return table


def _batch(attempt: dict[str, Any]) -> str:
    if attempt["batch_rows"] is None:
        return ""
    mates = len(attempt["mates"])
    return f"{attempt['batch_rows']:g}" + (f" with {mates} {'job' if mates == 1 else 'jobs'}" if mates else "")


def workers_table(workers: Sequence[dict[str, Any]]) -> Table:
    """One line a worker."""
    table = _table("ID", "STATE", "HOST", "DEVICE", "MEMORY", "BUSY", "HELD", "LANES", "MODELS", "BEAT")
    for worker in workers:
        table.add_row(
            worker["id"],
            f"[{_STATES[worker['state']]}]{worker['state']}[/]",
            escape(f"{worker['host']}:{worker['pid']}"),
            escape(worker["device"]),
            _memory(worker),
            _percent(worker["occupancy"]),
            f"{worker['held']}/{worker['slots']}",
            escape(", ".join(worker["lanes"])),
            escape(", ".join(worker["models"])),
            f"{span(worker['silent_s'])} ago",
        )
    return table


def overview_lines(overview: dict[str, Any]) -> Iterator[str | Table]:
    """What waits, the hour, devices, cost, lanes, and problems with their advice."""
    hour, devices = overview["hour"], overview["devices"]
    oldest = "" if overview["oldest_s"] is None else f", the oldest for {span(overview['oldest_s'])}"
    running, scheduled = overview["running"], overview["scheduled"]
    yield f"[bold]{overview['queued']}[/] queued{oldest} · {running} running · {scheduled} scheduled"
    finished = [one["succeeded"] + one["failed"] + one["canceled"] for one in hour["minutes"]]
    success = _percent(hour["success_rate"])
    yield f"{hour['finished']} finished in an hour {sparkline(finished)} · {success} with pictures"
    yield (
        f"{devices['alive']} {'worker' if devices['alive'] == 1 else 'workers'},"
        f" {devices['held']} of {devices['slots']} slots taken,"
        f" devices {_percent(devices['use'])} busy · {_percent(hour['cache_share'])} from the cache"
    )
    costs = ", ".join(money(cost["charged"], cost["currency"]) for cost in overview["today"]["costs"]) or "nothing"
    yield f"{costs} charged today ({overview['today']['zone']})"
    if not overview["problems"]:
        yield "[green]Nothing is wrong.[/]"
    for problem in overview["problems"]:
        colour = _SEVERITIES[problem["severity"]]
        yield f"[{colour}]{problem['severity']}[/] {escape(problem['what'])}\n  [dim]{escape(problem['advice'])}[/]"


def sparkline(counts: Sequence[int]) -> str:
    """A bar for each count, the highest full."""
    most = max(counts, default=0)
    return "".join(_BARS[(len(_BARS) - 1) * count // most if most else 0] for count in counts)


def _memory(worker: dict[str, Any]) -> str:
    if worker["memory_used"] is None:
        return ""
    total = "" if worker["memory_total"] is None else f"/{worker['memory_total'] / 2**30:.0f}"
    return f"{worker['memory_used'] / 2**30:.1f}{total} GiB"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.0f}%"


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    return table
