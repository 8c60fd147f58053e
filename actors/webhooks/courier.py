"""Takes due deliveries out of the store and tries them, many at a time, beside whatever the process does."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress

from actors.webhooks.sending import Answer, NotTriedError, Sender, SendError
from jobstore.webhooks.model import Due, EventType, Tried, UnderWay
from jobstore.webhooks.payload import payload_of
from jobstore.webhooks.protocol import WebhookStore
from jobstore.webhooks.rows import GONE
from jobstore.webhooks.schedule import pause_s, wish_of
from jobstore.webhooks.signing import headers_of
from safelight import __version__
from safelight.config import WebhookSettings
from safelight.telemetry import get_logger, traces
from safelight.telemetry.metrics import (
    WEBHOOK_DELIVERIES,
    WEBHOOK_OLDEST_SECONDS,
    WEBHOOK_SECONDS,
    WEBHOOKS_PENDING,
)
from safelight.telemetry.throttle import Throttle
from safelight.telemetry.traces import Attributes, Span

_log = get_logger(__name__)

_SETTLE_S = 45.0  # what a lease lasts beyond a try, for the store to hear of it
_GRACE_S = 5.0
_PER_ORIGIN = 4  # tries under way to one origin: a slow receiver holds up few slots
_KEYS_SHARE = 4  # a key has a quarter of the slots at most: names that hang are free, keys are not
_SOON_S = 5.0  # until what was not tried is looked at again
_COUNT_EVERY_S = 15.0
_DAY_S = 86_400.0
_GONE = 410


class Courier:
    """Belongs to the event loop on which the store was opened. Any number of processes may have one."""

    def __init__(self, store: WebhookStore, settings: WebhookSettings, sender: Sender | None = None) -> None:
        """``sender`` is made when it is first needed, unless one is given."""
        self._store = store
        self._settings = settings
        self._sender = sender
        self._wake = asyncio.Event()
        self._trouble = Throttle()
        self._under_way: dict[asyncio.Task[None], Due] = {}
        self._counted_at = float("-inf")

    def nudge(self) -> None:
        """Say that there may be something to deliver. Returns at once; from the courier's own loop."""
        self._wake.set()

    async def run(self) -> None:
        """Deliver until cancelled: at each nudge, and now and then for what no bell told of."""
        while True:
            self._wake.clear()
            await self.look()
            await self._count()
            with suppress(TimeoutError):
                pause = self._settings.look_s * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def look(self) -> None:
        """Begin to deliver what is due, as far as there are slots."""
        while (free := self._settings.slots - len(self._under_way)) > 0:
            lease_s = self._settings.timeout_s + _SETTLE_S
            try:
                claimed = await self._store.claim_deliveries(free, lease_s, self._load())
            except Exception as error:  # the driver's errors differ by store; the next look makes up for it
                if self._trouble.due(type(error).__name__):
                    _log.warning("no webhooks claimed", action="webhooks.claim_failed", error=type(error).__name__)
                return
            self._trouble.over()
            if not claimed:
                return
            for due in claimed:
                self._begin(due)

    def _load(self) -> UnderWay:
        origins = Counter(due.origin for due in self._under_way.values())
        return UnderWay(
            origins=tuple(origin for origin, count in origins.items() if count >= _PER_ORIGIN),
            keys=dict(Counter(due.key_id for due in self._under_way.values())),
            per_key=max(1, self._settings.slots // _KEYS_SHARE),
        )

    def _begin(self, due: Due) -> None:
        task = asyncio.create_task(self._deliver(due))
        self._under_way[task] = due
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._wake.set()

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def close(self) -> None:
        """Wait a little for what is under way, and leave the rest to whoever finds it due again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self.idle()
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sender is not None:
            await self._sender.close()

    async def _deliver(self, due: Due) -> None:
        try:
            tried = await self._tried(due)
            _note(due, tried)
            disabled = await self._store.settle_delivery(due, tried, self._settings.disable_after_days * _DAY_S)
        except Exception as error:  # its lease runs out, and it is tried again
            _log.warning(
                "webhook not settled", action="webhooks.unsettled", delivery_id=str(due.id), error=type(error).__name__
            )
            return
        if disabled is not None:
            _log.warning(
                "endpoint disabled", action="webhooks.disabled", endpoint_id=str(disabled.id), reason=disabled.reason
            )

    async def _tried(self, due: Due) -> Tried:
        """What came of a try. One that breaks in here goes by the schedule too, or it would be made for ever."""
        try:
            return await self._try(due)
        except Exception as error:
            _log.exception("webhook not tried", action="webhooks.broken", delivery_id=str(due.id))
            return Tried(delivered=False, error=f"not sent: {type(error).__name__}", retry_in_s=pause_s(due.tries))

    async def _try(self, due: Due) -> Tried:
        if due.url is None or (due.payload is None and due.job is None and due.type != EventType.TEST):
            return Tried(delivered=False, error=GONE)
        payload = due.payload or payload_of(due, self._settings.base_url)
        parent = None if due.job is None else due.job.traceparent
        with traces.span("deliver webhook", kind="client", parent=parent, attributes=_attributes(due)) as span:
            tried = await self._sent(due, due.url, payload, span)
            span.set({"http.response.status_code": tried.status, "safelight.outcome": _outcome(tried)})
        return tried

    async def _sent(self, due: Due, url: str, payload: str, span: Span) -> Tried:
        body = payload.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"safelight/{__version__}",
            **headers_of(str(due.id), int(time.time()), body, due.secrets),
        }
        if self._sender is None:
            self._sender = Sender(self._settings)
        try:
            with WEBHOOK_SECONDS.time():
                answer = await self._sender.post(url, headers, body)
        except NotTriedError as error:
            span.fail("not_tried")
            pause = _SOON_S * random.uniform(1.0, 1.5)  # noqa: S311 - no secret
            return Tried(delivered=False, payload=payload, error=str(error), retry_in_s=pause, counted=False)
        except SendError as error:
            span.fail("no_answer")
            return Tried(delivered=False, payload=payload, error=str(error), retry_in_s=pause_s(due.tries))
        tried = _answered(due, payload, answer)
        if not tried.delivered:
            span.fail(str(answer.status))
        return tried

    async def _count(self) -> None:
        if time.monotonic() - self._counted_at < _COUNT_EVERY_S:
            return
        self._counted_at = time.monotonic()
        with suppress(Exception):  # told by the next look
            outstanding = await self._store.outstanding()
            WEBHOOKS_PENDING.set(outstanding.pending)
            WEBHOOK_OLDEST_SECONDS.set(outstanding.oldest_s)


def _answered(due: Due, payload: str, answer: Answer) -> Tried:
    status = answer.status
    if 200 <= status < 300:
        return Tried(delivered=True, payload=payload, status=status)
    gone = status == _GONE
    return Tried(
        delivered=False,
        payload=payload,
        status=status,
        error=f"answered {status}" + (": redirects are not followed" if 300 <= status < 400 else ""),
        retry_in_s=None if gone else pause_s(due.tries, wish_of(answer.retry_after)),
        gone=gone,
    )


def _outcome(tried: Tried) -> str:
    return "delivered" if tried.delivered else "failed" if tried.retry_in_s is None else "retried"


def _attributes(due: Due) -> Attributes:
    """What tells a delivery's span from others. Its URL, which may hold a secret, is never told: its origin is."""
    return {
        "safelight.job.id": None if due.job_id is None else str(due.job_id),
        "safelight.delivery.id": str(due.id),
        "safelight.delivery.attempt": due.attempt,
        "safelight.webhook.type": due.type,
        "safelight.webhook.origin": due.origin,
    }


def _note(due: Due, tried: Tried) -> None:
    outcome = _outcome(tried)
    WEBHOOK_DELIVERIES.labels(outcome).inc()
    _log.info(
        "webhook tried",
        action=f"webhooks.{outcome}",
        delivery_id=str(due.id),
        type=due.type,
        job_id=str(due.job_id) if due.job_id else None,
        origin=due.origin,
        attempt=due.attempt,
        status=tried.status,
        error=tried.error,
        retry_in_s=None if tried.retry_in_s is None else round(tried.retry_in_s, 1),
    )
