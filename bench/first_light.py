"""Makes the README's picture: six prompts through the API of a running Safelight, each picture over its prompt.

make run &
.venv/bin/python -m bench.first_light --out docs/images/first-light.png
"""

from __future__ import annotations

import argparse
import textwrap
import time
from io import BytesIO
from pathlib import Path

import httpx
from PIL import Image, ImageDraw, ImageFont
from rich.progress import track

PROMPTS = (
    "a red circle left of a blue square on a white background",
    "a green star above a yellow circle on a black background",
    "a large purple heart",
    "an orange triangle right of a cyan ring on a gray background",
    "a small pink diamond in the top left corner",
    "a white cross below a red square on a blue background",
)
TILE, GAP, TEXT = 256, 16, 56


def rendered(http: httpx.Client, prompt: str, seed: int) -> Image.Image:
    """The picture of a prompt, in the model's own size."""
    job = http.post("/v1/jobs", json={"prompt": prompt, "seed": seed}).raise_for_status().json()
    while job["state"] not in ("succeeded", "failed", "dead", "canceled"):
        time.sleep(0.05)
        job = http.get(f"/v1/jobs/{job['id']}").raise_for_status().json()
    if job["state"] != "succeeded":
        raise SystemExit(f"{prompt!r}: {job['error']}")
    return Image.open(BytesIO(http.get(job["images"][0]["url"]).raise_for_status().content)).convert("RGB")


def sheet(pictures: list[Image.Image]) -> Image.Image:
    """Three in a row, enlarged, with the prompts below."""
    rows = -(-len(pictures) // 3)
    canvas = Image.new("RGB", (3 * (TILE + GAP) + GAP, rows * (TILE + TEXT + GAP) + GAP), "#f4f1ec")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(15)
    for index, (picture, prompt) in enumerate(zip(pictures, PROMPTS, strict=True)):
        left, top = GAP + index % 3 * (TILE + GAP), GAP + index // 3 * (TILE + TEXT + GAP)
        canvas.paste(picture.resize((TILE, TILE), Image.Resampling.BICUBIC), (left, top))
        draw.multiline_text((left, top + TILE + 6), textwrap.fill(prompt, 34), "#333333", font)
    return canvas


def main() -> None:
    """Render and write."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", default="http://127.0.0.1:8080")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", type=Path, default=Path("docs/images/first-light.png"))
    given = arguments.parse_args()
    with httpx.Client(base_url=given.url, timeout=60) as http:
        pictures = [rendered(http, prompt, given.seed) for prompt in track(PROMPTS, "Rendering")]
    sheet(pictures).save(given.out, optimize=True)
    print(given.out)


if __name__ == "__main__":
    main()
