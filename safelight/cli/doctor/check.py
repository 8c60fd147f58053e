"""One check and what came out of it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Status(StrEnum):
    """Outcome of a check. A warning is worth knowing and stops nothing."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Struct, frozen=True):
    """What was checked, how it stands, and what to do about it."""

    name: str
    status: Status
    detail: str
    advice: str = ""


def ok(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, Status.OK, detail)


def warn(name: str, detail: str, advice: str = "") -> Check:
    """Worth knowing."""
    return Check(name, Status.WARN, detail, advice)


def fail(name: str, detail: str, advice: str = "") -> Check:
    """Nothing works without it."""
    return Check(name, Status.FAIL, detail, advice)


def first_line(error: BaseException) -> str:
    """An error in one line, by its kind where it has no words."""
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
