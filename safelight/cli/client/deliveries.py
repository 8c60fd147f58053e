"""``safelight webhooks deliveries`` and ``redeliver``: what was sent, what came of it, and sending it anew."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobstore.webhooks.model import EventType
from safelight.cli.client.many import confirmed
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from safelight.cli.client.webhook_http import WebhookClient

TypeOption = Annotated[EventType | None, typer.Option("--type", "-t", help="Only those of this event.")]
JobOption = Annotated[str | None, typer.Option(help="Only those about this job.")]
WebhookOption = Annotated[str | None, typer.Option(help="Only those to this webhook.")]


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


def deliveries(
    state: Annotated[DeliveryState | None, typer.Option("--state", "-s", help="Only those in this state.")] = None,
    type_: TypeOption = None,
    job: JobOption = None,
    webhook: WebhookOption = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """List deliveries, newest first, with what came of the last try."""
    from safelight.cli.client.delivery_look import show_deliveries
    from safelight.cli.client.webhook_http import WebhookClient

    with reported(), WebhookClient(url, key) as client:
        page = client.deliveries(state=state, type=type_, job_id=job, webhook_id=webhook, limit=limit, cursor=cursor)
        hosts = [] if as_json else client.hosts(page["data"])
    if as_json:
        out().print_json(data=page)
        return
    if not page["data"]:
        err().print("No deliveries.")
        return
    if show_deliveries(page["data"], hosts, out()):
        err().print("Ids and jobs:  --json, or a wider terminal", markup=False, soft_wrap=True)
    if page["next_cursor"]:
        err().print(f"More:  --cursor {page['next_cursor']}", markup=False, soft_wrap=True)


def redeliver(
    delivery_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The delivery's id, from  webhooks deliveries; none with a filter."),
    ] = None,
    type_: TypeOption = None,
    job: JobOption = None,
    webhook: WebhookOption = None,
    all_failed: Annotated[bool, typer.Option("--failed", help="All that failed, without a filter.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what failed of the filter's.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Deliver a message anew, at once and under its old id; with an admin key up to 1000 that failed, by a filter."""
    from safelight.cli.client.webhook_http import WebhookClient

    named = {"type": type_, "job_id": job, "webhook_id": webhook}
    where = {name: value for name, value in named.items() if value is not None}
    with reported():
        if (delivery_id is None) is not bool(where or all_failed):
            raise RefusedError("name either the id of a delivery, or --failed or a filter, like --type job.succeeded")
        with WebhookClient(url, key) as client:
            if delivery_id is None:
                _redeliver_failed(client, where, dry_run=dry_run, yes=yes, as_json=as_json)
                return
            delivery = client.redeliver(delivery_id)
    show_delivery(delivery, as_json)


def _redeliver_failed(client: WebhookClient, where: dict[str, Any], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Count, ask, and send what was counted anew. Raises RefusedError where the answer isn't yes."""
    told = client.redeliver_failed({**where, "dry_run": True})
    if not dry_run:
        if told["count"] and not yes and not confirmed(f"Send {_messages(told['count'])} anew?"):
            raise RefusedError("nothing was sent anew", "--yes  answers for scripts")
        told = client.redeliver_failed({**where, "expected": told["count"]})
    if as_json:
        out().print_json(data=told)
        return
    out().print(f"{told['count']}{'+' if dry_run and told['more'] else ''}", markup=False)
    if not dry_run:
        more = "; there may be more: run it again" if told["more"] else ""
        err().print(f"{_messages(told['count'])} on their way{more}.")


def _messages(count: int) -> str:
    return f"{count} {'message' if count == 1 else 'messages'}"


def show_delivery(delivery: dict[str, Any], as_json: bool) -> None:
    """Print a delivery that is on its way."""
    if as_json:
        out().print_json(data=delivery)
        return
    out().print(delivery["id"], markup=False)
    err().print("On its way; what comes of it:  safelight webhooks deliveries", markup=False)
