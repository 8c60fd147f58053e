"""What a soak found, as a table for people and a line of JSON for programs."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from tests.chaos.soak import Outcome


def failed(outcome: Outcome) -> bool:
    """True when a promise was broken: something lost, doubled or charged twice, be it by a submit sent again."""
    findings = outcome.findings
    return bool(findings.lost or findings.doubled or findings.charged_twice or findings.submitted_twice)


def print_report(outcome: Outcome, console: Console) -> None:
    """The table, what is behind each number that should be 0, and the line of JSON."""
    findings = outcome.findings
    twice = 2 * outcome.soak.plan.lease_s
    table = Table("", "", title=f"{sum(outcome.faults.values())} faults, {outcome.seconds:.0f} s", show_header=False)
    table.columns[1].justify = "right"
    counts = {
        "jobs accepted": outcome.accepted,
        "done exactly once": findings.done_once,
        "failed, canceled or dead": sum(count for state, count in findings.states.items() if state != "succeeded"),
        "submits sent again": outcome.repeats,
    }
    zeros = zeros_of(outcome)
    for what, count in counts.items():
        table.add_row(what, f"{count:,}")
    table.add_section()
    for what, count in zeros.items():
        table.add_row(what, f"[{'red' if count else 'green'}]{count}[/]")
    table.add_section()
    for what, found in {"": findings.recoveries, ", another fault meanwhile": findings.disturbed}.items():
        seconds, fault = slowest(found)
        colour = "green" if seconds <= twice else "yellow"
        table.add_row(f"recoveries{what}", str(len(found)))
        table.add_row(f"slowest (from {fault}; twice the lease is {twice:g} s)", f"[{colour}]{seconds:.1f} s[/]")
    console.print(table)
    for words in (*findings.broken, *outcome.refused[:5]):
        console.print(f"[red]{words}[/]", soft_wrap=True)


def slowest(recoveries: list[tuple[float, str]]) -> tuple[float, str]:
    """Seconds of the slowest recovery, and from which fault."""
    return max(recoveries, default=(0.0, "none"))


def zeros_of(outcome: Outcome) -> dict[str, int]:
    """The numbers that should be 0."""
    findings = outcome.findings
    return {
        "lost": len(findings.lost),
        "doubled": len(findings.doubled),
        "charged twice": len(findings.charged_twice),
        "charged wrongly": len(findings.charged_wrongly),
        "ended otherwise than expected": len(findings.unexpected),
        "submitted twice under one key": len(findings.submitted_twice),
        "pictures that don't match": len(findings.damaged_pictures),
        "balances that disagree": len(findings.wrong_balances),
        "money left reserved": int(bool(findings.reserved_left)),
        "submits refused": len(outcome.refused),
    }


def as_json(outcome: Outcome) -> str:
    """All numbers in one line."""
    findings = outcome.findings
    return json.dumps(
        {
            "jobs": outcome.soak.jobs,
            "seed": outcome.soak.seed,
            "accepted": outcome.accepted,
            "done_once": findings.done_once,
            "states": findings.states,
            "submits_repeated": outcome.repeats,
            **{name.replace(" ", "_").replace("'", ""): count for name, count in zeros_of(outcome).items()},
            "recoveries": len(findings.recoveries),
            "slowest_recovery_s": round(slowest(findings.recoveries)[0], 3),
            "recoveries_disturbed": len(findings.disturbed),
            "slowest_recovery_disturbed_s": round(slowest(findings.disturbed)[0], 3),
            "lease_s": outcome.soak.plan.lease_s,
            "faults": dict(sorted(outcome.faults.items())),
            "seconds": round(outcome.seconds, 1),
        }
    )
