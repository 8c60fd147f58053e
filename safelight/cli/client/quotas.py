"""``safelight quotas``: what keys, teams and customers may spend, submit and have under way."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.client.quota_options import (
    LIMITS,
    OWNERS,
    by_options,
    is_nobodys,
    is_of,
    key_of,
    limit_of,
    names_of,
    of_window,
    owner_of,
)
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

TeamOption = Annotated[str | None, typer.Option("--team", help="A team's.", show_default=False)]
CustomerOption = Annotated[str | None, typer.Option("--customer", help="A customer's.", show_default=False)]
KeyIdOption = Annotated[
    str | None,
    typer.Option("--key-id", "--of-key", help="An API key's, by its id; see  safelight keys ls.", show_default=False),
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
    from safelight.cli.client.quota_look import show_quotas

    with reported(), by_options(OWNERS), Client(url, key) as client:
        quotas = client.quotas(team=team, customer=customer, key=None if key_id is None else key_of(key_id))
        names = {} if as_json else names_of(client, quotas)
    if as_json:
        out().print_json(data={"object": "list", "data": quotas, "next_cursor": None})
    elif quotas:
        show_quotas(quotas, out(), names)
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
        [whose] = owner
        options = OWNERS | {"owner": OWNERS[whose], "limit": LIMITS[kind], "period": "--per", "zone": "--zone"}
        with by_options(options), Client(url, key) as client:
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
            names = {} if as_json else names_of(client, [quota])
            nobodys = is_nobodys(client, owner)
    if as_json:
        out().print_json(data=quota)
    else:
        out().print(quota["id"], markup=False)
        err().print(f"{'changed' if known else 'set'}: {described(quota, names)}", markup=False, soft_wrap=True)
    if nobodys:
        err().print(f"No key has this {whose} yet:  safelight keys ls", markup=False, soft_wrap=True)


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
    rolling: Annotated[
        bool | None, typer.Option("--rolling/--calendar", help="Only rolling windows, or only the calendar's.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Lift limits: one by its id, or those of a key, a team or a customer."""
    from safelight.cli.client.http import Client

    chosen = {"spend": spend, "requests": requests, "concurrency": jobs}
    kinds = {kind for kind, wanted in chosen.items() if wanted} or set(chosen)
    with reported(), by_options(OWNERS), Client(url, key) as client:
        if quota_id is not None:
            if team or customer or key_id or per or rolling is not None or any(chosen.values()):
                raise RefusedError("an ID names one quota: leave the other options out")
            ids = [quota_id]
        else:
            owned = [quota for quota in client.quotas(**owner_of(team, customer, key_id)) if quota["kind"] in kinds]
            ids = [quota["id"] for quota in of_window(owned, per, rolling)]
        for each in ids:
            client.delete_quota(each)
    if as_json:
        out().print_json(data={"cleared": ids})
    else:
        out().print(f"cleared {len(ids)}")


quotas = typer.Typer(help="Budgets and limits of keys, teams and customers.", no_args_is_help=True)
quotas.command("list")(list_)
quotas.command("set")(set_)
quotas.command()(clear)
