"""The health check of an image: ends with 0 when the URL answers with a 200."""

from __future__ import annotations

import sys

import httpx


def main() -> int:
    """0 for a 200 within three seconds; 1, and the reason, for anything else."""
    try:
        status = httpx.get(sys.argv[1], timeout=3, trust_env=False).status_code
    except httpx.HTTPError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 1
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
