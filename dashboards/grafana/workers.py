"""The dashboard of workers and their devices: do they live, are they busy, are batches full."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.parts import BYTES, COUNT, PER_SECOND, RATIO, SECONDS, board, graph, number

_WORKER = 'instance=~"$worker"'
_MODEL = 'model=~"$model"'
_RATE = "[$__rate_interval]"
# A process of the API has these at 0 as well; workers alone have slots.
_OF_WORKERS = f"and on (job, instance) safelight_worker_slots{{{_WORKER}}}"


def workers() -> str:
    """Its JSON."""
    return board(
        "safelight-workers",
        "Safelight: workers and devices",
        "Whether workers live, how busy their devices are, and how full their batches.",
        {
            "worker": "label_values(safelight_worker_slots, instance)",
            "model": "label_values(safelight_jobs_finished_total, model)",
        },
        [*_numbers(), *_devices(), *_engine(), *_rest()],
    )


def _numbers() -> list[Builder[Panel]]:
    return [
        number(
            "Last beat", "How long ago the store last took the beat of the worker that is silent longest.", SECONDS,
            f"max(time() - safelight_worker_last_beat_timestamp_seconds{{{_WORKER}}})", warn=20, bad=60,
        ),
        number(
            "Slots in use", "Jobs that workers hold, of those that they can hold.", RATIO,
            f"sum(safelight_worker_slots_busy {_OF_WORKERS}) / sum(safelight_worker_slots{{{_WORKER}}})",
        ),
        number(
            "Device use", "Share of time in which the devices worked, over five minutes.", RATIO,
            f"avg(rate(safelight_engine_busy_seconds_total[5m]) {_OF_WORKERS})",
        ),
        number(
            "Denoising steps a second", "Of all pictures together, over five minutes.", COUNT,
            f"sum(rate(safelight_denoising_steps_total{{{_WORKER}, {_MODEL}}}[5m]))",
        ),
    ]  # fmt: skip


def _devices() -> list[Builder[Panel]]:
    return [
        graph(
            "Device use, by worker", "Share of time in which the engine kept the device at work.", RATIO,
            {"{{instance}}": f"rate(safelight_engine_busy_seconds_total{_RATE}) {_OF_WORKERS}"}, most=1,
        ),
        graph(
            "Utilisation that the driver tells, by worker", "From NVML; empty where there is no NVIDIA GPU.", RATIO,
            {"{{instance}} {{device}}": f"safelight_device_utilization_ratio{{{_WORKER}}}"}, most=1,
        ),
        graph(
            "Device memory, by worker",
            "used and total as the driver tells (of a CPU: the worker's own, and the machine's); allocated and "
            "reserved are torch's part.", BYTES,
            {"{{instance}} {{kind}}": f"safelight_device_memory_bytes{{{_WORKER}}}"},
        ),
        graph(
            "Slots, by worker", "Jobs that a worker holds, and how many it can hold.", COUNT,
            {
                "{{instance}} in use": f"safelight_worker_slots_busy {_OF_WORKERS}",
                "{{instance}} of": f"safelight_worker_slots{{{_WORKER}}}",
            },
        ),
    ]  # fmt: skip


def _engine() -> list[Builder[Panel]]:
    rows = f"sum by (model) (rate(safelight_engine_batch_rows_sum{{{_WORKER}, {_MODEL}}}{_RATE}))"
    room = f"sum by (model) (rate(safelight_engine_batch_room_rows_total{{{_WORKER}, {_MODEL}}}{_RATE}))"
    steps = f"sum by (model, le) (rate(safelight_engine_step_seconds_bucket{{{_WORKER}, {_MODEL}}}{_RATE}))"
    return [
        graph(
            "How full batches are, by model", "Pictures that took steps together, of those that could have.", RATIO,
            {"{{model}}": f"{rows} / ({room} > 0)"}, most=1,
        ),
        graph(
            "A denoising step of a batch, by model", "Seconds.", SECONDS,
            {f"{{{{model}}}} p{percent}": f"histogram_quantile({percent / 100}, {steps})" for percent in (50, 90)},
        ),
    ]  # fmt: skip


def _rest() -> list[Builder[Panel]]:
    provided = f"sum by (model, outcome, le) (rate(safelight_provider_seconds_bucket{{{_MODEL}}}{_RATE}))"
    return [
        graph(
            "Providers' answers, p90", "Of remote models, by model and outcome; empty where there are none.", SECONDS,
            {"{{model}} {{outcome}}": f"histogram_quantile(0.9, {provided})"},
        ),
        graph(
            "Trouble", "Leases lost, batches halved for want of memory, checkpoints and graphs that failed, a second.",
            PER_SECOND,
            {
                "leases lost": f"sum(rate(safelight_leases_lost_total{{{_WORKER}}}{_RATE}))",
                "batches halved": f"sum(rate(safelight_engine_batches_halved_total{{{_WORKER}}}{_RATE}))",
                "checkpoints failed":
                    f'sum(rate(safelight_checkpoints_total{{{_WORKER}, outcome="failed"}}{_RATE})) or vector(0)',
                "graphs given up":
                    f'sum(rate(safelight_engine_graph_events_total{{{_WORKER}, event="fallback"}}{_RATE}))'
                    " or vector(0)",
            },
        ),
    ]  # fmt: skip
