"""The audit log: who did what to what, and when; as pages, and as CSV."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from litestar import Response, get
from litestar.response import Template
from msgspec import Struct
from msgspec.structs import replace

from api.admin.local_times import local_time, with_zone
from api.admin.rendering import HEADERS, AnyRequest, page
from api.audit import audit_list, moment
from api.cost_sheets import cell, sheet
from api.key_names import names_of_keys
from api.key_schemas import AuditView
from api.openapi import ServicesDependency
from api.problems import invalid
from api.services import Services
from api.wording import unknown
from jobstore.audit import AuditFilter

_A_PAGE = 50
_MOST_CHARS = 200
MOST_LINES = 10_000
"""How many entries one download holds; what there is more is said in its last line."""
_AT_A_TIME = 1_000
_FIELDS = ("actor", "action", "target", "after", "before")
_HEADER = ("id", "at", "actor", "key_id", "action", "target", "details")
ACTIONS = (
    "key.created", "key.changed", "key.rotated", "key.revoked", "quota.created", "quota.changed", "quota.deleted",
    "lane.paused", "lane.resumed", "jobs.canceled", "jobs.redriven", "worker.drained", "worker.resumed",
    "webhook.created", "webhook.changed", "webhook.rotated", "webhook.deleted",
    "webhook.tested", "webhooks.redelivered",
)  # fmt: skip
"""What the form suggests; others can be asked for."""


class AuditSearch(Struct, frozen=True, kw_only=True):
    """What is looked for, and the fields of the form, none of them empty."""

    where: AuditFilter
    fields: dict[str, str]

    @property
    def query(self) -> list[tuple[str, str]]:
        """As the address has it, without the cursor."""
        return [*self.fields.items()]


@get("/audit")
async def show(request: AnyRequest, services: ServicesDependency) -> Template:
    """A page of the log, newest first."""
    search = _search(request)
    found = await audit_list(services, search.where)
    shown = search.fields | {
        "after": local_time(search.where.after),
        "before": local_time(search.where.before),
    }
    names = await _names(services, found.data)
    return await page(
        request, "audit.html", title="Audit", names=names, entries=[(entry, _details(entry)) for entry in found.data],
        next_cursor=found.next_cursor, query=search.query, shown={name: shown.get(name, "") for name in _FIELDS},
        actions=ACTIONS, csv=f"/admin/audit.csv?{urlencode(search.fields)}", most=MOST_LINES,
    )  # fmt: skip


async def _names(services: Services, entries: Sequence[AuditView]) -> dict[str, str]:
    """What people call the keys and workers that something was done to, by their ids, where they are still known."""
    names = await names_of_keys(services, {one.target for one in entries if one.action.startswith("key.")})
    if any(one.action.startswith("worker.") for one in entries):
        names |= {str(worker.id): worker.host for worker in await services.store.worker_statuses()}
    return names


@get("/audit.csv")
async def download(request: AnyRequest, services: ServicesDependency) -> Response[str]:
    """What the form finds, for spreadsheets."""
    search = _search(request)
    lines = [line async for line in _lines(services, search.where)]
    name = f"safelight-audit-{datetime.now(UTC):%Y-%m-%d}.csv"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(sheet(_HEADER, lines), media_type="text/csv", headers=headers)


async def _lines(services: Services, where: AuditFilter) -> AsyncIterator[list[str]]:
    cursor, left = None, MOST_LINES
    while left:
        found = await audit_list(services, replace(where, cursor=cursor, limit=min(left, _AT_A_TIME)))
        for entry in found.data:
            yield _line(entry)
        cursor, left = found.next_cursor, left - len(found.data)
        if cursor is None:
            return
    yield ["", "", "", "", "", "", f"(there is more: these are the newest {MOST_LINES})"]


def _line(entry: AuditView) -> list[str]:
    at = entry.at.astimezone(UTC).isoformat()
    key_id = "" if entry.key_id is None else str(entry.key_id)
    told = [entry.actor, key_id, entry.action, entry.target, json.dumps(entry.details, ensure_ascii=False)]
    return [str(entry.id), at, *map(cell, told)]


def _search(request: AnyRequest) -> AuditSearch:
    """What the address asks. Raises ProblemError."""
    for name in request.query_params:
        if name not in (*_FIELDS, "cursor"):
            raise invalid(name[:100], unknown(name, _FIELDS, "query parameter"))
    sent = {name: request.query_params.get(name, "").strip() for name in (*_FIELDS, "cursor")}
    for name, value in sent.items():
        if len(value) > _MOST_CHARS:
            raise invalid(name, f"{name} is text of at most {_MOST_CHARS} characters")
    where = AuditFilter(
        actor=sent["actor"] or None,
        action=sent["action"] or None,
        target=sent["target"] or None,
        after=moment("after", with_zone(sent["after"])),
        before=moment("before", with_zone(sent["before"])),
        limit=_A_PAGE,
        cursor=sent.pop("cursor") or None,
    )
    return AuditSearch(where=where, fields={name: value for name, value in sent.items() if value})


def _details(entry: AuditView) -> list[tuple[str, str]]:
    """The details as (name, value) pairs; a change as what it was and what it is."""
    return [(name, _told(value)) for name, value in entry.details.items()]


def _told(value: object) -> str:
    if isinstance(value, dict) and set(value) == {"from", "to"}:
        return f"{_plain(value['from'])} → {_plain(value['to'])}"
    return _plain(value)


def _plain(value: object) -> str:
    if value is None or value == "":
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


AUDIT_ROUTES = (show, download)
