"""``safelight keys change``: change what an API key may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from safelight.cli.consoles import out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.keys.options import WEIGHT_BOUNDS, WEIGHT_HELP, ForceOption, IdArgument, checked_fields, moment_of
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from jobstore.keys import ApiKey
    from jobstore.protocol import JobStore


def change(
    key: IdArgument,
    name: Annotated[str | None, typer.Option(help="What the key is for.", show_default=False)] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", "-s", help="All that it may do, of submit, read, observe, admin; may be repeated."),
    ] = None,
    team: Annotated[str | None, typer.Option(help='Its team; "" for none.', show_default=False)] = None,
    customer: Annotated[str | None, typer.Option(help='Its customer; "" for none.', show_default=False)] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="All models that it may use; may be repeated.")
    ] = None,
    networks: Annotated[
        list[str] | None, typer.Option("--from", help="All networks that it may be used from; may be repeated.")
    ] = None,
    anywhere: Annotated[bool, typer.Option("--from-anywhere", help="It may be used from anywhere.")] = False,
    all_models: Annotated[bool, typer.Option("--all-models", help="It may use all models.")] = False,
    expires: Annotated[
        str | None, typer.Option("--expires", help="As in create, or never.", show_default=False)
    ] = None,
    weight: Annotated[float | None, typer.Option(help=WEIGHT_HELP, show_default=False, **WEIGHT_BOUNDS)] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Change what is named of an API key; the rest stays. Servers notice within two seconds."""
    from jobstore.keys import KeyChange
    from safelight.cli.keys.inside import command_line, in_store, key_id_of
    from safelight.cli.keys.look import key_table, plain

    with reported():
        key_id = key_id_of(key)
        if model and all_models:
            raise RefusedError("--model and --all-models exclude each other")
        if networks and anywhere:
            raise RefusedError("--from and --from-anywhere exclude each other")
        fields: dict[str, Any] = {
            "name": name,
            "weight": weight,
            "scopes": tuple(scope) if scope else None,
            "models": tuple(model) if model else None,
            "networks": tuple(networks) if networks else None,
        }
        fields = {field: value for field, value in fields.items() if value is not None}
        fields |= {
            field: value or None for field, value in (("team", team), ("customer", customer)) if value is not None
        }
        if all_models:
            fields["models"] = None
        if anywhere:
            fields["networks"] = None
        if expires is not None:
            fields["expires_at"] = None if expires == "never" else moment_of("--expires", expires)
        if not fields:
            raise RefusedError("nothing to change was named", "safelight keys change --help  lists what can be")
        settings = settings_for(config)
        wanted = KeyChange(**checked_fields(fields, settings))

        async def work(store: JobStore) -> ApiKey:
            return await store.change_key(key_id, wanted, command_line(), force=force)

        changed = in_store(settings, work)
    if as_json:
        out().print_json(data=plain(changed))
    else:
        out().print(key_table(changed))
