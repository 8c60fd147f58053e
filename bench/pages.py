"""How heavy the pages are, and how soon they are seen, in a real Chromium on loopback.

    .venv/bin/python -m bench.pages                                  # a fresh server, without pictures
    .venv/bin/python -m bench.pages --url http://127.0.0.1:8080 /     # one that runs

Each page is opened with an empty cache and once more with what the browser kept; a page that the server has none of is
left out. Weight is what went over the wire, pictures of jobs apart. Prints a table, a JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.table import Table

from bench.chromium import find_chromium

REPOSITORY = Path(__file__).resolve().parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PAGES = ("/", "/docs", "/admin", "/admin/jobs", "/admin/keys", "/admin/cost")
LEAVES_WITHIN_S = 60
PAINT = """() => new Promise((found) => {
  const known = performance.getEntriesByName("first-contentful-paint");
  if (known.length) return found(known[0].startTime);
  new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) found(entry.startTime);
  }).observe({type: "paint", buffered: true});
})"""


@dataclass
class Opened:
    """One opening of a page: KiB over the wire, requests, milliseconds to the first paint and until all is loaded."""

    kib: float
    requests: int
    first_paint_ms: float
    loaded_ms: float


@contextmanager
def server(url: str | None, port: int) -> Iterator[str]:
    """The server at ``url``, or one of its own in a folder that is deleted afterwards."""
    if url:
        yield url
        return
    with tempfile.TemporaryDirectory() as home:
        places = {"SAFELIGHT_HOME": home, "SAFELIGHT_STORE": f"sqlite:///{home}/jobs.db", "SAFELIGHT_BROKER": "memory"}
        environment = {**os.environ, **places}
        command = [sys.executable, "-m", "safelight", "up", "--port", str(port)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=quiet, stderr=quiet)
        try:
            _until_ready(own := f"http://127.0.0.1:{port}")
            yield own
        finally:
            _end(process)


def _until_ready(url: str, limit_s: float = 180) -> None:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"the API was not ready after {limit_s:.0f} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(LEAVES_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def served(url: str, pages: Sequence[str]) -> list[str]:
    """Those of ``pages`` that the server has."""
    return [page for page in pages if httpx.get(f"{url}{page}", timeout=60).status_code != 404]


def open_once(page: Page, address: str) -> Opened:
    """Open the page, and weigh what came."""
    page.goto(address, wait_until="load")
    paint = float(page.evaluate(PAINT))
    loaded = float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    sizes = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    entries = page.evaluate(f"{sizes}.map((entry) => [entry.initiatorType, entry.name, entry.transferSize])")
    own = [size for _, name, size in entries if "/images/" not in name]
    return Opened(kib=sum(own) / 1024, requests=len(own), first_paint_ms=paint, loaded_ms=loaded)


def measure(browser: Browser, address: str, runs: int) -> dict[str, Opened]:
    """The median of ``runs``, with an empty cache and with what the browser kept."""
    found: dict[str, list[Opened]] = {"first visit": [], "next visit": []}
    for _ in range(runs):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(60_000)
        for visits in found.values():
            visits.append(open_once(page, address))
        context.close()
    return {name: _median(visits) for name, visits in found.items()}


def _median(visits: list[Opened]) -> Opened:
    rows = [asdict(visit) for visit in visits]
    middle = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    return Opened(**{**middle, "requests": int(middle["requests"])})


def report(rows: dict[str, dict[str, Opened]]) -> Table:
    """The table that docs/measurements.md shows."""
    table = Table(title="Pages on loopback")
    for column in ("page", "visit", "KiB over the wire", "requests", "first paint, ms", "loaded, ms"):
        table.add_column(column, justify="left" if column in ("page", "visit") else "right")
    for page, visits in rows.items():
        for name, row in visits.items():
            numbers = (f"{row.kib:.1f}", str(row.requests), f"{row.first_paint_ms:.0f}", f"{row.loaded_ms:.0f}")
            table.add_row(page, name, *numbers)
    return table


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pages", nargs="*", default=PAGES, help="paths of the pages")
    arguments.add_argument("--url", help="a server that runs; without it, one is started")
    arguments.add_argument("--port", type=int, default=18081, help="where the started one listens")
    arguments.add_argument("--runs", type=int, default=5)
    given = arguments.parse_args()
    with server(given.url, given.port) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        open_once(browser.new_page(), url)  # the browser's own start is not the page's
        rows = {page: measure(browser, f"{url}{page}", given.runs) for page in served(url, given.pages)}
        browser.close()
    Console().print(report(rows))
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    told = {page: {name: asdict(row) for name, row in visits.items()} for page, visits in rows.items()}
    print(json.dumps({"machine": machine, "pages": told}))


if __name__ == "__main__":
    main()
