"""The health check of an image: ends with 0 when the URL answers with a 200."""

from __future__ import annotations

import sys
from urllib.request import urlopen


def main() -> int:
    """0 for a 200 within three seconds; 1, and the reason, for anything else."""
    try:
        with urlopen(sys.argv[1], timeout=3) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
