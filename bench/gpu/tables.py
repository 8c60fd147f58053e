"""What was measured, as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.gpu import memory
from bench.gpu.parts import Plan, cases_of, knees
from bench.gpu.results import Case, Results

_MISSING = "-"
_WAYS = ("diffusers", "eager", "compiled", "graphed")


def show(console: Console, part: str, plan: Plan, results: Results) -> None:
    """Print a part's table, and what went wrong in it."""
    console.print(_TABLES[part](plan, results))
    wanted = [dict(case) for case in cases_of(part, plan)]
    for line in results.lines:
        if "error" in line and line["case"] in wanted:
            console.print(f"[red]{line['case']}: {line['error']}", highlight=False)


def _steps(plan: Plan, results: Results) -> Table:
    rate = _value(results, {"part": "steps", "rate": str(plan.dtype)}, "flops_s")
    title = f"Milliseconds a step, {plan.device.label}, {plan.dtype}"
    table = _table(
        f"{title}; matrix products reach {rate / 1e12:.2f} TFLOP/s" if rate else title,
        ("model", "size", "batch", "floor", *_WAYS, "share of the floor", "over eager", "over diffusers"),
    )
    for model in plan.models:
        for side in plan.sizes:
            flops = _value(results, {"part": "steps", "model": model, "side": side, "floor": "flops"}, "flops")
            for batch in plan.batches:
                found = {how: _ms(results, model, side, batch, how) for how in _WAYS}
                floor = 1000 * flops * batch / rate if flops and rate else None
                ours = [found[how] for how in _WAYS[1:]]
                best = min((ms for ms in ours if ms is not None), default=None)
                table.add_row(
                    model, f"{side}²", str(batch), _number(floor), *(_number(found[how]) for how in _WAYS),
                    _ratio(floor, best), _ratio(found["eager"], best), _ratio(found["diffusers"], best),
                )  # fmt: skip
    return table


def _gaps(plan: Plan, results: Results) -> Table:
    table = _table("Share of a step's time without a kernel, batch 1", ("model", "size", "how", "idle"))
    for case in cases_of("gaps", plan):
        share = _value(results, case, "idle_share")
        table.add_row(
            str(case["model"]), f"{case['side']}²", str(case["how"]), _MISSING if share is None else f"{share:.0%}"
        )
    return table


def _knees(plan: Plan, results: Results) -> Table:
    table = _table("Rows that are worth stepping together", ("model and size", "rows", "rows: ms a step"))
    for name, knee in knees(plan, results).items():
        timings = ", ".join(f"{timing.rows}: {1000 * timing.seconds:.1f}" for timing in knee.timings)
        table.add_row(name, str(knee.rows), timings + (", then out of memory" if knee.full else ""))
    return table


def _memory(plan: Plan, results: Results) -> Table:
    table = _table("Device memory at the worst moment, GB", ("model", "size", *memory.PLANS, "staged / resident"))
    for model in plan.models:
        for side in plan.sizes if plan.architecture(model).encoders else ():
            case: Case = {"part": "memory", "model": model, "side": side}
            peaks = {name: _value(results, {**case, "plan": name}, "bytes") for name in memory.PLANS}
            cells = [_MISSING if peak is None else f"{peak / 1e9:.2f}" for peak in peaks.values()]
            table.add_row(model, f"{side}²", *cells, _ratio(peaks["staged"], peaks["resident"]))
    return table


def _trace(plan: Plan, results: Results) -> Table:
    table = _table(
        "From arrival to picture, small model, mixed sizes and steps", ("how", "p50 s", "p95 s", "pictures / s")
    )
    found = results.find(next(iter(cases_of("trace", plan))))
    for name, waits in (found["waits"] if found else {}).items():
        table.add_row(name, f"{waits['p50_s']:.2f}", f"{waits['p95_s']:.2f}", f"{waits['pictures_s']:.2f}")
    return table


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _ms(results: Results, model: str, side: int, batch: int, how: str) -> float | None:
    return _value(results, {"part": "steps", "model": model, "side": side, "batch": batch, "how": how}, "ms")


def _value(results: Results, case: Case, name: str) -> float | None:
    found = results.find(case)
    value: Any = None if found is None else found[name]
    return None if value is None else float(value)


def _number(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.2f}"


def _ratio(above: float | None, below: float | None) -> str:
    return _MISSING if above is None or not below else f"{above / below:.2f}"


_TABLES: dict[str, Callable[[Plan, Results], Table]] = {
    "steps": _steps,
    "gaps": _gaps,
    "knee": _knees,
    "memory": _memory,
    "trace": _trace,
}
