"""``python -m tests.chaos``: a soak, its table, and a line of JSON. Exit code 1 when a promise was broken."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.chaos.house import Plan
from tests.chaos.report import as_json, failed, print_report
from tests.chaos.servers import own_servers
from tests.chaos.soak import Outcome, Soak, Standing, run_soak


def main() -> int:
    """Read the command line, run the soak and tell what came of it."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that everything is put down
    plan = Plan(
        apis=arguments.apis,
        workers=arguments.workers,
        lease_s=arguments.lease,
        step_s=arguments.step,
        max_rescues=10,
    )
    outcome = _run(Soak(arguments.jobs, arguments.seed, plan, arguments.minutes), arguments.logs)
    print_report(outcome, Console())
    sys.stdout.write(as_json(outcome) + "\n")
    return 1 if failed(outcome) else 0


def _run(soak: Soak, logs: Path | None) -> Outcome:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        if logs is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="safelight-chaos-")))
        else:
            folder = logs.resolve()
            folder.mkdir(parents=True)
        bar = stack.enter_context(Progress(*columns, console=console))
        task = bar.add_task("starting servers", total=soak.jobs)

        def tell(standing: Standing) -> None:
            done = max(0, standing.accepted - standing.unfinished)
            bar.update(task, completed=done, description=standing.fault or "jobs ended")

        servers = stack.enter_context(own_servers())
        return run_soak(soak, servers, folder, tell)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs to submit (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of orders and faults (%(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (%(default)s)")
    parser.add_argument("--apis", type=int, default=2, help="API processes (%(default)s)")
    parser.add_argument("--minutes", type=float, help="spread the submits over so long; by default as fast as possible")
    parser.add_argument("--lease", type=float, default=2.0, help="seconds a silent worker keeps its jobs (%(default)s)")
    parser.add_argument("--step", type=float, default=0.01, help="seconds of a simulated denoising step (%(default)s)")
    parser.add_argument("--logs", type=Path, help="a new folder that keeps the processes' logs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
