"""``safelight submit``: hand in a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobstore.job import CacheMode, PictureFormat
from safelight.cli.client.times import time_of
from safelight.cli.consoles import err, out
from safelight.cli.exits import ExitCode, RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from safelight.cli.client.http import Client, Job


def submit(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the picture shows.")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Name or alias of a model.")] = None,
    negative_prompt: Annotated[str | None, typer.Option(help="What it must not show.")] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT in pixels.")] = None,
    n: Annotated[int | None, typer.Option("-n", "--n", help="How many pictures, 1 to 10.")] = None,
    steps: Annotated[int | None, typer.Option(help="Denoising steps.")] = None,
    guidance: Annotated[float | None, typer.Option(help="Guidance scale.")] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option("--adapter", metavar="NAME[=WEIGHT]", help="A LoRA adapter of the model; may be repeated."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="0 to 2^53-1; -1 or none draws one.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 9, higher is sooner; 5 by default.")] = None,
    cache: Annotated[CacheMode | None, typer.Option(help="How to use earlier pictures.")] = None,
    picture_format: Annotated[PictureFormat | None, typer.Option("--format", help="File format.")] = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=VALUE", help="A dimension of the job; may be repeated.")
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="Give up after so many seconds.")] = None,
    start_deadline: Annotated[float | None, typer.Option(help="Give up unless started within so many seconds.")] = None,
    start_at: Annotated[str | None, typer.Option(help="Not before this time: RFC 3339, with a time zone.")] = None,
    webhook: Annotated[str | None, typer.Option(metavar="URL", help="Whom to tell when the job has ended.")] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the pictures, with a progress bar.")] = False,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Save here (several: NAME-1, NAME-2…); implies --wait.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Hand in a prompt. Prints the job's id, or with --wait where its pictures are."""
    fields: dict[str, Any] = {
        "prompt": prompt,
        "model": model,
        "negative_prompt": negative_prompt,
        "size": size,
        "n": n,
        "steps": steps,
        "guidance": guidance,
        "seed": seed,
        "priority": priority,
        "cache": cache,
        "format": picture_format,
        "deadline_s": deadline,
        "start_deadline_s": start_deadline,
        "webhook": webhook,
    }
    with reported():
        fields |= {
            "adapters": adapters_of(adapter or []),
            "dimensions": dimensions_of(dim or []),
            "start_at": time_of("--start-at", start_at),
        }
        wanted = {name: value for name, value in fields.items() if value not in (None, {}, [])}
        _run(wanted, url, key, wait=wait or output is not None, output=output, as_json=as_json)


def dimensions_of(pairs: list[str]) -> dict[str, str]:
    """Dimensions out of NAME=VALUE. Raises RefusedError."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise RefusedError(f"--dim {pair!r} is not NAME=VALUE")
        if name in found:
            raise RefusedError(f"--dim {name} is given twice")
        found[name] = value
    return found


def adapters_of(given: list[str]) -> dict[str, float] | list[str]:
    """Adapters out of NAME=WEIGHT; a list where none has a weight. Raises RefusedError."""
    names, weights = zip(*(text.partition("=")[::2] for text in given), strict=True) if given else ((), ())
    if not any(weights):
        return list(names)
    if not all(weights):
        raise RefusedError("--adapter: give every one a weight (NAME=WEIGHT), or none")
    try:
        found = {name: float(weight) for name, weight in zip(names, weights, strict=True)}
    except ValueError as error:
        raise RefusedError(f"--adapter: {error}") from None
    if len(found) != len(names):
        raise RefusedError("--adapter names one twice")
    return found


def _run(fields: dict[str, Any], url: str, key: str | None, *, wait: bool, output: Path | None, as_json: bool) -> None:
    from safelight.cli.client.http import Client
    from safelight.cli.client.pictures import check_place

    if output is not None:
        check_place(output)
    with Client(url, key) as client:
        job = _submitted(client, fields)
        try:
            saved = _finish(client, job, output) if wait else None
        except KeyboardInterrupt:
            err().print(
                f"Not waiting any longer; the job goes on.\n  safelight jobs watch {job['id']}\n"
                f"  safelight jobs cancel {job['id']}",
                markup=False,
            )
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        if as_json:
            out().print_json(data=client.job(job["id"]) if wait else job)
        elif saved is None:
            _say_submitted(job)
        else:
            _say_saved(client, job, saved)


def _submitted(client: Client, fields: dict[str, Any]) -> Job:
    try:
        return client.submit(fields)
    except KeyboardInterrupt:
        err().print("Interrupted before the API answered: nothing was submitted that it told of.")
        err().print("To be sure:  safelight jobs ls", markup=False)
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _finish(client: Client, job: Job, output: Path | None) -> list[Path]:
    from safelight.cli.client.pictures import save_pictures
    from safelight.cli.client.progress import wait_for_end

    ended = wait_for_end(client, job)
    return save_pictures(client, ended, output) if output is not None else []


def _say_submitted(job: Job) -> None:
    from safelight.cli.client.progress import standing

    out().print(job["id"], markup=False)
    err().print(f"{standing(job)}; watch it:  safelight jobs watch {job['id']}", markup=False, soft_wrap=True)


def _say_saved(client: Client, job: Job, saved: list[Path]) -> None:
    from rich.style import Style
    from rich.text import Text

    if saved:
        for path in saved:
            out().print(Text(str(path), style=Style(link=path.as_uri())), soft_wrap=True)
        return
    for image in client.job(job["id"])["images"]:
        out().print(client.url + image["url"], markup=False, soft_wrap=True)
