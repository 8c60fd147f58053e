"""``safelight quotas``: what keys, teams and customers may spend, submit and have under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from safelight.cli.client.http import Quota

TeamOption = Annotated[str | None, typer.Option("--team", help="A team's.", show_default=False)]
CustomerOption = Annotated[str | None, typer.Option("--customer", help="A customer's.", show_default=False)]
KeyIdOption = Annotated[
    str | None, typer.Option("--key-id", help="An API key's, by its id; see  safelight keys ls.", show_default=False)
]
PerOption = Annotated[
    str | None, typer.Option("--per", help="The window: 1m, 6h, 1d, 1w, 1M, 1y.", show_default="total")
]


def list_(
    team: TeamOption = None,
    customer: CustomerOption = None,
    key_id: KeyIdOption = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """List quotas with what is taken of each: all for an admin key, for others their own."""
    from safelight.cli.client.http import Client
    from safelight.cli.client.quota_look import quotas_table

    with reported(), Client(url, key) as client:
        quotas = client.quotas(team=team, customer=customer, key=key_id)
    if as_json:
        out().print_json(data=quotas)
    elif quotas:
        out().print(quotas_table(quotas))
    else:
        err().print("No quotas: nothing is limited.")


def set_(
    team: TeamOption = None,
    customer: CustomerOption = None,
    key_id: KeyIdOption = None,
    spend: Annotated[str | None, typer.Option(help="So much money, like 10.50.", show_default=False)] = None,
    requests: Annotated[int | None, typer.Option(min=0, help="So many submits.", show_default=False)] = None,
    jobs: Annotated[int | None, typer.Option(min=0, help="So many unfinished jobs.", show_default=False)] = None,
    per: PerOption = None,
    rolling: Annotated[bool, typer.Option("--rolling", help="The window ends now, instead of the calendar's.")] = False,
    zone: Annotated[str | None, typer.Option(help="Whose calendar, like Europe/Berlin.", show_default="UTC")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Limit a key, a team or a customer from now on; an earlier limit of that kind for that window is changed."""
    from safelight.cli.client.http import Client
    from safelight.cli.client.quota_look import described

    with reported():
        owner = owner_of(team, customer, key_id)
        kind, limit = limit_of(spend, requests, jobs)
        with Client(url, key) as client:
            known = [quota for quota in client.quotas(**owner) if is_of(quota, kind, per or "total", rolling=rolling)]
            if not known:
                fields = {"owner": owner, "kind": kind, "limit": limit, "zone": zone}
                fields |= {"period": per, "rolling": rolling}
                quota = client.create_quota({name: value for name, value in fields.items() if value is not None})
            elif zone is not None and zone != known[0]["zone"]:
                hint = f"clear it first:  safelight quotas clear {known[0]['id']}"
                raise RefusedError(f"there is such a quota already, by the calendar of {known[0]['zone']}", hint)
            else:
                quota = client.change_quota(known[0]["id"], limit)
    if as_json:
        out().print_json(data=quota)
        return
    out().print(quota["id"], markup=False)
    err().print(f"{'changed' if known else 'set'}: {described(quota)}", markup=False, soft_wrap=True)


def clear(
    quota_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One quota, from  safelight quotas list.", show_default=False)
    ] = None,
    team: TeamOption = None,
    customer: CustomerOption = None,
    key_id: KeyIdOption = None,
    spend: Annotated[bool, typer.Option("--spend", help="Only limits on money.")] = False,
    requests: Annotated[bool, typer.Option("--requests", help="Only limits on submits.")] = False,
    jobs: Annotated[bool, typer.Option("--jobs", help="Only limits on unfinished jobs.")] = False,
    per: Annotated[str | None, typer.Option("--per", help="Only those of this window.", show_default=False)] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Lift limits: one by its id, or those of a key, a team or a customer."""
    from safelight.cli.client.http import Client

    chosen = {"spend": spend, "requests": requests, "concurrency": jobs}
    kinds = {kind for kind, wanted in chosen.items() if wanted} or set(chosen)
    with reported(), Client(url, key) as client:
        if quota_id is not None:
            if team or customer or key_id or per or any(chosen.values()):
                raise RefusedError("an ID names one quota: leave the other options out")
            ids = [quota_id]
        else:
            owned = client.quotas(**owner_of(team, customer, key_id))
            ids = [quota["id"] for quota in owned if quota["kind"] in kinds and per in (None, quota["period"])]
            if not ids:
                raise RefusedError("there is no such quota", "safelight quotas list  lists them")
        for each in ids:
            client.delete_quota(each)
    if as_json:
        out().print_json(data={"cleared": ids})
    else:
        out().print(f"cleared {len(ids)}")


def owner_of(team: str | None, customer: str | None, key_id: str | None) -> dict[str, str]:
    """The owner that the options name, as the API takes it. Raises RefusedError unless it is one."""
    given = {kind: name for kind, name in (("team", team), ("customer", customer), ("key", key_id)) if name is not None}
    if len(given) != 1:
        raise RefusedError("name one of --team, --customer and --key-id")
    return given


def limit_of(spend: str | None, requests: int | None, jobs: int | None) -> tuple[str, str | int]:
    """Kind and limit that the options name. Raises RefusedError unless it is one."""
    kinds = (("spend", spend), ("requests", requests), ("concurrency", jobs))
    given = [(kind, limit) for kind, limit in kinds if limit is not None]
    if len(given) != 1:
        raise RefusedError("name one of --spend, --requests and --jobs")
    return given[0]


def is_of(quota: Quota, kind: str, period: str, *, rolling: bool) -> bool:
    """True for a quota of that kind and window."""
    return (quota["kind"], quota["period"], quota["rolling"]) == (kind, period, rolling)


quotas = typer.Typer(help="Budgets and limits of keys, teams and customers.", no_args_is_help=True)
quotas.command("list")(list_)
quotas.command("set")(set_)
quotas.command()(clear)
