"""A real Prometheus: what it is started with, and what it is asked."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.dashboards.boards import RULES
from tests.e2e.processes import free_port, wait_for

_STOP_S = 20.0


def program(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"no {name}: run tests/services/prometheus.sh, or install Prometheus (Debian: prometheus)"
    return found


class Prometheus:
    """A server that scrapes every second."""

    def __init__(self, url: str) -> None:
        """``url`` is where it answers."""
        self._http = httpx.Client(base_url=url, timeout=30)

    def ready(self) -> bool:
        """True once it answers."""
        try:
            return self._http.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def query(self, query: str) -> list[float]:
        """The values of a query as it stands now, without those that are no number. Fails on one that can't be read."""
        answer = self._http.post("/api/v1/query", data={"query": query})
        assert answer.status_code == 200, f"{query}: {answer.text}"
        result = answer.json()["data"]["result"]
        values = [float(found["value"][1]) for found in result]
        return [value for value in values if math.isfinite(value)]

    def rules(self) -> list[dict[str, Any]]:
        """The rules as it evaluates them."""
        groups = self._http.get("/api/v1/rules").raise_for_status().json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def close(self) -> None:
        """Ask no more."""
        self._http.close()


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """A server in ``folder`` that scrapes ``targets``, addresses by job, and evaluates the rules."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in RULES],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        server = Prometheus(f"http://127.0.0.1:{port}")
        try:
            wait_for("Prometheus to be ready", server.ready)
            yield server
        finally:
            server.close()
            process.terminate()
            process.wait(_STOP_S)
