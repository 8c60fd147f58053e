"""The client side of the API."""

from __future__ import annotations

import json
import ssl
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from safelight import __version__
from safelight.cli.client.sending import fresh_key, persist
from safelight.cli.consoles import err
from safelight.cli.exits import RefusedError, UnreachableError

Job = dict[str, Any]
Lane = dict[str, Any]
Quota = dict[str, Any]

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class FieldRefusedError(RefusedError):
    """The API does not accept a request: ``detail`` says why, and ``field``, where it is known, what is wrong."""

    def __init__(self, detail: str, field: str = "", hint: str = "") -> None:
        super().__init__(detail if not field or field in detail else f"{field}: {detail}", hint)
        self.detail = detail
        self.field = field


class ForbiddenError(FieldRefusedError):
    """The key may not do that."""


class Client:
    """Talks to one Safelight. Methods raise RefusedError (with the field's name) and UnreachableError."""

    def __init__(self, url: str, key: str | None = None, trust: ssl.SSLContext | bool = True) -> None:
        """``url`` is the server's root, ``trust`` which certificates count. Nothing is sent yet.

        Raises RefusedError on something that is no URL.
        """
        headers = {"User-Agent": f"safelight/{__version__}"}
        if key:
            if not (key.isascii() and key.isprintable()):
                raise RefusedError("the API key holds characters that can't be sent", "check --key and SAFELIGHT_KEY")
            headers["Authorization"] = f"Bearer {key}"
        if not url.startswith(("http://", "https://")):
            raise RefusedError(f"{url!r} is not a URL like http://127.0.0.1:8080", "check --url and SAFELIGHT_URL")
        self.url = url.rstrip("/")
        try:
            self.http = httpx.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT, verify=trust)
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise RefusedError("the URL or the key holds characters that can't be sent") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def submit(self, fields: dict[str, Any]) -> Job:
        """Hand in a request; the job. Broken connections and errors of the server are tried again, under one key."""
        for name, value in fields.items():
            if not _is_text(json.dumps(value, ensure_ascii=False)):
                raise RefusedError(f"{name} is not text in UTF-8")
        return self._job("POST", "/v1/jobs", persistent=True, headers=fresh_key(), json=fields)

    def job(self, job_id: str) -> Job:
        """The job as it stands."""
        return self._job("GET", job_path(job_id))

    def ask(self, method: str, path: str, *, expect: tuple[str, ...], **arguments: Any) -> dict[str, Any]:
        """The answer to a request, which has the members that are expected."""
        found = self._json(method, path, **arguments)
        if not all(name in found for name in expect):
            raise self._strange()
        return found

    def jobs(self, **where: Any) -> dict[str, Any]:
        """A page of jobs, newest first: ``data`` and ``next_cursor``."""
        params = {name: value for name, value in where.items() if value is not None}
        page = self._json("GET", "/v1/jobs", params=params)
        if not isinstance(page.get("data"), list) or "next_cursor" not in page:
            raise self._strange()
        for job in page["data"]:
            self._check_job(job)
        return page

    def cancel(self, job_id: str) -> Job:
        """Ask to cancel; the job."""
        return self._job("POST", job_path(job_id) + "/cancel")

    def retry(self, job_id: str) -> Job:
        """Queue a failed or dead job anew; the job."""
        return self._job("POST", job_path(job_id) + "/retry")

    def lanes(self) -> list[Lane]:
        """All lanes."""
        lanes = self._json("GET", "/v1/lanes").get("data")
        if not isinstance(lanes, list):
            raise self._strange()
        return [self._check_lane(lane) for lane in lanes]

    def pause(self, lane: str, reason: str) -> Lane:
        """Pause a lane; how it stands."""
        return self._check_lane(self._json("POST", lane_path(lane) + "/pause", json={"reason": reason}))

    def resume(self, lane: str) -> Lane:
        """Resume a lane; how it stands."""
        return self._check_lane(self._json("POST", lane_path(lane) + "/resume"))

    def quotas(self, **where: str | None) -> list[Quota]:
        """The quotas of an owner, all that the key sees where none is named."""
        params: dict[str, str] = {name: value for name, value in where.items() if value is not None}
        found: list[Quota] = []
        while True:
            page = self._json("GET", "/v1/quotas", params={**params, "limit": 200})
            if not isinstance(page.get("data"), list):
                raise self._strange()
            found += [self._check_quota(quota) for quota in page["data"]]
            if not isinstance(page.get("next_cursor"), str):
                return found
            params["cursor"] = page["next_cursor"]

    def create_quota(self, fields: dict[str, Any]) -> Quota:
        """Make a quota; how it stands."""
        return self._check_quota(self._json("POST", "/v1/quotas", json=fields))

    def change_quota(self, quota_id: str, limit: str | int) -> Quota:
        """Set a quota's limit; how it stands."""
        return self._check_quota(self._json("PATCH", quota_path(quota_id), json={"limit": limit}))

    def delete_quota(self, quota_id: str) -> None:
        """Lift a limit."""
        self._send("DELETE", quota_path(quota_id))

    def api_keys(self, **where: str | int) -> list[dict[str, Any]]:
        """The first API keys of a team or a customer, or of all: 200 at most. Wants an admin key."""
        found = self._json("GET", "/v1/keys", params={"limit": 200, **where}).get("data")
        if not isinstance(found, list) or not all(isinstance(key, dict) for key in found):
            raise self._strange()
        return found

    def me(self) -> dict[str, Any]:
        """Who the client's key is."""
        return self._json("GET", "/v1/me")

    def costs(self, params: dict[str, Any]) -> str:
        """A report of costs, as JSON or CSV."""
        return self._send("GET", "/v1/costs", params=params).text

    def picture(self, path: str) -> bytes:
        """The file of a picture, by its ``url`` (a path on the server)."""
        return self._send("GET", path).content

    def _job(self, method: str, path: str, **arguments: Any) -> Job:
        return self._check_job(self._json(method, path, **arguments))

    def _check_lane(self, found: Any) -> Lane:
        if not isinstance(found, dict) or not isinstance(found.get("name"), str) or "paused" not in found:
            raise self._strange()
        return dict(found)

    def _check_quota(self, found: Any) -> Quota:
        known = isinstance(found, dict) and all(name in found for name in ("id", "owner", "kind", "limit", "left"))
        if not known:
            raise self._strange()
        return dict(found)

    def _check_job(self, found: Any) -> Job:
        known = isinstance(found, dict) and all(isinstance(found.get(name), str) for name in ("id", "state"))
        if not known or not isinstance(found.get("request"), dict):
            raise self._strange()
        return dict(found)

    def _strange(self) -> UnreachableError:
        return UnreachableError(f"{self.url} answers, but not like Safelight", "check --url")

    def _json(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        response = self._send(method, path, **arguments)
        try:
            found = response.json()
        except ValueError as error:
            raise self._strange() from error
        if not isinstance(found, dict):
            raise self._strange()
        return found

    def _send(self, method: str, path: str, *, persistent: bool = False, **arguments: Any) -> httpx.Response:
        def send() -> httpx.Response:
            return self.http.request(method, path, **arguments)

        try:
            response = persist(send, tell=_tell_of_retry) if persistent else send()
        except httpx.HTTPError as error:
            raise away(self.url, error) from error
        check(response, self.url)
        return response


def job_path(job_id: str) -> str:
    """Where a job is on the server, whatever characters the id has. Raises RefusedError on one that can't be an id."""
    if job_id in ("", ".", "..") or not _is_text(job_id):
        raise RefusedError(f"{job_id!a} is not the id of a job", "find it with  safelight jobs ls")
    return f"/v1/jobs/{quote(job_id, safe='')}"


def lane_path(lane: str) -> str:
    """Where a lane is on the server. Raises RefusedError on what can't be a lane's name."""
    if lane in ("", ".", "..") or not _is_text(lane):
        raise RefusedError(f"{lane!a} is not the name of a lane", "find it with  safelight lanes ls")
    return f"/v1/lanes/{quote(lane, safe='')}"


def quota_path(quota_id: str) -> str:
    """Where a quota is on the server. Raises RefusedError on what can't be a quota's id."""
    if quota_id in ("", ".", "..") or not _is_text(quota_id):
        raise RefusedError(f"{quota_id!a} is not the id of a quota", "find it with  safelight quotas list")
    return f"/v1/quotas/{quote(quota_id, safe='')}"


def _is_text(text: str) -> bool:
    """False for what holds half a surrogate pair, as arguments that are not in UTF-8 do."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def away(url: str, error: Exception) -> UnreachableError:
    """What to say when there is no answer."""
    reason = str(error) or type(error).__name__
    return UnreachableError(
        f"no Safelight at {url}: {reason}", "start one with  safelight up  or name another with --url or SAFELIGHT_URL"
    )


def check(response: httpx.Response, url: str) -> None:
    """Raise RefusedError or UnreachableError unless the answer is a good one (its body must have been read)."""
    if response.is_success:
        return
    detail, field = _problem(response)
    if response.status_code >= 500 or response.status_code == 429:
        raise UnreachableError(f"{url} can't answer now ({response.status_code}): {detail}")
    hint = "give an API key with --key or SAFELIGHT_KEY" if response.status_code == 401 else ""
    kind = ForbiddenError if response.status_code == 403 else FieldRefusedError
    raise kind(detail, field, hint)


def _problem(response: httpx.Response) -> tuple[str, str]:
    """Detail and field of an ``application/problem+json`` answer (RFC 9457)."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return response.reason_phrase or f"status {response.status_code}", ""
    return str(body.get("detail") or body.get("title") or response.reason_phrase), str(body.get("field") or "")


def _tell_of_retry() -> None:
    err().print("No answer yet, trying again…")
