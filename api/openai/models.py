"""``GET /v1/models/{id}``: one model by its name or an alias, in OpenAI's form."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import PathParameter

from api.auth import LOOK, viewer
from api.openapi import ServicesDependency, answers
from api.problems import model_not_found
from api.resolve import offered_names
from api.schemas import ModelView
from api.views import model_list


@get("/models/{model:path}", opt=LOOK, summary="Read a model", responses=answers(404))
async def read_model(
    model: Annotated[str, PathParameter(description="Its name or an alias, which may hold slashes.")],
    request: Request[Any, Any, Any],
    services: ServicesDependency,
) -> ModelView:
    """The model, under the name that was asked for; 404 where there is none that the key may use."""
    name = model.lstrip("/")
    found = services.settings.find_model(name)
    offered = {view.id: view for view in model_list(services.settings, viewer(request)).data}
    if found is None or found[0] not in offered:
        raise model_not_found(name, offered_names(services.settings, viewer(request)))
    return msgspec.structs.replace(offered[found[0]], id=name)
