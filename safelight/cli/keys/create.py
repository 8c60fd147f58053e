"""``safelight keys create``: make an API key."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jobstore.keys import Scope
from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.keys.options import (
    WEIGHT_BOUNDS,
    WEIGHT_HELP,
    CustomerOption,
    ExpiresOption,
    ModelOption,
    NetworkOption,
    ScopeOption,
    TeamOption,
    checked_fields,
    moment_of,
)
from safelight.cli.options import ConfigOption, JsonOption, settings_for
from safelight.config import Settings


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for; need not be unique.")],
    admin: Annotated[bool, typer.Option("--admin", help="The key may see and do everything.")] = False,
    scope: ScopeOption = None,
    team: TeamOption = None,
    customer: CustomerOption = None,
    model: ModelOption = None,
    networks: NetworkOption = None,
    expires: ExpiresOption = None,
    weight: Annotated[float, typer.Option(help=WEIGHT_HELP, **WEIGHT_BOUNDS)] = 1.0,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Make an API key. Its secret is printed once; only a digest of it is kept."""
    with reported():
        settings = settings_for(config)
        fields: dict[str, Any] = {"name": name, "weight": weight, "team": team, "customer": customer}
        if admin or scope:
            fields["scopes"] = (*(scope or ()), *((Scope.ADMIN,) if admin else ()))
        if model:
            fields["models"] = tuple(model)
        if networks:
            fields["networks"] = tuple(networks)
        if expires is not None:
            fields["expires_at"] = moment_of("--expires", expires)
        made = make_key(settings, fields)
    if as_json:
        out().print_json(data=made)
        return
    out().print(made["secret"], markup=False, soft_wrap=True)
    kind = ", ".join(made["scopes"])
    err().print(f"Key {made['id']} ({made['name']}: {kind}). Keep the secret: it is shown this once.", markup=False)
    err().print("Use it:  export SAFELIGHT_KEY=…  or  Authorization: Bearer …", markup=False)


def make_key(settings: Settings, fields: dict[str, Any]) -> dict[str, Any]:
    """A new key, and its secret. Raises CommandError."""
    from jobstore.keys import ApiKey, Digester, KeyFilter, NewKey, hint_of, make_secret
    from jobstore.protocol import JobStore
    from safelight.cli.keys.inside import command_line, in_store
    from safelight.cli.keys.look import plain

    secret = make_secret()
    digest = Digester(settings.keys.pepper).kept(secret)
    new = NewKey(**checked_fields(fields, settings), secret_hash=digest, hint=hint_of(secret))

    async def work(store: JobStore) -> ApiKey:
        key = await store.create_key(new, command_line())
        if not await store.list_keys(KeyFilter(admins=True, limit=1)):
            err().print("No admin key is in force: lanes and keys can't be looked after over HTTP until one is made.")
        return key

    return {**plain(in_store(settings, work)), "secret": secret}
