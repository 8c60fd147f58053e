"""Makes the README's picture of the playground: prompts typed into the page of a running Safelight.

make run &
.venv/bin/python -m bench.screenshot --out docs/images/playground.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from rich.progress import track

from bench.chromium import find_chromium

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ORDERS = (
    ("a blue heart below a white star on a purple background", 3, 1),
    ("a white cross below a red square on a blue background", 9, 1),
    ("an orange triangle right of a cyan ring on a gray background", 1, 1),
    ("a large purple heart", 1, 4),
    ("a green star above a yellow circle on a black background", 3, 1),
    ("a red circle left of a blue square on a white background", 7, 1),
)


def order(page: Page, prompt: str, seed: int, count: int) -> None:
    """Fill the form and submit, as a person would."""
    before = page.locator("#gallery > .job").count()
    for field, value in (("prompt", prompt), ("seed", str(seed)), ("n", str(count))):
        page.fill(f"#{field}", value)
    page.press("#prompt", "Control+Enter")
    expect(page.locator("#gallery > .job")).to_have_count(before + 1)


def take(page: Page, url: str, out: Path) -> None:
    """Submit everything, wait for all pictures, and keep what is seen."""
    page.goto(url)
    expect(page.locator("#model option")).not_to_have_count(0)
    for prompt, seed, count in track(ORDERS, "Submitting"):
        order(page, prompt, seed, count)
    pictures = sum(count for _, _, count in ORDERS)
    expect(page.locator("#under-way")).to_be_empty(timeout=300_000)
    expect(page.locator("img.developed")).to_have_count(pictures)
    page.evaluate("document.activeElement.blur()")
    expect(page.locator("#said")).not_to_have_class("shown")
    page.screenshot(path=out, animations="disabled")


def main() -> None:
    """Open the page and keep its picture. Wants a Safelight without pictures, so that these are all there is."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", default="http://127.0.0.1:8080")
    arguments.add_argument("--out", type=Path, default=Path("docs/images/playground.png"))
    arguments.add_argument("--light", action="store_true", help="the light colours instead of the dark ones")
    given = arguments.parse_args()
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        scheme = "light" if given.light else "dark"
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme=scheme)  # type: ignore[arg-type]
        take(page, given.url, given.out)
        browser.close()
    print(given.out)


if __name__ == "__main__":
    main()
