"""How gRPC is served: over TLS, and not at all unless it is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_tools import protoc

from api.app import create_app
from jobstore.operating.jobs import JobFilter
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from safelight.config import ConfigError
from tests.api.grpc.client import Caller
from tests.api.grpc.conftest import SERVED
from tests.api.site import SETTINGS, Channel, Driver, RecordedBell, Site, with_server
from tests.api.test_events import until
from tests.certificates import self_signed


def test_the_server_s_certificate_is_that_of_http(database: str, outputs: Outputs, tmp_path: Path) -> None:
    """Who trusts it is answered, who speaks plainly is not; the port is the server's alone."""
    made = self_signed(tmp_path)
    settings = with_server(SERVED, tls_cert=str(made.cert), tls_key=str(made.key))
    with Site(database, outputs, settings).serve() as site:
        httpx.get(f"{site.url}/livez", timeout=20).raise_for_status()
        caller = Caller(site, credentials=grpc.ssl_channel_credentials(made.cert.read_bytes()))
        assert [model.id for model in caller.job("ListModels").data] == ["scenes", "wide"]
        caller.close()
        plain = Caller(site)
        assert plain.ask("ListModels").code is grpc.StatusCode.UNAVAILABLE
        plain.close()


def refused(words: str) -> pytest.RaisesGroup[ConfigError]:
    """A start that ends with an error of the settings."""
    return pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=words), flatten_subgroups=True)


def test_the_example_of_the_documentation_runs(database: str, outputs: Outputs, tmp_path: Path) -> None:
    """With code that is generated from the published file, in a process of its own: as a client has it."""
    docs = Path(__file__).resolve().parents[3] / "docs"
    (block,) = re.findall(r"```python\n(.*?)```", (docs / "grpc.md").read_text(), re.S)
    generated = ["", f"-I{docs}", f"-I{files('grpc_tools') / '_proto'}", f"--python_out={tmp_path}"]
    assert protoc.main([*generated, f"--grpc_python_out={tmp_path}", str(docs / "safelight.proto")]) == 0
    with Site(database, outputs, SERVED).serve() as site:
        httpx.get(f"{site.url}/livez", timeout=20).raise_for_status()
        example = tmp_path / "example.py"
        example.write_text(block.replace("50051", str(site.app.state.grpc_port)).replace("sl_…", "none"))
        client = subprocess.Popen([sys.executable, str(example)], stdout=subprocess.PIPE, text=True)
        until(lambda: bool(site.call(site.services.store.list_jobs(JobFilter())).jobs))
        until(lambda: site.services.tail.listeners == 1)
        Driver(site).render()
        told, _ = client.communicate(timeout=20)
    assert told.split() == ["state", "queued", "state", "running", "done", "succeeded"]


async def _started(database: str, outputs: Outputs, **server: object) -> None:
    app = create_app(
        with_server(SETTINGS, **server), store=PostgresStore(database), outputs=outputs, bell=RecordedBell(),
        progress=Channel(),
    )  # fmt: skip
    async with app.lifespan():
        pass


async def test_a_start_that_fails_is_told(
    database: str, outputs: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting that is to blame."""
    missing = str(tmp_path / "none.pem")
    with refused(r"tls_cert, tls_key: .*none\.pem: No such file"):
        await _started(database, outputs, grpc_port=0, tls_cert=missing, tls_key=missing)
    monkeypatch.setitem(sys.modules, "api.grpc.server", None)
    with refused("grpc_port is set and .* is missing: pip install"):
        await _started(database, outputs, grpc_port=0)


def test_it_is_not_imported_while_it_is_off() -> None:
    """What nobody uses costs nobody memory, and needs no package."""
    code = "import sys, api.app, safelight.cli.app; print([name for name in sys.modules if 'grpc' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['safelight.cli.grpc']"
