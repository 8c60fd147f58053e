"""Every panel's query and every rule, asked of a real Prometheus that scrapes a real API and a real worker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.dashboards.boards import Target, boards, rules, targets
from tests.dashboards.prometheus import prometheus
from tests.e2e.processes import REPOSITORY, Process, Server, free_port, wait_for
from tests.services.postgres import fresh_database

JOBS = 12
_ENOUGH = "\n  and on (model)"  # what a rule wants of a busy hour, which nobody waits for here
# Grafana's variables, as they are with everything chosen.
VARIABLES = {
    "$lane": ".*", "$model": ".*", "$worker": ".*", "$route": ".*", "$canary": "next", "$stable": "scenes",
    "$__rate_interval": "1m", "$__range": "5m",
}  # fmt: skip
EMPTY = {
    "Utilisation that the driver tells, by worker": "a CPU has no driver that tells",
    "Providers' answers, p90": "no model of the run is remote",
    "Jobs sent on to another model": "no model of the run fails, or has another to take its place",
}
"""Panels that have nothing to show on a machine without a GPU, where all goes well."""


class Run:
    """An API and a worker in processes of their own, and the Prometheus that scrapes them."""

    def __init__(self, folder: Path, stack: ExitStack, database: str, broker: str) -> None:
        """Start all three."""
        self._folder = folder
        self._stack = stack
        lane = f"t{uuid.uuid4().hex[:12]}"
        (folder / "safelight.toml").write_text(
            f'[worker]\nslots = 4\nlanes = ["{lane}"]\nbeat_s = 0.5\nsweep_s = 0.5\n'
            "[webhooks]\nallow_http = true\nallow_private = true\nlook_s = 0.5\n[telemetry.dimensions]\nteam = 5\n"
            f'[models.scenes]\nmodel = "{REPOSITORY}/models/scenes-flux"\nfamily = "flux"\ndtype = "float32"\n'
            f'lane = "{lane}"\nsteps = 4\nguidance = 0.0\nsizes = ["64x64"]\nmax_sequence_length = 24\nprice = "0.01"\n'
            f'[models.next]\nmodel = "{REPOSITORY}/models/scenes-flux"\nfamily = "flux"\ndtype = "float32"\n'
            f'revision = "next"\nlane = "{lane}"\nsteps = 4\nguidance = 0.0\nsizes = ["64x64"]\n'
            'max_sequence_length = 24\ncanary_of = "scenes"\nshare = 0.0\n'
        )
        self._environment = {
            "SAFELIGHT_CONFIG": str(folder / "safelight.toml"),
            "SAFELIGHT_HOME": str(folder / "home"),
            "SAFELIGHT_STORE": database,
            "SAFELIGHT_BROKER": broker,
            "SAFELIGHT_OUTPUTS": (folder / "outputs").as_uri(),
        }
        api, worker = free_port(), free_port()
        self.server = Server(self._start("api", ["api", "--port", str(api)]), api)
        process = self._start("worker", ["worker", "--metrics-port", str(worker)])
        wait_for("the worker's metrics", lambda: process.alive() and _answers(worker), 90)
        addresses = {"safelight-api": f"127.0.0.1:{api}", "safelight-worker": f"127.0.0.1:{worker}"}
        self.prometheus = stack.enter_context(prometheus(folder, addresses))

    def _start(self, name: str, arguments: list[str]) -> Process:
        process = Process(self._folder, name, arguments, self._environment)
        self._stack.callback(process.stop)
        return process

    def render(self, first_seed: int) -> None:
        """Let some jobs be rendered, one be found, one come twice; wait until all is scraped."""
        fields = {"prompt": "a red circle", "dimensions": {"team": "red"}}
        before = self._seen()
        jobs = [self.server.submit(seed=first_seed + number, **fields) for number in range(JOBS)]
        jobs.append(self.server.submit(model="next", seed=first_seed, **fields))  # the canary, asked for by name
        for job in jobs:
            assert self.server.ended(job["id"])["state"] == "succeeded"
        assert self.server.submit(seed=first_seed, **fields)["cache"] == "hit"
        body = {"prompt": "a blue star", "seed": first_seed, "webhook": {"url": f"http://127.0.0.1:{free_port()}/"}}
        for _ in range(2):
            answer = self.server.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": f"key-{first_seed}"})
            assert answer.status_code in (200, 202), answer.text
        self.server.ended(answer.json()["id"])
        wait_for("the jobs to be scraped", lambda: self._seen() >= before + JOBS + 2)

    def _seen(self) -> float:
        return sum(self.prometheus.query('safelight_jobs_finished_total{state="succeeded"}'))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated: str, rabbitmq_url: str) -> Iterator[Run]:
    """Two rounds of jobs: a rate wants a sample before."""
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres_url, migrated))
        run = Run(tmp_path_factory.mktemp("run"), stack, database, rabbitmq_url)
        quota = {"owner": {"team": "red"}, "kind": "spend", "limit": "100", "period": "1d"}
        assert run.server.http.post("/v1/quotas", json=quota).status_code == 201
        for first_seed in (1, 1001):
            run.render(first_seed)
        wait_for("a webhook to be tried", lambda: run.prometheus.query("safelight_webhook_seconds_count > 0"))
        wait_for("rules to be evaluated", lambda: run.prometheus.query("instance:safelight_device_busy:ratio5m"))
        yield run


@pytest.mark.parametrize("target", targets(), ids=lambda target: f"{target.board}: {target.panel}")
def test_a_panel_shows_something(run: Run, target: Target) -> None:
    """All queries can be read, and those that have something to tell tell it."""
    query = target.query
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    found = run.prometheus.query(query)
    assert bool(found) is (target.panel not in EMPTY), f"{query}: {found}"


def test_what_panels_have_nothing_to_show_is_said() -> None:
    """Each that is named is there."""
    assert set(EMPTY) <= {target.panel for target in targets()}


def test_variables_have_values(run: Run) -> None:
    """The lane, the model, the worker and the routes of the run."""
    for board in boards().values():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = variable["query"].removeprefix("label_values(").removesuffix(")").split(", ")
                assert run.prometheus.query(f'count by ({label}) ({metric}{{{label}!=""}})'), variable


def test_rules_are_evaluated(run: Run) -> None:
    """Without an error; what they record is there, and no alert fires where all is well."""

    def evaluated() -> bool:
        return all(rule["health"] != "unknown" for rule in run.prometheus.rules())

    wait_for("every rule to be evaluated", evaluated)
    found = run.prometheus.rules()
    assert len(found) == len(rules())
    assert [rule["lastError"] for rule in found if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in found if rule.get("state") == "firing"] == []
    for rule in rules():
        expression, _, _ = rule["expr"].partition(_ENOUGH)
        assert "alert" in rule or run.prometheus.query(expression), rule


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
    except httpx.TransportError:
        return False
