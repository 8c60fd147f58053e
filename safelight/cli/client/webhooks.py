"""``safelight webhooks``: who is told of jobs, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from safelight.cli.client.deliveries import deliveries, redeliver, show_delivery
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from rich.table import Table

WebhookArgument = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id, from  safelight webhooks list.")]


def list_(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None) -> None:
    """List the webhooks of the key, with an admin key all."""
    from safelight.cli.client.webhook_http import WebhookClient

    with reported(), WebhookClient(url, key) as client:
        found = client.endpoints()
    if as_json:
        out().print_json(data={"object": "list", "data": found})
    elif found:
        out().print(_endpoints(found))
    else:
        err().print("No webhooks.")


def create(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where messages go: an https URL.")],
    event: Annotated[
        list[str] | None,
        typer.Option("--event", "-e", help="Such as job.started; may be repeated.", show_default="the jobs' ends"),
    ] = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Tell an address of all jobs of the key. Prints the secret that signs, once."""
    from safelight.cli.client.webhook_http import WebhookClient

    fields: dict[str, Any] = {"url": address, "description": description}
    with reported(), WebhookClient(url, key) as client:
        made = client.create(fields | ({"events": event} if event else {}))
    _show_secret(made, as_json)


def change(
    webhook_id: WebhookArgument,
    address: Annotated[str | None, typer.Option("--address", help="Where messages go from now on.")] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="All types that it gets from now on; may be repeated.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Change where a webhook goes, of what it is told, or what it is for. What isn't named stays."""
    from safelight.cli.client.webhook_http import WebhookClient

    named = {"url": address, "events": event, "description": description}
    fields = {name: value for name, value in named.items() if value is not None}
    with reported():
        if not fields:
            raise RefusedError("name what changes: --address, --event or --description")
        with WebhookClient(url, key) as client:
            changed = client.change(webhook_id, fields)
    if as_json:
        out().print_json(data=changed)
    else:
        out().print(_endpoints([changed]))


def enable(
    webhook_id: WebhookArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Turn a webhook on again; that it failed is forgotten."""
    _turn(webhook_id, url, key, disabled=False, as_json=as_json)


def disable(
    webhook_id: WebhookArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Turn a webhook off; what waits for it is given up."""
    _turn(webhook_id, url, key, disabled=True, as_json=as_json)


def _turn(webhook_id: str, url: str, key: str | None, *, disabled: bool, as_json: bool) -> None:
    from safelight.cli.client.webhook_http import WebhookClient

    with reported(), WebhookClient(url, key) as client:
        changed = client.change(webhook_id, {"disabled": disabled})
    if as_json:
        out().print_json(data=changed)
    else:
        out().print("disabled" if changed["disabled"] else "enabled")


def rotate(
    webhook_id: WebhookArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Give a webhook a new secret and print it, once. The old one signs too for a day."""
    from safelight.cli.client.webhook_http import WebhookClient

    with reported(), WebhookClient(url, key) as client:
        made = client.rotate(webhook_id)
    _show_secret(made, as_json)


def _show_secret(made: dict[str, Any], as_json: bool) -> None:
    if as_json:
        out().print_json(data=made)
        return
    out().print(made["secret"], markup=False, soft_wrap=True)
    err().print(f"Webhook {made['id']}. Keep the secret: it is shown this once.", markup=False, soft_wrap=True)


def delete(
    webhook_id: WebhookArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Delete a webhook; what waits for it is given up."""
    from safelight.cli.client.webhook_http import WebhookClient

    with reported(), WebhookClient(url, key) as client:
        client.delete(webhook_id)
    if as_json:
        out().print_json(data={"id": webhook_id, "deleted": True})
    else:
        out().print("deleted")


def send_test(
    webhook_id: WebhookArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Send a webhook a message of the type webhook.test; prints the delivery's id."""
    from safelight.cli.client.webhook_http import WebhookClient

    with reported(), WebhookClient(url, key) as client:
        delivery = client.test(webhook_id)
    show_delivery(delivery, as_json)


def _endpoints(found: Sequence[dict[str, Any]]) -> Table:
    from rich.markup import escape

    table = _table("ID", "STATE", "URL", "EVENTS", "DESCRIPTION")
    for endpoint in found:
        reason = escape(endpoint["reason"])
        failing = "[yellow]failing[/]" if endpoint["failing_since"] else "[green]on[/]"
        events = ", ".join(event.removeprefix("job.") for event in endpoint["events"])
        state = f"[red]off[/] ({reason})" if endpoint["disabled"] else failing
        table.add_row(endpoint["id"], state, escape(endpoint["url"]), events, escape(endpoint["description"]))
    return table


def _table(*titles: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(titles[0], no_wrap=True, min_width=36)
    for title in titles[1:]:
        table.add_column(title)
    return table


webhooks = typer.Typer(help="Tell addresses of jobs' ends; look at what came of it.", no_args_is_help=True)
webhooks.command("list")(list_)
webhooks.command("test")(send_test)
for command in (create, change, enable, disable, rotate, delete, deliveries, redeliver):
    webhooks.command()(command)
