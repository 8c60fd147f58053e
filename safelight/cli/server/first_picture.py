"""The first picture: one job through the whole path, by the same client that people use."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from rich.markup import escape

from safelight.cli.client.http import Client
from safelight.cli.client.pictures import save_pictures
from safelight.cli.client.progress import wait_for_end
from safelight.cli.consoles import err, out
from safelight.cli.exits import CommandError


class FirstPicture:
    """Renders on a thread of its own, so that the main thread is free for signals."""

    def __init__(
        self, url: str, key: str, prompt: str, path: Path, done: Callable[[str], None], certificate: str = ""
    ) -> None:
        """``key`` is the server's own; ``done`` is called when the picture is there, or when it failed.

        ``certificate`` is the file of the server's own, where it has one.
        """
        self._url = url
        self._key = key
        self._prompt = prompt
        self._path = path
        self._done = done
        self._certificate = certificate
        self._saved: list[Path] = []
        self._error: CommandError | None = None
        self._thread = threading.Thread(target=self._run, name="first-picture", daemon=True)

    def start(self) -> None:
        """Submit and watch it; returns at once."""
        self._thread.start()

    def tell(self) -> None:
        """Print where the picture lies. Raises CommandError when there is none."""
        if self._error is not None:
            raise CommandError(f"no first picture: {self._error}", self._error.hint) from self._error
        err().print(f"[green]✓[/] First picture: {escape(self._prompt)}", soft_wrap=True)
        for path in self._saved:
            out().print(str(path), markup=False, soft_wrap=True)

    def _run(self) -> None:
        try:
            with Client(self._url, self._key, trust_in(self._certificate)) as client:
                job = client.submit({"prompt": self._prompt})
                job = wait_for_end(client, job)
                self._saved = save_pictures(client, job, self._path)
        except CommandError as error:
            self._error = error
        except Exception as error:
            self._error = CommandError(f"{type(error).__name__}: {error}")
        finally:
            self._done("first picture")


def trust_in(certificate: str) -> ssl.SSLContext | bool:
    """That certificate alone is trusted, under whatever name: the server is asked by its address, on this machine."""
    if not certificate:
        return True
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the issuer may be elsewhere
    return context
