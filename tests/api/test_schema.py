"""The OpenAPI document and the API say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import CheckFunction
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from jobstore.outputs import Outputs
from tests.api.site import SETTINGS, Site, with_server
from tests.contract.keying import make_key


def no_breakage(context: Any, response: Any, case: Any) -> bool | None:
    """No 5xx, but for the one that says that no stream is taken: none is, here."""
    if response.status_code == 503 and response.json()["error"]["code"] == "too_many_streams":
        return None
    return schemathesis.checks.not_a_server_error(context, response, case)


CHECKS: list[CheckFunction] = [
    no_breakage,
    status_code_conformance,
    content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
EXAMPLES = 12


@pytest.fixture
def site(database: str, outputs: Outputs) -> Iterator[Site]:
    """An API that takes no stream and waits for no job: nobody renders here."""
    with Site(database, outputs, with_server(SETTINGS, max_streams=0)).serve() as site:
        yield site


def test_every_endpoint_is_described(http: httpx.Client) -> None:
    """With a summary, a description, and problems as their own media type."""
    paths = http.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/v1/jobs", "/v1/jobs/{job_id}", "/v1/jobs/{job_id}/cancel", "/v1/jobs/{job_id}/retry",
        "/v1/jobs/{job_id}/events", "/v1/jobs/events", "/v1/jobs/{job_id}/images/{index}", "/v1/models",
        "/v1/jobs/redrive", "/v1/jobs/price", "/v1/quotas", "/v1/quotas/{quota_id}", "/v1/me",
        "/v1/lanes", "/v1/lanes/{lane}/pause", "/v1/lanes/{lane}/resume",
        "/v1/keys", "/v1/keys/{key_id}", "/v1/keys/{key_id}/rotate", "/v1/keys/{key_id}/revoke", "/v1/audit",
        "/v1/images/generations", "/v1/images/edits", "/v1/async/images/generations",
        "/v1/async/images/generations/{job_id}", "/v1/models/{model}", "/v1/linked-images/{job_id}/{index}",
        "/v1/webhooks", "/v1/webhooks/{webhook_id}", "/v1/webhooks/{webhook_id}/rotate",
        "/v1/webhooks/{webhook_id}/test", "/v1/webhooks/deliveries",
        "/v1/webhooks/deliveries/{delivery_id}/redeliver", "/v1/webhooks/deliveries/redeliver",
        "/v1/jobs/count", "/v1/jobs/cancel", "/v1/jobs/{job_id}/attempts", "/v1/workers", "/v1/workers/{worker_id}",
        "/v1/workers/{worker_id}/drain", "/v1/workers/{worker_id}/resume", "/v1/overview", "/v1/costs", "/v1/latency",
        "/v1/canaries", "/v1/canaries/{name}/share", "/v1/canaries/{name}/promote", "/v1/canaries/{name}/rollback",
        "/v1/scaling", "/v1/scaling/{lane}",
        "/livez", "/readyz", "/healthz", "/metrics",
    }  # fmt: skip
    for operations in paths.values():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["description"]
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"]


def test_generated_requests_get_documented_answers(site: Site, http: httpx.Client) -> None:
    """No 5xx, no undocumented status or media type, whatever is sent."""
    schema = schemathesis.openapi.from_dict(http.get("/openapi.json").json(), config=SchemathesisConfig())
    # An admin's key of its own: the first key that is made would close an open server.
    headers = {"authorization": f"Bearer {site.call(make_key(site.services.store, 'schema', admin=True))}"}
    tried = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.path.endswith("/events"):
            continue  # a stream of an unfinished job does not end; tests/api/test_events.py has them

        @seed(20_260_101)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def attempt(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(base_url=site.url, headers=headers, checks=CHECKS, timeout=20)

        attempt()
        tried += 1
    assert tried >= 15
