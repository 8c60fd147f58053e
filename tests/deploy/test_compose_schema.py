"""The compose files are what Compose says such files are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.deploy.files import COMPOSE_FILES, DEPLOY, REPOSITORY, tool

NEEDED = {
    "POSTGRES_PASSWORD": "p", "RABBITMQ_PASSWORD": "r", "S3_ACCESS_KEY_ID": "a", "S3_SECRET_ACCESS_KEY": "s",
    "SAFELIGHT_KEY_PEPPER": "k" * 64, "GRAFANA_PASSWORD": "g",
}  # fmt: skip
ELSEWHERE = {
    "SAFELIGHT_STORE": "postgresql://10.0.0.1/safelight", "SAFELIGHT_BROKER": "amqp://10.0.0.1:5672",
    "SAFELIGHT_OUTPUTS": "s3://safelight", "PRIVATE_ADDRESS": "10.0.0.1",
}  # fmt: skip


def compose(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """``docker compose ARGUMENTS``; skips where there is none."""
    alone = tool("docker-compose")
    if alone is None:
        pytest.skip("the compose files are NOT read by docker compose: it is not here")
    return subprocess.run(
        [alone, *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_schema_holds() -> None:
    """The Compose Specification's own, as check-jsonschema carries it; for every compose file."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    command += [str(file) for file in COMPOSE_FILES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("profile", ["gpu", "cpu"])
def test_docker_compose_reads_it(profile: str) -> None:
    """With all variables of .env, in both profiles; without a warning."""
    done = compose("--env-file", "/dev/null", "--profile", profile, "config", "--services", environment=NEEDED)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"worker-{profile}" in done.stdout.split()
    assert {"api", "postgres", "rabbitmq", "storage", "prometheus", "grafana"} < set(done.stdout.split())
    assert "alertmanager" not in done.stdout.split()


def test_alerts_are_a_profile_of_their_own() -> None:
    """Beside the worker's, as .env names both; the file that it reads is wanted only then."""
    done = compose(
        *("--env-file", "/dev/null", "config", "--format", "json"),
        environment={**NEEDED, "COMPOSE_PROFILES": "cpu,alerts"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    read = msgspec.json.decode(done.stdout)
    assert {"alertmanager", "worker-cpu"} < read["services"].keys()
    assert read["configs"]["alertmanager"]["file"] == str(REPOSITORY / "alertmanager.yml")


def test_the_main_machines_env_opens_its_servers(tmp_path: Path) -> None:
    """The lines that docs/deploy.md adds to .env are enough: no command names the second file."""
    page = (REPOSITORY / "docs/deploy.md").read_text()
    lines = re.findall(r"^echo '(\w+=.*)' >> \.env", page, re.M)
    assert [line.split("=")[0] for line in lines] == ["COMPOSE_FILE", "PRIVATE_ADDRESS"]
    env = tmp_path / ".env"
    env.write_text("\n".join(lines))
    done = compose("--env-file", str(env), "config", "--format", "json", environment=NEEDED)
    assert (done.returncode, done.stderr) == (0, "")
    read = msgspec.json.decode(done.stdout)["services"]
    opened = {(name, port["host_ip"], port["published"]) for name in read for port in read[name].get("ports", [])}
    assert {
        ("postgres", "10.0.0.1", "5432"),
        ("rabbitmq", "10.0.0.1", "5672"),
        ("storage", "10.0.0.1", "7070"),
    } < opened


@pytest.mark.parametrize(
    ("variables", "address", "port"),
    [({}, "127.0.0.1", None), ({"PRIVATE_ADDRESS": "10.0.0.2", "METRICS_PORT": "9092"}, "10.0.0.2", "9092")],
)
def test_a_worker_elsewhere_shows_its_metrics(variables: dict[str, str], address: str, port: str | None) -> None:
    """On loopback, unless it is told of a private address; several on one machine don't want the same port."""
    needed = {name: value for name, value in {**NEEDED, **ELSEWHERE}.items() if name != "PRIVATE_ADDRESS"}
    done = compose(
        *("--env-file", "/dev/null", "--project-directory", ".", "--file", "deploy/compose/worker.yaml"),
        *("config", "--format", "json"),
        environment={**needed, **variables},
    )
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = msgspec.json.decode(done.stdout)["services"]["worker"]["ports"]
    assert (found["host_ip"], found["target"], found.get("published")) == (address, 9091, port)


def test_docker_compose_reads_the_other_files() -> None:
    """What is for a clone, for workers elsewhere, and for ports on a private address."""
    alone = (["compose.dev.yaml"], ["deploy/compose/worker.yaml"], ["compose.yaml", "deploy/compose/published.yaml"])
    for files in alone:
        options = [word for file in files for word in ("--file", file)]
        done = compose(
            *("--env-file", "/dev/null", "--project-directory", ".", *options, "config", "--format", "json"),
            environment={**NEEDED, **ELSEWHERE},
        )
        assert (done.returncode, done.stderr) == (0, ""), files
        for config in msgspec.json.decode(done.stdout).get("configs", {}).values():
            assert Path(config["file"]).is_file()


def test_a_password_that_is_missing_is_named() -> None:
    """And what makes one; nothing has a default."""
    for name in NEEDED:
        rest = {other: value for other, value in NEEDED.items() if other != name}
        done = compose("--env-file", "/dev/null", "config", "--quiet", environment=rest)
        assert done.returncode != 0
        assert name in done.stderr
        assert "deploy/secrets.sh" in done.stderr


def test_the_secrets_script_writes_what_is_needed(tmp_path: Path) -> None:
    """For its owner alone, drawn anew each time, and never over what is there."""
    drawn = []
    for name in ("one", "two"):
        script = tmp_path / name / "deploy" / "secrets.sh"
        script.parent.mkdir(parents=True)
        script.write_bytes((DEPLOY / "secrets.sh").read_bytes())
        for status in (0, 1):
            assert subprocess.run(["sh", str(script), "cpu"], capture_output=True, check=False).returncode == status
        file = script.parents[1] / ".env"
        assert file.stat().st_mode & 0o777 == 0o600
        drawn.append(dict(line.split("=", 1) for line in file.read_text().splitlines()))
    assert drawn[0].keys() == NEEDED.keys() | {"COMPOSE_PROFILES"}
    assert all(drawn[0][name] != drawn[1][name] and len(drawn[0][name]) >= 20 for name in NEEDED)
    assert drawn[0]["COMPOSE_PROFILES"] == "cpu"
