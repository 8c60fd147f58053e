"""What a submit would cost, without handing it in."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.params import JSONBody

from api.auth import SUBMIT, viewer
from api.decoding import PriceBody
from api.openai.requests import as_priced, priced_quality
from api.openai.schemas import PriceRequest
from api.openapi import ServicesDependency, answers
from api.price_schemas import JobPrice
from api.resolve import resolve
from api.views import plain_amount


@post(
    "/jobs/price",
    status_code=200,
    dto=PriceBody,
    return_dto=None,
    opt={**SUBMIT, "json": True},
    summary="Price a job",
    responses=answers(400, 404, 413, 415),
)
async def price_job(
    data: JSONBody[PriceRequest], request: Request[Any, Any, Any], services: ServicesDependency
) -> JobPrice:
    """Say what a submit would cost if it is rendered. Nothing is submitted; what the cache has costs nothing.

    `quality` and a `size` of `auto` stand for what they stand for on OpenAI's endpoints.
    """
    new = resolve(as_priced(data), {}, viewer(request), services.settings, quality=priced_quality(data))
    asked = new.request
    return JobPrice(
        model=asked.model,
        size=f"{asked.width}x{asked.height}",
        steps=asked.steps,
        n=asked.n,
        currency=new.currency,
        per_image=plain_amount(new.price / asked.n),
        price=plain_amount(new.price),
        held=plain_amount(new.ceiling),
        gpu_hour=services.settings.models[asked.model].prices.gpu_hour,
    )
