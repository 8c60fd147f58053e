"""What the database and the outputs say when all is over: every promise is counted, not believed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from tests.chaos.house import Hit

Window = tuple[str, datetime, datetime]
"""A fault, and from when to when it had its effect."""

_COLUMNS = "id, state, cache, key_id, price, reserved, charged, attempts, rescues, dimensions"
_TERMINAL = ("succeeded", "failed", "canceled", "dead")
_USAGE = """
SELECT job_id, count(*) FILTER (WHERE outcome = 'succeeded') AS results, sum(charged) AS charged,
       count(*) FILTER (WHERE charged > 0) AS charges
FROM usage GROUP BY job_id
"""
_ENDS = """
SELECT job_id, count(*) FILTER (WHERE kind = 'done') AS ends FROM job_event GROUP BY job_id
"""
_RUNS_AGAIN = """
SELECT min(at) AS at FROM job_event
WHERE job_id = %s AND at > %s AND kind = 'state' AND data ->> 'state' = 'running'
"""


@dataclass(slots=True)
class Findings:
    """Ids of jobs by what is wrong with them (empty is good), and how many ended in which way."""

    states: dict[str, int] = field(default_factory=dict)
    done_once: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    charged_twice: list[str] = field(default_factory=list)
    charged_wrongly: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    submitted_twice: list[str] = field(default_factory=list)
    damaged_pictures: list[str] = field(default_factory=list)
    wrong_balances: list[str] = field(default_factory=list)
    reserved_left: Decimal = Decimal(0)
    recoveries: list[tuple[float, str]] = field(default_factory=list)
    disturbed: list[tuple[float, str]] = field(default_factory=list)  # another fault happened meanwhile

    @property
    def broken(self) -> list[str]:
        """The promises that were broken, in words."""
        counts = {
            "lost": self.lost,
            "doubled": self.doubled,
            "submitted twice under one key": self.submitted_twice,
            "charged twice": self.charged_twice,
            "charged wrongly": self.charged_wrongly,
            "ended otherwise than expected": self.unexpected,
            "pictures damaged": self.damaged_pictures,
            "balances that disagree with the jobs": self.wrong_balances,
        }
        words = [f"{len(ids)} {what}: {', '.join(ids[:5])}" for what, ids in counts.items() if ids]
        return words + ([f"{self.reserved_left} still reserved"] if self.reserved_left else [])


def audit(
    connection: psycopg.Connection[dict[str, Any]],
    outputs: Path,
    expected: Mapping[UUID, Collection[str]],
    hits: Collection[Hit] = (),
    windows: Collection[Window] = (),
) -> Findings:
    """Compare what there is with what was accepted: ``expected`` holds the states that each accepted job may end in."""
    jobs = _jobs(connection)
    findings = Findings()
    for job in jobs.values():
        findings.states[job["state"]] = findings.states.get(job["state"], 0) + 1
    _check_ends(connection, jobs, expected, findings)
    _check_money(connection, jobs, findings)
    _check_balances(connection, jobs, findings)
    _check_pictures(connection, jobs, outputs, findings)
    _check_submits(jobs, findings)
    for hit in hits:
        _measure(connection, hit, windows, findings)
    return findings


def unfinished(connection: psycopg.Connection[dict[str, Any]]) -> int:
    """Jobs that have not ended."""
    row = connection.execute("SELECT count(*) AS count FROM job WHERE state <> ALL(%s)", [list(_TERMINAL)]).fetchone()
    assert row is not None
    return int(row["count"])


def _jobs(connection: psycopg.Connection[dict[str, Any]]) -> dict[UUID, dict[str, Any]]:
    """All jobs, those too that were moved to the archive."""
    tables = ["job"]
    archive = connection.execute("SELECT to_regclass('job_archive') AS name").fetchone()
    if archive is not None and archive["name"]:
        tables.append("job_archive")
    found: dict[UUID, dict[str, Any]] = {}
    for table in tables:
        for row in connection.execute(f"SELECT {_COLUMNS} FROM {table}".encode()).fetchall():
            found[row["id"]] = row
    return found


def _check_ends(
    connection: psycopg.Connection[dict[str, Any]],
    jobs: Mapping[UUID, dict[str, Any]],
    expected: Mapping[UUID, Collection[str]],
    findings: Findings,
) -> None:
    ends = {row["job_id"]: row["ends"] for row in connection.execute(_ENDS).fetchall()}
    for job_id, states in expected.items():
        job = jobs.get(job_id)
        if job is None or job["state"] not in _TERMINAL or not ends.get(job_id):
            findings.lost.append(str(job_id))
        elif ends[job_id] > 1:
            findings.doubled.append(str(job_id))
        elif job["state"] not in states:
            findings.unexpected.append(f"{job_id} ({job['state']}, rescued {job['rescues']} times)")
        elif job["state"] == "succeeded":
            findings.done_once += 1


def _check_money(
    connection: psycopg.Connection[dict[str, Any]], jobs: Mapping[UUID, dict[str, Any]], findings: Findings
) -> None:
    usage = {row["job_id"]: row for row in connection.execute(_USAGE).fetchall()}
    for job_id, job in jobs.items():
        row = usage.get(job_id, {"results": 0, "charged": Decimal(0), "charges": 0})
        rendered = job["state"] == "succeeded" and job["cache"] == "miss"
        if row["results"] > 1:
            findings.doubled.append(str(job_id))
        if row["charges"] > 1 or row["charged"] > job["price"]:
            findings.charged_twice.append(str(job_id))
        elif not row["charged"] == job["charged"] == (job["price"] if rendered else 0):
            findings.charged_wrongly.append(str(job_id))
        if job["state"] in _TERMINAL:
            findings.reserved_left += job["reserved"]


def _check_balances(
    connection: psycopg.Connection[dict[str, Any]], jobs: Mapping[UUID, dict[str, Any]], findings: Findings
) -> None:
    """A key's balance is what its jobs were charged and hold reserved, together."""
    for row in connection.execute("SELECT key_id, reserved, charged FROM balance").fetchall():
        own = [job for job in jobs.values() if job["key_id"] == row["key_id"]]
        if any(row[name] != sum(job[name] for job in own) for name in ("reserved", "charged")):
            findings.wrong_balances.append(str(row["key_id"]))


def _check_pictures(
    connection: psycopg.Connection[dict[str, Any]],
    jobs: Mapping[UUID, dict[str, Any]],
    outputs: Path,
    findings: Findings,
) -> None:
    rows = connection.execute("SELECT job_id, key, sha256 FROM picture").fetchall()
    digests = {key: _digest(outputs / key) for key in {row["key"] for row in rows}}
    findings.damaged_pictures += [row["key"] for row in rows if digests[row["key"]] != row["sha256"]]
    pictured = {row["job_id"] for row in rows}
    findings.lost += [
        f"{id} (no picture)" for id, job in jobs.items() if job["state"] == "succeeded" and id not in pictured
    ]


def _check_submits(jobs: Mapping[UUID, dict[str, Any]], findings: Findings) -> None:
    """A submit without an answer is sent again under its Idempotency-Key, which the job bears as a dimension."""
    seen: set[str] = set()
    for job in jobs.values():
        key = job["dimensions"].get("submit")
        if key in seen:
            findings.submitted_twice.append(key)
        elif key:
            seen.add(key)


def _measure(
    connection: psycopg.Connection[dict[str, Any]], hit: Hit, windows: Collection[Window], findings: Findings
) -> None:
    """How long it took until a job that was hit ran again; those that were ended meanwhile are left out."""
    row = connection.execute(_RUNS_AGAIN, [hit.job_id, hit.at]).fetchone()
    if row is None or row["at"] is None:
        return
    others = sum(begin < row["at"] and end > hit.at for _, begin, end in windows) - 1
    found = findings.disturbed if others > 0 else findings.recoveries
    found.append(((row["at"] - hit.at).total_seconds(), hit.fault))


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "no file"
