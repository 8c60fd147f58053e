"""The part of the API's client that is about webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from safelight.cli.client.http import Client
from safelight.cli.exits import RefusedError

Endpoint = dict[str, Any]
Delivery = dict[str, Any]

_WHERE = "/v1/webhooks"
_MOST_JOBS = 20


class WebhookClient(Client):
    """Talks to one Safelight about webhooks. Methods raise RefusedError and UnreachableError."""

    def __enter__(self) -> WebhookClient:
        return self

    def endpoints(self) -> list[Endpoint]:
        """All endpoints of the key, oldest first."""
        found = self._json("GET", _WHERE).get("data")
        if not isinstance(found, list):
            raise self._strange()
        return [self._known(endpoint) for endpoint in found]

    def create(self, fields: dict[str, Any]) -> Endpoint:
        """Make an endpoint; with its secret."""
        return self._known(self._json("POST", _WHERE, json=fields))

    def change(self, webhook_id: str, fields: dict[str, Any]) -> Endpoint:
        """Change what is named of an endpoint; the endpoint."""
        return self._known(self._json("PATCH", _path(webhook_id), json=fields))

    def rotate(self, webhook_id: str) -> Endpoint:
        """Give an endpoint a new secret; the endpoint with it."""
        return self._known(self._json("POST", _path(webhook_id) + "/rotate"))

    def delete(self, webhook_id: str) -> None:
        """Delete an endpoint."""
        self._send("DELETE", _path(webhook_id))

    def test(self, webhook_id: str) -> Delivery:
        """Send an endpoint a test; the delivery."""
        return self._known(self._json("POST", _path(webhook_id) + "/test"))

    def deliveries(self, **where: str | int | None) -> dict[str, Any]:
        """A page of deliveries, newest first: ``data`` and ``next_cursor``."""
        params = {name: value for name, value in where.items() if value is not None}
        page = self._json("GET", f"{_WHERE}/deliveries", params=params)
        if not isinstance(page.get("data"), list) or "next_cursor" not in page:
            raise self._strange()
        for delivery in page["data"]:
            self._known(delivery)
        return page

    def hosts(self, deliveries: Sequence[Delivery]) -> list[str]:
        """The host that each delivery goes to, "" where it can't be told. The path may hold secrets.

        At most 20 jobs with hooks of their own are asked for.
        """
        known = {endpoint["id"]: _host(endpoint["url"]) for endpoint in self.endpoints()}
        jobs = [found["job_id"] for found in deliveries if not found["webhook_id"] and found["job_id"]]
        for job_id in list(dict.fromkeys(jobs))[:_MOST_JOBS]:
            with suppress(RefusedError):  # gone meanwhile
                known[job_id] = _host((self.job(job_id).get("webhook") or {}).get("url", ""))
        return [known.get(found["webhook_id"] or found["job_id"], "") for found in deliveries]

    def redeliver(self, delivery_id: str) -> Delivery:
        """Ask for a delivery anew; the delivery."""
        return self._known(self._json("POST", f"{_path('deliveries')}{_path(delivery_id, '')}/redeliver"))

    def redeliver_failed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Ask for what failed of a filter anew, or count it: ``count``, and ``more``."""
        return self.ask("POST", f"{_WHERE}/deliveries/redeliver", expect=("count", "more"), json=fields)

    def _known(self, found: Any) -> dict[str, Any]:
        if not isinstance(found, dict) or not isinstance(found.get("id"), str):
            raise self._strange()
        return dict(found)


def _host(url: str) -> str:
    """Host and port of a URL."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _path(part: str, root: str = _WHERE) -> str:
    """Where something is on the server. Raises RefusedError on what can't be an id."""
    if part in ("", ".", "..") or any("\ud800" <= character <= "\udfff" for character in part):
        raise RefusedError(f"{part!a} is not an id", "safelight webhooks list  and  deliveries  tell them")
    return f"{root}/{quote(part, safe='')}"
