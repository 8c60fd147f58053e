"""``safelight keys rotate``: give an API key another secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.keys.options import IdArgument
from safelight.cli.options import ConfigOption, JsonOption, settings_for
from safelight.cli.spans import span_of

if TYPE_CHECKING:
    from jobstore.keys import ApiKey
    from jobstore.protocol import JobStore


def rotate(
    key: IdArgument,
    grace: Annotated[
        str, typer.Option("--grace", help="How long the old secret counts beside the new: 12h, 7d.")
    ] = "0s",
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Give an API key a new secret, which is printed once. The old one counts for --grace more."""
    from jobstore.keys import Digester, check_grace, hint_of, make_secret
    from safelight.cli.exits import RefusedError
    from safelight.cli.keys.inside import command_line, in_store, key_id_of
    from safelight.cli.keys.look import moment, plain

    with reported():
        key_id = key_id_of(key)
        grace_s = span_of("--grace", grace).total_seconds()
        try:
            check_grace(grace_s)
        except ValueError as error:
            raise RefusedError(f"--grace {error}") from error
        settings = settings_for(config)
        secret = make_secret()
        digest = Digester(settings.keys.pepper).kept(secret)

        async def work(store: JobStore) -> ApiKey:
            return await store.rotate_key(key_id, digest, hint_of(secret), command_line(), grace_s=grace_s)

        rotated = in_store(settings, work)
    if as_json:
        out().print_json(data={**plain(rotated), "secret": secret})
        return
    out().print(secret, markup=False, soft_wrap=True)
    until = rotated.previous_until
    old = "counts no more" if until is None else f"counts until {moment(until)} UTC"
    err().print(f"Key {key_id} has a new secret, shown this once. The old one {old}.", markup=False)
