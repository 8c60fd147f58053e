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
    seconds, fault = findings.slowest
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
    colour = "green" if seconds <= twice else "yellow"
    table.add_row("recoveries seen", f"{len(findings.recoveries)}")
    table.add_row(f"slowest recovery ({fault}), twice the lease is {twice:.1f} s", f"[{colour}]{seconds:.1f} s[/]")
    console.print(table)
    for words in (*findings.broken, *outcome.refused[:5]):
        console.print(f"[red]{words}[/]", soft_wrap=True)


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
        "money left reserved": int(bool(findings.reserved_left)),
        "submits refused": len(outcome.refused),
    }


def as_json(outcome: Outcome) -> str:
    """All numbers in one line."""
    seconds, fault = outcome.findings.slowest
    return json.dumps(
        {
            "jobs": outcome.soak.jobs,
            "seed": outcome.soak.seed,
            "accepted": outcome.accepted,
            "done_once": outcome.findings.done_once,
            "states": outcome.findings.states,
            "submits_repeated": outcome.repeats,
            **{name.replace(" ", "_").replace("'", ""): count for name, count in zeros_of(outcome).items()},
            "recoveries": len(outcome.findings.recoveries),
            "slowest_recovery_s": round(seconds, 3),
            "slowest_recovery_from": fault,
            "lease_s": outcome.soak.plan.lease_s,
            "faults": dict(sorted(outcome.faults.items())),
            "seconds": round(outcome.seconds, 1),
        }
    )
